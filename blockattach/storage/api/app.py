"""The API as one WSGI application: the layers in order, and what they surround."""
import functools
from collections.abc import Iterable

from blockattach.platform.http import auth
from blockattach.platform.http import dispatch
from blockattach.platform.http import middleware
from blockattach.platform.http import operation
from blockattach.platform.telemetry import acts
from blockattach.storage.api import routes
from blockattach.storage.api import services as api_services
from blockattach.storage.api import versions

negotiate = functools.partial(
    operation.negotiate, operation.Range(versions.MINIMUM, versions.MAXIMUM),
    operation.Range(versions.EXTENSION_MINIMUM, versions.EXTENSION_MAXIMUM))
"""Offers the whole history of the API and of the extension."""


def build_app(services: api_services.ApiServices, authentication: auth.Authentication, *,
              operations: Iterable[operation.Operation] | None = None,
              outer: Iterable[middleware.Layer] = (),
              admission: Iterable[middleware.Layer] = (),
              check: dispatch.Check | None = None,
              telemetry: acts.Telemetry | None = None) -> middleware.Wsgi:
    """Put the API together. It starts nothing and opens nothing.

    :param services: what handlers use
    :param authentication: how the caller is identified
    :param operations: what is served; the whole API if not given
    :param outer: layers around all that can fail, outermost first
    :param admission: layers in which a request waits for a work slot
    :param check: of each answer, see `dispatch.Dispatcher`
    :param telemetry: where requests are counted and timed
    :raises ConfigurationError: a layer cannot work as it is configured
    """
    rows = tuple(routes.operations() if operations is None else operations)
    dispatcher = dispatch.Dispatcher(
        rows, services,
        policy=services.policy,
        authenticate=authentication.authenticate,
        negotiate=negotiate,
        max_body_size=services.settings.max_request_body_size,
        public_endpoint=services.settings.public_endpoint,
        watch_endpoint=services.watch_endpoint,
        check=check)
    layers = (
        # Outermost, so that every answer has a request id, and every line below names it; and
        # outside of the layer that makes answers of errors: it logs the status that the client
        # gets, and an error is answered in the negotiated version.
        middleware.watch_request(telemetry or acts.Telemetry(services.clock)),
        *outer,
        # What looks for a token may fail as well.
        middleware.answer_faults,
        # Authentication is work already.
        *admission,
        *authentication.layers,
        # Inside of them: they see a refusal as an answer. Nothing but our own dispatcher is below.
        middleware.answer_faults,
    )
    return middleware.application(layers, dispatcher)
