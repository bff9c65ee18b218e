"""Deployment and its observers, common to random simulations and scripted scenarios.

The checker compares the rows with the storage. Each noun compares both with the answers that
clients got (`nouns`). Violations are passed to `Scene.violated`.
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
    """Deployment with its clients and checks. It runs once."""

    def __init__(self, chance: random.Random, trouble: faults.Faults,
                 wanted: deployment.Wanted, played: Collection[str] = ()) -> None:
        """
        :param played: nouns that clients play; empty for all
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
        """Report a violation, described by ``said``."""

    @abc.abstractmethod
    def point(self, name: str) -> failpoints.Effect | None:
        """Act on a failpoint that the current thread passes."""

    @contextlib.contextmanager
    def looking(self) -> Iterator[storage_db.Database]:
        with self.faults.off():
            yield self.database

    def play(self, act: Callable[[], None]) -> None:
        """Run the main thread of the simulation. It raises the exceptions of `baton.Baton.run`."""
        logging.disable(logging.CRITICAL)
        failpoints.arm_every(self.point)
        try:
            self.baton.run(self.outside, act)
        finally:
            failpoints.disarm_every()
            logging.disable(logging.NOTSET)
            shutil.rmtree(deployment.images_folder(), ignore_errors=True)

    def make_types(self) -> None:
        """Create the volume types that clients request by name."""
        for name, specs in ((clients.MULTIATTACH, {'multiattach': '<is> True'}),
                            (clients.SINGLE_WRITER, {'multiattach': '<is> True',
                                                     'mode': 'RO'})):
            volume_types.create(self.database, name, None, True, specs)

    def begin(self) -> None:
        """Start all processes, and wait until they serve."""
        self.deployed.begin()
        while not self.deployed.serves():
            self.baton.wait(1.0)

    def check(self, settled: bool, anyway: bool = False) -> bool:
        """Report what is violated now, and return True if the table of invariants is violated.

        :param settled: True if no work is under way
        :param anyway: check even if nothing has changed since the last check
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
        """Return True if a violation is the known, temporary effect of an injected fault."""
        return not settled and (
            any(found.volume_id in kept.lied for kept in self.deployed.storages.values())
            or found.invariant == _GRANTED and any(
                row.id == found.attachment_id and any(
                    kept.overtaken.excuses(row.volume_id, row.initiator)
                    for kept in self.deployed.storages.values())
                for row in facts.attachments))

    def nothing_is_left(self) -> None:
        """Report the resources that are unknown to all clients, as violations of P2.

        A resource whose creation a client has given up is allowed.
        """
        facts = self.checker.facts()
        for noun in self.consumers.nouns:
            for said in noun.unknown(facts):
                self.violated(said)

    def forget_lies(self) -> None:
        """Stop excusing volumes after false answers of the storage, and purge old deleted rows."""
        for kept in self.deployed.storages.values():
            kept.lied.clear()
        purging.purge(self.database, _AGE, None, False, 1000)

    def _turn_of(self, volume_id: str, initiator: str) -> str | None:
        with self.faults.off():
            return grants.desired_state(self.database, volume_id, initiator).leased_by
