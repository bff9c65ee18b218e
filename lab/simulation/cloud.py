"""Cloud for scenarios: the simulation without random faults.

The processes are the real ones (`deployment`) and time is virtual. Only the thread order depends
on the seed, so that a scenario must hold in each order. A fault happens only where the scenario
asks for it. At the end all processes are started again, faults are switched off, and all promises
of the simulation are checked.
"""
import hashlib
import random
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import NoReturn

from blockattach.platform import failpoints
from blockattach.storage.domain import quotas
from lab.simulation import baton as batons
from lab.simulation import clients
from lab.simulation import consumer
from lab.simulation import deployment
from lab.simulation import nouns
from lab.simulation import scene
from lab.simulation import script
from lab.simulation import storage

TICK = 0.1
_SOON = 600.0
# Enough for all work in progress and for a few runs of each periodic task.
_PEACE_SECONDS = 120.0
_LOOKS_SECONDS = 3.0 * deployment.RECONCILE_SECONDS
_COMMITS = ('db.engine.before_commit', 'db.engine.after_commit')


class Running:
    """Call that runs in a thread beside the story."""

    def __init__(self, cloud: 'Cloud') -> None:
        self._cloud = cloud
        self.ended = False
        self.found: Any = None
        self.error: BaseException | None = None

    def result(self) -> Any:
        """Wait for the end of the call, and return its result or raise its exception."""
        self._cloud.until(lambda: self.ended, 'it has ended')
        if self.error is not None:
            raise self.error
        return self.found


