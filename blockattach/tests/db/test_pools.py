"""Pools: reports, allocated space, and state up or down."""
import json
import math
import threading

from blockattach.platform.db import clock
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import work_ends
from blockattach.storage.db.services import pools
from blockattach.storage.db.services import services
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import binaries
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

DOWN_AFTER = 60
THICK = {'total_capacity_gb': 100, 'free_capacity_gb': 80.5, 'provisioned_capacity_gb': 10,
         'reserved_percentage': 5, 'multiattach': True, 'volume_backend_name': 'b',
         'protocols': ['iSCSI'], 'disk': {'kind': 'ssd'}}
ENDLESS = {'total_capacity_gb': math.inf, 'free_capacity_gb': 'infinite'}


class PoolCase(base.DatabaseTestCase):
    def setUp(self):
        super().setUp()
        self.db = self.database

    def report(self, *reports, host='h@b', zone='nova'):
        pools.report(self.db, host, reports, zone)

    def get(self, name='h@b#p'):
        return pools.get(self.db, name, DOWN_AFTER)

    def names(self):
        return [one.name for one in pools.list_all(self.db, DOWN_AFTER)]

    def place(self, name, size_gb):
        """Create a volume that has claimed space in a pool, and return its id and generation."""
        made = make.volume(self.db, size_gb=size_gb,
                           own_status=volume_lifecycle.OwnStatus.CREATING)
        generation = volumes.claim(self.db, made.id, made.generation, name, None)
        return made.id, generation

    def age(self, table, seconds):
        with self.db.writer() as connection:
            connection.execute(table.update().values(reported_at=clock.now(-seconds)))


@base.on_chosen_databases
class ReportTest(PoolCase):
    def test_report_stored_with_limits(self):
        self.report(('h@b#p', THICK))
        found = self.get()
        self.assertEqual((100.0, 80.5, 10.0, 0, False, True, 'nova', True),
                         (found.total_gb, found.free_gb, found.provisioned_gb,
                          found.allocated_gb, found.thin, found.multiattach,
                          found.availability_zone, found.up))
        self.assertAlmostEqual(85.5, found.limit_gb)
        self.assertEqual(THICK, found.capabilities)
        self.assertEqual('h@b', found.host)

    def test_report_of_infinite_capacity(self):
        self.report(('h@b#p', ENDLESS))
        found = self.get()
        self.assertEqual((math.inf, math.inf, math.inf),
                         (found.total_gb, found.free_gb, found.limit_gb))
        self.assertEqual('infinite', found.capabilities['total_capacity_gb'])
        json.dumps(found.capabilities, allow_nan=False)

    def test_later_report_keeps_allocated_space(self):
        self.report(('h@b#p', THICK))
        self.place('h@b#p', 7)
        self.report(('h@b#p', {**THICK, 'free_capacity_gb': 70, 'multiattach': False}),
                    zone='north')
        found = self.get()
        self.assertEqual((70.0, 7, False, 'north'),
                         (found.free_gb, found.allocated_gb, found.multiattach,
                          found.availability_zone))

    def test_report_without_provisioned_counts_allocated_once(self):
        silent = {'total_capacity_gb': 100, 'free_capacity_gb': 100}
        self.report(('h@b#p', silent))
        self.place('h@b#p', 40)
        self.report(('h@b#p', {**silent, 'free_capacity_gb': 60}))
        found = self.get()
        self.assertEqual((100.0, 40), (found.limit_gb, found.allocated_gb))

    def test_recreated_pool_recounts_allocated_space(self):
        self.report(('h@b#p', THICK), ('h@b#q', THICK))
        self.place('h@b#p', 7)
        self.place('h@b#p', 2)
        self.place('h@b#q', 30)
        gone, generation = self.place('h@b#p', 11)
        work_ends.refuse(self.db, 'create', gone, generation)
        with self.db.writer() as connection:
            connection.execute(models.pools.delete())
        self.report(('h@b#p', THICK))
        self.assertEqual(9, self.get().allocated_gb)


