"""Recovery of work that no process executes any more, and repair of other drift.

Recovery runs in the background, at the start of the process and then periodically. A work item is
a row of the table ``work`` or of another table (`Source`). Recovery only repeats operations that
are idempotent. An operator can end some kinds of work instead (`cancel`).
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

REPAIRED, CONFLICT = 'done', 'lost the claim to another process'
_MOVED_ON = (errors.StaleGeneration, errors.NotFound, errors.InvalidTransition)


class Busy(Exception):
    """Raised if another thread of this process works on the resource.

    The next pass retries the repair.
    """


class Case(NamedTuple):
    """Difference between desired state and actual state, with its repair.

    :ivar drift: kind of the difference
    :ivar said: short description of the difference
    :ivar remedy: short description of the repair
    :ivar act: function that repairs the difference. It returns False, or raises `Busy`, if another
        process or thread works on the resource and nothing was repaired
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

    :ivar due: function that returns the items whose deadline has passed. At the start of a
        process, the argument ``owner`` is its process instance. Orphans are then returned even
        before their deadline. These are items without an owner, and items of other instances. With
        ``shared=True``, other processes execute items of the same table. Only items without an
        owner, and items of earlier instances of the same service, are then orphans
    :ivar case: function that returns the case that resumes an item
    :ivar settle_seconds: seconds after the start of the process before orphans are resumed. During
        this time, a caller may repeat its RPC call to this process, which continues the item
    """

    due: Callable[..., Sequence[Any]]
    case: Callable[[Any], Case]
    settle_seconds: float = 0


def of_work(database: storage_db.Database, running: runner.Runner,
            unserved: Callable[[], Sequence[str]] = tuple,
            portable: Container[str] = ()) -> Source:
    """Return the source of the work items that a runner can execute.

    :param unserved: function that returns the backends whose managers are down
        (``host@backend``). Overdue work of these backends is resumed too
    :param portable: kinds of work (``noun.verb``) that may be resumed for the backends of
        ``unserved``
    """
    def due(**start: Any) -> list[records.Work]:
        items = work.due(database, running.host, **start)
        for host in unserved():
            items += [item for item in work.due(database, host) if item.claim.name in portable]
        return [item for item in items if running.knows(item)]

    def case(item: records.Work) -> Case:
        # The resource id of a cleanup is ``volume_id@pool``.
        return Case('volume', f'{item.claim.name} has not finished and its deadline has passed',
                    'resume the work', lambda: running.resume(item),
                    item.resource_id.partition('@')[0])

    return Source(due, case)


def outcome(case: Case) -> str:
    """Repair a case.

    :returns: `REPAIRED`; `CONFLICT` if another process or thread works on the resource; otherwise
        a text with the error
    """
    try:
        return CONFLICT if case.act() is False else REPAIRED
    except Busy:
        return CONFLICT
    except _MOVED_ON as exc:
        LOG.info('Skipping repair of drift%s', _fields(case, exc))
        return CONFLICT
    except Exception as exc:
        LOG.error('Failed to repair drift, will retry%s', _fields(case, exc),
                  exc_info=not errors.is_known(exc))
        return f'cannot: {exc}'


def one_by_one(cases: Sequence[Case]) -> list[str]:
    """Repair cases one after the other, and return the result of `outcome` for each case."""
    return [outcome(case) for case in cases]


class Recovery:
    """Recovery of interrupted work of one ``host@backend`` or of schedulers.

    Orphans are work items of process instances that have ended.
    """

    def __init__(self, sources: Sequence[Source], owner: str,
                 each: Callable[[Sequence[Case]], list[str]] = one_by_one,
                 monotonic: Callable[[], float] = lambda: 0.0) -> None:
        """
        :param owner: name of this process instance
        :param each: function that repairs cases, and returns the outcome of each
        :param monotonic: clock in seconds that measures `Source.settle_seconds`
        """
        self._sources = sources
        self._owner = owner
        self._each = each
        self._monotonic = monotonic
        self._began = 0.0
        self._orphans: list[dict[str, Any]] = [{} for _ in sources]

    def remember(self, shared: bool = False) -> None:
        """Record the orphans. This must be called before the process accepts new work.

        :param shared: True if other processes execute items of the same tables. Their items are
            not orphans
        """
        self._orphans = [{row.id: row for row in source.due(owner=self._owner, shared=shared)}
                         for source in self._sources]
        self._began = self._monotonic()

    def cases(self) -> list[Case]:
        """Return the cases to repair now.

        These are the items whose deadline has passed, and the orphans once the settle time of
        their source is over.
        """
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
        """Return the case of an orphan, with a repair that also removes the item from ``orphans``.

        The item is kept for the next pass if its repair fails or raises `Busy`. It is removed if
        another process has continued the work.

        :param name: key of the item in ``orphans``
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
        """Repair the cases that `cases` returns, and return the number of repaired cases."""
        return self._each(self.cases()).count(REPAIRED)


class Repairer:
    """Executor of repairs in threads, which counts the repairs since the process started."""

    def __init__(self, pool: futures.Executor, telemetry: acts.Telemetry | None = None,
                 clock: clocks.Clock | None = None,
                 volumes: futures.Executor | None = None) -> None:
        """
        :param pool: threads for repairs of grants, attachments and exports
        :param volumes: threads for work on volumes and snapshots, which may take minutes and must
            not delay the repairs in ``pool``; None to use ``pool``
        """
        self.pool = pool
        self._volumes = volumes or pool
        self._telemetry = telemetry or acts.Telemetry()
        self._clock = clock or clocks.Clock()
        self._guard = threading.Lock()
        self._repaired = dict.fromkeys(map(str, metrics.DRIFTS), 0)
        self._last: tuple[str, datetime.datetime] | None = None

    def each(self, cases: Sequence[Case]) -> list[str]:
        """Repair cases in parallel, and return the result of `outcome` for each case.

        Cases of one pair (volume and initiator) are repaired one after the other.
        """
        pairs: dict[object, list[Case]] = {}
        # A case without an initiator does not concern a pair, and does not wait for other cases.
        for case in cases:
            pairs.setdefault((case.volume_id, case.initiator) if case.initiator else id(case),
                             []).append(case)
        begun = [(self._volumes if pair[0].drift == 'volume' else self.pool).submit(
            one_by_one, pair) for pair in pairs.values()]
        for drift in metrics.DRIFTS:
            # Create the time series with the value 0. A series that begins at 1 would hide the
            # first difference from a rate.
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
        """Stop the threads after their current repairs.

        Queued work on volumes and snapshots is cancelled. Other queued repairs are still executed.
        """
        self.pool.shutdown(wait=True)
        # The cancelled work remains in the database, and another process resumes it.
        self._volumes.shutdown(wait=True, cancel_futures=True)

    def _counted(self, case: Case, outcome: str) -> str:
        # If another process works on the resource, the difference does not count as drift.
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
    """Cancel work that has no owner or whose deadline has passed, and return the work item.

    :param verbs_by_name: declarations of work by ``noun.verb``
    :raises WorkNotFound: the work item has never existed or has ended
    :raises Conflict: work of this kind cannot be cancelled, or its owner executes the work and the
        deadline has not passed
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
    return log.fields(drift=case.drift, volume_id=case.volume_id,
                      attachment_id=case.attachment_id, initiator=case.initiator, reason=reason)
