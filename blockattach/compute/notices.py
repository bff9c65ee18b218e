"""Notifications that an act on a server has begun, ended or failed, without secrets."""
from collections.abc import Iterable

from blockattach.compute import lifecycle
from blockattach.compute import payloads
from blockattach.compute import records
from blockattach.platform import context
from blockattach.platform.rpc import notifications

START, END, ERROR = 'start', 'end', 'error'


class ServerNotifications:
    """Sender of ``instance.*`` notifications, emitted after the change has been stored.

    It never raises and never blocks.
    """

    def __init__(self, notifier: notifications.Notifications) -> None:
        self._notifier = notifier

    @property
    def enabled(self) -> bool:
        """True if notifications are sent; only then their content has to be loaded."""
        return self._notifier.enabled

    def acted(self, caller: context.RequestContext, verb: str, phase: str,
              server: records.Server, devices: Iterable[records.BlockDevice],
              fault: str | None = None) -> None:
        """Notify of a phase of an act on a server.

        :param devices: volumes of the server
        :param fault: reason of the failure, or None
        """
        self._notifier.emit(
            caller, f'instance.{lifecycle.VERBS[verb].event}.{phase}',
            payloads.ServerActPayload.from_record(server, devices, fault).to_body())
