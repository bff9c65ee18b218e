"""WSGI application of the compute API, built on the platform's HTTP layer."""
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
    """Build the WSGI application without starting or opening anything.

    :param outer: additional middleware layers around the application, outermost first
    """
    dispatcher = dispatch.Dispatcher(
        routes.OPERATIONS, services, policy=services.policy,
        authenticate=authentication.authenticate, negotiate=negotiate,
        public_endpoint=public_endpoint, prefix=versions.PREFIX)
    # Authentication may fail as well, and must see errors of the handlers as responses.
    layers = (middleware.watch_request(telemetry), *outer, middleware.answer_faults,
              *authentication.layers, middleware.answer_faults)
    return middleware.application(layers, dispatcher)
