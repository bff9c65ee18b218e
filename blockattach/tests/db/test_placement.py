"""Placement of volumes with managers that accept, refuse, keep silent and die."""
import threading

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform.db import clock
from blockattach.platform.db import paging
from blockattach.storage.conf import scheduler as scheduler_conf
from blockattach.storage.db import messages
from blockattach.storage.db import models
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.db.services import pools
from blockattach.storage.db.services import services
from blockattach.storage.db.volumes import placing_facts
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import binaries
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.scheduler import flows
from blockattach.storage.scheduler import pipeline
from blockattach.storage.scheduler import placement
from blockattach.storage.scheduler import plugins
from blockattach.storage.scheduler import waiting
from blockattach.tests.db import base
from blockattach.tests.db import managers
from blockattach.tests.fixtures import clock as testing_clock
from blockattach.tests.fixtures import make

DOWN_AFTER = 60
CALLER = context.RequestContext(user_id=make.USER, project_id=make.PROJECT,
                                request_id='req-placement', overwrite=False)
_Own = volume_lifecycle.OwnStatus


class PlacementCase(base.DatabaseTestCase):
    def setUp(self):
        super().setUp()
        self.clock = testing_clock.ManualClock()

    def placement(self, clients, **more_filters):
        settings = scheduler_conf.SchedulerSettings()
        chooser = pipeline.PoolChooser(
            self.database, {**plugins.load_filters(settings.filters), **more_filters},
            plugins.load_weighers(settings.weighers), DOWN_AFTER, self.clock)
        return placement.Placement(self.database, lambda caller, request: flows.PlacingFlow(
            self.database, chooser, clients, settings, caller, request).run())

    def place(self, volume_id, clients, **more_filters):
        self.place_with(self.placement(clients, **more_filters), volume_id)

    def place_with(self, scheduler, volume_id):
        scheduler.place(CALLER, placing_facts.request(self.database, volume_id))

    def dead_service(self, host):
        """Register a volume service whose last heartbeat is too old."""
        services.register(self.database, binaries.VOLUME, host, 'nova', 'x')
        with self.database.writer() as connection:
            connection.execute(models.services.update()
                               .where(models.services.c.host == host)
                               .values(reported_at=clock.now(-DOWN_AFTER - 1)))

    def volume(self, size_gb=1):
        return make.volume(self.database, size_gb=size_gb, own_status=_Own.CREATING)

    def now(self, volume_id):
        return volume_queries.get(self.database, volume_id)

    def given_away(self):
        return {pool.name: pool.allocated_gb
                for pool in pools.list_all(self.database, DOWN_AFTER)}

    def let_pass(self, volume_id, seconds):
        """Set the deadline of the work on a volume to a number of seconds ago."""
        table = models.work
        with self.database.writer() as connection:
            connection.execute(table.update().where(table.c.resource_id == volume_id)
                               .values(deadline=clock.now(-seconds)))

    def work(self, volume_id):
        """Return the owner of the work on a volume and the pools that were tried, or None."""
        found = work.of_resource(self.database, 'volume', volume_id)
        return found and (found.owner, found.progress.get('tried', []))

    def reasons(self, volume_id):
        return [message.detail for message in messages.list_page(
            self.database, make.PROJECT, {'resource_uuid': volume_id}, paging.Page())]


