"""One backend in memory and the lives of its volume manager: each may die at any point.

The database, the store and the target outlive a life, as they do in earnest. What must agree in
the end is told by `World.disagreements`.
"""
import functools
import os
import random
import threading
import unittest
import uuid
from concurrent import futures

from blockattach import clock as clocks
from blockattach import context
from blockattach import errors
from blockattach import failpoints
from blockattach.conf import control as control_conf
from blockattach.conf import scheduler as scheduler_conf
from blockattach.conf import service as service_conf
from blockattach.control import attachments as attachment_control
from blockattach.control import backend_calls
from blockattach.control import detach_rule
from blockattach.control import moves
from blockattach.control import parts
from blockattach.control import pool_check
from blockattach.control import repeats
from blockattach.control import volume_parts
from blockattach.control import volumes as volume_control
from blockattach.db import attachment_queries
from blockattach.db import attachments as attachment_verbs
from blockattach.db import clock as db_clock
from blockattach.db import grants
from blockattach.db import leases
from blockattach.db import pools
from blockattach.db import services
from blockattach.db import volume_queries
from blockattach.db.models import attachment as attachment_models
from blockattach.db.models import lease as lease_models
from blockattach.db.models import volume as volume_models
from blockattach.domain import attachment_lifecycle as lifecycle
from blockattach.domain import binaries
from blockattach.domain import connection
from blockattach.domain import invariants
from blockattach.rpc import notifications
from blockattach.scheduler import filters
from blockattach.scheduler import flows
from blockattach.scheduler import placement
from blockattach.scheduler import pools as scheduler_pools
from blockattach.scheduler import waiting
from blockattach.scheduler import weighers
from blockattach.telemetry import threads
from blockattach.testing import backend
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import in_process
from blockattach.tests.fixtures import make
from blockattach.volume import attachment_outcomes
from blockattach.volume import attachments as volume_attachments
from blockattach.volume import checker
from blockattach.volume import endpoint
from blockattach.volume import mending
from blockattach.volume import outcomes
from blockattach.volume import reconcile
from blockattach.volume import target_truth
from blockattach.volume import turns
from blockattach.volume import volumes

HOST = 'storage-1@fake'
POOL = f'{HOST}#pool'
LEASE_SECONDS = 60.0
WAIT_SECONDS = 60.0

S = lifecycle.State
RW, RO = connection.AccessMode.RW, connection.AccessMode.RO


class Death(BaseException):
    """The process is no more: nothing in it catches this."""


def die():
    """An action for a failpoint."""
    raise Death


class Life:
    """One life of a volume manager: nothing of it is handed to the next."""

    def __init__(self, world, host=HOST, service=None, clock=None):
        """``service``: its own name in the cluster ``host``, which others serve too."""
        self.turns = turns.Turns(
            world.database, host, leases.owner_of(service or host, uuid.uuid4().hex),
            LEASE_SECONDS, LEASE_SECONDS, shared=service is not None, clock=clock)
        self.work = in_process.Work()
        self.keeper = volumes.VolumeKeeper(
            world.database, world.backend, host,
            outcomes.VolumeOutcomes(world.database, world.scheduler, LEASE_SECONDS), self.turns)
        outcome = attachment_outcomes.AttachmentOutcomes(world.database, world.tell)
        self.attachments = volume_attachments.AttachmentKeeper(
            world.database, self.keeper, outcome)
        self.menders = mending.Menders(threads.Threads().executor('mender', 4),
                                       world.backend.telemetry)
        self.reconciler = reconcile.Reconciler(
            world.database, self.keeper, self.attachments, outcome, self.menders, LEASE_SECONDS)
        self.truth = target_truth.TargetTruth(
            world.database, self.keeper, self.attachments, self.menders)
        self.endpoint = endpoint.VolumeEndpoint(
            self.keeper, self.attachments, self.turns.own, self.work.later)

    def look(self):
        """What comes round every few seconds."""
        return self.reconciler.mend() + self.truth.mend()


