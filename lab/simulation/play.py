"""Simulation of a deployment with clients and faults, checked after each operation.

A simulation consists of rounds. In each round, a number of operations runs under faults. In the
peace that follows, all processes are started, faults are switched off and time passes. Then
everything must be in order, every request must have ended, and nothing may be orphaned. Some more
operations run in the calm, where they meet only each other. None of them may fail, and volumes
without work under way must be in order all the time.
"""
import contextlib
import dataclasses
import hashlib
import random
from collections import Counter
from collections.abc import Collection

from blockattach.platform import failpoints
from blockattach.platform.http import responses
from blockattach.storage import errors
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import quotas
from blockattach.storage.domain.invariants import observed
from lab.simulation import baton as batons
from lab.simulation import clients
from lab.simulation import deployment
from lab.simulation import direct
from lab.simulation import faults
from lab.simulation import scene
from lab.simulation import storage
from lab.simulation.nouns import image_cache
from lab.simulation.nouns import moving

CLIENTS = 8
# Numbers of operations of a round under faults. Violations that only show in peace are found
# earlier by short rounds.
STORMS = (100, 200, 400)
CALM = 4
"""Number of operations under faults for each operation in the calm."""
_PEACE_SECONDS = 120.0
_REPAIR_SECONDS = 10.0
_SOON_SECONDS = 0.05
# Probability of a check after a transaction, in addition to the check after each operation.
_LOOKS = 0.2
_NO_BACKEND = 'has no backend yet'
# Quotas of attachments: without limit, never reached, and reached now and then.
_QUOTAS = (quotas.UNLIMITED, 5000, 14)


@dataclasses.dataclass(frozen=True, slots=True)
class Violation:
    """Violation found in a simulation. ``seed``, ``steps`` and ``played`` reproduce it."""

    seed: int
    step: int
    steps: int
    played: Collection[str]
    said: str
    way: direct.Way = direct.Way.BROKER

    def __str__(self) -> str:
        nouns = f' --nouns {",".join(self.played)}' if self.played else ''
        way = f' --way {self.way}' if self.way is not direct.Way.BROKER else ''
        return (f'seed {self.seed} step {self.step}: {self.said} '
                f'(tools/simulate --seed {self.seed} --steps {self.steps}{nouns}{way})')


@dataclasses.dataclass(slots=True)
class Report:
    """Result of a simulation. ``trace`` is the hash of all events, in order."""

    seed: int
    steps: int = 0
    violations: list[Violation] = dataclasses.field(default_factory=list)
    statuses: Counter[str] = dataclasses.field(default_factory=Counter)
    faults: Counter[str] = dataclasses.field(default_factory=Counter)
    points: set[str] = dataclasses.field(default_factory=set)
    trace: str = ''
    seconds: float = 0.0
    instances: int = 0


