"""Conversion of Cinder volumes, with their snapshots and attachments, to rows of this service."""
import collections
import dataclasses
import datetime
import uuid
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.storage.db.attachments import attachment_values
from blockattach.storage.db.importing import catalogue
from blockattach.storage.db.importing import report
from blockattach.storage.db.importing import source
from blockattach.storage.db.types import volume_types
from blockattach.storage.domain import cinder_rows
from blockattach.storage.domain import connection as connections
from blockattach.storage.domain import importing
from blockattach.storage.domain import multiattach
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

_ZONE = 'nova'
_Rows = dict[str, list[dict[str, Any]]]


@dataclasses.dataclass(slots=True)
class Draft:
    """Converted rows of one volume, which are written together.

    :ivar id: id of the volume
    :ivar rows: rows by table of this service
    :ivar credentials: CHAP credentials of the hosts that use the volume, by initiator
    :ivar changed: findings about rows that the conversion has changed
    """

    id: str
    rows: _Rows
    credentials: dict[str, connections.Credential]
    changed: list[report.Finding]


class Reader:
    """Conversion of batches of Cinder volumes."""

    def __init__(self, cinder: source.Source, kinds: Mapping[str, records.VolumeType],
                 default: records.VolumeType | None, choices: importing.Choices,
                 now: datetime.datetime) -> None:
        """
        :param kinds: imported volume types by id
        :param default: volume type for volumes without a type in Cinder; None if there is no such
            type
        :param choices: options that the operator has passed to the import
        :param now: creation time of rows without a creation time
        """
        self._cinder = cinder
        self._kinds = kinds
        self._default = default
        self._choices = choices
        self._now = now

    def drafts(self, rows: Sequence[dict[str, Any]], into: report.Report) -> list[Draft]:
        """Convert volumes. A volume is refused if a row that belongs to the volume is refused.

        :param rows: rows of volumes in Cinder
        :param into: report to which the findings are added
        """
        checked = report.check('volumes', rows)
        into.refused += checked.findings
        parts, flaws = self._parts([row['id'] for row in checked.good])
        drafts = []
        for row in checked.good:
            draft = flaws.get(row['id']) or self._drafted(
                row, {name: of[row['id']] for name, of in parts.items()})
            if isinstance(draft, Draft):
                drafts.append(draft)
                into.changed += draft.changed
            else:
                into.refused += draft
        return drafts

    def _parts(self, ids: list[str]) -> tuple[
            dict[str, dict[str, report.Rows]], dict[str, list[report.Finding]]]:
        """Return the valid rows that belong to volumes, and the findings about invalid rows.

        :returns: rows by table and by id of the volume, and findings by id of the volume
        """
        flaws: dict[str, list[report.Finding]] = collections.defaultdict(list)
        parts = {name: _by(self._checked(name, flaws, volume_id=ids), 'volume_id') for name in (
            'volume_metadata', 'volume_glance_metadata', 'volume_admin_metadata', 'snapshots',
            'volume_attachment')}
        for name, child, column, key in (
                ('snapshots', 'snapshot_metadata', 'snapshot_id', 'metadata'),
                ('volume_attachment', 'attachment_specs', 'attachment_id', 'specs')):
            owners = {row['id']: row for of in parts[name].values() for row in of}
            hanging = _by(self._checked(child, flaws, owners, **{column: list(owners)}),
                          column) if owners else {}
            for owner, row in owners.items():
                row[key] = hanging.get(owner, [])
        return parts, flaws

    def _checked(self, name: str, flaws: dict[str, list[report.Finding]],
                 owners: Mapping[str, Mapping[str, Any]] | None = None,
                 **of: list[str]) -> report.Rows:
        """Return the valid rows of a table in Cinder.

        :param flaws: findings by id of the volume. The findings about invalid rows are added
        :param owners: snapshots or attachments to which the rows belong, by id; None if the rows
            belong to volumes
        :param of: name of the column with the id of the owner, and the ids to read
        """
        checked = report.check(name, self._cinder.rows(name, **of))
        [column] = of
        for row, found in checked.bad:
            owner = cinder_rows.comparable(row[column])
            if owners is None:
                flaws[owner] += found
            elif owner in owners:
                # Under some collations, the database also returns rows with an owner id that
                # differs in an accent. Such rows belong to no volume and are ignored.
                flaws[owners[owner]['volume_id']] += found
        return checked.good

    def _drafted(self, row: dict[str, Any],
                 parts: dict[str, report.Rows]) -> Draft | list[report.Finding]:
        try:
            return self._draft(row, parts)
        except Exception as exc:  # noqa: BLE001 - whatever a row holds, the message names it
            return [report.finding('volumes', row, 'damaged',
                                   f'cannot be read ({type(exc).__name__})')]

    def _draft(self, row: dict[str, Any],
               parts: dict[str, list[dict[str, Any]]]) -> Draft | list[report.Finding]:
        # Any member of a cluster serves the volumes of the cluster, so the pool is named after the
        # cluster instead of the host.
        pool = importing.pool_of(row.get('cluster_name') or row['host'], self._choices)
        kind = self._kinds.get(row['volume_type_id']) if row['volume_type_id'] else self._default
        refused = [report.finding('volumes', row, code)
                   for code in self._hindrances(row, pool, kind)]
        refused += [report.finding('snapshots', one, 'snapshot_in_work')
                    for one in parts['snapshots']
                    if one['status'] not in importing.SNAPSHOT_STATUSES]
        draft = Draft(row['id'], {}, {}, [])
        attachments: list[dict[str, Any]] = []
        if not refused:
            attachments, refused = self._attachments(row, parts, draft)
            # Without an attachment, a host that uses the volume could not be disconnected.
            if row['status'] in importing.HELD and not (attachments or refused):
                refused = [report.finding('volumes', row, 'unknown_holder')]
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
        # After a migration, Cinder may keep the data under the name of another volume.
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
        draft.changed += [report.finding('volumes', row, code) for code, is_so in changes.items()
                          if is_so]
        return {
            **self._described(row), **volume_types.columns_of(kind),
            'size_gb': row['size'], 'own_status': own.value, 'lowest_rank': lowest,
            **derived._asdict(), 'multiattach': bool(row.get('multiattach')),
            'bootable': bool(row.get('bootable')), 'readonly': None, 'attached_mode': None,
            'availability_zone': row['availability_zone'] or _ZONE, 'pool': pool,
            'shared_targets': False, 'snapshot_id': row.get('snapshot_id'),
            'source_volid': row.get('source_volid')}

    def _snapshot(self, row: Mapping[str, Any], volume: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._described(row), 'volume_id': row['volume_id'],
                'size_gb': row['volume_size'], 'status': row['status'],
                'progress': 100 if row['status'] == 'available' else 0,
                'volume_type_id': volume['volume_type_id'], 'generation': 0,
                'availability_zone': volume['availability_zone'], 'pool': volume['pool'],
                'status_reset': False}

    def _described(self, row: Mapping[str, Any]) -> dict[str, Any]:
        return {'id': row['id'], 'project_id': row['project_id'],
                'user_id': row['user_id'] or '', 'name': row['display_name'],
                'description': row['display_description'],
                'created_at': row['created_at'] or self._now, 'updated_at': row.get('updated_at'),
                'deleted': False, 'generation': 0}

    def _attachments(self, row: Mapping[str, Any], parts: Mapping[str, list[dict[str, Any]]],
                     draft: Draft) -> tuple[list[dict[str, Any]], list[report.Finding]]:
        """Return the rows of the attachments of a volume, and findings about refused attachments.

        The credentials, and the findings about changed attachments, are added to the draft.
        """
        found = parts['volume_attachment']
        if self._cinder.is_old and (row['attached_host'] or row['instance_uuid']):
            found = [_in_row(row, parts['volume_admin_metadata'])]
        taken, refused = [], []
        for one in found:
            read = _read(one, row['provider_location'])
            try:
                taken.append((one, read, importing.attachment(read, self._choices)))
            except importing.Refused as exc:
                refused.append(self._of_attachment(one, exc.code)._replace(
                    holder=read.host or read.instance_uuid or '', text=exc.text))
        # In Cinder, all hosts of a volume use the same credential.
        shared = None
        if any(what.connector is not None for _, _, what in taken):
            try:
                shared = importing.credential(
                    row['provider_auth'], [read.info for _, read, _ in taken])
            except importing.Refused as exc:
                return [], [*refused, report.finding('volumes', row, exc.code, exc.text)]
        plain = not row.get('multiattach')
        if plain and (len(taken) > len(multiattach.SLOTS) or (len(taken) > 1 and (
                len({read.instance_uuid for _, read, _ in taken}) > 1
                or taken[0][1].instance_uuid is None))):
            refused.append(report.finding('volumes', row, 'many_holders'))
        made = []
        for number, (one, read, what) in enumerate(taken):
            if what.connector is not None and shared is None:
                refused.append(self._of_attachment(one, 'no_chap'))
            elif what.connector is not None and shared is not None:
                draft.credentials[connections.initiator_of(what.connector)] = shared
                if what.mode is connections.AccessMode.RO:
                    draft.changed.append(self._of_attachment(one, 'consumer_enforces'))
            if what.changed:
                draft.changed.append(self._of_attachment(one, what.changed))
            made.append(attachment_values.imported_values(
                one['id'], row['id'], row['project_id'], read.instance_uuid, what,
                number if plain else None, read.host, read.mountpoint, one['attach_time'],
                one['created_at'] or self._now))
        return made, refused

    def _of_attachment(self, row: Mapping[str, Any], code: str) -> report.Finding:
        # An old schema stores the attachment in the row of the volume.
        if self._cinder.is_old:
            return report.finding('volumes', {'id': row['volume_id']}, code)
        return report.finding('volume_attachment', row, code)


