"""A volume manager within this process: the real one on a backend in memory, without threads."""
import functools
from collections.abc import Callable

from blockattach.db import engine
from blockattach.db import pools
from blockattach.db import services
from blockattach.db import volumes as volume_verbs
from blockattach.domain import binaries
from blockattach.rpc import notifications
from blockattach.rpc import scheduler as scheduler_rpc
from blockattach.testing import backend
from blockattach.volume import attachment_outcomes
from blockattach.volume import attachments
from blockattach.volume import endpoint
from blockattach.volume import locks
from blockattach.volume import outcomes
from blockattach.volume import volumes

_CREATE_SECONDS = 600.0


class VolumeManager:
    """Serves one ``host@backend``; ``endpoint`` is what the bus would deliver to."""

    def __init__(self, database: engine.Database, host: str, zone: str,
                 scheduler: scheduler_rpc.SchedulerInterface,
                 later: Callable[..., None],
                 tell: notifications.AttachmentNotifications) -> None:
        """Put it together; it is not known to anybody before `report`.

        :param later: takes what goes on after an answer
        :param tell: told of what becomes of attachments
        """
        self.host = host
        self.backend = backend.FakeBackend(host.partition('@')[2])
        self._database = database
        self._zone = zone
        keeper = volumes.VolumeKeeper(database, self.backend, host, outcomes.VolumeOutcomes(
            database, scheduler, _CREATE_SECONDS))
        own = functools.partial(volume_verbs.own, database, owner=host,
                                lease_seconds=_CREATE_SECONDS)
        self.endpoint = endpoint.VolumeEndpoint(
            keeper, attachments.AttachmentKeeper(
                database, keeper, locks.NamedLocks(),
                attachment_outcomes.AttachmentOutcomes(database, tell)),
            lambda volume_id, generation: own(volume_id, generation), later)

    def report(self) -> None:
        """Give a sign of life and tell what the pools offer."""
        services.register(self._database, binaries.VOLUME, self.host, self._zone, 'first')
        pools.report(self._database, self.host, [
            (f'{self.host}#{one.name}', one.capabilities) for one in self.backend.pools()],
            self._zone)
