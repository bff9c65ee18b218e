"""A deployment and its observers: what every simulation is made of, random or scripted.

The checker asks the rows and the storage; each noun compares them with what clients were answered
(`nouns`). What is violated is handed to `Scene.violated`.
"""
import abc
import contextlib
import datetime
import logging
import random
import shutil
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterator

from blockattach.platform import failpoints
from blockattach.storage.db import purging
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.types import volume_types
from blockattach.storage.domain import invariants
from blockattach.storage.domain.invariants import observed
from blockattach.storage.volume import checker
from lab.simulation import baton as batons
from lab.simulation import bus
from lab.simulation import clients
from lab.simulation import deployment
from lab.simulation import faults
from lab.simulation import glance
from lab.simulation import nouns
from lab.simulation import rows
from lab.simulation import storage
from lab.simulation import threads

_GRANTED = 'every_user_is_granted'
_AGE = datetime.timedelta(minutes=5)


class Scene(clients.Judge):
    """Built once, and run once."""

    def __init__(self, chance: random.Random, trouble: faults.Faults,
                 wanted: deployment.Wanted, played: Collection[str] = ()) -> None:
        """
        :param played: nouns that clients play; none: all
        """
        self.baton = batons.Baton(chance)
        self.faults = trouble
        self.world = deployment.World(
            self.baton, trouble, bus.Broker(self.baton, trouble),
            rows.Rows(self.baton, trouble, chance),
            storage.Storage(self.baton, trouble, wanted.total_gb, caches=wanted.caches),
            glance.Glance(self.baton, trouble), wanted.quota, wanted.settings, wanted.way)
        self.deployed = deployment.Deployment(self.world, wanted)
        self.outside = batons.Process(self.baton, 'outside')
        self.consumers = clients.Consumers(self.baton, self.deployed, self, [
            noun.played for noun in nouns.NOUNS
            if noun.played is not None and (not played or noun.name in played)])
        self.database = rows.SimulatedDatabase(
            self.world.rows, lambda kind: None, clock=threads.VirtualClock(self.baton))
        self.checker = checker.Checker(
            self.database, {address: kept.target
                            for address, kept in self.deployed.storages.items()})
        for kept in self.deployed.storages.values():
            kept.overtaken.turn_of = self._turn_of
        self._seen: tuple[int, int] = (-1, -1)

    @abc.abstractmethod
    def violated(self, said: str) -> None:
        """Called with what must not be."""

    @abc.abstractmethod
    def point(self, name: str) -> failpoints.Effect | None:
        """Called at every failpoint."""

    @contextlib.contextmanager
    def looking(self) -> Iterator[storage_db.Database]:
        """As its ancestor's."""
        with self.faults.off():
            yield self.database

    def play(self, act: Callable[[], None]) -> None:
        """Run it from its first thread to its last; raises what `baton.Baton.run` does."""
        logging.disable(logging.CRITICAL)
        failpoints.arm_every(self.point)
        try:
            self.baton.run(self.outside, act)
        finally:
            failpoints.disarm_every()
            logging.disable(logging.NOTSET)
            shutil.rmtree(deployment.images_folder(), ignore_errors=True)

    def make_types(self) -> None:
        """What clients ask for by name."""
        for name, specs in ((clients.MULTIATTACH, {'multiattach': '<is> True'}),
                            (clients.SINGLE_WRITER, {'multiattach': '<is> True',
                                                     'mode': 'RO'})):
            volume_types.create(self.database, name, None, True, specs)

    def begin(self) -> None:
        """Every part serves."""
        self.deployed.begin()
        while not self.deployed.serves():
            self.baton.wait(1.0)

    def check(self, settled: bool, anyway: bool = False) -> bool:
        """Whether something is violated that must hold now.

        :param settled: nobody is at work
        :param anyway: also where nothing has changed since the last look
        """
        now = (self.world.rows.writes,
               sum(kept.acts for kept in self.deployed.storages.values()))
        if now == self._seen and not anyway:
            return False
        self._seen = now
        with self.faults.off():
            facts = self.checker.facts()
        for noun in self.consumers.nouns:
            for said in noun.broken(facts):
                self.violated(said)
        found = invariants.check(facts, settled)
        for one in found:
            if self.excused(one, settled, facts):
                continue
            self.violated(f'{one.promise} {one.invariant}: volume {one.volume_id} attachment '
                          f'{one.attachment_id}: {one.said}')
        return bool(found)

    def excused(self, found: observed.Violation, settled: bool,
                facts: observed.Facts) -> bool:
        """Whether it is the fault of nobody whom we made, and will be well."""
        return not settled and (
            any(found.volume_id in kept.lied for kept in self.deployed.storages.values())
            or found.invariant == _GRANTED and any(
                row.id == found.attachment_id and any(
                    kept.overtaken.excuses(row.volume_id, row.initiator)
                    for kept in self.deployed.storages.values())
                for row in facts.attachments))

    def nothing_is_left(self) -> None:
        """P2: everything is known to the client that asked for it, unless it gave up asking."""
        facts = self.checker.facts()
        for noun in self.consumers.nouns:
            for said in noun.unknown(facts):
                self.violated(said)

    def forget_lies(self) -> None:
        """What was lied about was compared since; and what has gone long ago goes for good."""
        for kept in self.deployed.storages.values():
            kept.lied.clear()
        purging.purge(self.database, _AGE, None, False, 1000)

    def _turn_of(self, volume_id: str, initiator: str) -> str | None:
        with self.faults.off():
            return grants.desired_state(self.database, volume_id, initiator).leased_by
