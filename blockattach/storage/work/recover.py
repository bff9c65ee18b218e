"""Recovery of work that no process executes any more, as the only reconciler of a process.

Recovery runs in the background, at the start of the process and then periodically. Each work item
is a row, either in the table of work or in another table (`Source`). Recovery only repeats
operations that are idempotent. An operator can end work instead if its verb allows this
(`cancel`).
"""
import datetime
import threading
from collections.abc import Callable
from collections.abc import Container
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent import futures
from typing import Any
from typing import NamedTuple

from oslo_log import log as oslo_log

from blockattach.platform import clock as clocks
from blockattach.platform import log
from blockattach.platform import metrics
from blockattach.platform.telemetry import acts
from blockattach.storage import errors
from blockattach.storage.db import messages
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.domain import records
from blockattach.storage.work import runner
from blockattach.storage.work import verbs

LOG = oslo_log.getLogger(__name__)

REPAIRED, CONFLICT = 'done', 'another process went on with it first'
_MOVED_ON = (errors.StaleGeneration, errors.NotFound, errors.InvalidTransition)


class Busy(Exception):
    """Raised if a thread of this process works on the resource. The case is retried later."""


class Case(NamedTuple):
    """Difference between the intended and the actual state, with its repair.

    :ivar said: description of the difference, in a few words
    :ivar remedy: description of the repair, in a few words
    :ivar act: repairs the difference. The function returns False if it leaves the repair to
        another process or thread that works on the resource. It may raise `Busy` for the same
        reason
    """

    drift: metrics.Drift
    said: str
    remedy: str
    act: Callable[[], bool | None]
    volume_id: str
    attachment_id: str | None = None
    initiator: str | None = None


class Source(NamedTuple):
    """Table whose rows are work items.

    :ivar due: returns the items whose deadline has passed. At the start of a process, ``owner``
        is its process instance, and items that earlier instances left are returned before their
        deadline too. If ``shared`` is true, other processes do the same work, and only items of
        earlier instances of the same service count as left
    :ivar case: returns the case that resumes an item
    :ivar settle_seconds: seconds after the start before items are resumed that earlier instances
        left. Until then, a caller may repeat its call to this process, which continues the item
    """

    due: Callable[..., Sequence[Any]]
    case: Callable[[Any], Case]
    settle_seconds: float = 0


def of_work(database: storage_db.Database, running: runner.Runner,
            unserved: Callable[[], Sequence[str]] = tuple,
            portable: Container[str] = ()) -> Source:
    """Return the source of the work items that a runner can execute.

    :param unserved: returns other ``host@backend`` whose overdue work is resumed too
    :param portable: names (``noun.verb``) of the work that may be resumed for these hosts
    """
    def due(**start: Any) -> list[records.Work]:
        items = work.due(database, running.host, **start)
        for host in unserved():
            items += [item for item in work.due(database, host) if item.claim.name in portable]
        return [item for item in items if running.knows(item)]

    def case(item: records.Work) -> Case:
        # The resource of a cleanup is named ``volume_id@pool``.
        return Case('volume', f'{item.claim.name} has not finished and its deadline has passed',
                    'resume the work', lambda: running.resume(item),
                    item.resource_id.partition('@')[0])

    return Source(due, case)


def outcome(case: Case) -> str:
    """Repair a case, and return the outcome: `REPAIRED`, `CONFLICT`, or a text with the error."""
    try:
        return CONFLICT if case.act() is False else REPAIRED
    except Busy:
        return CONFLICT
    except _MOVED_ON:
        LOG.info('Lost the claim to another process%s', _fields(case))
        return CONFLICT
    except Exception as exc:
        LOG.error('Failed to repair difference, will retry%s', _fields(case, exc),
                  exc_info=not errors.is_known(exc))
        return f'cannot: {exc}'


def one_by_one(cases: Sequence[Case]) -> list[str]:
    """Repair cases one after the other, and return the outcome of each."""
    return [outcome(case) for case in cases]


class Recovery:
    """Recovery of interrupted work for one ``host@backend`` or for schedulers.

    Orphans are work items that earlier process instances left.
    """

    def __init__(self, sources: Sequence[Source], owner: str,
                 each: Callable[[Sequence[Case]], list[str]] = one_by_one,
                 monotonic: Callable[[], float] = lambda: 0.0) -> None:
        """
        :param owner: name of the process instance
        :param each: repairs cases, and returns the outcome of each
        :param monotonic: returns the time in seconds, from which the settle time is counted
        """
        self._sources = sources
        self._owner = owner
        self._each = each
        self._monotonic = monotonic
        self._began = 0.0
        self._orphans: list[dict[str, Any]] = [{} for _ in sources]

    def remember(self, shared: bool = False) -> None:
        """Record the orphans. This must be called before the process accepts new work.

        :param shared: True if other processes do the same work. Their items are no orphans
        """
        self._orphans = [{row.id: row for row in source.due(owner=self._owner, shared=shared)}
                         for source in self._sources]
        self._began = self._monotonic()

    def cases(self) -> list[Case]:
        """Return the cases to repair now: overdue items, and orphans after the settle time."""
        found = []
        for source, orphans in zip(self._sources, self._orphans, strict=True):
            for row in source.due():
                # An orphan whose deadline has passed must not be repaired twice in one pass.
                orphans.pop(row.id, None)
                found.append(source.case(row))
            if self._monotonic() >= self._began + source.settle_seconds:
                found += [self._once(orphans, name, source.case(row))
                          for name, row in list(orphans.items())]
        return found

    @staticmethod
    def _once(orphans: dict[str, Any], name: str, case: Case) -> Case:
        """Return the case of an orphan, whose repair removes it from the orphans.

        An orphan is kept for the next pass if its repair fails or raises `Busy`. It is removed if
        another process has continued the work.
        """
        def act() -> bool | None:
            try:
                done = case.act()
            except _MOVED_ON:
                orphans.pop(name, None)
                raise
            orphans.pop(name, None)
            return done

        return case._replace(act=act)

    def look(self) -> int:
        """Repair all cases that are due, and return the number of repaired cases."""
        return self._each(self.cases()).count(REPAIRED)


