"""Execution of claimed work in threads, renewal of its deadlines, and its handover at shutdown."""
import threading
from collections.abc import Callable
from collections.abc import Iterable
from concurrent import futures

from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.platform.telemetry import acts
from blockattach.storage.db import messages
from blockattach.storage.db import storage_db
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.domain import records
from blockattach.storage.work import verbs

LOG = oslo_log.getLogger(__name__)


class Runner:
    """Executor of work for one process instance, which serves a backend or is a scheduler."""

    def __init__(self, database: storage_db.Database, actors: Iterable[object], host: str | None,
                 owner: str, seconds: Callable[[str], float],
                 pool: futures.Executor | None = None,
                 afterwards: Callable[[], None] = lambda: None,
                 slow: futures.Executor | None = None,
                 stopping: Callable[[], None] = lambda: None,
                 telemetry: acts.Telemetry | None = None) -> None:
        """
        :param actors: objects with methods that are declared with `verbs.work`
        :param host: ``host@backend``; None for a scheduler
        :param owner: name of this process instance
        :param seconds: function that returns the value of an option in seconds. Its argument is
            the name of the option, from `verbs.Verb.deadline`
        :param pool: threads for work that RPC calls request; None if `accept` is not called
        :param afterwards: called when a work item has ended or was interrupted
        :param slow: threads for work that takes long (`verbs.TakesLong`); None to execute such
            work in the same thread as its method
        :param stopping: called at shutdown, before the runner waits for running work
        """
        self.owner = owner
        self.host = host
        self._database = database
        self._verbs = {name: (actor, verb) for actor in actors
                       for name, verb in verbs.declared(type(actor)).items()}
        self._seconds = seconds
        self._pool = pool
        self.afterwards = afterwards
        self._slow = slow
        self._stopping = stopping
        self._telemetry = telemetry or acts.Telemetry()
        self._guard = threading.Lock()
        self._held: set[records.Claim] = set()
        self._ends = False

    def accept(self, caller: context.RequestContext, noun: str, verb: str, resource_id: str,
               generation: int) -> bool:
        """Claim work that an RPC call requests, and submit it to the threads.

        A repeated call changes nothing.

        :returns: False if no actor declares the work, if the work has changed since the call was
            sent, or if another process has claimed the work
        """
        claim = records.Claim(noun, resource_id, verb, generation, self.owner)
        if claim.name not in self._verbs:
            return False
        if not work.claim(self._database, claim, self.host, self._deadline(claim)):
            return False
        if self._hold(claim):
            assert self._pool is not None
            try:
                self._pool.submit(self._run, caller, claim)
            except BaseException:
                # Usually the process is stopping, and `leave` hands the claimed work over.
                self._release(claim)
                raise
        return True

    def knows(self, item: records.Work) -> bool:
        """Return True if one of the actors declares the work of a work item."""
        return item.claim.name in self._verbs

    def resume(self, item: records.Work) -> bool:
        """Take over a work item, and execute it in the calling thread.

        :returns: False if this process is executing or has queued the work item, or if the item
            has changed since it was read
        """
        if (claim := item.claim._replace(owner=self.owner)) in self.held():
            return False
        if not work.take(self._database, item, self.owner, self._deadline(claim)):
            return False
        LOG.warning('Taking over work%s', _fields(claim, owner=item.owner))
        if self._hold(claim):
            self._run(context.admin_context(project_id=item.project_id,
                                            request_id=item.request_id), claim)
        return True

    def held(self) -> list[records.Claim]:
        """Return the claims on work that this runner is executing or has queued."""
        with self._guard:
            return list(self._held)

    def renew(self) -> None:
        """Extend the deadlines of the work that this runner is executing or has queued.

        The interval between calls must be shorter than the shortest deadline of the verbs.
        """
        for claim in self.held():
            work.renew(self._database, claim, self._deadline(claim))

    def stop(self) -> None:
        """Wait for the running work, and hand over the queued work to other processes."""
        self._ends = True
        self._stopping()
        for pool in (self._pool, self._slow):
            if pool is not None:
                pool.shutdown(wait=True, cancel_futures=True)
        # The claims are released after the wait. Otherwise other processes could start work that
        # is still running here.
        self.leave()

    def leave(self) -> None:
        """Release the work that this process owns, so that other processes can resume it at once.

        If the database is not available, other processes resume the work after its deadline.
        """
        try:
            number = work.hand_over(self._database, self.owner)
        except Exception as exc:
            LOG.error('Failed to hand over work, will resume at the deadline%s',
                      log.fields(owner=self.owner, reason=exc), exc_info=not errors.is_known(exc))
        else:
            if number:
                LOG.info('Work handed over%s', log.fields(owner=self.owner, rows=number))

    def _deadline(self, claim: records.Claim) -> float:
        return self._seconds(self._verbs[claim.name][1].deadline)

    def _hold(self, claim: records.Claim) -> bool:
        with self._guard:
            if claim in self._held:
                return False
            self._held.add(claim)
            return True

    def _release(self, claim: records.Claim) -> None:
        with self._guard:
            self._held.discard(claim)

    def _run(self, caller: context.RequestContext, claim: records.Claim,
             rest: Callable[[], object] | None = None) -> None:
        """Execute claimed work, and then the further work on the resource, if any.

        :param rest: remaining part of work that takes long (`verbs.TakesLong.rest`); None to
            execute the method of the verb
        """
        # Log lines of this thread name the request that started the work. The deadline of the
        # request does not apply, because its response was already sent.
        caller.update_store()
        caller.deadline = None
        goes_on, more = False, None
        try:
            if rest is not None and self._ends:
                # A slow thread became free at shutdown, because its previous work was interrupted.
                raise verbs.Left('the process stops')
            result = self._act(caller, claim, rest)
            if isinstance(result, verbs.TakesLong) and self._slow is not None:
                self._slow.submit(self._run, caller, claim, result.rest)
                # The claim remains in ``_held``, so that `renew` extends its deadline meanwhile.
                goes_on = True
            elif isinstance(result, verbs.TakesLong):
                result = self._act(caller, claim, result.rest)
            if isinstance(result, records.Claim):
                more = result
        except verbs.Left as exc:
            LOG.info('Work interrupted by shutdown, will resume later%s',
                     _fields(claim, reason=exc))
        except Exception as exc:
            LOG.error('Failed to finish work, will resume at the deadline%s',
                      _fields(claim, reason=exc), exc_info=not errors.is_known(exc))
            self._interrupt(claim, exc)
        finally:
            # The claim on the further work is added to ``_held`` before this work is released, so
            # that the recovery in this process does not resume the further work.
            begins = more is not None and self._hold(more)
            if not goes_on:
                self._release(claim)
                self.afterwards()
        if begins and more is not None:
            self._run(caller, more)

    def _act(self, caller: context.RequestContext, claim: records.Claim,
             rest: Callable[[], object] | None) -> verbs.TakesLong | records.Claim | None:
        """Execute the method of a verb or the remaining part of its work, and end the work.

        :returns: remaining part of work that takes long, or the claim on further work on the
            resource; None if there is neither
        """
        actor, verb = self._verbs[claim.name]
        result: object = None
        more: object = None
        try:
            with self._telemetry.work(verb.name, caller.traceparent):
                failpoints.point(f'work.{verb.name}.before')
                result = getattr(actor, verb.method)(caller, claim) if rest is None else rest()
                if isinstance(result, verbs.TakesLong):
                    return result
                if verb.ends is not None and verb.ends.done is not None:
                    work_ends.finish(self._database, claim)
                if verb.done is not None:
                    more = verb.done(actor, claim, result)
                failpoints.point(f'work.{verb.name}.after')
        except (errors.StaleGeneration, errors.NotFound) as exc:
            self._lost(claim, result, exc)
        except (errors.BackendRefused, verbs.Failed) as exc:
            if verb.failed is None and (verb.ends is None or verb.ends.failed is None):
                raise
            self._fail(caller, claim, exc)
        return more if isinstance(more, records.Claim) else None

    def _fail(self, caller: context.RequestContext, claim: records.Claim,
              reason: Exception) -> None:
        actor, verb = self._verbs[claim.name]
        result = getattr(reason, 'result', None)
        found = work.of_resource(self._database, claim.noun, claim.resource_id)
        text = (reason.message if isinstance(reason, verbs.Failed) else None) or verb.message
        say = messages.of_failure(self._database, found, caller.request_id, text, reason)
        try:
            if verb.failed is None or verb.failed(actor, claim, say) is False:
                work_ends.fail(self._database, claim, say, reason)
        except (errors.StaleGeneration, errors.NotFound) as exc:
            self._lost(claim, result, exc)
            return
        if verb.then is not None:
            verb.then(actor, caller, claim, result)

    def _lost(self, claim: records.Claim, result: object, reason: Exception) -> None:
        """Log the loss of a claim, and call ``Verb.undo`` if the method has returned a result."""
        LOG.info('Lost the claim on work%s', _fields(claim, reason=reason))
        actor, verb = self._verbs[claim.name]
        if result is not None and verb.undo is not None:
            verb.undo(actor, result)

    def _interrupt(self, claim: records.Claim, reason: Exception) -> None:
        try:
            work.interrupt(self._database, claim, str(reason))
        except errors.DatabaseUnavailable as exc:
            # The work is repeated nevertheless. Only the list of work does not show the reason.
            LOG.info('Failed to store reason of interrupted work%s', _fields(claim, exc))


def _fields(claim: records.Claim, reason: Exception | None = None,
            owner: str | None = None) -> log.Fields:
    return log.fields(work=claim.name, resource_id=claim.resource_id,
                      generation=claim.generation, owner=owner, reason=reason)
