"""Authentication as an operator has it: a Keystone of one's own, and memcached for its answers."""
import contextlib
import secrets
from collections.abc import Iterator
from collections.abc import Mapping
from typing import NamedTuple

from blockattach.tests.fixtures import keystone
from blockattach.tests.fixtures import memcached

_PROJECT = 'bench'
_SERVICE = 'blockattach'


class Identity(NamedTuple):
    """An account, and how the service authenticates it. ``options`` are of its configuration, by
    group."""

    project: str
    token: str
    options: Mapping[str, Mapping[str, str]]


@contextlib.contextmanager
def running() -> Iterator[Identity]:
    """Until the context is left.

    The person is an administrator with a service role, so that the same scenarios can be played.

    :raises CannotStart: a program is missing (`blockattach.tests.fixtures.servers`)
    """
    with keystone.Keystone() as own, memcached.Memcached() as cache:
        password = own.person('consumer', _PROJECT, 'admin', 'member', 'service')
        service = own.person(_SERVICE, 'service', 'service')
        lines = own.authtoken(_SERVICE, service, 'service').splitlines()[1:]
        named = dict(line.split(' = ', 1) for line in lines if line)
        token = str(own.cloud('consumer', password, _PROJECT).auth_token)
        yield Identity(own.project(_PROJECT), token, {
            'api': {'auth_strategy': 'keystone'},
            # No Nova is there whose servers could still use what is detached.
            'nova': {'detach_rule': 'off'},
            'keystone_authtoken': {
                **named, 'memcached_servers': cache.url,
                'memcache_security_strategy': 'ENCRYPT',
                'memcache_secret_key': secrets.token_urlsafe(16)}})
