"""Authentication as in production: a separate Keystone, with memcached for validated tokens."""
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
    """Account of the clients, with the options that make the service authenticate them.

    :ivar options: options of the service by group
    """

    project: str
    token: str
    options: Mapping[str, Mapping[str, str]]


@contextlib.contextmanager
def running() -> Iterator[Identity]:
    """Run Keystone and memcached during the context.

    The user is an administrator with a service role, so that all scenarios can be measured.

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
            # There is no Nova, so no server can still use a volume that is detached.
            'nova': {'detach_rule': 'off'},
            'keystone_authtoken': {
                **named, 'memcached_servers': cache.url,
                'memcache_security_strategy': 'ENCRYPT',
                'memcache_secret_key': secrets.token_urlsafe(16)}})