class Repairer:
    """Threads for repairs, with the counts of repairs since the start of the process."""

    def __init__(self, pool: futures.Executor, telemetry: acts.Telemetry | None = None,
                 clock: clocks.Clock | None = None,
                 volumes: futures.Executor | None = None) -> None:
        """
        :param pool: threads for all other repairs
        :param volumes: threads for work on volumes and snapshots. Such work may take minutes, and
            other repairs do not wait for it. None to use ``pool``
        """
        self.pool = pool
        self._volumes = volumes or pool
        self._telemetry = telemetry or acts.Telemetry()
        self._clock = clock or clocks.Clock()
        self._guard = threading.Lock()
        self._repaired = dict.fromkeys(map(str, metrics.DRIFTS), 0)
        self._last: tuple[str, datetime.datetime] | None = None

    def each(self, cases: Sequence[Case]) -> list[str]:
        """Repair cases in parallel, and return the outcome of each.

        Cases of the same volume and initiator are repaired one after the other.
        """
        pairs: dict[object, list[Case]] = {}
        # A case without an initiator does not concern a pair, and does not wait for other cases.
        for case in cases:
            pairs.setdefault((case.volume_id, case.initiator) if case.initiator else id(case),
                             []).append(case)
        begun = [(self._volumes if pair[0].drift == 'volume' else self.pool).submit(
            one_by_one, pair) for pair in pairs.values()]
        for drift in metrics.DRIFTS:
            # Create the series with zero. Otherwise rates would miss the first difference,
            # because the series would begin at 1.
            self._telemetry.drift(drift)
        outcomes = {id(case): outcome for pair, running in zip(pairs.values(), begun, strict=True)
                    for case, outcome in zip(pair, running.result(), strict=True)}
        return [self._counted(case, outcomes[id(case)]) for case in cases]

    def summary(self) -> records.Reconciled:
        """Return the counts of repairs since the start of the process, and the last repair."""
        with self._guard:
            last, at = self._last or (None, None)
            return records.Reconciled(dict(self._repaired), last, at)

    def stop(self) -> None:
        """Stop the threads after their current repair.

        Queued repairs of volumes are cancelled. All other queued repairs are still done.
        """
        self.pool.shutdown(wait=True)
        # Cancelled work on volumes stays in the database, and another process resumes it.
        self._volumes.shutdown(wait=True, cancel_futures=True)

    def _counted(self, case: Case, outcome: str) -> str:
        # A resource on which another process works is no drift.
        if outcome == CONFLICT:
            return outcome
        self._telemetry.drift(case.drift, detected=1, repaired=int(outcome == REPAIRED))
        if outcome == REPAIRED:
            with self._guard:
                self._repaired[case.drift] += 1
                self._last = case.drift, self._clock.utcnow()
        return outcome


def cancel(database: storage_db.Database, verbs_by_name: Mapping[str, verbs.Verb],
           work_id: str) -> records.Work:
    """Cancel work that no process executes, and return the work item.

    A process whose deadline has passed does not count.

    :param verbs_by_name: verbs by ``noun.verb``
    :raises WorkNotFound: the work does not exist or has ended
    :raises Conflict: work of this kind cannot be cancelled, or a process executes the work
    """
    found = work.get(database, work_id)
    verb = verbs_by_name.get(found.claim.name)
    if verb is None or (verb.cancel is None and verb.ends is None):
        raise errors.Conflict(
            reason=f'cannot cancel {found.claim.name}: work of this kind cannot be cancelled')
    if found.owner is not None and found.overdue <= 0:
        raise errors.Conflict(
            reason=f'cannot cancel {found.claim.name}: {found.owner} is running the work')
    (verb.cancel or work_ends.cancel)(database, found, messages.of_failure(
        database, found, found.request_id, verb.cancel_message))
    LOG.warning('Work cancelled%s', log.fields(work=found.claim.name,
                                               resource_id=found.resource_id))
    return found


def _fields(case: Case, reason: Exception | None = None) -> log.Fields:
    return log.fields(volume_id=case.volume_id, attachment_id=case.attachment_id,
                      initiator=case.initiator, reason=reason)
