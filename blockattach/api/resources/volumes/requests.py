"""From the body that asks for a volume to what shall be made."""
import dataclasses
from collections.abc import Mapping
from typing import Any

from blockattach import errors
from blockattach.api import services as api_services
from blockattach.db import services as service_queries
from blockattach.domain import records
from blockattach.domain import volume_type
from blockattach.http import operation
from blockattach.http.operation import V
from blockattach.policy import access

LONGEST_TEXT = 255
HINTS = 'OS-SCH-HNT:scheduler_hints'

# What a volume could be made from, its first version, and the error where it is absent.
_SOURCES = (
    ('snapshot_id', operation.BASE, 'Snapshot %s could not be found.'),
    ('source_volid', operation.BASE, 'Volume %s could not be found.'),
    ('consistencygroup_id', operation.BASE, 'ConsistencyGroup %s could not be found.'),
    ('group_id', V(3, 13), 'Group %s could not be found.'),
    ('backup_id', V(3, 47), 'Backup %s could not be found.'),
)
_IMAGES = ('image_id', 'imageRef')
_FALSE = frozenset((None, False, 'False', 'FALSE', 'false', '0', 'off', 'Off', 'OFF', 'no', 'No',
                    'NO', 'n', 'f'))


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """A volume as it shall be. ``availability_zone`` None: wherever volumes go by default."""

    name: str | None
    description: str | None
    size_gb: int
    kind: records.VolumeType
    availability_zone: str | None
    metadata: Mapping[str, str]
    hints: Mapping[str, Any] | None


def read(services: api_services.ApiServices, call: operation.Call) -> Wish:
    """Check what the schema cannot.

    :raises InvalidInput: a value cannot be used
    :raises NotFound: it names something that is not there
    """
    asked: Mapping[str, Any] = call.body['volume']
    if asked.get('multiattach') not in _FALSE:
        raise errors.InvalidInput(
            'multiattach parameter has been removed. The default behavior is to use multiattach '
            'enabled volume types. Contact your administrator to create a multiattach enabled '
            'volume type and use it to create multiattach volumes.')
    name = _text(asked, 'name')
    description = _text(asked, 'description')
    kind = _kind(services, call, asked.get('volume_type'))
    volume_type.check_usable(kind)
    _refuse_sources(asked, call.version)
    return Wish(name, description, _size(asked.get('size')), kind,
                _zone(services, asked.get('availability_zone')), asked.get('metadata') or {},
                call.body.get(HINTS))


def _text(asked: Mapping[str, Any], key: str) -> str | None:
    text: str | None = asked.get(key, asked.get(f'display_{key}'))
    if text is None:
        return None
    text = text.strip()
    if len(text) > LONGEST_TEXT:
        raise errors.InvalidInput(
            f'{key} has {len(text)} characters, more than {LONGEST_TEXT}.')
    return text


def _kind(services: api_services.ApiServices, call: operation.Call,
          id_or_name: str | None) -> records.VolumeType:
    if not id_or_name:
        return access.default_volume_type(services.database, services.default_volume_type)
    return access.find_volume_type(call.context, services.database, id_or_name)


def _refuse_sources(asked: Mapping[str, Any], version: V) -> None:
    """Volumes begin empty: there is nothing yet that one could be made from."""
    for key, since, absent in _SOURCES:
        if version >= since and asked.get(key) is not None:
            raise errors.NotFound(absent % errors.shortened(asked[key]))
    if any(asked.get(key) for key in _IMAGES):
        raise errors.InvalidInput(
            'Invalid image identifier or unable to access requested image.')


def _size(size: int | str | None) -> int:
    if size is None or int(size) < 1:
        raise errors.InvalidInput(
            f'Invalid input received: Invalid volume size provided for create request: '
            f'{errors.shortened(size)} (size argument must be an integer (or string '
            f'representation of an integer) and greater than zero).')
    return int(size)


def _zone(services: api_services.ApiServices, zone: str | None) -> str | None:
    if zone is None or zone == services.availability_zone:
        return zone
    known = service_queries.list_all(services.database, services.service_down_time)
    if all(zone != service.availability_zone for service in known):
        raise errors.InvalidInput(f"Availability zone '{errors.shortened(zone)}' is invalid.")
    return zone
