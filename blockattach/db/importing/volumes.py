"""Volumes of Cinder with all that hangs on them, as rows of this service."""
import collections
import dataclasses
import datetime
import json
import uuid
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.db.attachments import attachment_values
from blockattach.db.importing import catalogue
from blockattach.db.importing import report
from blockattach.db.importing import source
from blockattach.db.types import volume_types
from blockattach.domain import connection as connections
from blockattach.domain import importing
from blockattach.domain import multiattach
from blockattach.domain import records
from blockattach.domain import volume_lifecycle

_ZONE = 'nova'
_Rows = dict[str, list[dict[str, Any]]]


@dataclasses.dataclass(slots=True)
class Draft:
    """What is written of one volume: rows by table, and the credential of its hosts, by name."""

    id: str
    rows: _Rows
    credentials: dict[str, connections.Credential]
    changed: list[report.Finding]


class Reader:
    """Reads volumes, so many at once, and says of each what it is here."""

    def __init__(self, cinder: source.Source, kinds: Mapping[str, records.VolumeType],
                 default: records.VolumeType | None, choices: importing.Choices,
                 now: datetime.datetime) -> None:
        """
        :param default: the type of volumes that have none
        :param now: when things were made that do not say it
        """
        self._cinder = cinder
        self._kinds = kinds
        self._default = default
        self._choices = choices
        self._now = now

    def drafts(self, found: Sequence[dict[str, Any]], into: report.Report) -> list[Draft]:
        """What is written of these volumes; one of which anything is refused is left out."""
        parts = self._parts([row['id'] for row in found])
        made = []
        for row in found:
            draft = self._draft(row, {name: of[row['id']] for name, of in parts.items()})
            if isinstance(draft, Draft):
                made.append(draft)
                into.changed += draft.changed
            else:
                into.refused += draft
        return made

    def _parts(self, ids: list[str]) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """What hangs on volumes, by what it is and by volume."""
        parts = {name: _by(self._cinder.rows(name, volume_id=ids), 'volume_id') for name in (
            'volume_metadata', 'volume_glance_metadata', 'volume_admin_metadata', 'snapshots',
            'volume_attachment')}
        snapshots = [row['id'] for of in parts['snapshots'].values() for row in of]
        of_snapshots = _by(self._cinder.rows('snapshot_metadata', snapshot_id=snapshots),
                           'snapshot_id') if snapshots else {}
        for of in parts['snapshots'].values():
            for row in of:
                row['metadata'] = of_snapshots.get(row['id'], [])
        attachments = [row['id'] for of in parts['volume_attachment'].values() for row in of]
        specs = _by(self._cinder.rows('attachment_specs', attachment_id=attachments),
                    'attachment_id') if attachments else {}
        for of in parts['volume_attachment'].values():
            for row in of:
                row['specs'] = specs.get(row['id'], [])
        return parts

    def _draft(self, row: dict[str, Any],
               parts: dict[str, list[dict[str, Any]]]) -> Draft | list[report.Finding]:
        pool = importing.pool_of(row.get('cluster_name') or row['host'], self._choices)
        kind = self._kinds.get(row['volume_type_id']) if row['volume_type_id'] else self._default
        refused = [report.Finding(code, row['id'])
                   for code in self._hindrances(row, pool, kind)]
        refused += [report.Finding('snapshot_in_work', one['id']) for one in parts['snapshots']
                    if one['status'] not in importing.SNAPSHOT_STATUSES]
        draft = Draft(row['id'], {}, {}, [])
        attachments: list[dict[str, Any]] = []
        if not refused:
            attachments, refused = self._attachments(row, parts, draft)
            if row['status'] in importing.HELD and not (attachments or refused):
                refused = [report.Finding('unknown_holder', row['id'])]
        if refused:
            return refused
        assert kind is not None
        volume = self._volume(row, pool, kind, attachments, draft)
        admin = {one['key']: one['value'] for one in parts['volume_admin_metadata']}
        if 'readonly' in admin:
            volume['readonly'] = (admin['readonly'] or '').lower() == 'true'
        if attachments and admin.get('attached_mode') in ('rw', 'ro'):
            volume['attached_mode'] = admin['attached_mode']
        draft.rows |= {
            'volumes': [volume],
            'volume_metadata': _pairs(parts['volume_metadata'], 'volume_id', row['id']),
            'volume_image_metadata': _pairs(
                parts['volume_glance_metadata'], 'volume_id', row['id']),
            'snapshots': [self._snapshot(one, volume) for one in parts['snapshots']],
            'snapshot_metadata': [pair for one in parts['snapshots'] for pair in _pairs(
                one['metadata'], 'snapshot_id', one['id'])],
            'attachments': attachments}
        return draft

    def _hindrances(self, row: Mapping[str, Any], pool: str | None,
                    kind: records.VolumeType | None) -> Iterable[str]:
        own = importing.OWN_STATUSES.get(row['status'])
        if own is None or row.get('migration_status') not in importing.SETTLED_MIGRATIONS:
            yield 'in_work'
        if pool is None and (row['host'] or own is not volume_lifecycle.OwnStatus.ERROR):
            yield 'no_pool'
        if kind is None:
            yield 'no_type'
        if row.get('_name_id') not in (None, row['id']):
            yield 'other_name'
        if row.get('encryption_key_id') or (kind is not None and catalogue.needs_key(kind)):
            yield 'encrypted'
        if row.get('replication_status') in ('enabled', 'failed-over'):
            yield 'replicated'

    def _volume(self, row: Mapping[str, Any], pool: str | None, kind: records.VolumeType,
                attachments: Sequence[Mapping[str, Any]], draft: Draft) -> dict[str, Any]:
        own = importing.OWN_STATUSES[row['status']]
        lowest = min((one['rank'] for one in attachments), default=None)
        derived = volume_lifecycle.derive_status(own, lowest)
        changes = {
            'no_longer_offered': row['status'] == importing.OFFERED,
            'status': row['status'] not in (derived.status, importing.OFFERED),
            'group_left': row.get('group_id') or row.get('consistencygroup_id'),
            'counted': row.get('use_quota') not in (None, True, 1),
            'default_type': not row['volume_type_id']}
        draft.changed += [report.Finding(code, row['id']) for code, is_so in changes.items()
                          if is_so]
        return {
            **self._described(row), **volume_types.columns_of(kind),
            'size_gb': row['size'] or 0, 'own_status': own.value, 'lowest_rank': lowest,
            **derived._asdict(), 'multiattach': bool(row.get('multiattach')),
            'bootable': bool(row.get('bootable')), 'readonly': None, 'attached_mode': None,
            'availability_zone': row['availability_zone'] or _ZONE, 'pool': pool,
            'shared_targets': False, 'snapshot_id': row.get('snapshot_id'),
            'source_volid': row.get('source_volid')}

    def _snapshot(self, row: Mapping[str, Any], volume: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._described(row), 'volume_id': row['volume_id'],
                'size_gb': row['volume_size'] or volume['size_gb'], 'status': row['status'],
                'progress': 100 if row['status'] == 'available' else 0,
                'volume_type_id': volume['volume_type_id'], 'generation': 0,
                'availability_zone': volume['availability_zone'], 'pool': volume['pool'],
                'status_reset': False}

    def _described(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {'id': row['id'], 'project_id': row['project_id'] or '',
                'user_id': row['user_id'] or '', 'name': row['display_name'],
                'description': row['display_description'],
                'created_at': row['created_at'] or self._now, 'updated_at': row.get('updated_at'),
                'deleted': False, 'generation': 0}

    def _attachments(self, row: Mapping[str, Any], parts: Mapping[str, list[dict[str, Any]]],
                     draft: Draft) -> tuple[list[dict[str, Any]], list[report.Finding]]:
        """Rows and credentials of a volume's attachments, and what is refused of them."""
        found = parts['volume_attachment']
        if self._cinder.is_old and (row['attached_host'] or row['instance_uuid']):
            found = [_in_row(row, parts['volume_admin_metadata'])]
        taken, refused = [], []
        for one in found:
            read = _read(one, row['provider_location'])
            try:
                taken.append((one, read, importing.attachment(read, self._choices)))
            except importing.Refused as exc:
                refused.append(report.Finding(
                    str(exc), one['id'], read.host or read.instance_uuid or ''))
        shared = importing.credential(
            row['provider_auth'], [read.info for _, read, _ in taken])
        plain = not row.get('multiattach')
        if plain and (len(taken) > len(multiattach.SLOTS) or (len(taken) > 1 and (
                len({read.instance_uuid for _, read, _ in taken}) > 1
                or taken[0][1].instance_uuid is None))):
            refused.append(report.Finding('many_holders', row['id']))
        made = []
        for number, (one, read, what) in enumerate(taken):
            if what.connector is not None and shared is None:
                refused.append(report.Finding('no_chap', one['id']))
            elif what.connector is not None and shared is not None:
                draft.credentials[connections.initiator_of(what.connector)] = shared
                if what.mode is connections.AccessMode.RO:
                    draft.changed.append(report.Finding('consumer_enforces', one['id']))
            if what.changed:
                draft.changed.append(report.Finding(what.changed, one['id']))
            made.append(attachment_values.imported_values(
                one['id'], row['id'], row['project_id'] or '', read.instance_uuid, what,
                number if plain else None, read.host, read.mountpoint, _time(one['attach_time']),
                one['created_at'] or self._now))
        return made, refused


def _in_row(row: Mapping[str, Any], admin: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The only attachment of a volume, as old schemas have it: it has no id of its own there."""
    modes = {one['key']: one['value'] for one in admin}
    return {'id': str(uuid.uuid5(uuid.UUID(row['id']), 'attachment')), 'volume_id': row['id'],
            'attached_host': row['attached_host'], 'instance_uuid': row['instance_uuid'],
            'mountpoint': row['mountpoint'], 'attach_time': row.get('attach_time'),
            'attach_mode': row.get('attach_mode') or modes.get('attached_mode'),
            'attach_status': 'attached', 'created_at': None, 'specs': []}


def _read(row: Mapping[str, Any], location: str | None) -> importing.Found:
    connector = _object(row.get('connector')) or {one['key']: one['value']
                                                  for one in row['specs']}
    return importing.Found(
        row['id'], row['volume_id'], row['instance_uuid'], row['attached_host'],
        row['mountpoint'], row['attach_status'], row['attach_mode'], connector or None,
        _object(row.get('connection_info')) or None, location)


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or '{}')
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _time(found: datetime.datetime | str | None) -> datetime.datetime | None:
    """Old schemas keep it as a text."""
    if isinstance(found, str):
        try:
            found = datetime.datetime.fromisoformat(found)
        except ValueError:
            return None
    if found is None or found.tzinfo is None:
        return found
    return found.astimezone(datetime.UTC).replace(tzinfo=None)


def _by(found: Iterable[dict[str, Any]], name: str) -> dict[str, list[dict[str, Any]]]:
    made: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for row in found:
        made[row[name]].append(row)
    return made


def _pairs(found: Iterable[Mapping[str, Any]], of: str, owner: str) -> list[dict[str, Any]]:
    values = {row['key']: row['value'] or '' for row in found}
    return [{of: owner, 'key': key, 'value': value} for key, value in values.items()]
