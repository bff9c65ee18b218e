"""Services: one row a name, and up or down by the database's clock."""
import datetime
import threading
from concurrent import futures

from blockattach import clock as process_clock
from blockattach import errors
from blockattach.db import clock
from blockattach.db import services
from blockattach.db.models import service
from blockattach.domain import binaries
from blockattach.tests.db import base

DOWN_AFTER = 60


class LyingClock(process_clock.Clock):
    """The clock of a machine that is ten years ahead."""

    def utcnow(self):
        return super().utcnow() + datetime.timedelta(days=3650)


class ServiceCase(base.DatabaseTestCase):
    def setUp(self):
        super().setUp()
        self.db = self.database

    def register(self, host='h@b', binary=binaries.VOLUME, incarnation='first', zone='nova',
                 database=None):
        return services.register(database or self.db, binary, host, zone, incarnation)

    def silence(self, registered, seconds):
        """Let the last sign of life be so many seconds old."""
        with self.db.writer() as connection:
            connection.execute(service.services.update()
                               .where(service.services.c.id == registered.id)
                               .values(reported_at=clock.now(-seconds)))


@base.on_chosen_databases
class RegisterTest(ServiceCase):
    def test_a_second_life_is_the_same_service(self):
        first = self.register()
        services.set_disabled(self.db, binaries.VOLUME, 'h@b', True, 'repair')
        second = self.register(incarnation='second', zone='north')
        self.assertEqual((first.id, first.uuid), (second.id, second.uuid))
        self.assertEqual((True, 'repair', 'north'),
                         (second.disabled, second.disabled_reason, second.availability_zone))
        self.assertEqual(1, len(services.list_all(self.db, DOWN_AFTER)))

    def test_names_are_apart_by_host_and_binary(self):
        ids = {self.register().id, self.register(host='h@c').id,
               self.register(binary=binaries.SCHEDULER).id}
        self.assertEqual(3, len(ids))


@base.on_every_database
class RegisterRaceTest(ServiceCase):

    def registered(self, hosts):
        """The ids of services that all begin at once."""
        start = threading.Barrier(len(hosts))

        def register(host):
            start.wait(30)
            return self.register(host=host).id
        with futures.ThreadPoolExecutor(len(hosts)) as threads:
            return list(threads.map(register, hosts, timeout=60))

    def test_many_of_one_name_are_one(self):
        self.assertEqual(1, len(set(self.registered(['h@b'] * 12))))

    def test_many_of_their_own_names_do_not_hinder_each_other(self):
        self.assertEqual(12, len(set(self.registered([f'h@{number}' for number in range(12)]))))


@base.on_chosen_databases
class HeartbeatTest(ServiceCase):
    def test_up_while_signs_of_life_come(self):
        registered = self.register()
        self.assertTrue(registered.up)
        self.silence(registered, DOWN_AFTER + 1)
        self.assertFalse(services.is_up(self.db, binaries.VOLUME, 'h@b', DOWN_AFTER))
        self.assertTrue(services.is_up(self.db, binaries.VOLUME, 'h@b', DOWN_AFTER + 60))
        self.assertTrue(services.heartbeat(self.db, registered.id))
        self.assertTrue(services.is_up(self.db, binaries.VOLUME, 'h@b', DOWN_AFTER))

    def test_a_removed_service_is_told_to_register_again(self):
        self.assertFalse(services.heartbeat(self.db, 12345))

    def test_a_wrong_clock_of_a_process_changes_nothing(self):
        lying = self.fixture.open(LyingClock())
        registered = self.register(database=lying)
        self.silence(registered, DOWN_AFTER + 1)
        self.assertFalse(services.is_up(lying, binaries.VOLUME, 'h@b', DOWN_AFTER))
        services.heartbeat(lying, registered.id)
        seen = services.get_by_host(self.db, binaries.VOLUME, 'h@b', DOWN_AFTER)
        self.assertTrue(seen.up)
        self.assertLess(abs(seen.updated_at - self.db.clock.utcnow()),
                        datetime.timedelta(days=1))


@base.on_chosen_databases
class LookTest(ServiceCase):
    def test_by_host_and_by_binary(self):
        for host, binary in (('h_1', binaries.SCHEDULER), ('h_1@b', binaries.VOLUME),
                             ('hx1@b', binaries.VOLUME), ('h_10@b', binaries.VOLUME)):
            self.register(host=host, binary=binary)

        def found(**asked):
            return [one.host for one in services.list_all(self.db, DOWN_AFTER, **asked)]
        self.assertEqual(['h_1', 'h_1@b', 'hx1@b', 'h_10@b'], found())
        self.assertEqual(['h_1', 'h_1@b'], found(host='h_1'))
        self.assertEqual(['h_1@b'], found(host='h_1@b'))
        self.assertEqual(['h_1@b'], found(host='h_1', binary=binaries.VOLUME))
        self.assertEqual([], found(binary='cinder-backup'))

    def test_each_is_judged_by_itself(self):
        self.silence(self.register(host='dead@b'), DOWN_AFTER + 1)
        self.register(host='alive@b')
        self.assertEqual({'dead@b': False, 'alive@b': True}, {
            one.host: one.up for one in services.list_all(self.db, DOWN_AFTER)})

    def test_unknown(self):
        with self.assertRaisesRegex(errors.ServiceNotFound,
                                    'cinder-volume could not be found on host x@y'):
            services.get_by_host(self.db, binaries.VOLUME, 'x@y', DOWN_AFTER)
        self.assertFalse(services.is_up(self.db, binaries.VOLUME, 'x@y', DOWN_AFTER))


@base.on_chosen_databases
class DisableTest(ServiceCase):
    def disabled(self):
        seen = services.get_by_host(self.db, binaries.VOLUME, 'h@b', DOWN_AFTER)
        return seen.disabled, seen.disabled_reason, seen.up

    def test_out_of_use_and_back(self):
        self.register()
        services.set_disabled(self.db, binaries.VOLUME, 'h@b', True, 'repair')
        self.assertEqual((True, 'repair', True), self.disabled())
        services.set_disabled(self.db, binaries.VOLUME, 'h@b', False)
        self.assertEqual((False, None, True), self.disabled())

    def test_unknown(self):
        with self.assertRaises(errors.ServiceNotFound):
            services.set_disabled(self.db, binaries.VOLUME, 'x@y', True)
