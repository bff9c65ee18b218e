"""The actions on a volume that clients used before there were attachments.

They move the same attachment rows through the same table; there is no second way to a status. What
os-reserve holds is a row without a consumer, which no client sees and os-attach takes over.
"""
import dataclasses
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach import context
from blockattach import errors
from blockattach.control import attachments as attachment_control
from blockattach.db import attachment_queries
from blockattach.db import attachments
from blockattach.db import detaches
from blockattach.db import engine
from blockattach.domain import attachment_lifecycle
from blockattach.domain import connection
from blockattach.domain import detach_rule
from blockattach.domain import records
from blockattach.domain import volume_lifecycle

_Event = attachment_lifecycle.Event
_State = attachment_lifecycle.State
_Verb = detach_rule.Verb


@dataclasses.dataclass(frozen=True, slots=True)
class Consumer:
    """Whom os-attach names."""

    instance_uuid: str | None
    host: str | None
    mountpoint: str
    mode: connection.AccessMode


class LegacyControl:
    """One verb for each action; the caller has been checked already.

    ``forbidden_by``, where a verb may make a row: as `blockattach.domain.multiattach.admit` takes
    it, which raises NotAuthorized.
    """

    def __init__(self, database: engine.Database,
                 control: attachment_control.AttachmentControl) -> None:
        self._database = database
        self._control = control

    def reserve(self, caller: context.RequestContext, volume: records.Volume,
                forbidden_by: str | None = None) -> None:
        """Hold the volume for a consumer who will say later who he is.

        :raises InvalidVolume: it cannot be attached (once more)
        """
        self._hold(caller, volume, forbidden_by)

    def unreserve(self, caller: context.RequestContext, volume: records.Volume) -> None:
        """Let go of what was held; nothing held is fine, and what a host uses already stays."""
        rows = self._rows(volume)
        held = _free(rows) or (None if volume.multiattach else _hidden(rows))
        if held is not None:
            self._control.remove(caller, held)

    def begin_detaching(self, caller: context.RequestContext, volume: records.Volume) -> None:
        """Announce a detach; nothing happens to any attachment.

        :raises InvalidVolume: every attached one is announced already
        """
        detaches.announce(self._database, volume.id)

    def roll_detaching(self, caller: context.RequestContext, volume: records.Volume) -> None:
        """Take an announcement back; none is fine."""
        detaches.withdraw(self._database, volume.id)

    def initialize_connection(self, caller: context.RequestContext, volume: records.Volume,
                              connector: Mapping[str, Any],
                              forbidden_by: str | None = None) -> records.Attachment:
        """Let the host behind the connector in; repeat it as often as you like.

        :raises ConnectorUnusable: nothing was changed
        :raises BackendError: as `AttachmentControl.update`; what was held for it alone is let go
        """
        _refuse_in_maintenance(volume, 'initialize_connection for')
        found = self._to_connect(volume, connection.initiator_of(connector))
        if found is not None and found.initiator is not None and found.connection is not None:
            return found
        row = found or self._hold(caller, volume, forbidden_by)
        if row.mountpoint is not None:
            # os-attach has told it; clients of old leave it out here.
            connector = {'mountpoint': row.mountpoint, **connector}
        try:
            connected = self._control.connect(caller, row, connector)
        except errors.BackendError as exc:
            if found is None:
                self._control.remove(caller, row, force=True)
            raise _as_client_error(
                'Unable to fetch connection information from backend.', exc) from exc
        if row.state is _State.ATTACHED:
            return self._control.complete(caller, connected)
        return connected

    def _to_connect(self, volume: records.Volume, initiator: str) -> records.Attachment | None:
        """The row that a connector is about, best first.

        What is held and connected already; what is held for nobody; what the host uses; what
        os-attach made without a connector.
        """
        rows = self._rows(volume)
        live = [row for row in rows if row.state in (_State.CONNECTED, _State.ATTACHED)]
        same = [row for row in live if row.initiator == initiator]
        return _hidden(same) or _free(rows) or next(iter(same), None) or next(
            (row for row in live if row.initiator is None), None)

    def terminate_connection(self, caller: context.RequestContext, volume: records.Volume,
                             connector: Mapping[str, Any] | None) -> None:
        """Shut the host behind the connector out; without one, whoever is held or alone.

        Where several servers of a host share its connection, the connector does not tell which of
        them leaves. The host stays let in, and os-detach, which comes next, names the attachment.

        :raises AttachmentInUseByServer: Nova uses it, and the caller is no service
        """
        rows = self._rows(volume)
        if connector:
            found = self._given_up(volume, _behind(rows, connector))
        else:
            found = [row for row in rows if row.legacy_reservation] or rows
        self._control.rule.check_volume(caller, volume.id, found or rows, None,
                                        _Verb.TERMINATE)
        if len(found) == 1 and (found[0].legacy_reservation or found[0].initiator is not None):
            try:
                self._control.remove(caller, found[0], ruled=_Verb.TERMINATE)
            except errors.BackendError as exc:
                raise _as_client_error(
                    'Unable to terminate volume connection from backend.', exc) from exc

    def _given_up(self, volume: records.Volume,
                  rows: list[records.Attachment]) -> list[records.Attachment]:
        """Which of a host's rows can be meant when its connection is to end.

        What is held for a server that has not come yet has no name by which another action could
        end it, so that is meant before what is attached: unless somebody has announced a detach.
        """
        held = [row for row in rows if row.legacy_reservation]
        if len(rows) > 1 and held and not detaches.announced(self._database, volume.id):
            return held[:1]
        return rows

    def attach(self, caller: context.RequestContext, volume: records.Volume,
               consumer: Consumer, forbidden_by: str | None = None) -> None:
        """The consumer says that he uses the volume, and who he is.

        :raises InvalidVolume: it cannot be attached (once more), or not in this mode
        """
        _refuse_in_maintenance(volume, 'attach')
        if self._attached_to(volume, consumer) is not None:
            return
        held = _held_for(self._rows(volume), consumer)
        attached = attachments.Attached(consumer.instance_uuid, consumer.host, consumer.mountpoint,
                                        consumer.mode)
        if held is not None:
            self._adopt(caller, volume, held, attached)
        else:
            self._refuse_second(volume)
            self._control.moves.reserve(caller, attachments.Wish(
                volume.id, volume.project_id, attached=attached, forbidden_by=forbidden_by))

    def _adopt(self, caller: context.RequestContext, volume: records.Volume,
               held: records.Attachment, attached: attachments.Attached) -> None:
        new = self._control.moves.move(caller, held, _Event.ATTACH,
                                       attachments.Facts(attached=attached), held.generation)
        if new.connector is not None and held.mode is not new.mode:
            # Let in before he said how he uses it: the target follows what he said.
            self._control.connect(caller, new, new.connector)
            self._control.complete(caller, new)

    def detach(self, caller: context.RequestContext, volume: records.Volume,
               attachment_id: str | None) -> None:
        """End one attachment: the named one, else the only one.

        :raises InvalidInput: there are several, and none was named
        :raises AttachmentInUseByServer: Nova uses it, and the caller is no service
        """
        _refuse_in_maintenance(volume, 'detach')
        rows = [row for row in self._rows(volume) if not row.legacy_reservation]
        self._control.rule.check_volume(caller, volume.id, rows, attachment_id, _Verb.DETACH)
        for row in _named(rows, attachment_id):
            self._control.remove(caller, row, ruled=_Verb.DETACH)

    def force_detach(self, caller: context.RequestContext, volume: records.Volume,
                     attachment_id: str | None) -> None:
        """End one attachment whatever its state is and whether its backend answers; no other.

        :raises InvalidInput: there are several, and none was named
        """
        rows = self._rows(volume)
        verb = _Verb.FORCE_DETACH
        self._control.rule.check_volume(caller, volume.id, rows, attachment_id, verb)
        for row in _named(rows, attachment_id):
            self._control.remove(caller, row, force=True, ruled=verb)

    def _rows(self, volume: records.Volume) -> list[records.Attachment]:
        return attachment_queries.of_volume(self._database, volume.id, with_legacy=True)

    def _hold(self, caller: context.RequestContext, volume: records.Volume,
              forbidden_by: str | None) -> records.Attachment:
        return self._control.moves.reserve(caller, attachments.Wish(
            volume.id, volume.project_id, legacy_reservation=True, forbidden_by=forbidden_by))

    def _attached_to(self, volume: records.Volume,
                     consumer: Consumer) -> records.Attachment | None:
        """The same server, or (without one) the same host, is attached already."""
        for row in self._rows(volume):
            same = (row.instance_uuid == consumer.instance_uuid if consumer.instance_uuid
                    else row.instance_uuid is None and row.host == consumer.host)
            if row.state is _State.ATTACHED and same:
                return row
        return None

    def _refuse_second(self, volume: records.Volume) -> None:
        if not volume.multiattach and self._rows(volume):
            raise errors.InvalidVolume(
                reason='volume is already attached and multiple attachments are not enabled')


