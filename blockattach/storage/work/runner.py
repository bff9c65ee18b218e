"""Runs claimed work in threads, renews it while it runs, hands over what it has not ended."""
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
    """The work of one process instance for one ``host@backend``, or as a scheduler."""

    def __init__(self, database: storage_db.Database, actors: Iterable[object], host: str | None,
                 owner: str, seconds: Callable[[str], float],
                 pool: futures.Executor | None = None,
                 afterwards: Callable[[], None] = lambda: None,
                 slow: futures.Executor | None = None,
                 stopping: Callable[[], None] = lambda: None,
                 telemetry: acts.Telemetry | None = None) -> None:
        """
        :param actors: have the verbs
        :param owner: names the process instance
        :param seconds: the value of the option that a verb's deadline names
        :param pool: for what goes on after an answer
        :param afterwards: called when a piece of work has ended
        :param slow: for acts that take long (`verbs.TakesLong`); None: they are waited for
        :param stopping: called before what was begun is waited for in the end
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
        """Take work on that a message asks for, and do it soon; False: it has moved on, or
        another process has it. A repeat of the message changes nothing.
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
                self._release(claim)
                raise
        return True

    def knows(self, found: records.Work) -> bool:
        """Whether it can do such work."""
        return found.claim.name in self._verbs

    def resume(self, found: records.Work) -> bool:
        """Go on with work that was found, and wait for its end; False: another one does."""
        if (claim := found.claim._replace(owner=self.owner)) in self.held():
            return False
        if not work.take(self._database, found, self.owner, self._deadline(claim)):
            return False
        LOG.warning('Resuming interrupted work%s', _fields(claim, owner=found.owner))
        if self._hold(claim):
            self._run(context.admin_context(project_id=found.project_id,
                                            request_id=found.request_id), claim)
        return True

    def held(self) -> list[records.Claim]:
        """What it has and has not ended."""
        with self._guard:
            return list(self._held)

    def renew(self) -> None:
        """Put off the deadlines of what it has; to be called more often than they pass."""
        for claim in self.held():
            work.renew(self._database, claim, self._deadline(claim))

    def stop(self) -> None:
        """Finish what was begun; the rest is left to others."""
        self._ends = True
        self._stopping()
        for pool in (self._pool, self._slow):
            if pool is not None:
                pool.shutdown(wait=True, cancel_futures=True)
        self.leave()

    def leave(self) -> None:
        """Let others go on at once with what it has. What cannot be handed over is found at its
        deadline.
        """
        try:
            number = work.hand_over(self._database, self.owner)
        except Exception as exc:
            LOG.error('Failed to hand over work, resuming at the deadline%s',
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
        """
        :param rest: what is left of an act that takes long
        """
        # Log lines of this thread name the request that asked for the work; it has been answered,
        # and no caller waits.
        caller.update_store()
        caller.deadline = None
        goes_on, more = False, None
        try:
            if rest is not None and self._ends:
                # A thread was freed by an act that has ended for the same reason.
                raise verbs.Left('the process stops')
            found = self._act(caller, claim, rest)
            if isinstance(found, verbs.TakesLong) and self._slow is not None:
                self._slow.submit(self._run, caller, claim, found.rest)
                goes_on = True
            elif isinstance(found, verbs.TakesLong):
                found = self._act(caller, claim, found.rest)
            if isinstance(found, records.Claim):
                more = found
        except verbs.Left as exc:
            LOG.info('Work left to the next process%s', _fields(claim, reason=exc))
        except Exception as exc:
            LOG.error('Failed to finish work, resuming at the deadline%s',
                      _fields(claim, reason=exc), exc_info=not errors.is_known(exc))
            self._interrupt(claim, exc)
        finally:
            begins = more is not None and self._hold(more)
            if not goes_on:
                self._release(claim)
                self.afterwards()
        if begins and more is not None:
            self._run(caller, more)

    def _act(self, caller: context.RequestContext, claim: records.Claim,
             rest: Callable[[], object] | None) -> verbs.TakesLong | records.Claim | None:
        """
        :returns: what is left to do of an act that takes long, or the claim of what comes next
        """
        actor, verb = self._verbs[claim.name]
        made: object = None
        more: object = None
        try:
            with self._telemetry.work(verb.name, caller.traceparent):
                failpoints.point(f'work.{verb.name}.before')
                made = getattr(actor, verb.method)(caller, claim) if rest is None else rest()
                if isinstance(made, verbs.TakesLong):
                    return made
                if verb.ends is not None and verb.ends.done is not None:
                    work_ends.finish(self._database, claim)
                if verb.done is not None:
                    more = verb.done(actor, claim, made)
                failpoints.point(f'work.{verb.name}.after')
        except (errors.StaleGeneration, errors.NotFound) as exc:
            self._lost(claim, made, exc)
        except (errors.BackendRefused, verbs.Failed) as exc:
            if verb.failed is None and (verb.ends is None or verb.ends.failed is None):
                raise
            self._fail(caller, claim, exc)
        return more if isinstance(more, records.Claim) else None

    def _fail(self, caller: context.RequestContext, claim: records.Claim,
              reason: Exception) -> None:
        actor, verb = self._verbs[claim.name]
        made = getattr(reason, 'made', None)
        found = work.of_resource(self._database, claim.noun, claim.resource_id)
        text = (reason.message if isinstance(reason, verbs.Failed) else None) or verb.message
        say = messages.of_failure(self._database, found, caller.request_id, text, reason)
        try:
            if verb.failed is None or verb.failed(actor, claim, say) is False:
                work_ends.fail(self._database, claim, say)
        except (errors.StaleGeneration, errors.NotFound) as exc:
            self._lost(claim, made, exc)
            return
        if verb.then is not None:
            verb.then(actor, caller, claim, made)

    def _lost(self, claim: records.Claim, made: object, reason: Exception) -> None:
        """What has moved on is left alone, but for what was made of it here."""
        LOG.info('Lost the claim on work%s', _fields(claim, reason=reason))
        actor, verb = self._verbs[claim.name]
        if made is not None and verb.undo is not None:
            verb.undo(actor, made)

    def _interrupt(self, claim: records.Claim, reason: Exception) -> None:
        try:
            work.interrupt(self._database, claim, str(reason))
        except errors.DatabaseUnavailable:
            LOG.info('Failed to store reason of interrupted work%s', _fields(claim))


def _fields(claim: records.Claim, reason: Exception | None = None,
            owner: str | None = None) -> log.Fields:
    return log.fields(work=claim.name, resource_id=claim.resource_id,
                      generation=claim.generation, owner=owner, reason=reason)
