"""Walk over all failpoints: each process dies at each place that it passes, in each operation.

After each death, nothing is violated and no work is under way. No steady host was interrupted.
Every request has ended with an answer, unless the API died. A client can delete all remaining
resources.
"""
import functools
import os
import tempfile
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform.secrets import key_file
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.storage.domain import connection
from blockattach.storage.drivers.targets import fake as fake_target
from blockattach.tests.fixtures import make
from lab.simulation import baton as batons
from lab.simulation import clients as requests
from lab.simulation import cloud as clouds
from lab.simulation import nouns
from lab.simulation import operations
from lab.simulation import recording
from lab.simulation import rows
from lab.simulation import threads
from lab.simulation.nouns import services as services_played

IN_CLUSTER = ('create', 'attach', 'connect', 'detach', 'force-detach', 'delete', 'fallen over',
              'idle', 'snapshot', 'cascade')
"""Operations in which a cluster recovers differently from a volume manager that restarts."""
MANAGERS = ('volume-1', 'volume-2')
STEADY = ('steady-1', 'steady-2')
_TIMEOUT_SECONDS = 300.0
_TICK = 1.0
_QUIET_SECONDS = 30.0
_KILLED = -9
_ONCE = (operations.MANAGE, operations.CONSUMER)


class Place(NamedTuple):
    """Place at which a process dies.

    ``operation`` is the name of an operation, or `operations.START` or `operations.STOP`.
    """

    operation: str
    process: str
    place: str

    def __str__(self) -> str:
        return f'{self.process} at {self.place} in {self.operation}'


