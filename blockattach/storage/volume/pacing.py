"""How fast a backend copies data, and when a copy ends early."""
import functools
import threading
from collections.abc import Callable

from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.storage.db import storage_db
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import records
from blockattach.storage.drivers import base
from blockattach.storage.work import verbs

_LOOK_SECONDS = 5.0


class Pace:
    """All copies of one backend together: so many bytes a second. Safe to use from several
    threads.
    """

    def __init__(self, bytes_per_second: int, clock: clocks.Clock) -> None:
        """
        :param bytes_per_second: 0: any number
        """
        self._limit = bytes_per_second
        self._clock = clock
        self._guard = threading.Lock()
        self._free_at = 0.0
        self._stopped = threading.Event()

    def of(self, volume_id: str, wanted: Callable[[], bool]) -> base.Copied:
        """What a store calls while it copies data into one volume.

        It waits as long as the limit wants. It raises `verbs.Left` once this process is to end,
        and BackendUncertain once the volume is not wanted any more.

        :param wanted: whether it still is; asked every few seconds
        """
        looked = self._clock.monotonic()

        def copied(length: int) -> None:
            nonlocal looked
            now = self._clock.monotonic()
            if self._clock.wait(self._stopped, self._seconds(now, length)):
                raise verbs.Left(f'the copy for volume {volume_id} is not finished')
            if now >= looked + _LOOK_SECONDS:
                looked = now
                if not wanted():
                    raise errors.BackendUncertain(
                        reason=f'the copy for volume {volume_id} is no longer required')

        return copied

    def of_claim(self, database: storage_db.Database, claim: records.Claim) -> base.Copied:
        """The same for work on a volume, which is wanted as long as its owner has it."""
        return self.of(claim.resource_id, functools.partial(
            volume_queries.is_claimed, database, claim))

    def stop(self) -> None:
        """Let every copy end soon."""
        self._stopped.set()

    def _seconds(self, now: float, length: int) -> float:
        """How long to wait after so many bytes: until what was copied before has had its time."""
        if not self._limit:
            return 0.0
        with self._guard:
            self._free_at = max(self._free_at, now) + length / self._limit
            return self._free_at - now