@base.on_chosen_databases
class HandOverTest(PlacementCase):
    def setUp(self):
        super().setUp()
        # The pools have less free space in this order.
        self.names = [make.pool(self.database, f'{host}@b#p', 100 - number)
                      for number, host in enumerate(('one', 'two', 'three', 'four'))]

    def test_volume_placed_in_best_pool(self):
        registered = services.register(self.database, binaries.VOLUME, 'one@b', 'nova', 'x')
        asked = self.volume(5)
        clients = managers.Managers(self.database)
        self.place(asked.id, clients)
        now = self.now(asked.id)
        self.assertEqual([('one@b', asked.id, now.generation)], clients.asked)
        self.assertEqual(('creating', 'one@b#p', registered.uuid, ('one@b', [])),
                         (now.status, now.pool, now.service_uuid, self.work(asked.id)))
        self.assertEqual(5, self.given_away()['one@b#p'])
        self.assertEqual([], self.reasons(asked.id))

    def test_refused_volume_placed_in_next_pool(self):
        asked = self.volume(5)
        clients = managers.Managers(self.database, one=managers.refuse)
        self.place(asked.id, clients)
        now = self.now(asked.id)
        self.assertEqual(['one@b', 'two@b'], clients.hosts)
        self.assertEqual(('two@b#p', ('two@b', ['one@b#p'])), (now.pool, self.work(asked.id)))
        self.assertEqual({**dict.fromkeys(self.names, 0), 'two@b#p': 5}, self.given_away())
        self.assertEqual(2, placing_facts.read(self.database, asked.id, False).attempts)

    def test_silent_manager_replaced_and_its_late_claim_stale(self):
        asked = self.volume()
        clients = managers.Managers(self.database, one=managers.be_silent)
        self.place(asked.id, clients)
        host, volume_id, generation = clients.asked[0]
        self.assertEqual('one@b', host)
        self.assertFalse(managers.accept(self.database, host, volume_id, generation))
        self.assertEqual(('two@b#p', ('two@b', ['one@b#p'])),
                         (self.now(asked.id).pool, self.work(asked.id)))

    def test_manager_with_lost_response_finds_claim_stale(self):
        asked = self.volume()
        clients = managers.Managers(self.database, one=managers.lose_the_answer)
        self.place(asked.id, clients)
        with self.assertRaises(errors.StaleGeneration):
            volumes.created(self.database, asked.id, clients.asked[0][2], False)
        volumes.created(self.database, asked.id, clients.asked[1][2], False)
        now = self.now(asked.id)
        self.assertEqual(('available', 'two@b#p'), (now.status, now.pool))
        self.assertEqual(1, sum(self.given_away().values()))

    def test_placement_fails_after_three_attempts_with_reasons(self):
        asked = self.volume()
        clients = managers.Managers(self.database, managers.refuse)
        self.place(asked.id, clients)
        self.assertEqual(['one@b', 'two@b', 'three@b'], clients.hosts)
        now = self.now(asked.id)
        self.assertEqual(('error', None, None), (now.status, now.pool, self.work(asked.id)))
        self.assertEqual(0, sum(self.given_away().values()))
        [text] = self.reasons(asked.id)
        self.assertTrue(text.startswith('the maximum of 3 attempts was reached: one@b#p'), text)
        self.assertIn('three@b#p', text)
        self.assertNotIn('four@b#p', text)

    def test_attempts_counted_over_all_pools(self):
        asked = self.volume()
        clients = managers.Managers(self.database, one=managers.refuse)
        self.place(asked.id, clients)
        volumes.unclaim(self.database, asked.id, self.now(asked.id).generation, 60)
        self.place(asked.id, clients)
        self.assertEqual('three@b#p', self.now(asked.id).pool)
        volumes.unclaim(self.database, asked.id, self.now(asked.id).generation, 60)
        self.place(asked.id, clients)
        self.assertEqual(['one@b', 'two@b', 'three@b'], clients.hosts)
        self.assertEqual('error', self.now(asked.id).status)

    def test_late_request_changes_nothing(self):
        asked = self.volume()
        late = placing_facts.request(self.database, asked.id)
        clients = managers.Managers(self.database)
        self.place(asked.id, clients)
        before = self.now(asked.id)
        self.placement(clients).place(CALLER, late)
        self.assertEqual((1, before), (len(clients.asked), self.now(asked.id)))
        self.assertEqual([], self.reasons(asked.id))

    def test_late_request_without_pool_changes_nothing(self):
        asked = self.volume()
        late = placing_facts.request(self.database, asked.id)
        clients = managers.Managers(self.database)
        self.place(asked.id, clients)
        before = self.now(asked.id)
        self.placement(clients, never=lambda request, pool: 'never').place(CALLER, late)
        self.assertEqual((before, []), (self.now(asked.id), self.reasons(asked.id)))

    def test_stale_generation_ends_placement_quietly(self):
        asked = self.volume()

        def gone_meanwhile(database, host, volume_id, generation):
            work_ends.refuse(database, 'create', volume_id, generation)
            return managers.accept(database, host, volume_id, generation)
        clients = managers.Managers(self.database, gone_meanwhile)
        self.place(asked.id, clients)
        self.assertEqual((1, 'error'), (len(clients.asked), self.now(asked.id).status))
        self.assertEqual(([], 0), (self.reasons(asked.id), sum(self.given_away().values())))

    def test_placement_moves_on_if_space_taken_after_choice(self):
        asked = self.volume(100)
        other = self.volume(100)
        choose = []

        def somebody_is_faster(request, pool):
            if not choose:
                choose.append(volumes.claim(self.database, other.id, other.generation,
                                            'one@b#p', None))
        make.pool(self.database, 'two@b#p', 100)
        self.place(asked.id, managers.Managers(self.database), faster=somebody_is_faster)
        self.assertEqual(('one@b#p', 'two@b#p'),
                         (self.now(other.id).pool, self.now(asked.id).pool))
        self.assertEqual(1, placing_facts.read(self.database, asked.id, False).attempts)

    def test_unexpected_error_leaves_volume_unplaced(self):
        asked = self.volume()

        def fail():
            raise MemoryError
        failpoints.arm('scheduler.flows.after_claim', fail)
        self.addCleanup(failpoints.disarm, 'scheduler.flows.after_claim')
        with self.assertRaises(MemoryError):
            self.place(asked.id, managers.Managers(self.database))
        now = self.now(asked.id)
        self.assertEqual(('creating', None), (now.status, now.pool))
        self.assertEqual(0, sum(self.given_away().values()))