class _Api:
    """API of the cloud, as `recording.Client` calls it."""

    def __init__(self, cloud: clouds.Cloud) -> None:
        self._cloud = cloud

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request, and return its status and answer.

        :raises OSError: if the connection was cut
        """
        answer = self._cloud.api.ask(method, path, body)
        if not answer.status:
            raise ConnectionResetError('cut')
        return answer.status, answer.body


class _Switch:
    """Faults of one process at places, as ``PLACE=ACTION``."""

    def __init__(self, walk: 'Walk', name: str) -> None:
        self._walk = walk
        self._name = name

    def set(self, *texts: str) -> None:
        """Replace the faults of the process."""
        cloud, name = self._walk.cloud, self._name
        if name == operations.MANAGER:
            name = self._walk.manager
        cloud.disarm(name)
        for text in texts:
            place, _, action = text.partition('=')
            kind, _, times = action.partition('*')
            if kind == 'kill':
                cloud.kill(name, at=place)
            else:
                cloud.fail(name, place, _ERRORS[kind](place), always=not times)


_ERRORS: dict[str, Callable[[str], Exception]] = {
    'raise': lambda place: failpoints.Reached(f'failpoint {place}'),
    'refuse': lambda place: errors.BackendRefused(reason=f'refused at {place}'),
}


class Walk:
    """Cloud with the interface that operations use."""

    SCHEDULER_HOST = 'control-1'

    def __init__(self, clustered: bool = False, seed: int = 1) -> None:
        """
        :param clustered: a volume manager that dies is not restarted; the other member takes over
        """
        self.clustered = clustered
        self.cloud = clouds.Cloud(seed, clustered=clustered, beside=not clustered,
                                  caches=not clustered, control=1, buses=1)
        self._folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self._seal(key_file.KeyFile(os.path.join(self._folder.name, 'seal.key')))
        for name in _ONCE:
            self.cloud.passed[name] = {}
        self.switches = {name: _Switch(self, name) for name in self.cloud.passed}
        self.client = recording.Client(self, _Api(self.cloud), _now(self.cloud), self.wait_for,
                                       nouns.NOUNS)
        self.killed = 0
        self._down = {MANAGERS[1]} if clustered else set()
        self._steady: list[tuple[str, str]] = []

    def _seal(self, sealer: key_file.KeyFile) -> None:
        self.cloud.world.rows.sealer = self.cloud.database.sealer = sealer

    def play(self, act: Callable[['Walk'], object]) -> None:
        """Play a story in a cloud in which two steady hosts use volumes all the time."""
        def story() -> None:
            self._prepare()
            act(self)
        with self._folder:
            self.cloud.tell(story, tuple(self._down))

    def _prepare(self) -> None:
        client = self.client
        client.shared = client.volume(volume_type=requests.MULTIATTACH)
        client.plain = client.volume()
        other = client.volume()
        client.kept_volumes = {client.shared, client.plain, other}
        for host, volume in zip(STEADY, (client.shared, other), strict=True):
            made = client.attached(volume, host)
            client.kept_attachments.add(made)
            info = self.cloud.api.sure((200,), 'GET', f'/attachments/{made}')['attachment'][
                'connection_info']
            target, grant = next(self._grants(volume))
            initiator = grant.initiator
            target.log_in(volume, initiator, connection.Credential(
                info['auth_username'], info['auth_password']))
            self._steady.append((volume, initiator))

    def _grants(self, volume_id: str,
                ) -> Iterator[tuple[fake_target.FakeTarget, connection.ActualGrant]]:
        """Yield the grants of a volume, each with its target."""
        return ((kept.target, grant) for kept in self.cloud.deployed.storages.values()
                for export in kept.target.exports() for grant in export.grants
                if grant.volume_id == volume_id)

    def interrupted(self) -> list[str]:
        """Return the initiators of steady hosts whose sessions have ended."""
        return [initiator for volume, initiator in self._steady if not any(
            grant.sessions for _, grant in self._grants(volume)
            if grant.initiator == initiator)]

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        """Wait until the condition is true, and return its last value."""
        baton = self.cloud.baton
        end = baton.now + _TIMEOUT_SECONDS
        while not (found := condition()) and baton.now < end:
            baton.wait(_TICK)
        return found

    @property
    def manager(self) -> str:
        """Name of the volume manager that serves, or is to serve next."""
        return next(name for name in MANAGERS if name not in self._down)

    def kill(self, name: str) -> None:
        self.cloud.kill(name)

    def begin(self, name: str) -> None:
        self.cloud.start(name)

    def wait_ready(self, which: list[str]) -> None:
        """Wait until the processes serve."""
        self.cloud.until(lambda: all(self.cloud.parts[name].serving is not None
                                     for name in which))

    def served(self, manager: str) -> str:
        """Return the address of the backend."""
        return self.cloud.deployed.address

    def forget_service(self, host: str, cluster: str | None = None) -> None:
        """Register a volume service that has sent no heartbeat for a long time."""
        services.register(self.cloud.database, binaries.VOLUME, host, make.ZONE, 'long ago',
                          cluster=cluster)
        self.cloud.baton.wait(services_played.DOWN_SECONDS + 1)

    def run(self, name: str, *arguments: str) -> int | None:
        """Run a process to its end.

        :returns: its exit status; negative if it was killed, None if it did not end in time
        """
        process = batons.Process(self.cloud.baton, name)
        ended: list[int] = []

        def act() -> None:
            body = nouns.COMMANDS[arguments[:2] if name == operations.MANAGE else (name,)]
            try:
                body(self, process, *arguments)
            except errors.BlockattachError:
                ended.append(1)
            else:
                ended.append(0)
        self.cloud.baton.spawn(process, name, act)
        self.wait_for(lambda: ended or process.dead)
        status = ended[0] if ended else _KILLED if process.dead else None
        process.kill()
        self.client.ended.append(recording.Ended(f'{name} {" ".join(arguments)}',
                                               'never' if status is None else status, None, 0.0))
        return status

    def database(self, process: batons.Process) -> storage_db.Database:
        """Return the database as a process sees it that runs a single command."""
        def touch(kind: str) -> None:
            process.check()
            self.cloud.baton.step()
        return rows.SimulatedDatabase(self.cloud.world.rows, touch,
                                      clock=threads.VirtualClock(self.cloud.baton))

    def serving(self) -> list[str]:
        """Return the names of the processes that should serve now."""
        return [name for name in self.cloud.parts if name not in self._down]

    def is_clean(self) -> bool:
        """Return True if nothing is violated and no work is under way."""
        return self.cloud.is_well(self.serving())

    def passes(self, operation: operations.Operation) -> dict[str, dict[str, None]]:
        """Perform an operation, and return the places that it passes, by process."""
        made = operation.prepare(self.client)
        assert self.wait_for(self.is_clean), self._why_not()
        for places in self.cloud.passed.values():
            places.clear()
        with operations.hindered(self.client, operation):
            status = operation.act(self.client, made)
            assert status in (None, 0), operation.name
            self.wait_for(self.is_clean)
            if operation.name == 'idle':
                self.cloud.baton.wait(_QUIET_SECONDS)
        passed = {name: dict(places) for name, places in self.cloud.passed.items()}
        operation.undo(self.client)
        self.client.clear()
        return passed

    def passes_in_an_instance(self, process: str) -> dict[str, dict[str, None]]:
        """Restart a process, and return the places that it passes while it stops and starts."""
        passed = self.cloud.passed[process]
        found = {}
        passed.clear()
        self.stop(process)
        found[operations.STOP] = dict(passed)
        passed.clear()
        self.cloud.start(process)
        self.cloud.baton.wait(_QUIET_SECONDS)
        found[operations.START] = dict(passed)
        return found

    def stop(self, process: str) -> None:
        """Stop a process in order. An API is killed instead."""
        if process.startswith('api'):
            self.cloud.kill(process)
        else:
            self.cloud.stop(process)

    def die(self, where: Place) -> None:
        """Kill a process at a place, and check the cloud."""
        self.client.forget()
        victim = self.manager if where.process in MANAGERS else where.process
        if where.operation == operations.START:
            self.cloud.kill(victim)
            self._alone(where, victim, self.cloud.start)
        elif where.operation == operations.STOP:
            self._alone(where, victim, self.stop)
        elif victim in _ONCE:
            self._in_command(nouns.named(where.operation), where)
        else:
            self._at_work(nouns.named(where.operation), where, victim)
        self.killed += 1
        self._in_order(where, victim)

    def stand_still(self, where: Place, seconds: float, dies: bool = False) -> None:
        """Pause a process at a place for some time, and check the cloud.

        :param dies: kill and restart the process after the pause, instead of resuming it
        """
        operation = nouns.named(where.operation)
        made = operation.prepare(self.client)
        assert self.wait_for(self.is_clean), f'{where}: {self._why_not()}'
        self.client.forget()
        self.cloud.pause(where.process, at=where.place)
        ends = self.cloud.beside(operation.act, self.client, made)
        self.cloud.until_at(where.process, where.place)
        self.cloud.baton.wait(seconds)
        if dies:
            self.cloud.kill(where.process)
            self.cloud.start(where.process)
        else:
            self.cloud.resume(where.process)
        ends.result()
        self._in_order(where, where.process)

    def _alone(self, where: Place, victim: str, act: Callable[[str], object]) -> None:
        self.cloud.kill(victim, at=where.place)
        act(victim)
        self.cloud.until_at(victim, where.place)
        self._replace(victim)

    def _at_work(self, operation: operations.Operation, where: Place, victim: str) -> None:
        made = operation.prepare(self.client)
        assert self.wait_for(self.is_clean), f'{where}: {self._why_not()}'
        self.client.forget()
        with operations.hindered(self.client, operation,
                                 (where.process, f'{where.place}=kill')):
            ends = self.cloud.beside(operation.act, self.client, made)
            self.cloud.until_at(victim, where.place)
        self._replace(victim)
        ends.result()
        operation.undo(self.client)

    def _replace(self, victim: str) -> None:
        """Restart the process that died. In a cluster, start the other volume manager instead."""
        if self.clustered and victim in MANAGERS:
            [fellow] = set(MANAGERS) - {victim}
            self._down = {victim}
            victim = fellow
        self.cloud.start(victim)

    def _in_command(self, operation: operations.Operation, where: Place) -> None:
        made = operation.prepare(self.client)
        assert self.wait_for(self.is_clean), f'{where}: {self._why_not()}'
        with operations.hindered(self.client, operation, (where.process, f'{where.place}=kill')):
            status = operation.act(self.client, made)
            assert status == _KILLED, f'{where}: not reached'
        assert operation.act(self.client, made) in operation.again, where
        operation.undo(self.client)

    def _in_order(self, where: Place, victim: str) -> None:
        assert self.wait_for(self.is_clean), f'{where}: {self._why_not()}'
        self.wait_ready(self.serving())
        assert not self.interrupted(), f'{where}: {self.interrupted()} interrupted'
        assert not self.client.unanswered(), f'{where}: {self.client.unanswered()}'
        if victim != operations.API:
            cut = [one for one in self.client.ended if one.status is None]
            assert not cut, f'{where}: {cut}'
        self.client.clear()
        assert self.wait_for(self.is_clean), f'{where}: {self._why_not()}'
        assert not self.client.left(), f'{where}: {self.client.left()}'
        self.cloud.check(settled=True, anyway=True)
        assert not self.cloud.wrong, f'{where}: {self.cloud.wrong}'

    def _why_not(self) -> list[str]:
        return [str(one) for one in self.cloud.checker.violations()] + [
            f'{name} does not serve' for name in self.serving()
            if self.cloud.parts[name].serving is None]


def _now(cloud: clouds.Cloud) -> clock.Clock:
    return threads.VirtualClock(cloud.baton)


@functools.cache
def places(clustered: bool = False) -> tuple[Place, ...]:
    """Return all places to die at.

    A core operation contributes all places that it passes, as does an operation that passes no new
    place. Any other operation contributes the places that no earlier operation passes. In a
    cluster, only the volume manager dies.
    """
    found: list[Place] = []
    Walk(clustered).play(lambda walk: found.extend(_found(walk)))
    return tuple(found)


def _found(walk: Walk) -> Iterator[Place]:
    known: set[tuple[str, str]] = set()
    idle = walk.passes(nouns.named('idle'))
    for operation in nouns.OPERATIONS:
        if walk.clustered and operation.name not in IN_CLUSTER:
            continue
        passed = idle if operation.name == 'idle' else walk.passes(operation)
        come_by = [(process, place) for process, places in passed.items() for place in places
                   if _may_die(walk, operation, process)
                   and (operation.name == 'idle' or place not in idle[process])]
        new = [one for one in come_by if one not in known]
        known.update(new)
        for process, place in new if new and not operation.core else come_by:
            yield Place(operation.name, process, place)
    for process in (walk.manager,) if walk.clustered else walk.serving():
        for word, places in walk.passes_in_an_instance(process).items():
            if walk.clustered and word == operations.START:
                continue
            new = [(process, place) for place in places if (process, place) not in known]
            known.update(new)
            yield from (Place(word, *one) for one in new)


def _may_die(walk: Walk, operation: operations.Operation, process: str) -> bool:
    if operation.others or walk.clustered:
        return (process == operations.MANAGER) is walk.clustered
    return True
