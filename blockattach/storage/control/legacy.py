"""Volume actions that clients used before the attachments API.

The actions apply the same events to the same attachment records as the attachments API. The status
of the volume is derived from these records, and no action sets the status directly.

os-reserve creates a *legacy reservation*, which is an attachment that names no server or host. The
attachments API does not show legacy reservations. os-attach turns a legacy reservation into the
attachment of a server or a host.
"""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.platform import context
from blockattach.storage import errors
from blockattach.storage.control import attachments as attachment_control
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import detaches
from blockattach.storage.db.volumes import resets
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.domain import detach_rule
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

_Event = attachment_lifecycle.Event
_State = attachment_lifecycle.State
_Verb = detach_rule.Verb


class LegacyControl:
    """Volume actions for an authorized caller, with one method for each action.

    The methods that may create an attachment have an argument ``forbidden_by``. If it is not None,
    they raise NotAuthorized for a further attachment of a bootable multiattach volume
    (`blockattach.storage.domain.multiattach.admit`).
    """

    def __init__(self, control: attachment_control.AttachmentControl) -> None:
        self._database = control.backend.database
        self._control = control

    def reserve(self, caller: context.RequestContext, volume: records.Volume,
                forbidden_by: str | None = None) -> records.Attachment:
        """Create a legacy reservation of a volume (os-reserve).

        :raises InvalidVolume: the volume does not allow another attachment
        """
        return self._control.backend.reserve(caller, attachments.Wish(
            volume.id, volume.project_id, legacy_reservation=True, forbidden_by=forbidden_by))

    def unreserve(self, caller: context.RequestContext, volume: records.Volume) -> None:
        """Delete a legacy reservation of a volume (os-unreserve).

        The oldest reservation that no host uses is deleted. If hosts use all reservations and the
        volume is not multiattach, the oldest reservation is deleted. Otherwise nothing changes.
        """
        rows = self._rows(volume)
        # In a multiattach volume, another client may have created the connected reservation.
        reserved = _unconnected(rows) or (None if volume.multiattach else _reservation(rows))
        if reserved is not None:
            self._control.remove(caller, reserved)

    def begin_detaching(self, caller: context.RequestContext, volume: records.Volume) -> None:
        """Announce the detach of an attachment (os-begin_detaching).

        This sets the volume to ``detaching`` and changes no attachment.

        :raises InvalidVolume: the volume has no more attachments in use than announced detaches
        """
        detaches.announce(self._database, volume)

    def roll_detaching(self, caller: context.RequestContext, volume: records.Volume) -> None:
        """Withdraw the announcement of one detach, if any (os-roll_detaching)."""
        detaches.cancel(self._database, volume)

    def initialize_connection(self, caller: context.RequestContext, volume: records.Volume,
                              connector: Mapping[str, Any],
                              forbidden_by: str | None = None) -> records.Attachment:
        """Connect the host of a connector to a volume (os-initialize_connection).

        The host uses an existing attachment (`_to_connect`), or else a new legacy reservation. If
        the action is repeated, the stored connection is returned.

        :returns: the attachment with its connection
        :raises InvalidVolume: the volume is in maintenance, or does not allow another attachment
        :raises ConnectorUnusable: the connector has no usable initiator; nothing was changed
        :raises BackendError: the host was not connected, and a reservation that this call created
            was deleted
        """
        _refuse_in_maintenance(volume, 'initialize_connection for')
        found = self._to_connect(volume, connection.initiator_of(connector))
        if found is not None and found.initiator is not None and found.connection is not None:
            # A repeated call returns the stored connection and does not call the backend.
            return found
        row = found or self.reserve(caller, volume, forbidden_by)
        if row.mountpoint is not None:
            # os-attach has stored the mountpoint, and old clients do not send it again here.
            connector = {'mountpoint': row.mountpoint, **connector}
        try:
            connected = self._control.connect(caller, row, connector)
        except errors.BackendError as exc:
            if found is None:
                # The deletion is forced, because the backend may fail again.
                self._control.remove(caller, row, force=True)
            raise self._control.backend.client_error(
                'Unable to fetch connection information from backend', exc,
                detailed=False) from exc
        if row.state is _State.ATTACHED:
            # The state is ``connected`` now, and legacy clients do not repeat os-attach.
            return self._control.complete(caller, connected)
        return connected

    def _to_connect(self, volume: records.Volume, initiator: str) -> records.Attachment | None:
        """Return the attachment for the connection of an initiator.

        The first of these attachments that exists is returned:

        1. a legacy reservation that the host of the initiator uses
        2. a legacy reservation that no host uses
        3. another attachment that the host of the initiator uses
        4. an attachment that os-attach has created without a connector

        :returns: None if none of them exists
        """
        rows = self._rows(volume)
        live = [row for row in rows if row.state in (_State.CONNECTED, _State.ATTACHED)]
        same = [row for row in live if connection.is_same_node(row.initiator, initiator)]
        unnamed = [row for row in live if row.initiator is None]
        return (_reservation(same) or _unconnected(rows)
                or next(iter([*same, *unnamed]), None))

    def terminate_connection(self, caller: context.RequestContext, volume: records.Volume,
                             connector: Mapping[str, Any] | None) -> None:
        """Disconnect the host of a connector, and delete its attachment (os-terminate_connection).

        If several servers of a host use the volume, the connector does not identify the server.
        Nothing is deleted then, and the host stays connected until os-detach names an attachment.

        :param connector: connector of the host. None for the only legacy reservation, or for the
            only attachment if there is no legacy reservation
        :raises AttachmentInUseByServer: Nova uses the attachment, and the caller is not a service
        """
        rows = self._rows(volume)
        if connector:
            found = self._meant_to_end(volume, _behind(rows, connector))
        else:
            found = [row for row in rows if row.legacy_reservation] or rows
        self._control.rule.check_volume(caller, volume.id, found or rows, None,
                                        _Verb.TERMINATE)
        # An attachment without an initiator has no connection. It is deleted by os-detach.
        if len(found) == 1 and (found[0].legacy_reservation or found[0].initiator is not None):
            try:
                self._control.remove(caller, found[0], ruled=_Verb.TERMINATE)
            except errors.BackendError as exc:
                raise self._control.backend.client_error(
                    'Unable to terminate volume connection from backend', exc,
                    detailed=False) from exc

    def _meant_to_end(self, volume: records.Volume,
                      rows: list[records.Attachment]) -> list[records.Attachment]:
        """Return the attachments of a host that terminate_connection may delete.

        Clients delete the attachments that remain by os-detach.

        :param rows: attachments of the host
        :returns: the oldest legacy reservation, if the host also has another attachment and no
            detach is announced; otherwise ``rows``
        """
        reserved = [row for row in rows if row.legacy_reservation]
        if len(rows) > 1 and reserved and not detaches.announced(self._database, volume.id):
            return reserved[:1]
        return rows

    def attach(self, caller: context.RequestContext, volume: records.Volume,
               consumer: attachments.Attached, forbidden_by: str | None = None) -> None:
        """Attach a volume to a server or a host (os-attach).

        A legacy reservation is used if there is one. Otherwise a new attachment is created.

        :param consumer: server or host, with the mountpoint and the access mode
        :raises InvalidVolume: the volume does not allow another attachment, or does not allow the
            access mode
        """
        _refuse_in_maintenance(volume, 'attach')
        rows = self._rows(volume)
        if any(_is_attached_to(row, consumer) for row in rows):
            # As in Cinder, os-attach may be repeated for the same server or host.
            return
        reserved = _reservation_for(rows, consumer)
        if reserved is not None:
            self._adopt(caller, reserved, consumer)
        elif rows and not volume.multiattach:
            raise errors.InvalidVolume(
                reason='volume is already attached and multiple attachments are not enabled')
        else:
            # As in Cinder, os-attach does not require os-reserve.
            self._control.backend.reserve(caller, attachments.Wish(
                volume.id, volume.project_id, attached=consumer, forbidden_by=forbidden_by))

    def _adopt(self, caller: context.RequestContext, reserved: records.Attachment,
               consumer: attachments.Attached) -> None:
        new = self._control.backend.move(caller, reserved, _Event.ATTACH,
                                       attachments.Facts(attached=consumer), reserved.generation)
        if new.connector is not None and reserved.mode is not new.mode:
            # The host was connected before os-attach stated the mode, so the grant is changed.
            self._control.connect(caller, new, new.connector)
            self._control.complete(caller, new)

    def detach(self, caller: context.RequestContext, volume: records.Volume,
               attachment_id: str | None) -> None:
        """Delete an attachment of a volume (os-detach).

        Nothing changes if the named attachment is already deleted, because clients call
        os-terminate_connection before os-detach.

        :param attachment_id: None for the only attachment
        :raises InvalidVolume: the volume is in maintenance
        :raises InvalidInput: the attachment belongs to another volume
        :raises AttachmentNotNamed: ``attachment_id`` is None and the volume has several
            attachments, or no visible attachment has this ID. A service gets InvalidInput in the
            first case, and no error in the second case
        :raises AttachmentInUseByServer: Nova uses the attachment, and the caller is not a service
        """
        _refuse_in_maintenance(volume, 'detach')
        if attachment_id is not None and self._has_ended(volume, attachment_id):
            return
        # Legacy reservations are deleted by os-unreserve. Another client may have created them.
        rows = [row for row in self._rows(volume) if not row.legacy_reservation]
        self._detach(caller, volume, rows, attachment_id, _Verb.DETACH)

    def _has_ended(self, volume: records.Volume, attachment_id: str) -> bool:
        try:
            row = attachment_queries.get_even_deleted(self._database, attachment_id)
        except errors.AttachmentNotFound:
            return False
        return row.volume_id == volume.id and row.state is _State.GONE

    def force_detach(self, caller: context.RequestContext, volume: records.Volume,
                     attachment_id: str | None) -> None:
        """Delete an attachment regardless of its state and of backend errors (os-force_detach).

        A volume in an error status, or in a status that os-reset_status has set, then gets the
        status that follows from its remaining attachments.

        :param attachment_id: None for the only attachment
        :raises InvalidInput, AttachmentNotNamed, AttachmentInUseByServer: as for `detach`
        """
        self._detach(caller, volume, self._rows(volume), attachment_id, _Verb.FORCE_DETACH)
        resets.clear(self._database, volume.id, volume.project_id)

    def _detach(self, caller: context.RequestContext, volume: records.Volume,
                rows: Sequence[records.Attachment], attachment_id: str | None,
                verb: detach_rule.Verb) -> None:
        self._control.rule.check_volume(caller, volume.id, rows, attachment_id, verb)
        if attachment_id is None and len(rows) > 1:
            raise errors.InvalidInput(
                reason='Invalid volume: More than one attachment, but no attachment_id provided.')
        for row in rows:
            if attachment_id in (None, row.id):
                self._control.remove(caller, row, verb is _Verb.FORCE_DETACH, verb)

    def _rows(self, volume: records.Volume) -> list[records.Attachment]:
        return attachment_queries.of_volume(self._database, volume.id, with_legacy=True)


