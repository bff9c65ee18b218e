"""Authenticators, which derive the context of a request from its headers.

An authenticator is ``(request, project id of the URL or None) -> context | None``. None means that
the request is not authenticated. The dispatcher then rejects the request unless the operation is
public. The policy decides later whether the caller is an administrator.
"""
import dataclasses
from collections.abc import Callable
from typing import Any
from typing import NamedTuple
from typing import Self

import webob

from blockattach.platform import context as request_context
from blockattach.platform.http import middleware

Authenticator = Callable[[webob.Request, str | None], request_context.RequestContext | None]

DEFAULT_USER_ID = '00000000000000000000000000000001'
DEFAULT_PROJECT_ID = '00000000000000000000000000000002'
"""User and project of a request without a token. Clients expect UUIDs."""
ALL_ROLES = ('admin', 'member', 'reader')
NO_TOKEN = 'notused'
"""Placeholder token that the ``none`` plugin of keystoneauth sends."""
LONGEST_ID = 255
_CONFIRMED = 'Confirmed'
NO_PROJECT = ''
"""Project id in the context of a domain-scoped or system-scoped token.

No resource has this project id. None would match the resources of any project.
"""


def anonymous(request: webob.Request) -> request_context.RequestContext:
    """Return the context of an unauthenticated caller of a public operation."""
    return request_context.RequestContext(**middleware.request_ids(request))


def is_id(text: str) -> bool:
    """Return True if a text can be the ID of a user or project.

    An ID has 1 to `LONGEST_ID` characters. All characters are printable, so that an ID cannot
    break a log line.
    """
    return 0 < len(text) <= LONGEST_ID and text.isprintable()


@dataclasses.dataclass(frozen=True, slots=True)
class Authentication:
    """Authentication strategy.

    :ivar layers: layers around the dispatcher, which also see its error responses
    """

    authenticate: Authenticator
    layers: tuple[middleware.Layer, ...] = ()


class Identity(NamedTuple):
    """User, project and roles of a caller that is not authenticated by Keystone."""

    user_id: str
    project_id: str
    roles: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, default_roles: tuple[str, ...]) -> Self | None:
        """Parse ``user:project`` or ``user:project:role,role``.

        :param default_roles: roles if the text contains no roles
        :returns: None if the text has neither form
        """
        parts = text.split(':')
        # Many servers join repeated headers with a comma. A comma in the user or project therefore
        # shows that the header was repeated.
        if len(parts) not in (2, 3) or not all(map(is_id, parts)) or ',' in ''.join(parts[:2]):
            return None
        roles = tuple(filter(None, parts[2].split(','))) if len(parts) == 3 else default_roles
        return cls(parts[0], parts[1], roles)

    def context(self, request: webob.Request, **more: Any) -> request_context.RequestContext:
        """Return the request context for a request from this user."""
        return request_context.RequestContext(
            user_id=self.user_id, project_id=self.project_id, roles=list(self.roles),
            **middleware.request_ids(request), **more)


_NO_SERVICE = Identity('', '', ())


def default_identity(project_id: str | None) -> Identity:
    """Return an identity with all roles in a project.

    :param project_id: project of the URL; None for `DEFAULT_PROJECT_ID`
    """
    return Identity(DEFAULT_USER_ID, project_id or DEFAULT_PROJECT_ID, ALL_ROLES)


def claimed(request: webob.Request,
            project_id: str | None) -> request_context.RequestContext | None:
    """Authenticate a request by the identity in its headers, without verification.

    This is for tests and for a machine with a single user. ``X-Auth-Token`` is ``user:project``
    (python-cinderclient's noauth plugin) with all roles, or ``user:project:role,role``. Without a
    token the caller is the default user. ``X-Service-Token`` has the same form as
    ``X-Auth-Token``.

    :returns: None if ``X-Auth-Token`` or ``X-Service-Token`` is malformed
    """
    token = request.environ.get('HTTP_X_AUTH_TOKEN')
    service_token = request.environ.get('HTTP_X_SERVICE_TOKEN')
    identity = (default_identity(project_id) if not token or token == NO_TOKEN
                else Identity.parse(token, ALL_ROLES))
    service = (Identity.parse(service_token, request_context.SERVICE_ROLES) if service_token
               else _NO_SERVICE)
    if identity is None or service is None:
        return None
    # Requests to Nova are sent with the caller's token.
    return identity.context(request, service_roles=list(service.roles), auth_token=token or None)


def validated(request: webob.Request,
              project_id: str | None) -> request_context.RequestContext | None:
    """Authenticate a request by the token that keystonemiddleware's ``auth_token`` validated.

    Use this only behind ``auth_token`` with ``delay_auth_decision``. That middleware removes
    identity headers that a client has forged, and passes on requests without a valid token, which
    public operations accept.

    :returns: None if there is no valid token, or if the service token of the request is invalid
    """
    environ = request.environ
    if environ.get('HTTP_X_IDENTITY_STATUS') != _CONFIRMED or (
            environ.get('HTTP_X_SERVICE_IDENTITY_STATUS', _CONFIRMED) != _CONFIRMED):
        return None
    context = request_context.RequestContext.from_environ(
        environ, **middleware.request_ids(request))
    if context.project_id or context.domain_id:
        # A token has one scope. The system scope that auth_token sets may be that of the service
        # token.
        context.system_scope = None
    context.project_id = context.project_id or NO_PROJECT
    return context
