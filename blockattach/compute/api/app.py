"""The compute API as one WSGI application, on the machinery of the block-storage API."""
import functools
from collections.abc import Iterable

from blockattach.compute.api import routes
from blockattach.compute.api import services as compute_services
from blockattach.compute.api import versions
from blockattach.platform.http import auth
from blockattach.platform.http import dispatch
from blockattach.platform.http import middleware
from blockattach.platform.http import operation
from blockattach.platform.telemetry import acts

negotiate = functools.partial(
    operation.negotiate, operation.Range(versions.MINIMUM, versions.MAXIMUM),
    operation.Range(versions.EXTENSION_MINIMUM, versions.EXTENSION_MAXIMUM),
    service_type=versions.SERVICE)


def build_app(services: compute_services.ComputeServices, authentication: auth.Authentication,
              public_endpoint: str | None, telemetry: acts.Telemetry,
              outer: Iterable[middleware.Layer] = ()) -> middleware.Wsgi:
    """Put the API together. It starts nothing and opens nothing.

    :param outer: layers around all that can fail, outermost first
    """
    dispatcher = dispatch.Dispatcher(
        routes.OPERATIONS, services, policy=services.policy,
        authenticate=authentication.authenticate, negotiate=negotiate,
        public_endpoint=public_endpoint, prefix=versions.PREFIX)
    layers = (middleware.watch_request(telemetry), *outer, middleware.answer_faults,
              *authentication.layers, middleware.answer_faults)
    return middleware.application(layers, dispatcher)