class Cloud(scene.Scene):
    """Cloud in which one story is played, by `tell`.

    :ivar api: client of the API
    :ivar bus: faults of messages
    :ivar backend: faults of operations of the storage
    :ivar passed: the places that each process has passed, in order. A place is the name of a
        failpoint. At a commit, the name of the database function precedes it:
        ``db.volumes.claim/db.engine.before_commit``
    """

    def __init__(self, seed: int = 1, clustered: bool = False, apart: bool = False,
                 beside: bool = False, caches: bool = False, control: int = 2, buses: int = 0,
                 total_gb: int = storage.TOTALS_GB[0], quota: int = quotas.UNLIMITED,
                 settings: deployment.Settings = ()) -> None:
        """
        :param clustered: ``volume-1`` and ``volume-2`` are a cluster with one storage
        :param apart: ``volume-1`` and ``volume-2`` have a storage each
        :param beside: each volume manager has a second backend with a storage of its own
        :param caches: each backend has an image cache
        :param control: number of APIs, and number of schedulers
        :param buses: number of processes that serve consumers on the bus, as ``control-1``
        """
        self.script = script.Script(random.Random(seed))
        super().__init__(random.Random(seed), self.script, deployment.Wanted(
            total_gb, quota, clustered, apart=apart, control=control, buses=buses,
            settings=settings, beside=beside, caches=caches))
        self.parts = {part.name: part for part in self.deployed.parts}
        self.bus = script.Bus(self.script, self.world.broker)
        self.backend = script.Backend(self.script)
        self.api = consumer.Consumer(self.consumers, self.baton.wait)
        self.passed: dict[str, dict[str, None]] = {name: {} for name in self.parts}
        self.wrong: list[str] = []
        self._armed: dict[tuple[str, str], Callable[[batons.Process], None]] = {}
        self._lasting: dict[tuple[str, str], Exception] = {}
        self._verbs: dict[batons.Task, str] = {}
        self._trace = hashlib.sha256()

    @property
    def trace(self) -> str:
        """Hash of all events of the run, in order."""
        return self._trace.hexdigest()

    def tell(self, story: Callable[[], object], down: tuple[str, ...] = ()) -> None:
        """Play a story.

        :param down: processes that are not started before the story
        :raises AssertionError: if something was violated, or a requested fault did not happen
        """
        def all_of_it() -> None:
            self.make_types()
            for name in self.parts.keys() - set(down):
                self.parts[name].begin()
            self.until(lambda: all(self.parts[name].serving is not None
                                   for name in self.parts.keys() - set(down)), 'all serve')
            story()
            self.settle()
        self.play(all_of_it)

    def settle(self) -> None:
        """End all faults, start all processes, let time pass, and check that all is well."""
        unplayed = [f'{name} at {place}' for name, place in self._armed] + self.script.unplayed()
        assert not unplayed, f'did not happen: {unplayed}'
        self._lasting.clear()
        for name, part in self.parts.items():
            self.heal(name)
            self.resume(name)
            part.begin()
        end = self.baton.now + _PEACE_SECONDS
        while not self.is_well() and self.baton.now < end:
            self.baton.wait(1.0)
        self.pass_time(_LOOKS_SECONDS)
        for part in self.parts.values():
            if part.serving is None:
                self.violated(f'P9 {part.name} does not serve')
        self.assert_well()

    def is_well(self, serving: Iterable[str] | None = None) -> bool:
        """Return True if no work is under way, nothing is violated, and the processes serve.

        :param serving: the processes that must serve; None for all
        """
        with self.script.off(), self.database.reader() as reader:
            at_work = any(reader.exec_driver_sql(count).scalar() for count in nouns.AT_WORK)
            return not at_work and not self.checker.violations() and all(
                self.parts[name].serving is not None for name in serving or self.parts)

    def assert_well(self) -> None:
        """Raise AssertionError if work is under way, or anything is violated or orphaned."""
        self.check(settled=True, anyway=True)
        self.nothing_is_left()
        assert not self.wrong, '\n'.join(self.wrong)

    def pass_time(self, seconds: float) -> None:
        """Wait for some virtual seconds, then check what must always hold."""
        self.baton.wait(seconds)
        self.check(settled=False)

    def until(self, condition: Callable[[], Any], what: str = 'it is so') -> Any:
        """Wait until the condition is true, and return its value.

        :raises AssertionError: if the condition does not become true in time
        """
        end = self.baton.now + _SOON
        while not (found := condition()):
            assert self.baton.now < end, f'never came about: {what}'
            self.baton.wait(TICK)
        return found

    def beside(self, act: Callable[..., Any], *arguments: Any, **more: Any) -> Running:
        """Call ``act`` in a new thread."""
        running = Running(self)

        def run() -> None:
            try:
                running.found = act(*arguments, **more)
            except Exception as error:
                running.error = error
            finally:
                running.ended = True
        self.baton.spawn(self.outside, getattr(act, '__name__', 'act'), run)
        return running

    def kill(self, name: str, at: str | None = None) -> None:
        """Kill a process as ``kill -9`` does.

        :param at: the place at which the process dies when it next passes it; None for now
        """
        if at is None:
            self.parts[name].end()
        else:
            self._armed[name, at] = self._die

    def pause(self, name: str, at: str | None = None) -> None:
        """Pause a process as SIGSTOP does, until `resume`.

        :param at: as in `kill`
        """
        if at is None:
            self.parts[name].process.pause()
        else:
            self._armed[name, at] = self._stand_still

    def resume(self, name: str) -> None:
        """Resume a process as SIGCONT does."""
        self.parts[name].process.resume()

    def fail(self, name: str, at: str, error: Exception, always: bool = False) -> None:
        """Raise an error in a process when it next passes a place.

        :param always: raise the error each time that the process passes the place
        """
        def act(process: batons.Process) -> NoReturn:
            raise error
        if always:
            self._lasting[name, at] = error
        else:
            self._armed[name, at] = act

    def disarm(self, name: str) -> None:
        """Cancel all faults that were requested for places of a process."""
        for armed in (self._armed, self._lasting):
            for one in [one for one in armed if one[0] == name]:
                del armed[one]

    def until_at(self, name: str, place: str) -> None:
        """Wait until a process is paused, or has died, at the place given to `pause` or `kill`."""
        self.until(lambda: (name, place) not in self._armed, f'{name} comes to {place}')

    def start(self, name: str) -> None:
        """Start a process that is down, and wait until it serves or has died again."""
        part = self.parts[name]
        part.begin()
        self.until(lambda: part.serving is not None or part.process.dead, f'{name} serves')

    def stop(self, name: str, timeout: float = 60.0) -> bool:
        """Stop a process as SIGTERM does.

        :returns: True if its services stopped in order within the timeout
        """
        part = self.parts[name]
        ended = self._within(part, part.serving.stop, timeout)
        if not ended:
            for leave in part.base.abandoned:
                self._within(part, leave, timeout)
        part.end()
        return ended

    def _within(self, part: deployment.Part, act: Callable[[], object], timeout: float) -> bool:
        done: list[bool] = []

        def run() -> None:
            act()
            done.append(True)
        self.baton.spawn(part.process, 'ends', run)
        end = self.baton.now + timeout
        while not done and not part.process.dead and self.baton.now < end:
            self.baton.wait(TICK)
        return bool(done)

    def partition(self, name: str, bus: bool = True, database: bool = True) -> None:
        """Disconnect a process from the bus and the database until `heal`."""
        if bus:
            self.world.broker.cut.add(name)
        if database:
            self.script.away.add(name)

    def heal(self, name: str) -> None:
        """Reconnect a process to the bus and the database."""
        self.script.away.discard(name)
        if name in self.world.broker.cut:
            self.world.broker.join(name)

    def violated(self, said: str) -> None:
        """Collect a violation. The story reports all violations together at its end."""
        if said not in self.wrong:
            self.wrong.append(said)

    def note(self, method: str, path: str, answer: clients.Answer) -> None:
        self._trace.update(f'{method} {path} {answer.status} {self.baton.now:.6f}\n'.encode())

    def point(self, name: str) -> failpoints.Effect | None:
        task = self.baton.current
        process = task.process
        if process.name not in self.passed:
            return None
        process.check()
        place = self._place(task, name)
        self.passed[process.name][place] = None
        self._trace.update(f'{process.name} {place} {self.baton.now:.6f}\n'.encode())
        act = self._armed.pop((process.name, place), None)
        if act is not None:
            act(process)
        lasting = self._lasting.get((process.name, place))
        if lasting is not None:
            raise lasting
        return None

    def _place(self, task: batons.Task, name: str) -> str:
        if name in _COMMITS:
            verb = self._verbs.get(task)
            return f'{verb}/{name}' if verb else name
        if name.startswith('db.'):
            verb, _, moment = name.rpartition('.')
            if moment == 'before':
                self._verbs[task] = verb
            else:
                self._verbs.pop(task, None)
        return name

    def _stand_still(self, process: batons.Process) -> None:
        process.pause()
        self.baton.step()

    def _die(self, process: batons.Process) -> NoReturn:
        if process.name in self.parts:
            self.parts[process.name].end()
        process.kill()
        raise batons.Killed
