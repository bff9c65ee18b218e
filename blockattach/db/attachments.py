"""Attachments: `reserve` makes one, `move` is the one writer of its state afterwards.

Both lock the volume's row as their first statement, write the attachment, and derive the volume's
status, all in one transaction. Lock order: volume, then attachments.
"""
import dataclasses
import datetime
import uuid
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.db import clock
from blockattach.db import engine
from blockattach.db import grants
from blockattach.db import rows
from blockattach.db import volume_rows
from blockattach.db.models import attachment
from blockattach.domain import attachment_lifecycle
from blockattach.domain import connection as connections
from blockattach.domain import multiattach
from blockattach.domain import records

LOG = oslo_log.getLogger(__name__)

_rows = attachment.attachments
_State = attachment_lifecycle.State
_Event = attachment_lifecycle.Event
_NOTHING_BEFORE = {'previous_connector': None, 'previous_initiator': None, 'previous_mode': None}


@dataclasses.dataclass(frozen=True, slots=True)
class Lease:
    """Who is at work on a row, and for how many seconds of database time at most."""

    owner: str | None
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """What a new attachment shall be. With a connector it is born connecting, under a lease.

    ``hidden``: held by a legacy action for nobody yet. ``attached``: the legacy os-attach, which
    tells when all is done. ``forbidden_by``: as `blockattach.domain.multiattach.admit` takes it.
    """

    volume_id: str
    project_id: str
    instance_uuid: str | None = None
    mode: connections.AccessMode | None = None
    connector: Mapping[str, Any] | None = None
    hidden: bool = False
    attached: 'Attached | None' = None
    forbidden_by: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Attached:
    """What os-attach tells of the consumer."""

    instance_uuid: str | None
    host: str | None
    mountpoint: str
    mode: connections.AccessMode


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What a move brings with it; which of them a move needs follows from its event."""

    connector: Mapping[str, Any] | None = None
    lease: Lease | None = None
    connection: Mapping[str, Any] | None = None
    error: str | None = None
    attached: Attached | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Moved:
    """The attachment before and after, and its volume's words after."""

    old: records.Attachment
    new: records.Attachment
    volume_status: str
    volume_attach_status: str


@engine.retried
def reserve(database: engine.Database, wish: Wish, lease_seconds: float,
            within: Callable[[sa.Connection, str], None] | None = None) -> records.Attachment:
    """Hold the volume for a new attachment, or refuse it.

    :param within: called in the same transaction with the new row's id: all of it or nothing
    :raises VolumeNotFound: no such live volume
    :raises InvalidVolume: `blockattach.domain.multiattach.admit` refuses; nothing was changed
    :raises NotAuthorized: the same
    :raises ConnectorUnusable: a connector without an initiator
    :raises QuotaExceeded: the project has as many as it may
    """
    state = _birth(wish)
    instance_uuid = wish.attached.instance_uuid if wish.attached else wish.instance_uuid
    values: dict[str, Any] = {'id': str(uuid.uuid4()), 'created_at': database.clock.utcnow()}
    with database.writer() as connection:
        volume = volume_rows.lock(connection, wish.volume_id)
        admission = multiattach.admit(_held(connection, volume, instance_uuid), instance_uuid,
                                      wish.attached.mode if wish.attached else wish.mode,
                                      wish.forbidden_by)
        database.attachment_quota.change(connection, volume.project_id, 1)
        rank = attachment_lifecycle.rank_of(state, wish.hidden)
        values |= {
            'volume_id': wish.volume_id, 'project_id': wish.project_id,
            'instance_uuid': instance_uuid, 'state': state.value, 'generation': 1,
            'rank': rank, 'slot': admission.slot, 'mode': admission.mode, 'hidden': wish.hidden}
        if wish.attached is not None:
            values |= _attached_values(volume, wish.attached, values['created_at'])
        if wish.connector is not None:
            values |= _connector_values(volume, wish.connector, admission.mode)
            values |= _lease_values(Lease(volume_rows.host_of(volume.pool), lease_seconds))
            grants.ensure(connection, database, wish.volume_id, values['initiator'])
        connection.execute(_rows.insert().values(**values))
        if within is not None:
            within(connection, values['id'])
        lowest = min(filter(None, (rank, volume.lowest_rank)))
        volume_rows.store_rank(connection, database, volume, lowest,
                               **_metadata_of_attach(volume, wish.attached))
        made = rows.attachment(_select_one(connection, values['id']))
    LOG.info('Attachment is reserved%s', log.fields(
        attachment_id=made.id, volume_id=made.volume_id, instance_uuid=made.instance_uuid,
        state=made.state))
    return made


