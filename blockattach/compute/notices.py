"""Notifications about servers: that an act begins, has ended, or failed. No secret is in them."""
from collections.abc import Iterable

from blockattach import context
from blockattach.compute import lifecycle
from blockattach.compute import records
from blockattach.rpc import notifications

START, END, ERROR = 'start', 'end', 'error'


class ServerNotifications:
    """Sends ``instance.volume_attach.end`` and the like, after what they are about is written.

    Never raises, and is never waited for.
    """

    def __init__(self, notifier: notifications.Notifications) -> None:
        self._notifier = notifier

    @property
    def enabled(self) -> bool:
        """Whether any is sent: only then what they say need be read."""
        return self._notifier.enabled

    def acted(self, caller: context.RequestContext, verb: str, phase: str,
              server: records.Server, devices: Iterable[records.BlockDevice],
              fault: str | None = None) -> None:
        """An act on a server is in this phase.

        :param devices: its volumes
        :param fault: why it failed
        """
        self._notifier.emit(caller, f'instance.{lifecycle.VERBS[verb].event}.{phase}', {
            'uuid': server.id, 'tenant_id': server.project_id, 'user_id': server.user_id,
            'display_name': server.name, 'host': server.host, 'state': server.vm_state.value,
            'task_state': server.task_state, 'fault': fault,
            'block_devices': [{
                'volume_id': one.volume_id, 'device_name': one.device,
                'boot_index': one.boot_index, 'tag': one.tag,
                'delete_on_termination': one.delete_on_termination,
                'attach_mode': one.mode.value} for one in devices]})