class World:
    """Everything, put together without a bus; `close` ends it."""

    def __init__(self, told=None):
        """``told``: hears of what happens to attachments; without it nobody does."""
        self._databases = database.DatabaseFixture()
        self.database = self._databases.database
        self.backend = backend.FakeBackend()
        self.store, self.target = self.backend.fake_store, self.backend.fake_target
        self.work = in_process.Work()
        self.managers = in_process.VolumeClients()
        self.scheduler = in_process.Scheduler(self.database, self.managers, self.work,
                                              clocks.Clock())
        settings = scheduler_conf.SchedulerSettings()
        self.waiting = waiting.WaitingVolumes(
            self.database, placement.Placement(self.database, flows.PlacingFlows(
                self.database, scheduler_pools.PoolChooser(
                    self.database, filters.load(settings.filters),
                    weighers.load(settings.weighers), in_process.DOWN_AFTER, clocks.Clock()),
                self.managers, settings)), in_process.DOWN_AFTER, LEASE_SECONDS)
        self.caller = context.RequestContext(project_id=make.PROJECT, user_id=make.USER)
        named = repeats.Repeats(self.database, LEASE_SECONDS, LEASE_SECONDS, clocks.Clock())
        self.tell = notifications.AttachmentNotifications(
            told or notifications.Notifications(None, ''),
            functools.partial(volume_queries.get_even_gone, self.database),
            functools.partial(attachment_queries.of_volume, self.database))
        moving = moves.AttachmentMoves(self.database, self.tell)
        self.control = attachment_control.AttachmentControl(parts.Parts(
            database=self.database, moves=moving,
            backend=backend_calls.BackendCalls(moving, self.managers, LEASE_SECONDS),
            repeats=named,
            rule=detach_rule.DetachRule(
                None, detach_rule.RuleSettings(False),
                functools.partial(attachment_queries.get, self.database))))
        told = control_conf.ControlSettings()
        self.volume_control = volume_control.VolumeControl(volume_parts.VolumeParts(
            self.database, self.scheduler, self.managers, told,
            pool_check.PoolCheck(self.database, (), 'off', service_conf.ServiceSettings(),
                                 clocks.Clock()), named))
        services.register(self.database, binaries.VOLUME, HOST, make.ZONE, 'first')
        self.report()
        self._types = {}
        self.life = None
        self.begin_life()
        self.life.look()

    def close(self):
        self.life.menders.stop()
        self._databases.close()

    def settle(self):
        """Let all that waits go on, and what follows from it."""
        for _ in range(5):
            self.work.settle()
            self.life.work.settle()

    def report(self):
        pools.report(self.database, HOST, [(POOL, one.capabilities)
                                           for one in self.backend.pools()], make.ZONE)

    def begin_life(self):
        """The next life; what the last one had taken on is forgotten."""
        if self.life is not None:
            self.life.menders.stop()
        self.life = Life(self)
        self.life.reconciler.remember_orphans()
        self.managers.add(HOST, self.life.endpoint)

    def volume(self, multiattach=False):
        """A volume that the store really has."""
        made = self.ask_volume(multiattach)
        self.settle()
        made = volume_queries.get(self.database, made.id)
        assert made.status == 'available', made.status
        return made

    def ask_volume(self, multiattach=False):
        """A volume that waits to be placed."""
        kind = self._types.get(multiattach)
        if kind is None:
            kind = self._types[multiattach] = make.volume_type(self.database,
                                                               multiattach=multiattach)
        return self.volume_control.create(self.caller, None, None, 1, kind, None, {})

    def reserve(self, volume, mode=None, instance=None):
        return self.create(volume, None, mode, instance)

    def create(self, volume, host, mode=None, instance=None):
        """An attachment, for a new server where none is named."""
        return self.control.create(self.caller, volume, attachment_verbs.Wish(
            volume.id, volume.project_id, instance or str(uuid.uuid4()), mode,
            connector(host) if host else None))

    def attached(self, volume, host, mode=None):
        """An attachment in use, whose host has a session."""
        row = self.create(volume, host, mode)
        row = self.control.complete(self.caller, row)
        self.log_in(row)
        return row

    def log_in(self, row):
        """The mode that a row's host gets."""
        return self.target.log_in(row.volume_id, row.initiator, grants.credential(
            self.database, row.volume_id, row.initiator))

    def update(self, row, host):
        return self.control.update(self.caller, self.again(row), connector(host))

    def delete(self, row):
        return self.control.delete(self.caller, self.again(row))

    def again(self, row):
        return attachment_queries.get(self.database, row.id)

    def rows(self, volume):
        return attachment_queries.of_volume(self.database, volume.id)

    def shown(self, volume):
        return volume_queries.get(self.database, volume.id)

    def expire(self):
        """Let every deadline pass."""
        with self.database.writer() as writer:
            for table in (attachment_models.attachments, volume_models.volumes,
                          lease_models.leases):
                writer.execute(table.update().where(table.c.deadline.is_not(None))
                               .values(deadline=db_clock.now(-1)))
            writer.execute(volume_models.volumes.update().values(lease_deadline=db_clock.now(-1)))

    def look(self):
        """What comes round every few seconds, once every deadline has passed."""
        self.expire()
        self.life.look()

    def let_in(self, volume):
        """Whom the target lets in to a volume: initiator to mode and sessions."""
        return {grant.initiator: (grant.mode, grant.sessions)
                for export in self.target.exports() if export.volume_id == volume.id
                for grant in export.grants}

    def disagreements(self):
        """What rows, target and store do not say alike, or do not say for good."""
        looking = checker.Checker(self.database, {HOST: self.target})
        facts = looking.facts()
        found = [f'{one.invariant}: {one.volume_id} {one.attachment_id} {one.said}'
                 for one in invariants.check(facts)]
        # The deadline of what nobody works on may be long in coming.
        found += [f'attachment {row.id} is {row.state}' for row in facts.attachments
                  if row.state in lifecycle.TRANSITIONAL]
        found += [f'volume {volume.id} is {volume.own_status}' for volume in facts.volumes
                  if volume.own_status not in ('available', 'error', 'error_deleting')]
        found += self._locked_out(facts)
        placed = {f'volume-{volume.id}' for volume in facts.volumes if volume.pool == POOL}
        return found + [f'{name} is not where it should be'
                        for name in placed ^ set(self.store.sizes())]

    def _locked_out(self, facts):
        """Who is let in, and cannot log in with his credential."""
        found = []
        for volume_id, initiator in facts.wanted():
            secret = grants.credential(self.database, volume_id, initiator)
            if secret is None or self.target.log_in(volume_id, initiator, secret) is None:
                found.append(f'{initiator} cannot log in to {volume_id}')
            else:
                self.target.log_out(volume_id, initiator)
        return found


