"""One simulation: a deployment, its clients, its faults, and the checker after each operation.

In rounds: so many operations under faults, then peace. Then all that is down begins, nothing goes
wrong, time passes; and everything must be in order, every request ended, nothing left behind. Some
operations follow in the calm: only they meet each other, so none may fail, and what nobody is at
work on must be in order all the time.
"""
import contextlib
import dataclasses
import datetime
import hashlib
import logging
import random
from collections import Counter

from blockattach import errors
from blockattach import failpoints
from blockattach.db import attachment_queries
from blockattach.db import pair_wishes
from blockattach.db import purging
from blockattach.db import quotas
from blockattach.db import volume_queries
from blockattach.db import volume_types
from blockattach.domain import attachment_lifecycle
from blockattach.domain import invariants
from blockattach.http import faults as http_faults
from blockattach.tests.simulation import baton as batons
from blockattach.tests.simulation import bus
from blockattach.tests.simulation import clients
from blockattach.tests.simulation import deployment
from blockattach.tests.simulation import faults
from blockattach.tests.simulation import promises
from blockattach.tests.simulation import rows
from blockattach.tests.simulation import storage
from blockattach.tests.simulation import threads
from blockattach.volume import checker

CLIENTS = 8
# Operations of one round: a long storm hides for long what a short one shows at once.
STORMS = (100, 200, 400)
CALM = 4
"""One in so many operations of a storm follows it in the calm."""
_PEACE_SECONDS = 120.0
_MEND_SECONDS = 10.0
_SOON_SECONDS = 0.05
# How likely somebody looks after a transaction, besides after each operation.
_LOOKS = 0.2
# An administrator has said of a volume that was never made that it is available.
_IN_USE = ('available', 'reserved', 'attaching', 'in-use', 'detaching')
_LET_IN = 'who_uses_it_is_let_in'
_NO_BACKEND = 'has no backend yet'
# Not counted, never reached, reached now and then.
_QUOTAS = (quotas.UNLIMITED, 1000, 14)
_AGE = datetime.timedelta(minutes=5)


@dataclasses.dataclass(frozen=True, slots=True)
class Violation:
    """What was found, and when. ``seed`` and ``steps`` bring it back."""

    seed: int
    step: int
    steps: int
    said: str

    def __str__(self) -> str:
        return (f'seed {self.seed} step {self.step}: {self.said} '
                f'(tools/simulate --seed {self.seed} --steps {self.steps})')


@dataclasses.dataclass(slots=True)
class Report:
    """What a simulation came to. ``trace`` is the hash of all that happened, in order."""

    seed: int
    steps: int = 0
    violations: list[Violation] = dataclasses.field(default_factory=list)
    statuses: Counter[str] = dataclasses.field(default_factory=Counter)
    faults: Counter[str] = dataclasses.field(default_factory=Counter)
    points: set[str] = dataclasses.field(default_factory=set)
    trace: str = ''
    seconds: float = 0.0
    lives: int = 0


