"""Rate limit of the data copies of a backend, and their early end."""
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

# Seconds between two queries whether a copy is still required. A query for each piece of the copy
# would be too expensive.
_LOOK_SECONDS = 5.0


class Pace:
    """Rate limit for all copies of a backend together. Threads may share an instance."""

    def __init__(self, bytes_per_second: int, clock: clocks.Clock) -> None:
        """Create the rate limit.

        :param bytes_per_second: maximum rate, or 0 for no limit
        """
        self._limit = bytes_per_second
        self._clock = clock
        self._guard = threading.Lock()
        self._free_at = 0.0
        self._stopped = threading.Event()

    def of(self, volume_id: str, is_required: Callable[[], bool]) -> base.Copied:
        """Return the callback of a copy into a volume.

        The callback waits to keep the rate limit. It raises `verbs.Left` after `stop`, and
        BackendUncertain once the copy is no longer required.

        :param is_required: function that returns True while the copy is required; called every
            few seconds
        """
        looked = self._clock.monotonic()

        def copied(length: int) -> None:
            nonlocal looked
            now = self._clock.monotonic()
            if self._clock.wait(self._stopped, self._seconds(now, length)):
                raise verbs.Left(f'the copy for volume {volume_id} is not finished')
            if now >= looked + _LOOK_SECONDS:
                looked = now
                if not is_required():
                    raise errors.BackendUncertain(
                        reason=f'the copy for volume {volume_id} is no longer required')

        return copied

    def of_claim(self, database: storage_db.Database, claim: records.Claim) -> base.Copied:
        """Return the callback of a copy that is required as long as ``claim`` is valid."""
        return self.of(claim.resource_id, functools.partial(
            volume_queries.is_claimed, database, claim))

    def stop(self) -> None:
        """End all copies at their next piece, because the process is stopping."""
        self._stopped.set()

    def _seconds(self, now: float, length: int) -> float:
        """Return the seconds to wait after a piece of ``length`` bytes was copied.

        The wait ends at the time at which a copy at the maximum rate would have copied all pieces.
        """
        if not self._limit:
            return 0.0
        with self._guard:
            # Time in which nothing was copied does not permit a higher rate later.
            self._free_at = max(self._free_at, now) + length / self._limit
            return self._free_at - now
