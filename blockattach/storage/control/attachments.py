"""Attachment operations: create, update, complete and delete.

An operation that changes the access of a host first stores its intent: the planned change, with a
new generation of the attachment. It then calls the volume service, which changes the access, and
stores and returns the result.
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
        """Create an attachment. If a connector is given, also connect its host.

        :param volume: volume for which the request was authorized
        :param wish: requested attachment
        :param request: identity of a request with an idempotency key, which creates only one
            attachment if it is repeated; None without a key
        :raises InvalidVolume: the volume does not allow another attachment
        :raises QuotaExceeded: the project has reached its quota of attachments
        :raises ConnectorUnusable: the connector has no usable initiator; nothing was stored
        :raises BackendError: the attachment was not created. After an uncertain failure, an
            attachment may exist until the next pass of the volume service
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
        """Store a connector in an attachment, and connect its host.

        :raises VolumeInError: the own status of the volume is an error status
        :raises DuplicateConnectors: another attachment of the volume is connected, and the volume
            is not multiattach
        :raises ConnectorUnusable: the connector has no host or no usable initiator; nothing was
            changed
        :raises InvalidTransition: the state of the attachment does not allow a connection
        :raises AttachmentInUseByServer: the access of a server would move to another initiator;
            nothing was changed
        :raises NovaUnavailable: the access would move, and Nova does not respond; nothing was
            changed
        :raises BackendError: the attachment is in its former state. After an uncertain failure, it
            may still be connecting
        """
        with self._telemetry.verb('attachments.update'):
            volume = attachment.volume
            if volume is None:
                attachment = attachment_queries.get(self._database, attachment.id)
                volume = attachment.volume
            assert volume is not None
            if 'error' in volume.own_status:
                raise errors.VolumeInError(volume_id=volume.id, status=volume.status)
            # Cinder also requires the host, and answers HTTP 500 if it is missing.
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
        """Connect the host of a connector to the volume of an attachment.

        :param ruled: verb for the check of the detach rule, which is repeated if the attachment
            changes concurrently. None if the access cannot move to another initiator, so that no
            check is needed
        :raises ConnectorUnusable: the connector has no usable initiator; nothing was changed
        :raises InvalidTransition: the state of the attachment does not allow a connection
        :raises AttachmentInUseByServer: the detach rule forbids the change; nothing was changed
        :raises BackendError: the attachment is in its former state. After an uncertain failure, it
            may still be connecting
        """
        if ruled is None:
            return self._connect(caller, attachment, connector)
        while True:
            self.rule.check(caller, attachment, ruled, connector)
            failpoints.point('control.attachments.after_check')
            try:
                return self._connect(caller, attachment, connector, attachment.generation)
            except errors.StaleGeneration:
                # Since the check, another request may have added a server or an initiator.
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
        """Complete an attachment, whose state becomes ``attached``. The operation may be repeated.

        :raises InvalidTransition: the state of the attachment does not allow the completion
        """
        with self._telemetry.verb('attachments.complete'), self._telemetry.attaching('complete'):
            return self.backend.move(caller, attachment, _Event.COMPLETE)

    def delete(self, caller: context.RequestContext, attachment: records.Attachment,
               force: bool = False) -> list[records.Attachment]:
        """Disconnect the host of an attachment, and delete the attachment.

        :param force: True to delete the attachment even if the backend fails or Nova does not
            respond
        :returns: remaining attachments of the volume
        :raises AttachmentInUseByServer: Nova uses the attachment, and the caller is not a service;
            nothing was changed
        :raises NovaUnavailable: Nova does not respond, and ``force`` is False; nothing was changed
        :raises BackendError: the attachment is in its former state. After an uncertain failure, it
            may still be disconnecting
        """
        with self._telemetry.verb('attachments.delete'):
            verb = _Verb.FORCED_DELETE if force else _Verb.DELETE
            self.rule.check(caller, attachment, verb)
            was_last = self.remove(caller, attachment, force, verb)
            if force:
                # As after os-force_detach, the volume must not keep an error status.
                resets.clear(self._database, attachment.volume_id, attachment.project_id)
            if was_last:
                return []
            return attachment_queries.of_volume(self._database, attachment.volume_id)

    def remove(self, caller: context.RequestContext, attachment: records.Attachment,
               force: bool = False, ruled: detach_rule.Verb | None = None) -> bool:
        """Disconnect the host of an attachment, and delete the attachment.

        The caller has checked the detach rule, if it applies.

        :param force: True to delete the attachment even if the backend fails
        :param ruled: verb for the check of the detach rule, which is repeated if the attachment
            has changed. None to skip the check
        :returns: True if this was the last attachment of its volume; False also if this is unknown
        :raises AttachmentInUseByServer: Nova uses the attachment; nothing was changed
        :raises BackendError: the attachment is in its former state. After an uncertain failure, it
            may still be disconnecting
        """
        failpoints.point('control.attachments.after_check')
        row = attachment
        while True:
            try:
                was_last = self._mark_disconnecting(caller, row, force)
                break
            except (errors.StaleGeneration, errors.InvalidTransition):
                # If the attachment has changed since it was read, it may need another event now.
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
        # An attachment without an initiator has no access to revoke, so the backend is not called.
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