@engine.retried
def move(database: engine.Database, volume_id: str, attachment_id: str, event: _Event,
         facts: Facts = Facts(), generation: int | None = None) -> Moved:
    """Let an event happen to an attachment.

    :param generation: the one that the caller saw; None: whatever it is now
    :raises AttachmentNotFound: it is gone, or was never there
    :raises StaleGeneration: it has moved since; nothing was changed
    :raises InvalidTransition: not from where it is; nothing was changed
    """
    with database.writer() as connection:
        volume, old = _lock(connection, volume_id, attachment_id)
        if generation is not None and generation != old.generation:
            raise errors.StaleGeneration(noun='attachment', id=attachment_id,
                                         generation=generation)
        target = attachment_lifecycle.next_state(old.state, event, old.previous_state)
        if event is _Event.RELEASE and old.initiator is not None:
            raise errors.InvalidTransition(state=old.state.value, event=event.value,
                                           allowed=_Event.DISCONNECT.value)
        values = _values(database, volume, old, event, target, facts)
        if event is _Event.CONNECT:
            grants.ensure(connection, database, volume_id, values['initiator'])
        connection.execute(_rows.update().where(_rows.c.id == attachment_id).values(**values))
        new = rows.attachment(_select_one(connection, attachment_id))
        grants.drop_unused(connection, volume_id, _needed_by(old) - _needed_by(new))
        if target is _State.GONE:
            database.attachment_quota.change(connection, volume.project_id, -1)
        derived = volume_rows.store_rank(
            connection, database, volume, _lowest_rank(connection, volume_id),
            _announced(volume, old, new), **_metadata_of_move(volume, old, event, facts))
    LOG.info('Attachment has moved%s', log.fields(
        attachment_id=attachment_id, volume_id=volume_id, event=event, old=old.state,
        new=new.state, generation=new.generation, volume_status=derived.status))
    return Moved(old, new, derived.status, derived.attach_status)


def _birth(wish: Wish) -> _State:
    if wish.attached is not None:
        return _State.ATTACHED
    return _State.RESERVED if wish.connector is None else _State.CONNECTING


def _announced(volume: sa.Row[Any], old: records.Attachment, new: records.Attachment) -> int:
    """A detach that begins was announced, if any was."""
    leaves = old.state is _State.ATTACHED and new.state in (_State.DISCONNECTING, _State.GONE)
    return int(volume.detach_announced) - (1 if leaves else 0)


def _metadata_of_attach(volume: sa.Row[Any], attached: Attached | None) -> dict[str, Any]:
    """os-attach leaves its mode; a volume whose read-only flag was never set gets one, unset."""
    if attached is None:
        return {}
    return {'attached_mode': attached.mode.value, 'readonly': bool(volume.readonly)}


def _metadata_of_move(volume: sa.Row[Any], old: records.Attachment, event: _Event,
                      facts: Facts) -> dict[str, Any]:
    """The mode that os-attach left goes with the next attachment that ends, as in Cinder.

    What was only held, or was refused at its birth, has never been one.
    """
    if event is _Event.ATTACH:
        return _metadata_of_attach(volume, facts.attached)
    ends = event in (_Event.DISCONNECTED, _Event.RELEASE) and not old.hidden
    return {'attached_mode': None} if ends and volume.attached_mode is not None else {}


