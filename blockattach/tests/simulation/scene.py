"""A deployment and its observers: what every simulation is made of, random or scripted.

The checker asks the rows and the storage; `promises` compares them with what clients were
answered. What is violated is handed to `Scene.violated`.
"""
import abc
import collections
import datetime
import logging
import random
from collections.abc import Callable
from collections.abc import Iterator

from blockattach import failpoints
from blockattach.db import attachment_queries
from blockattach.db import desired_state
from blockattach.db import purging
from blockattach.db import quotas
from blockattach.db import volume_types
from blockattach.domain import attachment_lifecycle
from blockattach.domain import invariants
from blockattach.domain.invariants import observed
from blockattach.domain.invariants import table
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

# An administrator has said of a volume that was never made that it is available.
_IN_USE = ('available', 'reserved', 'attaching', 'in-use', 'detaching')
_GRANTED = 'every_user_is_granted'
_AGE = datetime.timedelta(minutes=5)


class Scene(clients.Judge):
    """Built once, and run once."""

    def __init__(self, chance: random.Random, trouble: faults.Faults,
                 wanted: deployment.Wanted) -> None:
        self.baton = batons.Baton(chance)
        self.faults = trouble
        self.world = deployment.World(
            self.baton, trouble, bus.Broker(self.baton, trouble),
            rows.Rows(self.baton, trouble, chance),
            storage.Storage(self.baton, trouble, wanted.total_gb), wanted.quota,
            wanted.settings)
        self.deployed = deployment.Deployment(self.world, wanted)
        self.outside = batons.Process(self.baton, 'outside')
        self.consumers = clients.Consumers(self.baton, self.deployed, self)
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

    def play(self, act: Callable[[], None]) -> None:
        """Run it from its first thread to its last; raises what `baton.Baton.run` does."""
        logging.disable(logging.CRITICAL)
        failpoints.arm_every(self.point)
        try:
            self.baton.run(self.outside, act)
        finally:
            failpoints.disarm_every()
            logging.disable(logging.NOTSET)

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
        for said in (*self.consumers.promised.broken(facts), *self._too_many(facts)):
            self.violated(said)
        found = invariants.check(facts, settled)
        for one in found:
            if self.excused(one, settled, facts):
                continue
            self.violated(f'{one.promise} {one.invariant}: volume {one.volume_id} attachment '
                          f'{one.attachment_id}: {one.said}')
        return bool(found)

    def _too_many(self, facts: observed.Facts) -> Iterator[str]:
        """Projects with more attachments than they may have."""
        live = collections.Counter(row.project_id for row in facts.attachments if not row.deleted)
        for project_id, number in live.items():
            if number > self.world.quota != quotas.UNLIMITED:
                yield (f'P6 quota_holds: project {project_id} has {number} attachments and may '
                       f'have {self.world.quota}')

    def excused(self, found: table.Violation, settled: bool,
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
        for said in self.consumers.promised.unknown(facts):
            self.violated(said)
        for address, kept in self.deployed.storages.items():
            stored = {name.removeprefix('volume-') for name in kept.store.sizes()}
            placed = {volume.id for volume in facts.volumes
                      if volume.pool is not None and volume.pool.startswith(f'{address}#')}
            for volume_id in sorted(stored - placed - kept.lied):
                self.violated(f'P2 the store keeps volume {volume_id}, which is nowhere')

    def forget_lies(self) -> None:
        """What was lied about was compared since; and what has gone long ago goes for good."""
        for kept in self.deployed.storages.values():
            kept.lied.clear()
        purging.purge(self.database, _AGE, None, False, 1000)

    def _turn_of(self, volume_id: str, initiator: str) -> str | None:
        with self.faults.off():
            return desired_state.get(self.database, volume_id, initiator).leased_by

    def refused(self, volume_id: str, answer: clients.Answer) -> None:
        """P1: a host that joins a shared volume, or leaves it, keeps no other out."""
        said = str(answer.body)
        if any(f'current status is {word}.' in said for word in _IN_USE):
            self.violated(f'P1 volume {volume_id} is shared, and refuses: {answer.body}')

    def held(self, volume_id: str) -> promises.Held | None:
        """As its ancestor's."""
        with self.faults.off():
            found = attachment_queries.of_volume(self.database, volume_id, with_legacy=True)
        if any(row.state in attachment_lifecycle.TRANSITIONAL for row in found):
            return None
        return {row.id: (row.state, row.initiator, row.mode) for row in found}

    def failed(self, request: str, before: promises.Held, after: promises.Held | None) -> None:
        """P9: what is answered as final is final."""
        if after is None:
            self.violated(f'P9 failed_is_failed: {request}, and goes on')
        for said in promises.moved(before, after or before):
            self.violated(f'P9 failed_is_failed: {request}, and {said}')

    def not_done(self, request: str, after: promises.Held | None) -> None:
        """P6: what is answered as done is done."""
        self.violated(f'P6 done_is_done: {request}, and there is {after}')

    def made_twice(self, path: str, first: clients.Answer, again: clients.Answer) -> None:
        """P2: a request that comes again makes nothing twice."""
        self.violated(f'P2 made_once: POST {path} is answered {first.made}, and when it comes '
                      f'again {again.made}')

    def widened(self, attachment_id: str, answer: clients.Answer) -> None:
        """P5: a host that asked to read may read."""
        self.violated(f'P5 read_only_stays: attachment {attachment_id} asked to be ro, and is '
                      f'told {answer.body}')