class Simulation(scene.Scene):
    """Simulation built from a seed. Call `run` once."""

    def __init__(self, seed: int, rates: faults.Rates | None = None,
                 clustered: bool | None = None, first_only: bool = False,
                 played: Collection[str] = (),
                 way: direct.Way = direct.Way.BROKER) -> None:
        """
        :param clustered: whether two volume managers form a cluster; None to let the seed decide
        :param first_only: stop at the first violation
        :param played: nouns that clients play; empty for all
        :param way: messages that go over HTTP
        """
        chance = random.Random(seed)
        total_gb, quota = chance.choice(storage.TOTALS_GB), chance.choice(_QUOTAS)
        either = chance.random() < 0.5
        super().__init__(chance, faults.Faults(chance, rates or faults.Rates()), deployment.Wanted(
            total_gb, quota, either if clustered is None else clustered,
            chance.random() < 0.5, beside=not played or moving.NOUN.name in played,
            caches=not played or image_cache.NOUN.name in played, way=way), played)
        self._first_only = first_only
        self._played = played
        self._way = way
        self.report = Report(seed)
        self._trace = hashlib.sha256()
        self._looks = random.Random(seed)
        self._storm = False
        self.world.rows.stored = self._look
        self._left = self._working = self._steps = 0
        self._calm = False

    def run(self, steps: int) -> Report:
        """Run the given number of operations, with peace after each round."""
        self._steps = steps
        try:
            self.play(lambda: self._play(steps))
        except _Enough:
            pass
        except batons.Stuck as stuck:
            self._found(f'P9 stuck: {stuck}')
        except Exception as unforeseen:
            self._found(f'P9 fell_over: a thread raised {unforeseen!r}')
        report = self.report
        report.trace = self._trace.hexdigest()
        report.faults = self.faults.happened
        report.seconds = self.baton.now
        report.instances = sum(part.instances for part in self.deployed.parts)
        return report

    def _play(self, steps: int) -> None:
        self.make_types()
        self.faults.active = False
        self.begin()
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
        while self._left > 0:
            self._left -= 1
            name = self.consumers.operate()
            if self._first_only and self.report.violations:
                raise _Enough
            self.report.steps += 1
            self._trace.update(f'{name} {self.baton.now:.6f}\n'.encode())
            self.check(self._calm, anyway=self._calm)
            if self.baton.chance.random() < 0.3:
                self.baton.wait(self.baton.chance.random() * _SOON_SECONDS)
        self._working -= 1

    def _peace(self) -> None:
        """Switch faults off, and let enough time pass to finish all work."""
        self.faults.active = False
        self.deployed.begin()
        self.baton.wait(_PEACE_SECONDS)
        for part in self.deployed.parts:
            if part.serving is None:
                self.violated(f'P9 {part.name} does not serve')
        if self.check(settled=True, anyway=True):
            # A violation that persists in peace would be found again in each round.
            raise _Enough
        self.nothing_is_left()
        self._trace.update(self.world.storage.tamper(self.baton.chance).encode())
        self.baton.wait(_REPAIR_SECONDS)
        self.check(settled=True, anyway=True)
        self.forget_lies()

    def _look(self) -> None:
        """Check now and then after a transaction, while an operation is under way."""
        if self._storm and self._looks.random() < _LOOKS:
            with contextlib.suppress(_Enough):
                self.check(settled=False)

    def excused(self, found: observed.Violation, settled: bool,
                facts: observed.Facts) -> bool:
        """Excuse a violation of a volume that has work under way, if in the calm."""
        if self._calm:
            return found.volume_id in self.consumers.at_work
        return super().excused(found, settled, facts)

    def violated(self, said: str) -> None:
        self._found(said)
        if self._first_only:
            raise _Enough

    def _found(self, said: str) -> None:
        if said not in {one.said for one in self.report.violations}:
            self.report.violations.append(
                Violation(self.report.seed, self.report.steps, self._steps, self._played,
                          said, self._way))

    def note(self, method: str, path: str, answer: clients.Answer) -> None:
        if self._calm and (answer.status >= 500 or not answer.status) and not (
                answer.status == 500 and self._has_no_backend(path, answer)):
            self.violated(f'P9 {method} {path} in the calm returned {answer.status} '
                           f'{answer.body}')
        self.report.statuses[f'{method} {answer.status}'] += 1
        self._trace.update(f'{method} {path} {answer.status} {self.baton.now:.6f}\n'.encode())
        if answer.status == 500 and responses.UNEXPECTED in str(answer.body):
            self.violated(f'P9 {method} {path} failed with an unexpected error')

    def _has_no_backend(self, path: str, answer: clients.Answer) -> bool:
        if _NO_BACKEND in str(answer.body):
            return True
        with self.looking() as database:
            try:
                return volume_queries.get_bare(
                    database, self.consumers.volume_of(path)).pool is None
            except errors.VolumeNotFound:
                return False

    def point(self, name: str) -> failpoints.Effect | None:
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


class _Enough(Exception):
    """Raised if the rest of a simulation would only find the same violations again."""