def connector(host):
    """What a host tells of itself."""
    return make.connector(initiator_of(host), host)


def initiator_of(host):
    return f'iqn.2026-01.org.example:{host}'


def outcome(act, *arguments):
    """What an act returned, or the error of ours that it raised."""
    try:
        return act(*arguments)
    except errors.BlockattachError as exc:
        return exc


class WorldTestCase(unittest.TestCase):
    """A fresh world per test; no failpoint outlives it."""

    def setUp(self):
        super().setUp()
        self.world = self.a_world()

    def a_world(self, told=None):
        made = World(told)
        self.addCleanup(made.close)
        return made

    def arm(self, name, action=die):
        failpoints.arm(name, action)
        self.addCleanup(failpoints.disarm, name)

    def random(self):
        """Chance that can be had again: from the seed that is printed."""
        seed = int(os.environ.get('BLOCKATTACH_TEST_SEED') or random.randrange(2 ** 32))
        print(f'{self.id()}: BLOCKATTACH_TEST_SEED={seed}')
        return random.Random(seed)

    def wait_for(self, condition):
        """Wait until something is so that threads bring about."""
        never, time = threading.Event(), clocks.Clock()
        end = time.monotonic() + WAIT_SECONDS
        while not condition():
            if time.monotonic() > end:
                self.fail('it never came about')
            time.wait(never, 0.002)

    def at_once(self, *acts):
        """Begin all acts together; the outcomes in their order."""
        barrier = threading.Barrier(len(acts))

        def run(act):
            barrier.wait(WAIT_SECONDS)
            return outcome(act)

        with futures.ThreadPoolExecutor(len(acts)) as threads:
            return [running.result(WAIT_SECONDS)
                    for running in [threads.submit(run, act) for act in acts]]

    def begin(self, act, *arguments):
        """Begin one act in a thread; its future."""
        threads = futures.ThreadPoolExecutor(1)
        self.addCleanup(threads.shutdown)
        self.addCleanup(self.world.target.faults.clear)
        return threads.submit(outcome, act, *arguments)

    def until_held(self, driver, method, calls=1):
        """Until a driver's method was entered so often since `hold`."""
        self.wait_for(lambda: driver.faults.calls.get(method, 0) >= calls)

    def assert_agree(self, world=None):
        self.assertEqual([], (world or self.world).disagreements())