@base.on_sqlite_and_servers_in_turn
class ReportRaceTest(PoolCase):
    def test_concurrent_reports_of_one_pool_succeed(self):
        start, failures = threading.Barrier(6), []

        def report():
            start.wait()
            try:
                self.report(('h@b#p', THICK), ('h@b#q', ENDLESS))
            except Exception as error:
                failures.append(error)
        threads = [threading.Thread(target=report) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(([], ['h@b#p', 'h@b#q']), (failures, self.names()))


@base.on_chosen_databases
class ForgetTest(PoolCase):
    def test_unreported_pool_deleted_when_empty(self):
        self.report(('h@b#p', THICK), ('h@b#q', THICK))
        self.report(('h@c#p', THICK), host='h@c')
        volume_id, generation = self.place('h@b#p', 7)
        self.report()
        self.assertEqual(['h@b#p', 'h@c#p'], self.names())
        self.assertEqual(7, self.get().allocated_gb)
        work_ends.refuse(self.db, 'create', volume_id, generation)
        self.report()
        self.assertEqual(['h@c#p'], self.names())
        with self.assertRaisesRegex(errors.PoolNotFound, 'h@b#p'):
            self.get()

    def test_forget_deletes_empty_pools_of_backend(self):
        self.report(('h@b#p', THICK), ('h@b#q', THICK))
        self.report(('h@c#p', THICK), host='h@c')
        self.place('h@b#p', 7)
        pools.forget(self.db, 'h@b')
        self.assertEqual(['h@b#p', 'h@c#p'], self.names())


@base.on_chosen_databases
class UpTest(PoolCase):
    def setUp(self):
        super().setUp()
        self.report(('h@b#p', THICK))

    def test_pool_up_by_report_without_service(self):
        self.assertTrue(self.get().up)
        self.age(models.pools, 3 * DOWN_AFTER - 10)
        self.assertTrue(self.get().up)
        self.age(models.pools, 3 * DOWN_AFTER + 1)
        self.assertFalse(self.get().up)

    def test_pool_up_by_service(self):
        services.register(self.db, binaries.VOLUME, 'h@b', 'nova', 'x')
        services.register(self.db, binaries.SCHEDULER, 'h@b', 'nova', 'x')
        self.assertEqual([('h@b#p', True)],
                         [(one.name, one.up) for one in pools.list_all(self.db, DOWN_AFTER)])
        self.age(models.services, DOWN_AFTER + 1)
        self.assertFalse(self.get().up)

    def test_pool_up_while_one_cluster_member_enabled_and_up(self):
        members = ('one@b', 'two@b')
        for host in members:
            services.register(self.db, binaries.VOLUME, host, 'nova', 'x', cluster='h@b')
        # The service had the name of the cluster before it became a member.
        services.register(self.db, binaries.VOLUME, 'h@b', 'nova', 'x')
        self.age(models.services, DOWN_AFTER + 1)
        self.assertEqual([('h@b#p', False)],
                         [(one.name, one.up) for one in pools.list_all(self.db, DOWN_AFTER)])
        services.register(self.db, binaries.VOLUME, 'two@b', 'nova', 'x', cluster='h@b')
        self.assertEqual([('h@b#p', True)],
                         [(one.name, one.up) for one in pools.list_all(self.db, DOWN_AFTER)])
        services.set_disabled(self.db, binaries.VOLUME, 'two@b', True)
        self.assertFalse(self.get().up)
        services.register(self.db, binaries.VOLUME, 'one@b', 'nova', 'x', cluster='h@b')
        self.assertTrue(self.get().up)

    def test_pool_reporting_down_unusable(self):
        for state, up in (('down', False), ('up', True)):
            self.report(('h@b#p', {**THICK, 'backend_state': state}))
            self.assertEqual((True, up), (self.get().up, self.get().usable))

    def test_pool_of_disabled_service_not_up(self):
        services.register(self.db, binaries.VOLUME, 'h@b', 'nova', 'x')
        services.set_disabled(self.db, binaries.VOLUME, 'h@b', True, 'repair')
        self.assertFalse(self.get().up)
        services.set_disabled(self.db, binaries.VOLUME, 'h@b', False)
        self.assertTrue(self.get().up)


@base.on_chosen_databases
class LivingTest(PoolCase):
    """Backends that are up, whether enabled or not."""

    def setUp(self):
        super().setUp()
        self.report(('h@b#p', THICK), ('h@b#q', THICK))
        services.register(self.db, binaries.VOLUME, 'one@b', 'nova', 'x', cluster='h@b')

    def assert_up(self, expected_up):
        self.assertEqual({'h@b'} if expected_up else set(), pools.living(self.db, DOWN_AFTER))

    def test_backend_up_while_one_pool_up(self):
        down = {**THICK, 'backend_state': 'down'}
        for reports, expected_up in (((down, THICK), True), ((down, down), False),
                                     ((THICK, THICK), True)):
            self.report(*zip(('h@b#p', 'h@b#q'), reports, strict=True))
            self.assert_up(expected_up)

    def test_disabled_backend_up(self):
        services.set_disabled(self.db, binaries.VOLUME, 'one@b', True)
        services.set_frozen(self.db, 'h@b', True)
        self.assertFalse(self.get().up)
        self.assert_up(True)

    def test_backend_without_recent_report_down(self):
        self.age(models.pools, 3 * DOWN_AFTER + 1)
        self.assert_up(False)

    def test_backend_up_while_one_cluster_member_up(self):
        services.register(self.db, binaries.SCHEDULER, 'h@b', 'nova', 'x')
        self.age(models.services, DOWN_AFTER + 1)
        services.register(self.db, binaries.SCHEDULER, 'h@b', 'nova', 'x')
        self.assert_up(False)
        services.register(self.db, binaries.VOLUME, 'two@b', 'nova', 'x', cluster='h@b')
        self.assert_up(True)