@base.on_chosen_databases
class NoPoolTest(PlacementCase):
    def test_placement_without_reported_pool_fails(self):
        asked = self.volume()
        self.place(asked.id, managers.Managers(self.database))
        self.assertEqual('error', self.now(asked.id).status)
        self.assertIn('no pool has reported to the scheduler', self.reasons(asked.id)[0])

    def test_placement_failure_reasons_in_message_and_log(self):
        make.pool(self.database, 'small@b#p', 3)
        make.pool(self.database, 'full@b#p', 0)
        asked = self.volume(5)
        with self.assertLogs('blockattach.storage.scheduler.placement', 'WARNING') as logs:
            self.place(asked.id, managers.Managers(self.database))
        found = messages.list_page(self.database, make.PROJECT, {}, paging.Page())
        self.assertEqual(
            [('VOLUME_VOLUME_001_003', asked.id, 'req-placement',
              'schedule allocate volume:Could not find any available weighted backend. '
              'Reasons: not enough free space.',
              'full@b#p: 0 GiB left, 5 GiB required; '
              'small@b#p: 3 GiB left, 5 GiB required')],
            [(one.event_id, one.resource_id, one.request_id, one.user_message, one.detail)
             for one in found])
        self.assertIn('small@b#p: 3 GiB left', logs.output[0])
        self.assertIn(asked.id, logs.output[0])

    def test_waiting_volume_placed_when_backend_comes_up(self):
        self.dead_service('one@b')
        asked = self.volume()
        clients = managers.Managers(self.database)
        scheduler = self.placement(clients)
        looking = waiting.WaitingVolumes(self.database, scheduler, DOWN_AFTER, 60, 'here/1')
        self.place_with(scheduler, asked.id)
        looking.look()
        self.assertEqual([], clients.asked)
        services.register(self.database, binaries.VOLUME, 'one@b', 'nova', 'y')
        make.pool(self.database, 'one@b#p', 10)
        looking.look()
        self.assertEqual(('one@b#p', []), (self.now(asked.id).pool, self.reasons(asked.id)))
        looking.look()
        self.assertEqual(['one@b'], clients.hosts)

    def test_volume_waits_while_backends_start(self):
        self.dead_service('one@b')
        asked = self.volume()
        scheduler = self.placement(managers.Managers(self.database))
        self.place_with(scheduler, asked.id)
        self.assertEqual(('creating', []), (self.now(asked.id).status, self.reasons(asked.id)))
        self.clock.advance(DOWN_AFTER + 1)
        self.place_with(scheduler, asked.id)
        self.assertEqual('error', self.now(asked.id).status)


@base.on_sqlite_and_servers_in_turn
class RaceTest(PlacementCase):
    def together(self, *acts):
        start, failures = threading.Barrier(len(acts)), []

        def run(act):
            start.wait()
            try:
                act()
            except Exception as error:
                failures.append(error)
        threads = [threading.Thread(target=run, args=(act,)) for act in acts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], failures)

    def test_concurrent_placements_fill_pool_exactly(self):
        make.pool(self.database, 'one@b#p', 8)
        asked = [self.volume() for _ in range(16)]
        clients = managers.Managers(self.database)
        schedulers = [self.placement(clients), self.placement(clients)]
        self.together(*(
            lambda number=number, one=one: schedulers[number % 2].place(
                CALLER, placing_facts.request(self.database, one.id))
            for number, one in enumerate(asked)))
        states = sorted(self.now(one.id).status for one in asked)
        self.assertEqual(['creating'] * 8 + ['error'] * 8, states)
        placed = [volume_id for _, volume_id, _ in clients.asked]
        self.assertEqual((8, 8), (len(placed), len(set(placed))))
        self.assertEqual({'one@b#p': 8}, self.given_away())
        self.assertEqual(8, sum(len(self.reasons(one.id)) for one in asked))

    def test_concurrent_requests_place_volume_once(self):
        make.pool(self.database, 'one@b#p', 8)
        make.pool(self.database, 'two@b#p', 8)
        asked = self.volume()
        request = placing_facts.request(self.database, asked.id)
        clients = managers.Managers(self.database)
        self.together(*[lambda: self.placement(clients).place(CALLER, request)] * 8)
        self.assertEqual(1, len(clients.asked))
        self.assertEqual(1, sum(self.given_away().values()))
        self.assertEqual('creating', self.now(asked.id).status)

    def test_concurrent_waiting_checks_place_volume_once(self):
        # There is just enough space. A placed volume that was taken for a waiting one would end in
        # error.
        make.pool(self.database, 'one@b#p', 3)
        lost = [self.volume() for _ in range(3)]
        for one in lost:
            self.let_pass(one.id, 1)
        clients = managers.Managers(self.database)
        self.together(*(
            waiting.WaitingVolumes(self.database, self.placement(clients), DOWN_AFTER, 60,
                                   f'here-{number}/1').look for number in range(6)))
        self.assertEqual(sorted(one.id for one in lost),
                         sorted(volume_id for _, volume_id, _ in clients.asked))
        self.assertEqual([('creating', [])] * 3,
                         [(self.now(one.id).status, self.reasons(one.id)) for one in lost])