class Simulation(clients.Judge):
    """Built from a seed; `run` once."""

    def __init__(self, seed: int, rates: faults.Rates | None = None,
                 clustered: bool | None = None, first_only: bool = False) -> None:
        """
        :param clustered: None: as the seed says
        :param first_only: end at the first violation
        """
        self._first_only = first_only
        chance = random.Random(seed)
        self.report = Report(seed)
        self.baton = batons.Baton(chance)
        self.faults = faults.Faults(chance, rates or faults.Rates())
        self.world = deployment.World(
            self.baton, self.faults, bus.Broker(self.baton, self.faults),
            rows.Rows(self.baton, self.faults, chance),
            storage.Storage(self.baton, self.faults, chance.choice(storage.TOTALS_GB)),
            chance.choice(_QUOTAS))
        either = chance.random() < 0.5
        self.deployed = deployment.Deployment(
            self.world, either if clustered is None else clustered, chance.random() < 0.5)
        self.outside = batons.Process(self.baton, 'outside')
        self.consumers = clients.Consumers(self.baton, self.deployed, self)
        self._trace = hashlib.sha256()
        self._database = rows.SimulatedDatabase(
            self.world.rows, lambda kind: None, clock=threads.VirtualClock(self.baton))
        self._checker = checker.Checker(
            self._database, {self.deployed.address: self.world.storage.target})
        self.world.storage.overtaken.turn_of = self._turn_of
        self._seen: tuple[int, int] = (-1, -1)
        self._looks = random.Random(seed)
        self._storm = False
        self.world.rows.stored = self._look
        self._left = self._working = self._steps = 0
        self._calm = False

    def run(self, steps: int) -> Report:
        """So many operations, and peace in between and at the end."""
        self._steps = steps
        logging.disable(logging.CRITICAL)
        failpoints.arm_every(self._point)
        try:
            self.baton.run(self.outside, lambda: self._play(steps))
        except _Enough:
            pass
        except batons.Stuck as stuck:
            self._found(f'P9 stuck: {stuck}')
        except Exception as unforeseen:
            self._found(f'P9 fell_over: a thread has ended with {unforeseen!r}')
        finally:
            failpoints.disarm_every()
            logging.disable(logging.NOTSET)
        report = self.report
        report.trace = self._trace.hexdigest()
        report.faults = self.faults.happened
        report.seconds = self.baton.now
        report.lives = sum(part.lives for part in self.deployed.parts)
        return report

    def _play(self, steps: int) -> None:
        self._make_types()
        self.faults.active = False
        self.deployed.begin()
        while not self.deployed.serves():
            self.baton.wait(1.0)
        while steps > 0:
            stormy = min(steps, self.baton.chance.choice(STORMS))
            calm = min(steps - stormy, stormy // CALM)
            self._operate(stormy, storm=True)
            self._peace()
            self._operate(calm, storm=False)
            steps -= stormy + calm

    def _operate(self, steps: int, storm: bool) -> None:
        self.faults.active = self._storm = storm
        self._calm = not storm
        self._left, self._working = steps, CLIENTS
        for number in range(CLIENTS):
            self.baton.spawn(self.outside, f'client {number}', self._client)
        while self._working:
            self.baton.wait(_SOON_SECONDS * 20)
        self._calm = self._storm = False

    def _client(self) -> None:
        client = clients.Client(self.consumers, self.baton.chance)
        while self._left > 0:
            self._left -= 1
            name = client.operate()
            if self._first_only and self.report.violations:
                raise _Enough
            self.report.steps += 1
            self._trace.update(f'{name} {self.baton.now:.6f}\n'.encode())
            self._check(self._calm)
            if self.baton.chance.random() < 0.3:
                self.baton.wait(self.baton.chance.random() * _SOON_SECONDS)
        self._working -= 1

    def _peace(self) -> None:
        """Nothing goes wrong any more, and enough time passes for all that has begun."""
        self.faults.active = False
        self.deployed.begin()
        self.baton.wait(_PEACE_SECONDS)
        for part in self.deployed.parts:
            if part.serving is None:
                self._violated(f'P9 {part.name} does not come back')
        if self._check(settled=True):
            # What is overdue by now would be found again each time.
            raise _Enough
        self._nothing_is_left()
        self._trace.update(self.world.storage.tamper(self.baton.chance).encode())
        self.baton.wait(_MEND_SECONDS)
        self._check(settled=True)
        self.world.storage.lied.clear()
        purging.purge(self._database, _AGE, None, False, 1000)

    def _nothing_is_left(self) -> None:
        """P2: everything is known to whoever asked for it, unless he gave up asking."""
        facts = self._checker.facts()
        for said in self.consumers.promised.unknown(facts):
            self._violated(said)
        stored = {name.removeprefix('volume-') for name in self.world.storage.store.sizes()}
        placed = {volume.id for volume in facts.volumes if volume.pool is not None}
        for volume_id in sorted(stored - placed - self.world.storage.lied):
            self._violated(f'P2 the store keeps volume {volume_id}, which is nowhere')

    def _check(self, settled: bool) -> bool:
        """Whether something is violated; what was found already is not told again."""
        now = (self.world.rows.writes, self.world.storage.acts)
        if now == self._seen and not settled:
            return False
        self._seen = now
        with self.faults.off():
            facts = self._checker.facts()
        for said in self.consumers.promised.broken(facts):
            self._violated(said)
        found = invariants.check(facts, settled)
        for one in found:
            if self._excused(one, settled, facts):
                continue
            self._violated(f'{one.promise} {one.invariant}: volume {one.volume_id} attachment '
                           f'{one.attachment_id}: {one.said}')
        return bool(found)

    def _look(self) -> None:
        """In the middle of what somebody does, now and then."""
        if self._storm and self._looks.random() < _LOOKS:
            with contextlib.suppress(_Enough):
                self._check(settled=False)

    def _excused(self, found: invariants.Violation, settled: bool,
                 facts: invariants.Facts) -> bool:
        if self._calm:
            return found.volume_id in self.consumers.at_work
        if settled:
            return False
        return found.volume_id in self.world.storage.lied or (
            found.invariant == _LET_IN and any(
                row.id == found.attachment_id and self.world.storage.overtaken.excuses(
                    row.volume_id, row.initiator) for row in facts.attachments))

    def _turn_of(self, volume_id: str, initiator: str) -> str | None:
        with self.faults.off():
            return pair_wishes.get(self._database, volume_id, initiator).leased_by

    def _violated(self, said: str) -> None:
        self._found(said)
        if self._first_only:
            raise _Enough

    def _found(self, said: str) -> None:
        if said not in {one.said for one in self.report.violations}:
            self.report.violations.append(
                Violation(self.report.seed, self.report.steps, self._steps, said))

    def note(self, method: str, path: str, answer: clients.Answer) -> None:
        if self._calm and (answer.status >= 500 or not answer.status) and not (
                answer.status == 500 and self._has_no_backend(path, answer)):
            self._violated(f'P9 in the calm, {method} {path} is answered {answer.status} '
                           f'{answer.body}')
        self.report.statuses[f'{method} {answer.status}'] += 1
        self._trace.update(f'{method} {path} {answer.status} {self.baton.now:.6f}\n'.encode())
        if answer.status == 500 and http_faults.UNEXPECTED in str(answer.body):
            self._violated(f'P9 nobody foresaw how {method} {path} would fail')

    def refused(self, volume_id: str, answer: clients.Answer) -> None:
        """P1: whoever is let in to a shared volume, or leaves it, keeps nobody else out."""
        said = str(answer.body)
        if any(f'current status is {word}.' in said for word in _IN_USE):
            self._violated(f'P1 volume {volume_id} is shared, and refuses: {answer.body}')

    def held(self, volume_id: str) -> promises.Held | None:
        """As its ancestor's."""
        with self.faults.off():
            rows = attachment_queries.of_volume(self._database, volume_id, hidden=True)
        if any(row.state in attachment_lifecycle.TRANSITIONAL for row in rows):
            return None
        return {row.id: (row.state, row.initiator, row.mode) for row in rows}

    def failed(self, request: str, before: promises.Held, after: promises.Held | None) -> None:
        """P9: what is told as final is final."""
        if after is None:
            self._violated(f'P9 failed_is_failed: {request}, and goes on')
        for said in promises.moved(before, after or before):
            self._violated(f'P9 failed_is_failed: {request}, and {said}')

    def not_done(self, request: str, after: promises.Held | None) -> None:
        """P6: what is told as done is done."""
        self._violated(f'P6 done_is_done: {request}, and there is {after}')

    def made_twice(self, path: str, first: clients.Answer, again: clients.Answer) -> None:
        """P2: a request that comes again makes nothing twice."""
        self._violated(f'P2 made_once: POST {path} is answered {first.made}, and when it comes '
                       f'again {again.made}')

    def widened(self, attachment_id: str, answer: clients.Answer) -> None:
        """P5: who asked to read may read."""
        self._violated(f'P5 read_only_stays: attachment {attachment_id} asked to be ro, and is '
                       f'told {answer.body}')

    def _has_no_backend(self, path: str, answer: clients.Answer) -> bool:
        if _NO_BACKEND in str(answer.body):
            return True
        name = path.split('/')[2] if path.count('/') > 1 else ''
        with self.faults.off():
            try:
                return volume_queries.get_bare(
                    self._database, self.consumers.known.get(name, name)).pool is None
            except errors.VolumeNotFound:
                return False

    def _point(self, name: str) -> failpoints.Told | None:
        self.report.points.add(name)
        task = self.baton.current
        for part in self.deployed.parts:
            if part.process is task.process:
                if task.process.dead:
                    raise batons.Killed
                if self.faults.happens('crash_at_point'):
                    part.crash()
                    raise batons.Killed
        return None

    def _make_types(self) -> None:
        for name, specs in ((clients.MULTIATTACH, {'multiattach': '<is> True'}),
                            (clients.SINGLE_WRITER, {'multiattach': '<is> True',
                                                     'mode': 'RO'})):
            volume_types.create(self._database, name, None, True, specs)


class _Enough(Exception):
    """Going on would only find the same again."""
