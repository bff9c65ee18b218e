"""Attachment operations: create, update, complete and delete.

Each operation first stores its intent, then calls the volume service. The volume service stores
the connection and returns it.
"""
from collections.abc import Mapping
from typing import Any

from blockattach.platform import context
from blockattach.platform import failpoints
from blockattach.platform import idempotency
from blockattach.storage import errors
from blockattach.storage.control import backend_calls
from blockattach.storage.control import detach_rule
from blockattach.storage.control import repeats
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.volumes import resets
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import records

_Event = attachment_lifecycle.Event
_Verb = detach_rule.Verb
_State = attachment_lifecycle.State


class AttachmentControl:
    """Attachment operations for an authorized caller."""

    def __init__(self, backend: backend_calls.BackendCalls, repeats: repeats.Repeats,
                 rule: detach_rule.DetachRule) -> None:
        self.backend = backend
        self.rule = rule
        self._repeats = repeats
        self._database = backend.database
        self._telemetry = backend.telemetry

    def create(self, caller: context.RequestContext,
               volume: records.Volume | records.VolumeFacts, wish: attachments.Wish,
               request: idempotency.Request | None = None) -> records.Attachment:
        """Create an attachment. If a connector is given, also grant access to its host.

        :param request: idempotency key; repeated requests create only one attachment
        :raises InvalidVolume: the volume does not allow another attachment
        :raises ConnectorUnusable: the connector has no usable initiator; nothing was stored
        :raises BackendError: the attachment was not created, or (uncertain) is being removed
        """
        with self._telemetry.verb('attachments.create'):
            if request is None:
                return self._create(caller, volume, wish)
            return self._repeats.once(
                request, lambda within: self._create(caller, volume, wish, within),
                self._repeats.attachment)

    def _create(self, caller: context.RequestContext,
                volume: records.Volume | records.VolumeFacts, wish: attachments.Wish,
                within: repeats.Within | None = None) -> records.Attachment:
        with self.backend.slot(None if wish.connector is None else volume.host):
            with self._telemetry.attaching('reserve'):
                made = self.backend.reserve(caller, wish, within)
            failpoints.point('control.attachments.after_reserve')
            if wish.connector is None:
                return made
            try:
                return self.backend.connect(caller, made,
                                            'Unable to create attachment for volume')
            except Exception as exc:
                now = self.backend.roll_back(caller, made, exc)
                if now is None:
                    raise
                return now

    def update(self, caller: context.RequestContext, attachment: records.Attachment,
               connector: Mapping[str, Any]) -> records.Attachment:
        """Update an attachment with a connector, and connect the host.

        :raises VolumeInError: the volume itself is in an error status
        :raises DuplicateConnectors: another host is connected to the volume, which is not
            multiattach
        :raises ConnectorUnusable: the connector is not usable; nothing was changed
        :raises AttachmentInUseByServer: the access of a server would move; nothing was changed
        :raises BackendError: the attachment is in its former state, or (uncertain) still
            connecting
        """
        with self._telemetry.verb('attachments.update'):
            volume = attachment.volume
            if volume is None:
                attachment = attachment_queries.get(self._database, attachment.id)
                volume = attachment.volume
            assert volume is not None
            if 'error' in volume.own_status:
                raise errors.VolumeInError(volume_id=volume.id, status=volume.status)
            # Cinder needs the host as well, and answers HTTP 500 without it.
            if not isinstance(connector.get('host'), str) or not connector['host']:
                raise errors.ConnectorUnusable(missing='host')
            # The query is needed only if the volume has another attachment.
            if not volume.multiattach and volume.others_lowest is not None and (
                    attachment_queries.are_others_connected(self._database, attachment)):
                raise errors.DuplicateConnectors(volume_id=volume.id)
            return self.connect(caller, attachment, connector, _Verb.UPDATE)

    def connect(self, caller: context.RequestContext, attachment: records.Attachment,
               connector: Mapping[str, Any],
               ruled: detach_rule.Verb | None = None) -> records.Attachment:
        """Connect the host of an attachment in any state.

        :param ruled: verb of the detach rule if access may move to another initiator; the rule is
            checked again if the attachment has changed since. None if access cannot move
        :raises ConnectorUnusable: the connector is not usable; nothing was changed
        :raises AttachmentInUseByServer: the detach rule forbids the change; nothing was changed
        :raises BackendError: the attachment is in its former state, or (uncertain) still
            connecting
        """
        if ruled is None:
            return self._connect(caller, attachment, connector)
        while True:
            self.rule.check(caller, attachment, ruled, connector)
            failpoints.point('control.attachments.after_check')
            try:
                return self._connect(caller, attachment, connector, attachment.generation)
            except errors.StaleGeneration:
                # The attachment may have got a server or an initiator since the check.
                attachment = attachment_queries.get(self._database, attachment.id)

    def _connect(self, caller: context.RequestContext, attachment: records.Attachment,
                 connector: Mapping[str, Any],
                 generation: int | None = None) -> records.Attachment:
        with self.backend.slot(self._host(attachment)):
            with self._telemetry.attaching('intent'):
                row = self.backend.move(caller, attachment, _Event.CONNECT, attachments.Facts(
                    connector=connector, lease_seconds=self.backend.seconds), generation)
            failpoints.point('control.attachments.after_connect_intent')
            return self.backend.connect(caller, row, 'Unable to update attachment')

    def complete(self, caller: context.RequestContext,
                 attachment: records.Attachment) -> records.Attachment:
        """Complete an attachment. The operation may be repeated.

        :raises InvalidTransition: the service is still working on the attachment
        """
        with self._telemetry.verb('attachments.complete'), self._telemetry.attaching('complete'):
            return self.backend.move(caller, attachment, _Event.COMPLETE)

    def delete(self, caller: context.RequestContext, attachment: records.Attachment,
               force: bool = False) -> list[records.Attachment]:
        """Disconnect and delete an attachment, unless Nova uses it.

        :param force: delete regardless of backend errors, and if Nova does not answer
        :returns: the remaining attachments of the volume
        :raises AttachmentInUseByServer: Nova uses the attachment; nothing was changed
        :raises BackendError: the attachment is in its former state, or (uncertain) still
            disconnecting
        """
        with self._telemetry.verb('attachments.delete'):
            verb = _Verb.FORCED_DELETE if force else _Verb.DELETE
            self.rule.check(caller, attachment, verb)
            was_last = self.remove(caller, attachment, force, verb)
            if force:
                # As after os-force_detach, an error status must not outlast the attachment.
                resets.clear(self._database, attachment.volume_id, attachment.project_id)
            if was_last:
                return []
            return attachment_queries.of_volume(self._database, attachment.volume_id)

    def remove(self, caller: context.RequestContext, attachment: records.Attachment,
               force: bool = False, ruled: detach_rule.Verb | None = None) -> bool:
        """Disconnect and delete an attachment after the detach rule was checked.

        :param force: delete the attachment regardless of backend errors
        :param ruled: verb of the detach rule, which is checked again if the attachment has changed
        :returns: True if the attachment is known to be the last one of its volume
        :raises AttachmentInUseByServer: Nova uses the attachment; nothing was changed
        """
        failpoints.point('control.attachments.after_check')
        row = attachment
        while True:
            try:
                was_last = self._mark_disconnecting(caller, row, force)
                break
            except (errors.StaleGeneration, errors.InvalidTransition):
                # The attachment has changed since it was read, and may need another event now.
                now = attachment_queries.get(self._database, row.id)
                if now.generation == row.generation:
                    raise
                if ruled is not None:
                    self.rule.check(caller, now, ruled)
                row = now
        if force:
            self.backend.notify.forced(caller, attachment)
        return was_last

    def _mark_disconnecting(self, caller: context.RequestContext, attachment: records.Attachment,
                            force: bool) -> bool:
        # Without an initiator there is no access to revoke, so the backend is not called.
        if attachment.initiator is None and attachment.state in (_State.RESERVED,
                                                                 _State.ATTACHED):
            with self._telemetry.detaching('intent'):
                return self.backend.release(caller, attachment)
        # A forced delete does not wait for a slot of the backend.
        with self.backend.slot(None if force else self._host(attachment)):
            with self._telemetry.detaching('intent'):
                row = self.backend.move(caller, attachment, _Event.DISCONNECT,
                                      attachments.Facts(lease_seconds=self.backend.seconds),
                                      attachment.generation)
            failpoints.point('control.attachments.after_disconnect_intent')
            return self.backend.disconnect(caller, row, force)

    def _host(self, attachment: records.Attachment) -> str | None:
        # The volume is usually loaded with the attachment.
        volume = (attachment.volume
                  or attachment_queries.get(self._database, attachment.id).volume)
        return None if volume is None else volume.host