def _values(database: engine.Database, volume: sa.Row[Any], old: records.Attachment,
            event: _Event, target: _State, facts: Facts) -> dict[str, Any]:
    """The columns that a move writes."""
    values: dict[str, Any] = {
        'state': target.value, 'generation': old.generation + 1,
        'rank': attachment_lifecycle.rank_of(target, old.hidden),
        'previous_state': attachment_lifecycle.remembered(old.state, target, old.previous_state),
        'updated_at': database.clock.utcnow()}
    values |= _lease_values(facts.lease if target in attachment_lifecycle.TRANSITIONAL else None)
    if event is _Event.CONNECT:
        assert facts.connector is not None
        values |= _connector_values(volume, facts.connector, old.mode)
        if old.state is not _State.CONNECTING:
            values |= {'previous_connector': rows.to_json(old.connector or _place(old)),
                       'previous_initiator': old.initiator, 'previous_mode': old.mode}
    elif event is _Event.CONNECTED:
        values |= {'connection': rows.to_json(facts.connection), 'last_error': None,
                   'attached_at': values['updated_at'], **_NOTHING_BEFORE}
    elif event is _Event.ATTACH:
        assert facts.attached is not None
        values |= _attached_values(volume, facts.attached, values['updated_at'], old)
    elif event is _Event.REFUSED:
        values['last_error'] = facts.error
        if old.state is _State.CONNECTING:
            values |= _restored(old)
    elif event is _Event.FAILED:
        values['last_error'] = facts.error
    elif event is _Event.DISCONNECT and facts.error is not None:
        # Withdrawn: nobody knows it, so it must not come back as one that is used.
        values |= {'last_error': facts.error, 'previous_state': _State.ERROR_DETACHING.value}
    if target is _State.GONE:
        values |= {'slot': None, 'deleted': True, 'deleted_at': values['updated_at'],
                   'detached_at': values['updated_at']}
    return values


def _restored(old: records.Attachment) -> dict[str, Any]:
    """The connector, or the place that os-attach told, as it was before the refused one came."""
    before = old.previous_connector
    return {
        'connector': rows.to_json(before) if old.previous_initiator else None,
        'initiator': old.previous_initiator, 'mode': old.previous_mode,
        **_place_values(before), **_NOTHING_BEFORE}


def _attached_values(volume: sa.Row[Any], attached: Attached, now: datetime.datetime,
                     old: records.Attachment | None = None) -> dict[str, Any]:
    """os-attach tells everything at once; what was held hidden is seen from now on.

    :param old: the row that was held for it
    :raises InvalidVolume: it cannot be used in this mode
    """
    narrow = old is not None and volume.single_writer and old.mode is connections.AccessMode.RO
    if attached.mode is connections.AccessMode.RW and (volume.readonly or narrow):
        raise errors.InvalidVolume(
            f"Invalid attaching mode '{attached.mode}' for volume {volume.id}.")
    if old is not None and volume.attached_mode not in (None, attached.mode):
        raise errors.InvalidVolume(reason='being attached by different mode')
    values: dict[str, Any] = {'hidden': False, 'mode': attached.mode.value, 'attached_at': now,
                              'mountpoint': attached.mountpoint}
    if attached.instance_uuid is not None:
        values['instance_uuid'] = attached.instance_uuid
    if attached.host is not None:
        values['host'] = attached.host
    if old is not None and old.connector is not None:
        values['connector'] = rows.to_json({**old.connector, 'mountpoint': attached.mountpoint,
                                            'host': attached.host or old.host})
    return values


def _connector_values(volume: sa.Row[Any], connector: Mapping[str, Any],
                      stored: connections.AccessMode | None) -> dict[str, Any]:
    """A stored mode wins over the connector's; a read-only volume over both; else it is rw."""
    mode = stored or _mode_of(connector)
    if volume.readonly:
        mode = connections.AccessMode.RO
    return {
        'connector': rows.to_json({**connector, 'mode': mode.value}), 'mode': mode.value,
        'initiator': connections.initiator_of(connector), **_place_values(connector)}


