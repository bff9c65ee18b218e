"""WSGI application of the API: its middleware layers and their order."""
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
"""`operation.negotiate` with the version ranges of the API and of the extension as arguments."""


def build_app(services: api_services.ApiServices, authentication: auth.Authentication, *,
              operations: Iterable[operation.Operation] | None = None,
              outer: Iterable[middleware.Layer] = (),
              admission: Iterable[middleware.Layer] = (),
              check: dispatch.Check | None = None,
              telemetry: acts.Telemetry | None = None) -> middleware.Wsgi:
    """Build the WSGI application without starting or opening anything.

    :param services: dependencies of the handlers
    :param authentication: method of authentication, with its middleware layers
    :param operations: operations to serve; None for the whole API
    :param outer: layers around the layer that turns errors into responses, outermost first
    :param admission: layers in which a request waits for a slot (admission control)
    :param check: check of each response, see `dispatch.Dispatcher`
    :param telemetry: metrics of requests; None for a new instance
    :raises ConfigurationError: if a layer is not configured correctly
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
        # The outermost layer, so that every response and every log line has a request ID. This
        # layer logs the status that the client gets, even if another layer has turned an error
        # into a response.
        middleware.watch_request(telemetry or acts.Telemetry(services.clock)),
        *outer,
        # The layers that validate the token may fail as well.
        middleware.answer_faults,
        # Authentication already needs a slot.
        *admission,
        *authentication.layers,
        # This layer is within the authentication layers, which therefore get responses instead of
        # errors.
        middleware.answer_faults,
    )
    return middleware.application(layers, dispatcher)
