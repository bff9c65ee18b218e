"""Finds acts that no process does any more, and goes on with them: the one reconciler.

Runs in the background at start and then periodically. Each act is a row, in the table of work or
one of its own (`Source`). Everything done here repeats a verb that may be repeated at any time. An
operator may end work instead, where its verb says how (`cancel`).
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
    """A thread of this process works there now: the act is tried again later."""


class Case(NamedTuple):
    """Something that is not as it should be.

    ``said`` is what differs, ``remedy`` what ``act`` does about it; each in a few words. An act
    that returns False leaves it to the process at work there; see also `Busy`.
    """

    drift: metrics.Drift
    said: str
    remedy: str
    act: Callable[[], bool | None]
    volume_id: str
    attachment_id: str | None = None
    initiator: str | None = None


class Source(NamedTuple):
    """A table whose rows are acts.

    :ivar due: those whose deadline has passed. At start, when it is called with ``owner`` and
        ``shared``, also what no other process instance than ``owner`` does: where ``shared``,
        others run that do the same, and only what its own earlier instances had begun counts
    :ivar case: what is done about one
    :ivar settle_seconds: how long after the start a call may still come that goes on with what
        was begun before; callers send it again to the next process that serves
    """

    due: Callable[..., Sequence[Any]]
    case: Callable[[Any], Case]
    settle_seconds: float = 0


def of_work(database: storage_db.Database, running: runner.Runner,
            unserved: Callable[[], Sequence[str]] = tuple,
            portable: Container[str] = ()) -> Source:
    """The table of work, as far as the runner's ``host@backend`` or schedulers do it.

    :param unserved: other ``host@backend`` whose overdue work it does
    :param portable: as far as its name is one of these
    """
    def due(**start: Any) -> list[records.Work]:
        found = work.due(database, running.host, **start)
        for host in unserved():
            found += [one for one in work.due(database, host) if one.claim.name in portable]
        return [one for one in found if running.knows(one)]

    def case(found: records.Work) -> Case:
        return Case('volume', f'{found.claim.name} has not finished and its deadline has passed',
                    'resume the work', lambda: running.resume(found),
                    found.resource_id.partition('@')[0])

    return Source(due, case)


def outcome(case: Case) -> str:
    """Act on a case; how it ended, in a few words: `REPAIRED` is one of them."""
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
    """Act on each; how each ended."""
    return [outcome(case) for case in cases]


class Recovery:
    """The interrupted acts of one process instance's ``host@backend``, or of schedulers."""

    def __init__(self, sources: Sequence[Source], owner: str,
                 each: Callable[[Sequence[Case]], list[str]] = one_by_one,
                 monotonic: Callable[[], float] = lambda: 0.0) -> None:
        """
        :param owner: names the process instance
        :param each: acts on cases; returns how each ended
        """
        self._sources = sources
        self._owner = owner
        self._each = each
        self._monotonic = monotonic
        self._began = 0.0
        self._orphans: list[dict[str, Any]] = [{} for _ in sources]

    def remember(self, shared: bool = False) -> None:
        """Note what earlier process instances have begun; before anything new is taken on.

        :param shared: others run that serve this backend: theirs are left to them
        """
        self._orphans = [{row.id: row for row in source.due(owner=self._owner, shared=shared)}
                         for source in self._sources]
        self._began = self._monotonic()

    def cases(self) -> list[Case]:
        """What is to be resumed now: what is overdue, and the orphans."""
        found = []
        for source, orphans in zip(self._sources, self._orphans, strict=True):
            for row in source.due():
                orphans.pop(row.id, None)
                found.append(source.case(row))
            if self._monotonic() >= self._began + source.settle_seconds:
                found += [self._once(orphans, name, source.case(row))
                          for name, row in list(orphans.items())]
        return found

    @staticmethod
    def _once(orphans: dict[str, Any], name: str, case: Case) -> Case:
        """An orphan is one until its act was done, or another process has gone on with it."""
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
        """Resume all; how many."""
        return self._each(self.cases()).count(REPAIRED)


class Repairer:
    """A few threads for repairs, and what they have repaired since the process began."""

    def __init__(self, pool: futures.Executor, telemetry: acts.Telemetry | None = None,
                 clock: clocks.Clock | None = None,
                 volumes: futures.Executor | None = None) -> None:
        """
        :param volumes: threads for making and removing volumes, which may take minutes: nothing
            else waits for them. None: the same ones
        """
        self.pool = pool
        self._volumes = volumes or pool
        self._telemetry = telemetry or acts.Telemetry()
        self._clock = clock or clocks.Clock()
        self._guard = threading.Lock()
        self._repaired = dict.fromkeys(map(str, metrics.DRIFTS), 0)
        self._last: tuple[str, datetime.datetime] | None = None

    def each(self, cases: Sequence[Case]) -> list[str]:
        """Act on each case; how each ended.

        What concerns one pair is done one after the other, in one thread.
        """
        pairs: dict[object, list[Case]] = {}
        for case in cases:
            pairs.setdefault((case.volume_id, case.initiator) if case.initiator else id(case),
                             []).append(case)
        begun = [(self._volumes if pair[0].drift == 'volume' else self.pool).submit(
            one_by_one, pair) for pair in pairs.values()]
        for drift in metrics.DRIFTS:
            # A series that began at one would show no increase.
            self._telemetry.drift(drift)
        outcomes = {id(case): outcome for pair, running in zip(pairs.values(), begun, strict=True)
                    for case, outcome in zip(pair, running.result(), strict=True)}
        return [self._counted(case, outcomes[id(case)]) for case in cases]

    def summary(self) -> records.Reconciled:
        """What was repaired since the process began."""
        with self._guard:
            last, at = self._last or (None, None)
            return records.Reconciled(dict(self._repaired), last, at)

    def stop(self) -> None:
        """End the threads after what they are doing; pairs that were enqueued are converged."""
        self.pool.shutdown(wait=True)
        self._volumes.shutdown(wait=True, cancel_futures=True)

    def _counted(self, case: Case, outcome: str) -> str:
        """What is at work elsewhere is no drift."""
        if outcome == CONFLICT:
            return outcome
        self._telemetry.drift(case.drift, found=1, repaired=int(outcome == REPAIRED))
        if outcome == REPAIRED:
            with self._guard:
                self._repaired[case.drift] += 1
                self._last = case.drift, self._clock.utcnow()
        return outcome


def cancel(database: storage_db.Database, known: Mapping[str, verbs.Verb],
           work_id: str) -> records.Work:
    """End work that no process has, without doing it; returns what it was.

    :param known: the verbs by name
    :raises WorkNotFound: there is no such work, or it has ended
    :raises Conflict: it cannot be cancelled, or not now
    """
    found = work.get(database, work_id)
    verb = known.get(found.claim.name)
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
