"""A volume manager within this process: the real one on a backend in memory, without threads."""
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from blockattach.db import engine
from blockattach.db import leases
from blockattach.db import pools
from blockattach.db import services
from blockattach.domain import binaries
from blockattach.rpc import notifications
from blockattach.rpc import scheduler as scheduler_rpc
from blockattach.testing import backend
from blockattach.volume import attachment_outcomes
from blockattach.volume import attachments
from blockattach.volume import endpoint
from blockattach.volume import outcomes
from blockattach.volume import turns
from blockattach.volume import volumes

_CREATE_SECONDS = 600.0


class VolumeManager:
    """Serves one ``host@backend``; ``endpoint`` is what the bus would deliver to.

    ``reports_again`` is set by who wants it to tell of its pools after each piece of work too, as
    a process of its own does.
    """

    def __init__(self, database: engine.Database, host: str, zone: str,
                 scheduler: scheduler_rpc.SchedulerInterface,
                 later: Callable[..., None],
                 tell: notifications.AttachmentNotifications) -> None:
        """Put it together; it is not known to anybody before `report`.

        :param later: takes what goes on after an answer
        :param tell: told of what becomes of attachments
        """
        self.host = host
        self.reports_again = False
        self.backend = backend.FakeBackend(host.partition('@')[2])
        self._database = database
        self._zone = zone
        keeper = volumes.VolumeKeeper(database, self.backend, host, outcomes.VolumeOutcomes(
            database, scheduler, _CREATE_SECONDS), turns.Turns(
                database, host, leases.owner_of(host, 'first'), _CREATE_SECONDS, _CREATE_SECONDS))
        self.attachments = attachments.AttachmentKeeper(
            database, keeper, attachment_outcomes.AttachmentOutcomes(database, tell))
        self.endpoint = endpoint.VolumeEndpoint(keeper, self.attachments, keeper.turns.own,
                                                self._work)
        self._later = later

    def report(self) -> None:
        """Give a sign of life and tell what the pools offer."""
        services.register(self._database, binaries.VOLUME, self.host, self._zone, 'first')
        pools.report(self._database, self.host, self._reports().items(), self._zone)

    def _work(self, act: Callable[..., object], *arguments: Any) -> None:
        self._later(act, *arguments)
        if self.reports_again:
            self._later(self._report_again)

    def _report_again(self) -> None:
        pools.refresh(self._database, self._reports())

    def _reports(self) -> dict[str, Mapping[str, Any]]:
        return {f'{self.host}#{one.name}': one.capabilities for one in self.backend.pools()}