def _place(row: records.Attachment) -> dict[str, Any] | None:
    """What os-attach told of a consumer whose connector nobody knows; None: it told nothing."""
    if row.mountpoint is None:
        return None
    return {'host': row.host, 'mountpoint': row.mountpoint}


def _place_values(connector: Mapping[str, Any] | None) -> dict[str, Any]:
    """Where the consumer uses it. A connector holds whatever its host sent; columns hold text."""
    if connector is None:
        return {'host': None, 'mountpoint': None}
    host, mountpoint = (
        value.replace('\0', '')[:rows.TEXT_LENGTH] if isinstance(value, str) else None
        for value in (connector.get('host'), connector.get('mountpoint')))
    return {'host': host or None, 'mountpoint': mountpoint or 'na'}


def _mode_of(connector: Mapping[str, Any]) -> connections.AccessMode:
    try:
        return connections.AccessMode(connector.get('mode') or connections.AccessMode.RW)
    except ValueError:
        raise errors.InvalidInput(
            reason='Invalid input received: the mode of the connector must be rw or '
                   'ro.') from None


def _lease_values(lease: Lease | None) -> dict[str, Any]:
    if lease is None:
        return {'owner': None, 'deadline': None}
    return {'owner': lease.owner, 'deadline': clock.now(lease.seconds)}


def _held(connection: sa.Connection, volume: sa.Row[Any],
          instance_uuid: str | None) -> multiattach.Held:
    """The volume and as many of its rows as the rule looks at."""
    another_writes = False
    if volume.single_writer:
        writers = sa.select(_rows.c.id).where(
            _rows.c.volume_id == volume.id, _rows.c.rank.is_not(None),
            _rows.c.mode == connections.AccessMode.RW.value)
        if instance_uuid is not None:
            writers = writers.where(sa.or_(_rows.c.instance_uuid.is_(None),
                                           _rows.c.instance_uuid != instance_uuid))
        another_writes = connection.execute(writers.limit(1)).first() is not None
    return multiattach.Held(
        volume.id, volume.own_status, volume.status, volume.multiattach,
        bootable=volume.bootable, taken=volume.lowest_rank is not None,
        readonly=bool(volume.readonly), single_writer=volume.single_writer,
        holders=() if volume.multiattach else _holders(connection, volume.id),
        another_writes=another_writes)


def _holders(connection: sa.Connection, volume_id: str) -> list[multiattach.Holder]:
    found = connection.execute(
        sa.select(_rows.c.instance_uuid, _rows.c.mode, _rows.c.slot)
        .where(_rows.c.volume_id == volume_id, _rows.c.rank.is_not(None))
        .order_by(_rows.c.created_at)).all()
    return [multiattach.Holder(row.instance_uuid, row.mode and connections.AccessMode(row.mode),
                               row.slot) for row in found]


def _lowest_rank(connection: sa.Connection, volume_id: str) -> int | None:
    return connection.execute(
        sa.select(sa.func.min(_rows.c.rank)).where(_rows.c.volume_id == volume_id)).scalar_one()


def _needed_by(row: records.Attachment) -> set[str]:
    """The initiators whose grants a row keeps alive."""
    if row.state is _State.GONE:
        return set()
    return {name for name in (row.initiator, row.previous_initiator) if name}


def _lock(connection: sa.Connection, volume_id: str,
          attachment_id: str) -> tuple[sa.Row[Any], records.Attachment]:
    """Lock the volume's row, then read the attachment.

    :raises AttachmentNotFound: either is gone
    """
    try:
        volume = volume_rows.lock(connection, volume_id)
    except errors.VolumeNotFound:
        raise errors.AttachmentNotFound(attachment_id=attachment_id) from None
    row = _select_one(connection, attachment_id)
    if row is None or row.deleted or row.volume_id != volume_id:
        raise errors.AttachmentNotFound(attachment_id=attachment_id)
    return volume, rows.attachment(row)


def _select_one(connection: sa.Connection, attachment_id: str) -> Any:
    return connection.execute(_rows.select().where(_rows.c.id == attachment_id)).one_or_none()
