"""Conversion of Cinder's volume types, QoS specs and quotas to rows of this service.

These rows are called the catalogue here. It is small compared with the volumes, and is read as a
whole.
"""
import dataclasses
import datetime
from collections.abc import Collection
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from blockattach.platform import errors
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db.importing import report
from blockattach.storage.db.importing import source
from blockattach.storage.domain import cinder_rows
from blockattach.storage.domain import qos
from blockattach.storage.domain import quotas
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_type

_CONSUMER = 'consumer'
_QOS = 'quality_of_service_specs'
_OF_TYPES = ('volume_type_extra_specs', 'encryption', 'volume_type_projects',
             'default_volume_types')
_PARTS = _OF_TYPES[:2]
"""Tables in Cinder whose refused rows exclude their volume type.

Without such a row, the imported type would differ from the type in Cinder.
"""
_NO_SPECS = 'qos_specs_id: no imported QoS specs have this id'


@dataclasses.dataclass(slots=True)
class Catalogue:
    """Volume types, QoS specs and quotas to import.

    :ivar rows: rows by table of this service. A table comes after the tables that it references
    :ivar kinds: volume types by id
    :ivar left: numbers of rows that are not supported here, by the keys of
        `blockattach.storage.domain.importing.LEFT`
    :ivar refused: findings about refused rows
    """

    rows: dict[str, list[dict[str, Any]]]
    kinds: dict[str, records.VolumeType]
    left: dict[str, int]
    refused: list[report.Finding]

    def leave_out(self, specs: Collection[str], types: Collection[str]) -> None:
        """Remove QoS specs and volume types, and the rows that refer to them.

        :param specs: ids of QoS specs
        :param types: ids of volume types
        """
        lost = {*types, *(row['id'] for row in self.rows['volume_types']
                          if row['qos_specs_id'] in specs)}
        for name, of_table in self.rows.items():
            column = 'id' if name == 'volume_types' else 'volume_type_id'
            self.rows[name] = [row for row in of_table if row.get(column) not in lost]
        self.rows['qos_specs'] = [row for row in self.rows['qos_specs']
                                  if row['id'] not in specs]
        self.kinds = {key: kind for key, kind in self.kinds.items() if key not in lost}

    def default(self, connection: sa.Connection, name: str) -> records.VolumeType | None:
        """Return the volume type with the name of the configured default type.

        This is the imported type if Cinder has a type with this name, else the existing type of
        this service.

        :param name: name of the configured default type
        :returns: volume type, or None if neither type exists. An existing type is returned without
            its extra specs and its encryption
        """
        found = next((kind for kind in self.kinds.values() if kind.name == name), None)
        if found is not None:
            return found
        row = connection.execute(sa.select(models.volume_types).where(
            models.volume_types.c.live_name == name)).first()
        return None if row is None else rows.record(
            records.VolumeType, row, extra_specs={}, encryption=None)


def read(cinder: source.Source, now: datetime.datetime) -> Catalogue:
    """Read and convert the catalogue of a Cinder database.

    :param now: creation time of rows without a creation time
    """
    specs, refused = _qos_specs(cinder, now)
    # All types are public in a schema without the column ``is_public``.
    live = [{'is_public': True, **row} for row in cinder.rows('volume_types')]
    checked = report.check('volume_types', live)
    ids = {cinder_rows.comparable(row['id']) for row in live}
    of = {name: report.check(name, [
        row for row in cinder.rows(name) if cinder_rows.comparable(row['volume_type_id']) in ids
    ]) for name in _OF_TYPES}
    refused += [one for found in (checked, *of.values()) for one in found.findings]
    lost = {owner for name in _PARTS for owner in of[name].owners('volume_type_id')}
    types, known = [], {None, *(row['id'] for row in specs)}
    for row in checked.good:
        if row['qos_specs_id'] not in known:
            refused.append(report.finding('volume_types', row, 'damaged', _NO_SPECS))
        elif row['id'] not in lost:
            types.append(_type(row, now))
    taken = {row['id'] for row in types}
    rows_of = {name: [row for row in found.good if row['volume_type_id'] in taken]
               for name, found in of.items()}
    extra = [{name: row[name] or '' for name in ('volume_type_id', 'key', 'value')}
             for row in rows_of['volume_type_extra_specs']]
    encryptions = [_encryption(row, now) for row in rows_of['encryption']]
    access = [{'volume_type_id': row['volume_type_id'], 'project_id': row['project_id'],
               'created_at': row['created_at'] or now} for row in rows_of['volume_type_projects']]
    defaults = [{'project_id': row['project_id'], 'volume_type_id': row['volume_type_id']}
                for row in rows_of['default_volume_types']]
    keys = quotas.names({row['id']: row['name'] for row in types})
    limits, left = _limits(cinder, 'quotas', 'project_id', keys, refused)
    classes, left_of_classes = _limits(cinder, 'quota_classes', 'class_name', keys, refused)
    return Catalogue({
        'qos_specs': specs, 'volume_types': types, 'volume_type_extra_specs': extra,
        'volume_type_encryptions': encryptions, 'volume_type_projects': access,
        'default_volume_types': defaults, 'quotas': limits, 'quota_classes': classes,
    }, _kinds(types, extra, encryptions), {'quotas': left + left_of_classes}, refused)