def _is_attached_to(row: records.Attachment, consumer: attachments.Attached) -> bool:
    """Return True if the volume is already attached to the server or host that os-attach names.

    If os-attach names only a host, the attachment must have this host and no server.
    """
    same = (row.instance_uuid == consumer.instance_uuid if consumer.instance_uuid
            else row.instance_uuid is None and row.host == consumer.host)
    return row.state is _State.ATTACHED and same


def _behind(rows: Sequence[records.Attachment],
            connector: Mapping[str, Any]) -> list[records.Attachment]:
    """Return the attachments of the host of a connector.

    The attachments are found by the initiator of the connector, or by its host name if it has no
    initiator.
    """
    initiator, host = connector.get('initiator'), connector.get('host')
    if initiator:
        return [row for row in rows if isinstance(initiator, str)
                and connection.is_same_node(row.initiator, initiator)]
    return [row for row in rows if host and row.host == host]


def _reservation(rows: Sequence[records.Attachment]) -> records.Attachment | None:
    """Return the oldest legacy reservation, or None if there is none."""
    return next((row for row in rows if row.legacy_reservation), None)


def _unconnected(rows: Sequence[records.Attachment]) -> records.Attachment | None:
    """Return the oldest legacy reservation that no host uses, or None if there is none."""
    return next((row for row in rows if row.legacy_reservation and row.initiator is None), None)


def _reservation_for(rows: Sequence[records.Attachment],
                     consumer: attachments.Attached) -> records.Attachment | None:
    """Return the legacy reservation that os-attach turns into an attachment.

    If os-attach names a host, a reservation that this host uses is preferred, and then a
    reservation that no host uses. Otherwise the oldest reservation is returned.

    :returns: None if there is no legacy reservation
    """
    by_host = None if consumer.host is None else (
        _reservation([row for row in rows if row.host == consumer.host]) or _unconnected(rows))
    return by_host or _reservation(rows)


def _refuse_in_maintenance(volume: records.Volume, verb: str) -> None:
    if volume.own_status == volume_lifecycle.OwnStatus.MAINTENANCE:
        raise errors.InvalidVolume(
            reason=f'Unable to {verb} volume {volume.id}: the volume is in maintenance.')
