"""The real clients, unmodified, in this process: each asks through a `player.Recorder`."""
import operator
from collections.abc import Callable
from typing import Any

import openstack
from cinderclient import client as cinder_client
from keystoneauth1 import session
from keystoneauth1 import token_endpoint

BASE = '3.0'


def _cinderclient(endpoint: str, token: str, version: str | None) -> Any:
    """As Nova makes one for each call, at the version that the call needs."""
    return cinder_client.Client(version or BASE, session=session.Session(
        auth=token_endpoint.Token(endpoint, token)))


def _openstacksdk(endpoint: str, token: str, version: str | None) -> Any:
    """Negotiates by itself, so the version is its own."""
    return openstack.connect(
        load_yaml_config=False, load_envvars=False, auth_type='admin_token',
        auth={'endpoint': endpoint, 'token': token},
        block_storage_endpoint_override=endpoint).block_storage


CLIENTS: dict[str, Callable[[str, str, str | None], Any]] = {
    'cinderclient': _cinderclient, 'openstacksdk': _openstacksdk}


def use(client: Any, method: str, arguments: Any, keywords: Any) -> Any:
    """Call a method; a generator is read to its end."""
    made = operator.attrgetter(method)(client)(*arguments, **keywords)
    return list(made) if hasattr(made, '__next__') else made
