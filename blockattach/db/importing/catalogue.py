"""What volumes refer to, and what projects may have: rows of Cinder as rows of this service."""
import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from blockattach.db import rows
from blockattach.db.importing import report
from blockattach.db.importing import source
from blockattach.domain import quotas
from blockattach.domain import records
from blockattach.domain import volume_type

_CONSUMER = 'consumer'


@dataclasses.dataclass(slots=True)
class Catalogue:
    """Rows by table, in the order in which they refer to each other; and the types by id."""

    rows: dict[str, list[dict[str, Any]]]
    kinds: dict[str, records.VolumeType]
    left: dict[str, int]


def read(cinder: source.Source, now: datetime.datetime) -> Catalogue:
    """All of it: it is small beside the volumes."""
    specs = _qos_specs(cinder, now)
    types = [{**_dated(row, now), 'id': row['id'], 'name': row['name'], 'live_name': row['name'],
              'description': row.get('description'),
              'is_public': bool(row.get('is_public', True)),
              'qos_specs_id': row.get('qos_specs_id'), 'deleted': False}
             for row in cinder.rows('volume_types')]
    known = {row['id'] for row in types}
    extra = [{name: row[name] or '' for name in ('volume_type_id', 'key', 'value')}
             for row in cinder.rows('volume_type_extra_specs') if row['volume_type_id'] in known]
    encryptions = [_encryption(row, now) for row in cinder.rows('encryption')
                   if row['volume_type_id'] in known]
    access = {(row['volume_type_id'], row['project_id']): {
        'volume_type_id': row['volume_type_id'], 'project_id': row['project_id'],
        'created_at': row['created_at'] or now}
        for row in cinder.rows('volume_type_projects') if row['volume_type_id'] in known}
    defaults = [{'project_id': row['project_id'], 'volume_type_id': row['volume_type_id']}
                for row in cinder.rows('default_volume_types') if row['volume_type_id'] in known]
    keys = quotas.names({row['id']: row['name'] for row in types})
    limits, left = _limits(cinder, 'quotas', 'project_id', keys)
    classes, left_of_classes = _limits(cinder, 'quota_classes', 'class_name', keys)
    return Catalogue({
        'qos_specs': specs, 'volume_types': types, 'volume_type_extra_specs': extra,
        'volume_type_encryptions': encryptions, 'volume_type_projects': list(access.values()),
        'default_volume_types': defaults, 'quotas': limits, 'quota_classes': classes,
    }, _kinds(types, extra, encryptions), {'quotas': left + left_of_classes})


def count(found: Catalogue, into: report.Report) -> None:
    """How many there are, by table."""
    for name, of_table in found.rows.items():
        into.found[name] += len(of_table)
    into.left.update(found.left)


def _qos_specs(cinder: source.Source, now: datetime.datetime) -> list[dict[str, Any]]:
    """A tree there: the name is the root, each limit a leaf, and who enforces them another one."""
    found = cinder.rows('quality_of_service_specs')
    leaves: dict[str, dict[str, str]] = {}
    for row in found:
        if row['specs_id'] is not None:
            leaves.setdefault(row['specs_id'], {})[row['key']] = row['value']
    made = []
    for row in found:
        if row['specs_id'] is None:
            specs = dict(leaves.get(row['id'], {}))
            consumer = specs.pop(_CONSUMER, 'back-end')
            made.append({**_dated(row, now), 'id': row['id'], 'name': row['value'],
                         'live_name': row['value'], 'consumer': consumer,
                         'specs': rows.to_json(specs), 'deleted': False})
    return made


def _encryption(row: Mapping[str, Any], now: datetime.datetime) -> dict[str, Any]:
    return {**_dated(row, now), 'id': row['encryption_id'], 'deleted': False,
            'live_volume_type_id': row['volume_type_id'],
            **{name: row[name] for name in (
                'volume_type_id', 'provider', 'control_location', 'cipher', 'key_size')}}


def _limits(cinder: source.Source, table: str, owner: str,
            keys: Mapping[str, str]) -> tuple[list[dict[str, Any]], int]:
    found = cinder.rows(table)
    made = {(row[owner], keys[row['resource']]): {
        owner: row[owner], 'resource': keys[row['resource']], 'hard_limit': row['hard_limit']}
        for row in found if row['resource'] in keys and row['hard_limit'] is not None}
    return list(made.values()), len(found) - len(made)


def _kinds(types: list[dict[str, Any]], extra: list[dict[str, Any]],
           encryptions: list[dict[str, Any]]) -> dict[str, records.VolumeType]:
    specs: dict[str, dict[str, str]] = {}
    for row in extra:
        specs.setdefault(row['volume_type_id'], {})[row['key']] = row['value']
    encrypted = {row['volume_type_id']: rows.record(records.TypeEncryption, row)
                 for row in encryptions}
    return {row['id']: rows.record(
        records.VolumeType, row, extra_specs=specs.get(row['id'], {}),
        encryption=encrypted.get(row['id'])) for row in types}


def needs_key(kind: records.VolumeType) -> bool:
    """Whether consumers of its volumes encrypt them."""
    return (kind.encryption is not None
            and kind.encryption.control_location == volume_type.FRONT_END)


def _dated(row: Mapping[str, Any], now: datetime.datetime) -> dict[str, Any]:
    return {'created_at': row['created_at'] or now, 'updated_at': row.get('updated_at')}
