"""Notifications that a server action has begun, ended or failed. They contain no secrets."""
from collections.abc import Iterable
from typing import Self

from oslo_versionedobjects import base as ovo_base
from oslo_versionedobjects import fields

from blockattach.compute import lifecycle
from blockattach.compute import records
from blockattach.platform import context
from blockattach.platform.rpc import notifications
from blockattach.platform.rpc import serializing
from blockattach.storage.domain import connection

START, END, ERROR = 'start', 'end', 'error'


@ovo_base.VersionedObjectRegistry.register
class BlockDevicePayload(serializing.BlockattachObject):
    """Volume of a server in a notification."""

    VERSION = '1.0'

    fields = {
        'volume_id': fields.StringField(),
        'device_name': fields.StringField(),
        'boot_index': fields.IntegerField(nullable=True),
        'tag': fields.StringField(nullable=True),
        'delete_on_termination': fields.BooleanField(),
        'attach_mode': fields.EnumField(tuple(mode.value for mode in connection.AccessMode)),
    }

    @classmethod
    def from_record(cls, device: records.BlockDevice) -> Self:
        return cls.of(device, device_name=device.device, attach_mode=device.mode.value)


@ovo_base.VersionedObjectRegistry.register
class ServerActPayload(serializing.BlockattachObject):
    """Payload of a notification: a server and its volumes in a phase of a server action.

    ``fault`` is the reason why the action failed, or None.
    """

    VERSION = '1.0'

    fields = {
        'uuid': fields.StringField(),
        'tenant_id': fields.StringField(),
        'user_id': fields.StringField(),
        'display_name': fields.StringField(),
        'host': fields.StringField(nullable=True),
        'state': fields.StringField(),
        'task_state': fields.StringField(nullable=True),
        'fault': fields.StringField(nullable=True),
        'block_devices': fields.ListOfObjectsField('BlockDevicePayload'),
    }

    @classmethod
    def from_record(cls, server: records.Server, devices: Iterable[records.BlockDevice],
                    fault: str | None) -> Self:
        return cls.of(
            server, uuid=server.id, tenant_id=server.project_id, display_name=server.name,
            state=server.vm_state.value, fault=fault,
            block_devices=[BlockDevicePayload.from_record(device) for device in devices])


class ServerNotifications:
    """Sender of ``instance.*`` notifications. A failure to send is not raised."""

    def __init__(self, notifier: notifications.Notifications) -> None:
        self._notifier = notifier

    @property
    def enabled(self) -> bool:
        """True if notifications are sent. Otherwise callers need not load the payload."""
        return self._notifier.enabled

    def acted(self, caller: context.RequestContext, verb: str, phase: str,
              server: records.Server, devices: Iterable[records.BlockDevice],
              fault: str | None = None) -> None:
        """Emit the notification of a phase of a server action.

        :param verb: key of `lifecycle.VERBS`
        :param phase: `START`, `END` or `ERROR`
        :param devices: volumes of the server
        :param fault: reason of the failure, or None
        """
        self._notifier.emit(
            caller, f'instance.{lifecycle.VERBS[verb].event}.{phase}',
            ServerActPayload.from_record(server, devices, fault).to_body())
