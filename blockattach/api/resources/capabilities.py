"""What a backend can do, as it last reported."""
from collections.abc import Mapping
from typing import Any

from blockattach import errors
from blockattach.api import answers
from blockattach.api import services as api_services
from blockattach.db import pools
from blockattach.db import services as db_services
from blockattach.domain import binaries
from blockattach.http import operation
from blockattach.http import schema
from blockattach.policy import services as policies

_REPORTED = ('vendor_name', 'volume_backend_name', 'pool_name', 'driver_version',
             'storage_protocol', 'display_name', 'description', 'visibility')
# What a type may ask of any backend, as clients show it.
_PROPERTIES = {
    name: {'title': title, 'description': description, 'type': 'boolean'}
    for name, title, description in (
        ('thin_provisioning', 'Thin Provisioning', 'Sets thin provisioning.'),
        ('compression', 'Compression', 'Enables compression.'),
        ('qos', 'QoS', 'Enables QoS.'),
        ('replication_enabled', 'Replication', 'Enables replication.'))}


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show a backend by the report of its first pool: no backend is kept waiting for.

    :raises ServiceNotFound: there is no such backend
    :raises ServiceSilent: it sends no heartbeat
    """
    host, down_after = call.path['host'], services.service_down_time
    keeping = db_services.keeping(services.database, binaries.VOLUME, host, down_after)
    if not keeping:
        raise errors.ServiceNotFound(binary=binaries.VOLUME, host=host)
    if not keeping[0].up:
        raise errors.ServiceSilent(binary=binaries.VOLUME, host=host, seconds=down_after)
    found = [pool for pool in pools.list_all(services.database, down_after) if pool.host == host]
    reported: Mapping[str, Any] = {}
    if found:
        reported = {**found[0].capabilities, 'pool_name': found[0].name.partition('#')[2]}
    return {
        'namespace': f'OS::Storage::Capabilities::{host}',
        **{key: reported.get(key) for key in _REPORTED},
        'replication_targets': [],
        'properties': _PROPERTIES,
    }


_PROPERTY = answers.whole({'title': answers.TEXT, 'description': answers.TEXT,
                           'type': answers.TEXT})
_ANSWER = answers.whole({
    'namespace': answers.TEXT,
    **dict.fromkeys(_REPORTED, answers.NULLABLE_TEXT),
    'replication_targets': schema.array(answers.TEXT),
    'properties': schema.obj(patternProperties={'.+': _PROPERTY}),
})

OPERATIONS = (
    operation.Operation(
        'GET', '/capabilities/{host}', show, policy=policies.GET_CAPABILITIES,
        answer={operation.BASE: _ANSWER},
        faults=(errors.ServiceNotFound, errors.ServiceSilent),
        summary='Show what a backend can do.'),
)
