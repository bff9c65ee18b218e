"""Notifications about servers: that an act begins, has ended, or failed. No secret is in them."""
from collections.abc import Iterable

from blockattach.compute import lifecycle
from blockattach.compute import payloads
from blockattach.compute import records
from blockattach.platform import context
from blockattach.platform.rpc import notifications

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
        self._notifier.emit(
            caller, f'instance.{lifecycle.VERBS[verb].event}.{phase}',
            payloads.ServerActPayload.from_record(server, devices, fault).to_body())