def count(catalogue: Catalogue, into: report.Report) -> None:
    """Add the numbers of rows of a catalogue to a report.

    :param into: report whose ``found`` and ``left`` are increased
    """
    for name, of_table in catalogue.rows.items():
        into.found[name] += len(of_table)
    into.left.update(catalogue.left)


def _type(row: Mapping[str, Any], now: datetime.datetime) -> dict[str, Any]:
    return {**_dated(row, now), 'id': row['id'], 'name': row['name'], 'live_name': row['name'],
            'description': row.get('description'), 'is_public': bool(row['is_public']),
            'qos_specs_id': row['qos_specs_id'], 'deleted': False}


def _qos_specs(cinder: source.Source, now: datetime.datetime,
               ) -> tuple[list[dict[str, Any]], list[report.Finding]]:
    # Cinder stores QoS specs as a tree. The root row contains the name, and its child rows contain
    # the consumer and the limits.
    checked = report.check(_QOS, cinder.rows(_QOS))
    refused, lost = list(checked.findings), checked.owners('specs_id')
    leaves: dict[str, dict[str, str | None]] = {}
    for row in checked.good:
        if row['specs_id'] is not None:
            leaves.setdefault(row['specs_id'], {})[row['key']] = row['value']
    roots = [row for row in checked.good if row['specs_id'] is None and row['id'] not in lost]
    names = report.check('qos_names', [{'id': row['id'], 'value': row['value']} for row in roots])
    refused += [one._replace(table=_QOS) for one in names.findings]
    named, made = {row['id'] for row in names.good}, []
    for row in roots:
        specs = dict(leaves.get(row['id'], {}))
        consumer = specs.pop(_CONSUMER, qos.BACK_END)
        wrong = _wrong_specs(consumer, specs)
        if wrong:
            refused.append(report.finding(_QOS, row, 'damaged', wrong))
        elif row['id'] in named:
            made.append({**_dated(row, now), 'id': row['id'], 'name': row['value'],
                         'live_name': row['value'], 'consumer': consumer,
                         'specs': rows.to_json(specs), 'deleted': False})
    return made, refused


def _wrong_specs(consumer: str | None, specs: Mapping[str, str | None]) -> str | None:
    if consumer not in qos.CONSUMERS:
        return f'consumer: not one of {", ".join(qos.CONSUMERS)}'
    try:
        qos.check(specs)
    except errors.InvalidInput as exc:
        return str(exc)
    return None


def _encryption(row: Mapping[str, Any], now: datetime.datetime) -> dict[str, Any]:
    return {**_dated(row, now), 'id': row['encryption_id'], 'deleted': False,
            'live_volume_type_id': row['volume_type_id'],
            **{name: row[name] for name in (
                'volume_type_id', 'provider', 'control_location', 'cipher', 'key_size')}}


def _limits(cinder: source.Source, table: str, owner: str, keys: Mapping[str, str],
            refused: list[report.Finding]) -> tuple[list[dict[str, Any]], int]:
    # Limits of resources that this service does not have, such as backups, are not imported.
    found = cinder.rows(table)
    checked = report.check(table, [row for row in found if row['resource'] in keys])
    refused += checked.findings
    made = [{owner: row[owner], 'resource': keys[row['resource']],
             'hard_limit': row['hard_limit']}
            for row in checked.good if row['hard_limit'] is not None]
    return made, len(found) - len(made) - len(checked.bad)


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
    """Return True if consumers encrypt the volumes of a type. Such volumes need a key."""
    return (kind.encryption is not None
            and kind.encryption.control_location == volume_type.FRONT_END)


def _dated(row: Mapping[str, Any], now: datetime.datetime) -> dict[str, Any]:
    return {'created_at': row['created_at'] or now, 'updated_at': row.get('updated_at')}
