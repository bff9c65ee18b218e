"""Hosts of services (os-hosts, the older form of os-services), and availability zones."""
from typing import Any

from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api import services as api_services
from blockattach.storage.db.services import pools
from blockattach.storage.db.services import services as db_services
from blockattach.storage.domain import binaries
from blockattach.storage.policy import services as policies

_TOTAL = '(total)'


def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the enabled services of the requested zone, or of all zones.

    Services of frozen backends are left out.
    """
    zone = call.query.get('zone')
    return {'hosts': [
        _HOST.show(one) for one in db_services.list_all(
            services.database, services.service_down_time)
        if not (one.disabled or one.frozen) and zone in (None, '', one.availability_zone)]}


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show the volumes and snapshots on a backend, in total and for each project.

    :raises HostNotFound: if no volume service has the host name
    """
    host = call.path['host']
    try:
        backend = db_services.get_by_host(services.database, binaries.VOLUME, host,
                                          services.service_down_time).backend
    except errors.ServiceNotFound:
        raise errors.HostNotFound(host=host) from None
    found = pools.use_by_project(services.database, backend)
    total = pools.ProjectUse()
    for use in found.values():
        total = total.plus(use)
    return {'host': [{'resource': _USE.show(use, host=host, project=project)}
                     for project, use in ((_TOTAL, total), *found.items())]}


def zones(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List the availability zones of volume services.

    A zone is available if at least one of its volume services is enabled and not frozen.
    """
    found: dict[str, bool] = {}
    for one in db_services.list_all(services.database, services.service_down_time,
                                    binary=binaries.VOLUME):
        in_use = not (one.disabled or one.frozen)
        found[one.availability_zone] = found.get(one.availability_zone, False) or in_use
    return {'availabilityZoneInfo': [
        {'zoneName': name, 'zoneState': {'available': available}}
        for name, available in found.items()]}


_HOST = schema.View({
    'host_name': (answers.TEXT, 'host'),
    'service': (answers.TEXT, 'binary'),
    'zone': (answers.TEXT, 'availability_zone'),
    'service-status': ({'enum': ['available', 'unavailable']},
                       lambda service: 'available' if service.up else 'unavailable'),
    'service-state': ({'enum': ['enabled']}, lambda service: 'enabled'),
    'last-update': (answers.TIME, 'updated_at'),
})
# Cinder returns these numbers as strings.
_NUMBER: schema.Schema = {'type': 'string', 'pattern': '^[0-9]+$'}
_USE = schema.View({
    'host': (answers.TEXT, schema.GIVEN),
    'project': (answers.TEXT, schema.GIVEN),
    'volume_count': (_NUMBER, lambda use: str(use.volumes)),
    'total_volume_gb': (_NUMBER, lambda use: str(use.volumes_gb)),
    'snapshot_count': (_NUMBER, lambda use: str(use.snapshots)),
    'total_snapshot_gb': (_NUMBER, lambda use: str(use.snapshots_gb)),
})
_ZONES = schema.wrapped('availabilityZoneInfo', schema.array(answers.whole({
    'zoneName': answers.TEXT,
    'zoneState': answers.whole({'available': answers.BOOLEAN}),
})))

OPERATIONS = (
    operation.Operation(
        'GET', '/os-hosts', index, policy=policies.HOSTS,
        answer={operation.BASE: schema.wrapped('hosts', schema.array(_HOST.whole))},
        summary='List the hosts of enabled services.'),
    operation.Operation(
        'GET', '/os-hosts/{host}', show, policy=policies.HOSTS,
        answer={operation.BASE: schema.wrapped(
            'host', schema.array(schema.wrapped('resource', _USE.whole)))},
        faults=(errors.HostNotFound,),
        summary='Show host details. The response has the number and size of the volumes and '
                'snapshots on the backend, in total and for each project.'),
    operation.Operation(
        'GET', '/os-availability-zone', zones, answer={operation.BASE: _ZONES},
        summary='List availability zones.'),
)