def _in_row(row: Mapping[str, Any], admin: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the only attachment of a volume in an old schema, as a row of a later schema."""
    # An old schema has no ids of attachments. The derived id is the same in a repeated import.
    modes = {one['key']: one['value'] for one in admin}
    return {'id': str(uuid.uuid5(uuid.UUID(row['id']), 'attachment')), 'volume_id': row['id'],
            'attached_host': row['attached_host'], 'instance_uuid': row['instance_uuid'],
            'mountpoint': row['mountpoint'], 'attach_time': row.get('attach_time'),
            'attach_mode': row.get('attach_mode') or modes.get('attached_mode'),
            'attach_status': 'attached', 'created_at': None, 'specs': []}


def _read(row: Mapping[str, Any], location: str | None) -> importing.Found:
    # Cinder stored connectors in `attachment_specs` before it had a column for them.
    connector = row.get('connector') or {one['key']: one['value'] for one in row['specs']}
    return importing.Found(
        row['id'], row['volume_id'], row['instance_uuid'], row['attached_host'],
        row['mountpoint'], row['attach_status'], row['attach_mode'], connector or None,
        row.get('connection_info') or None, location)


def _by(rows: Iterable[dict[str, Any]], name: str) -> dict[str, list[dict[str, Any]]]:
    grouped: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for row in rows:
        grouped[row[name]].append(row)
    return grouped


def _pairs(rows: Iterable[Mapping[str, Any]], of: str, owner: str) -> list[dict[str, Any]]:
    return [{of: owner, 'key': row['key'], 'value': row['value'] or ''} for row in rows]
