"""Computation of the columns that an event of an attachment writes.

These are columns of the attachment, of its volume and of the history. The functions do not access
the database.
"""
import dataclasses
import datetime
from collections.abc import Mapping
from typing import Any

from blockattach.platform import context
from blockattach.platform.db import clock
from blockattach.storage import errors
from blockattach.storage.db import rows
from blockattach.storage.db.attachments import pairs
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import connection as connections
from blockattach.storage.domain import importing
from blockattach.storage.domain import multiattach
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

_State = attachment_lifecycle.State
_Event = attachment_lifecycle.Event
DETACHED = volume_lifecycle.RANK_STATUSES[None].attach_status
"""Attach status of a volume without live attachments."""
_OF_EVENT = ('attachment_id', 'generation', 'volume_id', 'project_id', 'instance_uuid', 'host',
             'created_at')
_NOTHING_BEFORE = {'previous_connector': None, 'previous_initiator': None, 'previous_mode': None}


Caller = context.RequestContext | None
"""Caller that the history names as the cause of an event; None for the service itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """Requested properties of a new attachment.

    An attachment with a connector is created as connecting, with an owner and a deadline.

    :ivar project_id: project that owned the volume when the request was authorized
    :ivar legacy_reservation: True for a request of os-reserve, which names no consumer
    :ivar attached: consumer that a request of os-attach names; None for other requests. The
        attachment is created in the state attached
    :ivar forbidden_by: see `blockattach.storage.domain.multiattach.admit`
    :ivar expected: precondition, if the caller has read it already; None otherwise
    """

    volume_id: str
    project_id: str
    instance_uuid: str | None = None
    mode: connections.AccessMode | None = None
    connector: Mapping[str, Any] | None = None
    legacy_reservation: bool = False
    attached: 'Attached | None' = None
    forbidden_by: str | None = None
    expected: pairs.Precondition | None = dataclasses.field(
        default=None, compare=False, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Attached:
    """Consumer that a request of os-attach names."""

    instance_uuid: str | None
    host: str | None
    mountpoint: str
    mode: connections.AccessMode


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """Arguments of an event of an attachment. The event determines which arguments are needed.

    :ivar lease_seconds: seconds until the deadline of the volume service for its work on the
        attachment
    :ivar error: reason of a failure, or of the rollback of an attachment
    """

    connector: Mapping[str, Any] | None = None
    lease_seconds: float | None = None
    connection: Mapping[str, Any] | None = None
    error: str | None = None
    attached: Attached | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """Columns that an event of an attachment writes.

    :ivar values: columns of the attachment
    :ivar of_volume: columns of the volume whose values change
    :ivar derived: statuses of the volume after the event
    :ivar reads_others: True if the change depends on the rows of other attachments of the volume
    :ivar event: columns of the new row in the history
    """

    values: dict[str, Any]
    of_volume: dict[str, Any]
    derived: volume_lifecycle.Derived
    reads_others: bool
    event: dict[str, Any]


def insert_values(expected: pairs.Precondition, wish: Wish, lease_seconds: float,
                  now: datetime.datetime, new_id: str, caller: Caller = None) -> Change:
    """Return the columns of a new attachment and the changed columns of its volume.

    :param lease_seconds: see `Facts`; used only if the request has a connector
    :raises InvalidVolume: `multiattach.admit` refuses the attachment, os-attach requests a mode
        that the volume does not allow, or a host is to be connected while the volume is
        downloading an image
    :raises NotAuthorized: `multiattach.admit` forbids the attachment
    :raises ConnectorUnusable: the connector has no valid initiator
    :raises InvalidInput: the mode of the connector is neither rw nor ro
    """
    state = _initial_state(wish)
    volume, mode = expected.volume, wish.attached.mode if wish.attached else wish.mode
    admission = multiattach.admit(volume, expected.holders, expected.another_writes,
                                  expected.instance_uuid, mode, wish.forbidden_by)
    values: dict[str, Any] = {
        'id': new_id, 'created_at': now,
        'volume_id': wish.volume_id, 'project_id': wish.project_id,
        'instance_uuid': expected.instance_uuid, 'state': state.value, 'generation': 1,
        'rank': attachment_lifecycle.rank_of(state, wish.legacy_reservation),
        'slot': admission.slot, 'mode': admission.mode,
        'legacy_reservation': wish.legacy_reservation}
    if wish.attached is not None:
        values |= _attached_values(volume, wish.attached, now)
    if wish.connector is not None:
        values |= _connector_values(volume, wish.connector, admission.mode)
        values |= _lease_values(volume, lease_seconds)
    return _change(volume, values, None, volume.detach_announced, now,
                   _metadata_of_attach(volume, wish.attached), expected.reads_others,
                   _event({**values, 'attachment_id': new_id}, attachment_lifecycle.CREATE, None,
                          caller))


def update_values(old: records.Attachment, event: attachment_lifecycle.Event, facts: Facts,
                  now: datetime.datetime, caller: Caller = None) -> Change:
    """Return the columns that an event writes to an attachment and to its volume.

    :param old: the attachment before the event, with the facts of its volume
    :raises InvalidTransition: the state of the attachment does not allow the event
    :raises InvalidVolume: the volume cannot be attached by os-attach in the requested mode, or a
        host is to be connected while the volume is downloading an image
    :raises ConnectorUnusable: the connector has no valid initiator
    :raises InvalidInput: the mode of the connector is neither rw nor ro
    """
    volume = old.volume
    assert volume is not None
    target = attachment_lifecycle.next_state(old.state, event, old.previous_state)
    # The initiator of an attachment may have access at the target. Only a disconnect revokes this
    # access.
    if event is _Event.RELEASE and old.initiator is not None:
        raise errors.InvalidTransition(state=old.state.value, event=event.value,
                                       allowed=_Event.DISCONNECT.value)
    values = _values(volume, old, event, target, facts, now)
    # When a detach starts, the number of announced detaches is decremented. The number may be 0,
    # because a client can delete an attachment without os-begin_detaching.
    leaves = old.state is _State.ATTACHED and target in (_State.DISCONNECTING, _State.GONE)
    return _change(
        volume, values, attachment_lifecycle.rank_of(old.state, old.legacy_reservation),
        max(volume.detach_announced - leaves, 0), now,
        _metadata_of_move(volume, old, event, facts), event is _Event.ATTACH,
        _event({'attachment_id': old.id, 'volume_id': old.volume_id,
                'project_id': old.project_id, 'instance_uuid': old.instance_uuid,
                'host': old.host, 'created_at': now, **values}, event.value, old.state, caller,
               facts.error))


def connected(row: records.Attachment, connection: Mapping[str, Any],
              at: datetime.datetime) -> records.Attachment:
    """Return the record of an attachment after its host was connected.

    :param row: the attachment in the state connecting
    :param connection: connection that the volume service has stored
    :param at: time at which the volume service stored the connection
    """
    return rows.attachment_with(row, _moved(row, _State.CONNECTED, None, at) | _connected_values(
        connection, at))


def imported_values(attachment_id: str, volume_id: str, project_id: str,
                    instance_uuid: str | None, taken: importing.Taken, slot: int | None,
                    host: str | None, mountpoint: str | None,
                    attached_at: datetime.datetime | None,
                    created_at: datetime.datetime) -> dict[str, Any]:
    """Return the columns of an attachment that is imported from another service.

    Columns of the volume are not included, because they depend on all attachments of the volume.
    """
    location = {'host': host, 'mountpoint': mountpoint} if taken.connector is None \
        else _location_values(taken.connector)
    return {
        'id': attachment_id, 'volume_id': volume_id, 'project_id': project_id,
        'instance_uuid': instance_uuid, 'state': taken.state.value, 'generation': 1,
        'rank': attachment_lifecycle.rank_of(taken.state, False), 'slot': slot,
        'mode': None if taken.mode is None else taken.mode.value, 'legacy_reservation': False,
        'connector': rows.to_json(taken.connector), 'connection': rows.to_json(taken.connection),
        'initiator': None if taken.connector is None
        else connections.initiator_of(taken.connector),
        **location, 'attached_at': attached_at, 'created_at': created_at}


def _change(volume: records.VolumeFacts, values: dict[str, Any], before: int | None,
            announced: int, now: datetime.datetime, metadata: Mapping[str, Any],
            reads_others: bool, event: dict[str, Any]) -> Change:
    """Return the change for the given columns of an attachment, with the columns of its volume.

    :param values: columns of the attachment
    :param before: rank of the attachment before the change; None for a new attachment
    :param announced: number of announced detaches of the volume after the change
    :param metadata: further columns of the volume
    :param reads_others: True if ``values`` depend on the rows of other attachments
    """
    # The ranks of the other attachments matter only if this attachment had the lowest rank and its
    # rank rises. Otherwise the lowest rank in the volume is enough, and changes that do not alter
    # the lowest rank do not conflict.
    lowest_before, after = volume.lowest_rank, values['rank']
    not_the_lowest = (lowest_before is not None and before is not None
                      and before > lowest_before)
    lowers = before is None or (after is not None and after <= before)
    others = lowest_before if not_the_lowest or lowers else volume.others_lowest
    lowest = min(filter(None, (others, after)), default=None)
    if lowest is None:
        # If an attachment has ended without its announced detach, the announcement must not apply
        # to an attachment that is created later.
        announced = 0
    derived = volume_lifecycle.derive_status(volume.own_status, lowest, announced > 0)
    follows = {'lowest_rank': lowest, 'detach_announced': announced, **derived._asdict()}
    written: dict[str, Any] = {name: value for name, value in follows.items()
                               if getattr(volume, name) != value}
    written |= metadata
    if written:
        written['updated_at'] = now
    return Change(values, written, derived, reads_others or not (not_the_lowest or lowers), event)


def _event(after: Mapping[str, Any], event: str, old_state: _State | None, caller: Caller,
           reason: str | None = None) -> dict[str, Any]:
    return {
        **{name: after.get(name) for name in _OF_EVENT},
        'event': event, 'old_state': old_state.value if old_state else None,
        'new_state': after['state'], 'reason': reason,
        'user_id': caller.user_id if caller else None,
        'request_id': caller.request_id if caller else None}


def _initial_state(wish: Wish) -> _State:
    if wish.attached is not None:
        return _State.ATTACHED
    return _State.RESERVED if wish.connector is None else _State.CONNECTING


def _metadata_of_attach(volume: records.VolumeFacts, attached: Attached | None) -> dict[str, Any]:
    if attached is None:
        return {}
    # Like Cinder, os-attach also sets the read-only flag to False if it was never set.
    return {'attached_mode': attached.mode.value, 'readonly': bool(volume.readonly)}


def _metadata_of_move(volume: records.VolumeFacts, old: records.Attachment, event: _Event,
                      facts: Facts) -> dict[str, Any]:
    if event is _Event.ATTACH:
        return _metadata_of_attach(volume, facts.attached)
    # As in Cinder, the mode of os-attach is removed when the next attachment ends. The end of a
    # legacy reservation, or of a new attachment whose connect was refused, does not count.
    ends = event in (_Event.DISCONNECTED, _Event.RELEASE) and not old.legacy_reservation
    return {'attached_mode': None} if ends and volume.attached_mode is not None else {}


def _moved(old: records.Attachment, target: _State, lease: Mapping[str, Any] | None,
           now: datetime.datetime) -> dict[str, Any]:
    """Return the columns of an attachment that every state change writes.

    :param target: state after the change
    :param lease: columns of the owner and the deadline; None to set both to NULL
    """
    return {
        'state': target.value, 'generation': old.generation + 1,
        'rank': attachment_lifecycle.rank_of(target, old.legacy_reservation),
        'previous_state': attachment_lifecycle.remembered(old.state, target, old.previous_state),
        'updated_at': now, **(lease or {'owner': None, 'deadline': None})}


def _connected_values(connection: Mapping[str, Any] | None,
                      now: datetime.datetime) -> dict[str, Any]:
    return {'connection': rows.to_json(connection), 'last_error': None, 'attached_at': now,
            **_NOTHING_BEFORE}


def _values(volume: records.VolumeFacts, old: records.Attachment, event: _Event, target: _State,
            facts: Facts, now: datetime.datetime) -> dict[str, Any]:
    lease = None
    if target in attachment_lifecycle.TRANSITIONAL and facts.lease_seconds is not None:
        lease = _lease_values(volume, facts.lease_seconds)
    values = _moved(old, target, lease, now)
    if event is _Event.CONNECT:
        assert facts.connector is not None
        values |= _connector_values(volume, facts.connector, old.mode)
        # A refusal restores the connector from before the first connect. So a repeated connect
        # does not replace that connector.
        if old.state is not _State.CONNECTING:
            values |= {'previous_connector': rows.to_json(old.connector or _legacy_location(old)),
                       'previous_initiator': old.initiator, 'previous_mode': old.mode}
    elif event is _Event.CONNECTED:
        values |= _connected_values(facts.connection, now)
    elif event is _Event.ATTACH:
        assert facts.attached is not None
        values |= _attached_values(volume, facts.attached, now, old)
    elif event is _Event.REFUSED:
        values['last_error'] = facts.error
        if old.state is _State.CONNECTING:
            values |= _restored(old)
    elif event is _Event.FAILED:
        values['last_error'] = facts.error
    elif event is _Event.DISCONNECT and facts.error is not None:
        # The attachment is being rolled back. No client knows the attachment. So a refusal of the
        # disconnect must not make the attachment attached again.
        values |= {'last_error': facts.error, 'previous_state': _State.ERROR_DETACHING.value}
    if target is _State.GONE:
        values |= {'slot': None, 'deleted': True, 'deleted_at': now, 'detached_at': now}
    return values


def _restored(old: records.Attachment) -> dict[str, Any]:
    # An attachment of os-attach has no connector. Its location was stored in place of the
    # connector, see `_legacy_location`.
    before = old.previous_connector
    return {
        'connector': rows.to_json(before) if old.previous_initiator else None,
        'initiator': old.previous_initiator, 'mode': old.previous_mode,
        **_location_values(before), **_NOTHING_BEFORE}


def _attached_values(volume: records.VolumeFacts, attached: Attached, now: datetime.datetime,
                     old: records.Attachment | None = None) -> dict[str, Any]:
    """Return the columns of an attachment that os-attach sets.

    :param old: existing attachment that os-attach completes; None for a new attachment
    :raises InvalidVolume: the volume cannot be attached in the requested mode
    """
    narrow = old is not None and volume.single_writer and old.mode is connections.AccessMode.RO
    if attached.mode is connections.AccessMode.RW and (volume.readonly or narrow):
        raise errors.InvalidVolume(
            f"Invalid attaching mode '{attached.mode}' for volume {volume.id}.")
    if old is not None and volume.attached_mode not in (None, attached.mode):
        raise errors.InvalidVolume(reason='being attached by different mode')
    values: dict[str, Any] = {'legacy_reservation': False, 'mode': attached.mode.value,
                              'attached_at': now, 'mountpoint': attached.mountpoint}
    if attached.instance_uuid is not None:
        values['instance_uuid'] = attached.instance_uuid
    if attached.host is not None:
        values['host'] = attached.host
    if old is not None and old.connector is not None:
        values['connector'] = rows.to_json({**old.connector, 'mountpoint': attached.mountpoint,
                                            'host': attached.host or old.host})
    return values


def _connector_values(volume: records.VolumeFacts, connector: Mapping[str, Any],
                      stored: connections.AccessMode | None) -> dict[str, Any]:
    """Return the columns of an attachment that depend on its connector.

    The access mode is ro for a read-only volume. For any other volume, it is ``stored``, or else
    the mode of the connector, or else rw.

    :param stored: access mode of the attachment; None if the connector may set the mode
    :raises ConnectorUnusable: the connector has no valid initiator
    :raises InvalidInput: the mode of the connector is neither rw nor ro
    :raises InvalidVolume: the volume is downloading an image, so that no host may read its data
    """
    if volume.own_status == volume_lifecycle.OwnStatus.DOWNLOADING:
        raise errors.InvalidVolume(
            reason=f'Volume {volume.id} is downloading an image. Retry when the volume is '
                   f'available.')
    mode = stored or _mode_of(connector)
    if volume.readonly:
        mode = connections.AccessMode.RO
    return {
        'connector': rows.to_json(connections.masked({**connector, 'mode': mode.value})),
        'mode': mode.value,
        'initiator': connections.initiator_of(connector), **_location_values(connector)}


def _legacy_location(row: records.Attachment) -> dict[str, Any] | None:
    """Return host and mountpoint of an attachment that os-attach has created without a connector.

    :returns: the location; None if the attachment has no mountpoint
    """
    if row.mountpoint is None:
        return None
    return {'host': row.host, 'mountpoint': row.mountpoint}


def _location_values(connector: Mapping[str, Any] | None) -> dict[str, Any]:
    if connector is None:
        return {'host': None, 'mountpoint': None}
    # A connector may contain any JSON value. The columns hold text of limited length, and
    # PostgreSQL refuses the character NUL in a text.
    host, mountpoint = (
        value.replace('\0', '')[:rows.TEXT_LENGTH] if isinstance(value, str) else None
        for value in (connector.get('host'), connector.get('mountpoint')))
    # Cinder stores 'na' if the connector names no mountpoint.
    return {'host': host or None, 'mountpoint': mountpoint or 'na'}


def _mode_of(connector: Mapping[str, Any]) -> connections.AccessMode:
    try:
        return connections.AccessMode(connector.get('mode') or connections.AccessMode.RW)
    except ValueError:
        raise errors.InvalidInput(
            reason='Invalid input received: connector: mode must be rw or ro.') from None


def _lease_values(volume: records.VolumeFacts, seconds: float) -> dict[str, Any]:
    return {'owner': volume.host, 'deadline': clock.Later(seconds)}
