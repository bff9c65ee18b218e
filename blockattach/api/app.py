"""The API as one WSGI application: the layers in order, and what they surround."""
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from blockattach import errors
from blockattach.api import routes
from blockattach.api import services as api_services
from blockattach.api import versions
from blockattach.http import auth
from blockattach.http import dispatch
from blockattach.http import middleware
from blockattach.http import negotiation
from blockattach.http import operation

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def build_app(services: api_services.ApiServices, *,
              operations: Iterable[operation.Operation] | None = None,
              token_middleware: Callable[[Wsgi], Wsgi] | None = None,
              check_answers: bool = False) -> Wsgi:
    """Put the API together. It starts nothing and opens nothing.

    :param services: what handlers use
    :param operations: what is served; the whole API if not given
    :param token_middleware: with ``auth_strategy = keystone``: puts keystonemiddleware's
        ``auth_token``, told to ``delay_auth_decision``, around the application
    :param check_answers: hold each answer against its schema; for tests
    :raises ConfigurationError: tokens are to be validated, and nothing is there to do it
    """
    rows = tuple(routes.operations() if operations is None else operations)
    keystone = services.settings.auth_strategy == 'keystone'
    if keystone != (token_middleware is not None):
        # Believing Keystone's headers without the middleware would be believing anybody.
        raise errors.ConfigurationError(
            reason='Cannot serve: [api] auth_strategy = keystone and the token middleware go '
                   'together')
    authentication = auth.KeystoneAuthentication if keystone else auth.NoAuthentication
    dispatcher = dispatch.Dispatcher(
        rows, services,
        policy=services.policy,
        authenticate=authentication(services.policy.is_admin),
        negotiator=negotiator(),
        limits=dispatch.Limits(max_body_size=services.settings.max_request_body_size,
                               public_endpoint=services.settings.public_endpoint),
        check_answers=check_answers)
    layers = (
        # Outermost, so that every answer has a request id, and every line below names it.
        middleware.name_request,
        # Outside of what turns errors into answers: it logs the status that the client gets.
        middleware.log_request(services.clock),
        # Outside of it too: an error is answered in the version that was spoken.
        middleware.version_header,
        # Nothing but our own dispatcher is below.
        middleware.answer_faults,
    )
    application: Wsgi = middleware.Application(layers, dispatcher)
    return token_middleware(application) if token_middleware is not None else application


def negotiator() -> negotiation.Negotiator:
    """Offer the whole history of the API and of the extension."""
    return negotiation.Negotiator(
        negotiation.Range(versions.MINIMUM, versions.MAXIMUM),
        negotiation.Range(versions.EXTENSION_MINIMUM, versions.EXTENSION_MAXIMUM))
