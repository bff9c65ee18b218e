"""Unmodified clients: libraries in this process, and shells in separate processes."""
import inspect
import operator
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import openstack
from cinderclient import client as cinder_client
from keystoneauth1 import service_token
from keystoneauth1 import session
from keystoneauth1 import token_endpoint

from blockattach.tests.functional import commands

BASE = '3.0'
_SHOWN = 1000


class Caller(NamedTuple):
    """Endpoint and tokens of a client."""

    endpoint: str
    token: str
    service: str | None

    def session(self) -> session.Session:
        """Return a session that also sends the service token, if there is one."""
        auth = token_endpoint.Token(self.endpoint, self.token)
        if self.service is not None:
            auth = service_token.ServiceTokenAuthWrapper(
                auth, token_endpoint.Token(self.endpoint, self.service))
        return session.Session(auth=auth)


def _cinderclient(caller: Caller, version: str | None) -> Any:
    """Build a client like Nova, which creates one per call with the microversion of the call."""
    return cinder_client.Client(version or BASE, session=caller.session(),
                                endpoint_override=caller.endpoint)


def _openstacksdk(caller: Caller, version: str | None) -> Any:
    """Build a client like Ironic, whose version the SDK negotiates."""
    return openstack.connection.Connection(
        session=caller.session(), block_storage_endpoint_override=caller.endpoint,
        block_storage_api_version='3').block_storage


CLIENTS: dict[str, Callable[[Caller, str | None], Any]] = {
    'cinderclient': _cinderclient, 'openstacksdk': _openstacksdk}


def use(client: Any, method: str, arguments: Any, keywords: Any) -> Any:
    """Call a method of a client, and read a generator to its end."""
    made = operator.attrgetter(method)(client)(*arguments, **keywords)
    return list(made) if inspect.isgenerator(made) else made


def _cinder(endpoint: str, keystone: str, project_id: str) -> tuple[str, ...]:
    return ('--os-auth-type', 'noauth', '--os-user-id', 'somebody', '--os-project-id', project_id,
            '--os-endpoint', endpoint)


def _openstack(endpoint: str, keystone: str, project_id: str) -> tuple[str, ...]:
    """Return options with a catalog, because the shell asks Compute for the server."""
    return ('--os-auth-type', 'v3password', '--os-auth-url', f'{keystone}/v3', '--os-user-id',
            'somebody', '--os-password', 'x', '--os-project-id', project_id)


SHELLS: dict[str, Callable[[str, str, str], tuple[str, ...]]] = {
    'cinder': _cinder, 'openstack': _openstack}
"""Options that lead a shell to the service."""


def type_in(shell: str, line: str, endpoint: str, keystone: str, project_id: str) -> str | None:
    """Run a command of a shell and return its errors, or None if it succeeds."""
    done = commands.run(shell, (*SHELLS[shell](endpoint, keystone, project_id),
                                '--os-volume-api-version', '3.71', *line.split()),
                        {'NO_PROXY': '127.0.0.1'})
    return done.errors[-_SHOWN:] if done.status else None
