"""HTTP basic authentication (RFC 7617), for a service without Keystone.

The password file has Apache's format. Functions of oslo.middleware parse its entries and check
passwords. A second file contains the roles of the users, in the format of
`blockattach.platform.http.auth.Identity.parse`.
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
            # Raised by bcrypt for a password that is too long or a malformed digest.
            ValueError)

Users = changing.ChangingFile[Mapping[str, str]]
"""Password file, which `parse_users` parses and which is read again after a change."""
Roles = changing.ChangingFile[Mapping[str, auth.Identity]]
"""File of roles, which `parse_roles` parses and which is read again after a change."""


class Accounts:
    """Users and their roles from two files. A changed file takes effect at the next request."""

    def __init__(self, users: Users, roles: Roles | None) -> None:
        """
        :param roles: file of roles; None to give every user all roles
        """
        self._users = users
        self._roles = roles
        # bcrypt is slow on purpose. A password that was accepted is therefore cached as a keyed
        # hash, which is useless without the key.
        self._key = secrets.token_bytes(32)
        self._right: set[bytes] = set()

    def authenticate(self, request: webob.Request,
                     project_id: str | None) -> request_context.RequestContext | None:
        """Authenticate a request by the name and password in its header ``Authorization``.

        :returns: None if the header is missing or malformed, the password is wrong, or the user
            has no roles
        """
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
        # The password of an unknown user is compared with the entry of another user. The rejection
        # then takes as long as for a wrong password, so that timing reveals no names.
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
    """Return a handler that adds the challenge for HTTP basic authentication to 401 responses."""
    def handle(request: webob.Request) -> webob.Response:
        response = inner(request)
        if response.status_code == 401:
            response.headers['WWW-Authenticate'] = CHALLENGE
        return response
    return handle


def parse_users(text: str) -> Mapping[str, str]:
    """Parse a password file, and return the entries ``user:digest`` by user name.

    :raises ConfigurationError: an entry is malformed, or its digest is not a bcrypt digest
    """
    entries: dict[str, str] = {}
    for number, line in _lines(text):
        try:
            user, _ = basic_auth.parse_entry(line)
        except _REFUSED:
            raise errors.ConfigurationError(
                reason=f'line {number} is not user:digest with a bcrypt digest '
                       '(htpasswd -B)') from None
        # Apache uses the first of two entries for a user.
        entries.setdefault(user, line)
    return entries


def parse_roles(text: str) -> Mapping[str, auth.Identity]:
    """Parse a file of roles, and return the identities by user name.

    :raises ConfigurationError: a line does not have the form ``user:project:role,role``, or
        repeats a user
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
