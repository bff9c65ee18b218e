"""Authentication: from a request to a context, or to None.

An authenticator is ``(request, project id of the URL or None) -> context | None``. None means that
the request is not authenticated; whether that matters depends on the operation. Whether the caller
is an administrator is then decided by the policy.
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
"""The user and project of a request without a token. Clients expect UUIDs."""
ALL_ROLES = ('admin', 'member', 'reader')
NO_TOKEN = 'notused'
"""What keystoneauth's plugin ``none`` sends instead of a token."""
LONGEST_ID = 255
_CONFIRMED = 'Confirmed'
NO_PROJECT = ''
"""Of a token for a domain or for the system. No thing has it; None would be any project's."""


def anonymous(request: webob.Request) -> request_context.RequestContext:
    """Nobody in particular: the caller of a public operation."""
    return request_context.RequestContext(**middleware.request_ids(request))


def is_id(text: str) -> bool:
    """Whether it can be the id of a user or project: none is empty, or breaks a line of a log."""
    return 0 < len(text) <= LONGEST_ID and text.isprintable()


@dataclasses.dataclass(frozen=True, slots=True)
class Authentication:
    """A kind of authentication. ``layers`` are around the dispatcher, and get its refusals."""

    authenticate: Authenticator
    layers: tuple[middleware.Layer, ...] = ()


class Identity(NamedTuple):
    """A user without an identity service."""

    user_id: str
    project_id: str
    roles: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, default_roles: tuple[str, ...]) -> Self | None:
        """``user:project`` or ``user:project:role,role``; None if it is neither."""
        parts = text.split(':')
        # Many servers join repeated headers with a comma.
        if len(parts) not in (2, 3) or not all(map(is_id, parts)) or ',' in ''.join(parts[:2]):
            return None
        roles = tuple(filter(None, parts[2].split(','))) if len(parts) == 3 else default_roles
        return cls(parts[0], parts[1], roles)

    def context(self, request: webob.Request, **more: Any) -> request_context.RequestContext:
        """The context of a request of this user."""
        return request_context.RequestContext(
            user_id=self.user_id, project_id=self.project_id, roles=list(self.roles),
            **middleware.request_ids(request), **more)


_NO_SERVICE = Identity('', '', ())


def default_identity(project_id: str | None) -> Identity:
    """May do everything, in the project that the URL names, or in a default one."""
    return Identity(DEFAULT_USER_ID, project_id or DEFAULT_PROJECT_ID, ALL_ROLES)


def claimed(request: webob.Request,
            project_id: str | None) -> request_context.RequestContext | None:
    """The context that the request claims; None if what it carries is malformed. It is believed:
    for a machine of one's own, and for tests.

    ``X-Auth-Token`` is ``user:project`` (python-cinderclient's noauth plugin) with all roles, or
    ``user:project:role,role``. Without one the caller is a default user. ``X-Service-Token`` has
    the same form.
    """
    token = request.environ.get('HTTP_X_AUTH_TOKEN')
    service_token = request.environ.get('HTTP_X_SERVICE_TOKEN')
    identity = (default_identity(project_id) if not token or token == NO_TOKEN
                else Identity.parse(token, ALL_ROLES))
    service = (Identity.parse(service_token, request_context.SERVICE_ROLES) if service_token
               else _NO_SERVICE)
    if identity is None or service is None:
        return None
    # The token is for Nova, which is asked in the caller's name.
    return identity.context(request, service_roles=list(service.roles), auth_token=token or None)


def validated(request: webob.Request,
              project_id: str | None) -> request_context.RequestContext | None:
    """The context of a token that keystonemiddleware's ``auth_token`` has validated; None if there
    was none, or if the service token that came along is none.

    Only ever behind ``auth_token`` with ``delay_auth_decision``: it removes the headers that a
    client might forge, and lets public operations through.
    """
    environ = request.environ
    if environ.get('HTTP_X_IDENTITY_STATUS') != _CONFIRMED or (
            environ.get('HTTP_X_SERVICE_IDENTITY_STATUS', _CONFIRMED) != _CONFIRMED):
        return None
    context = request_context.RequestContext.from_environ(
        environ, **middleware.request_ids(request))
    if context.project_id or context.domain_id:
        # A token has one scope; what auth_token says here may be that of the service's token.
        context.system_scope = None
    context.project_id = context.project_id or NO_PROJECT
    return context