@base.on_chosen_databases
class WaitingTest(PlacementCase):
    def setUp(self):
        super().setUp()
        self.clients = managers.Managers(self.database)
        make.pool(self.database, 'one@b#p', 100)
        make.pool(self.database, 'two@b#p', 50)

    def look(self):
        waiting.WaitingVolumes(self.database, self.placement(self.clients), DOWN_AFTER,
                               60, 'here/1').look()

    def test_unplaced_volume_placed_after_deadline(self):
        looking = waiting.WaitingVolumes(self.database, self.placement(self.clients), DOWN_AFTER,
                                         60, 'here/1')
        looking.look()
        lost, fresh = self.volume(), self.volume()
        self.let_pass(lost.id, 1)
        looking.look()
        self.assertEqual(('one@b#p', None), (self.now(lost.id).pool, self.now(fresh.id).pool))
        looking.look()
        self.assertEqual(1, len(self.clients.asked))

    def test_first_waiting_check_ignores_deadline(self):
        orphan = self.volume()
        self.look()
        self.assertEqual('one@b#p', self.now(orphan.id).pool)

    def test_volume_placed_by_other_scheduler_left_alone(self):
        # No space is left by then. A placed volume that was taken for a waiting one would end in
        # error.
        make.pool(self.database, 'one@b#p', 1)
        make.pool(self.database, 'two@b#p', 1)
        lost = [self.volume(), self.volume()]
        for one in lost:
            self.let_pass(one.id, 1)
        other = managers.Managers(self.database)

        def look_elsewhere_first(database, host, volume_id, generation):
            waiting.WaitingVolumes(database, self.placement(other), DOWN_AFTER, 60,
                                   'there/1').look()
            return managers.accept(database, host, volume_id, generation)
        self.clients = managers.Managers(self.database, look_elsewhere_first)
        self.look()
        self.assertEqual((1, 1), (len(self.clients.asked), len(other.asked)))
        self.assertEqual([('creating', [])] * 2,
                         [(self.now(one.id).status, self.reasons(one.id)) for one in lost])

    def test_volume_of_dead_manager_placed_again(self):
        for host in ('one@b', 'two@b'):
            services.register(self.database, binaries.VOLUME, host, 'nova', 'x')
        # The scheduler died after it claimed the first volume, and the manager died while it
        # created the second one.
        claimed, owned = self.volume(), self.volume()
        for one in (claimed, owned):
            volumes.claim(self.database, one.id, one.generation, 'one@b#p', None)
        late = self.now(owned.id).generation
        self.assertTrue(managers.accept(self.database, 'one@b', owned.id, late))
        self.let_pass(claimed.id, 1)
        self.let_pass(owned.id, 1)
        self.look()
        # The volume that no manager has received is sent again.
        self.assertEqual([claimed.id], [volume_id for _, volume_id, _ in self.clients.asked])
        self.dead_service('one@b')
        self.let_pass(claimed.id, 1)
        self.look()
        for one in (claimed, owned):
            now = self.now(one.id)
            self.assertEqual(('two@b#p', ('two@b', ['one@b#p'])),
                             (now.pool, self.work(one.id)))
        with self.assertRaises(errors.StaleGeneration):
            volumes.created(self.database, owned.id, late, False)
        self.assertEqual({'one@b#p': 0, 'two@b#p': 2}, self.given_away())

    def test_placement_error_does_not_stop_other_volumes(self):
        first, second = self.volume(), self.volume()
        self.let_pass(first.id, 2)
        self.let_pass(second.id, 1)
        attempts = []

        def fail_once():
            attempts.append(1)
            if len(attempts) == 1:
                raise MemoryError
        failpoints.arm('scheduler.flows.after_claim', fail_once)
        self.addCleanup(failpoints.disarm, 'scheduler.flows.after_claim')
        self.look()
        self.assertEqual(1, len(self.clients.asked))
        self.assertEqual(1, sum(self.given_away().values()))