def _named(rows: Sequence[records.Attachment],
           attachment_id: str | None) -> list[records.Attachment]:
    """The attachment that is meant: the named one, if it is there, else the only one.

    :raises InvalidInput: there are several, and none was named
    """
    if attachment_id is None and len(rows) > 1:
        raise errors.InvalidInput(
            reason='Invalid volume: More than one attachment, but no attachment_id provided.')
    return [row for row in rows if attachment_id in (None, row.id)]


def _behind(rows: Sequence[records.Attachment],
            connector: Mapping[str, Any]) -> list[records.Attachment]:
    """The rows of the host that a connector is of: by its initiator, else by its name."""
    initiator, host = connector.get('initiator'), connector.get('host')
    if initiator:
        return [row for row in rows if row.initiator == initiator]
    return [row for row in rows if host and row.host == host]


def _hidden(rows: Sequence[records.Attachment]) -> records.Attachment | None:
    """The oldest that is held, connected or not."""
    return next((row for row in rows if row.legacy_reservation), None)


def _free(rows: Sequence[records.Attachment]) -> records.Attachment | None:
    """The oldest that is held and that no host uses."""
    return next((row for row in rows if row.legacy_reservation and row.initiator is None), None)


def _held_for(rows: Sequence[records.Attachment],
              consumer: Consumer) -> records.Attachment | None:
    """What is held for a consumer: what his host connected, else what nobody did, else any."""
    his = [row for row in rows if consumer.host is not None and row.host == consumer.host]
    return _hidden(his) or (_free(rows) if consumer.host is not None else None) or _hidden(rows)


def _refuse_in_maintenance(volume: records.Volume, verb: str) -> None:
    if volume.own_status == volume_lifecycle.OwnStatus.MAINTENANCE:
        raise errors.InvalidVolume(
            reason=f'Unable to {verb} volume {volume.id}: it is in maintenance.')


def _as_client_error(sentence: str, exc: errors.BackendError) -> errors.BackendError:
    """The failure in the words that clients of old know; its kind stays."""
    kind = errors.BackendRefused if exc.final else errors.BackendUncertain
    return kind(reason=sentence)
