"""Authentication by name and password (RFC 7617): for a service without Keystone.

The password file is Apache's, read and checked by oslo.middleware. A second file has the roles of
the users (`blockattach.platform.http.auth.Identity.parse`).
"""
import hashlib
import logging
import secrets
from collections.abc import Mapping

import webob
from oslo_middleware import basic_auth
from webob import exc as webob_exc

from blockattach.platform import context as request_context
from blockattach.platform import errors
from blockattach.platform.conf import changing
from blockattach.platform.http import auth
from blockattach.platform.http import middleware
from blockattach.platform.log import fields

LOG = logging.getLogger(__name__)

CHALLENGE = 'Basic realm="blockattach", charset="UTF-8"'
_MOST_KEPT = 1000
_REFUSED = (webob_exc.HTTPException,
            # bcrypt: the password is too long, or the digest is none.
            ValueError)

Users = changing.ChangingFile[Mapping[str, str]]
"""See `parse_users`."""
Roles = changing.ChangingFile[Mapping[str, auth.Identity]]
"""See `parse_roles`."""


class Accounts:
    """Users and their rights, as two files say. A change of either counts at the next request."""

    def __init__(self, users: Users, roles: Roles | None) -> None:
        """
        :param roles: None: every user has all rights
        """
        self._users = users
        self._roles = roles
        # A digest of a password is slow on purpose; one that was right is not computed for each
        # request. What is cached is useless without the key.
        self._key = secrets.token_bytes(32)
        self._right: set[bytes] = set()

    def authenticate(self, request: webob.Request,
                     project_id: str | None) -> request_context.RequestContext | None:
        """The context of a user whose name and valid password are in the header ``Authorization``;
        None if there is none."""
        try:
            user, password = basic_auth.parse_token(basic_auth.parse_header(request.environ))
        except _REFUSED:
            return None
        if not auth.is_id(user) or not self._admits(user, password):
            return None
        if self._roles is None:
            identity = auth.default_identity(project_id)._replace(user_id=user)
        elif user in (identities := self._roles.said()):
            identity = identities[user]
        else:
            LOG.warning('Rejecting user without roles%s', fields(user=user))
            return None
        return identity.context(request, user_name=user)

    def _admits(self, user: str, password: bytes) -> bool:
        entries = self._users.said()
        entry = entries.get(user)
        # An unknown user is refused no faster than others.
        compared = entry or next(iter(entries.values()), None)
        if compared is None:
            return False
        mark = hashlib.blake2b(compared.encode() + b'\0' + password, key=self._key).digest()
        if mark not in self._right:
            try:
                basic_auth.auth_entry(compared, password)
            except _REFUSED:
                return False
            if len(self._right) >= _MOST_KEPT:
                self._right.clear()
            self._right.add(mark)
        return entry is not None


def challenge(inner: middleware.Handler) -> middleware.Handler:
    """Add the challenge for HTTP basic authentication to a refusal."""
    def handle(request: webob.Request) -> webob.Response:
        response = inner(request)
        if response.status_code == 401:
            response.headers['WWW-Authenticate'] = CHALLENGE
        return response
    return handle


def parse_users(text: str) -> Mapping[str, str]:
    """Users to their entries, ``user:digest``.

    :raises ConfigurationError: an entry is none, or its digest is not bcrypt's
    """
    entries: dict[str, str] = {}
    for number, line in _lines(text):
        try:
            user, _ = basic_auth.parse_entry(line)
        except _REFUSED:
            raise errors.ConfigurationError(
                reason=f'line {number} is not user:digest with a bcrypt digest '
                       '(htpasswd -B)') from None
        # Of two entries Apache takes the first.
        entries.setdefault(user, line)
    return entries


def parse_roles(text: str) -> Mapping[str, auth.Identity]:
    """Users to what they may be.

    :raises ConfigurationError: a line is none of ``user:project:role,role``
    """
    identities: dict[str, auth.Identity] = {}
    for number, line in _lines(text):
        identity = auth.Identity.parse(line, ())
        if identity is None or not identity.roles or identity.user_id in identities:
            raise errors.ConfigurationError(
                reason=f'line {number} is not user:project:role,role, or repeats a user')
        identities[identity.user_id] = identity
    return identities


def _lines(text: str) -> list[tuple[int, str]]:
    return [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)
            if line.strip() and not line.lstrip().startswith('#')]
