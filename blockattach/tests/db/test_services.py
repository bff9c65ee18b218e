"""Services: one row per name, and up or down by the database clock."""
import datetime
import threading
from concurrent import futures

from blockattach.platform import clock as process_clock
from blockattach.platform.db import clock
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.tests.db import base
from blockattach.tests.fixtures import polling

DOWN_AFTER = 60
JOIN_SECONDS = polling.LIMIT


class LyingClock(process_clock.Clock):
    """Clock of a machine that is ten years ahead."""

    def utcnow(self):
        return super().utcnow() + datetime.timedelta(days=3650)


class ServiceCase(base.DatabaseTestCase):
    def setUp(self):
        super().setUp()
        self.db = self.database

    def register(self, host='h@b', binary=binaries.VOLUME, process_instance='first', zone='nova',
                 database=None):
        return services.register(database or self.db, binary, host, zone, process_instance)

    def silence(self, registered, seconds):
        """Set the time of the last heartbeat to a number of seconds ago."""
        with self.db.writer() as connection:
            connection.execute(models.services.update()
                               .where(models.services.c.id == registered.id)
                               .values(reported_at=clock.now(-seconds)))


@base.on_chosen_databases
class RegisterTest(ServiceCase):
    def test_second_instance_updates_service_row(self):
        first = self.register()
        services.set_disabled(self.db, binaries.VOLUME, 'h@b', True, 'repair')
        second = self.register(process_instance='second', zone='north')
        self.assertEqual((first.id, first.uuid), (second.id, second.uuid))
        self.assertEqual((True, 'repair', 'north'),
                         (second.disabled, second.disabled_reason, second.availability_zone))
        self.assertEqual(1, len(services.list_all(self.db, DOWN_AFTER)))

    def test_services_distinguished_by_host_and_binary(self):
        ids = {self.register().id, self.register(host='h@c').id,
               self.register(binary=binaries.SCHEDULER).id}
        self.assertEqual(3, len(ids))


@base.on_sqlite_and_servers_in_turn
class RegisterRaceTest(ServiceCase):

    def registered(self, hosts):
        """Register services at once and return their ids."""
        start = threading.Barrier(len(hosts))

        def register(host):
            start.wait(JOIN_SECONDS)
            return self.register(host=host).id
        with futures.ThreadPoolExecutor(len(hosts)) as threads:
            return list(threads.map(register, hosts, timeout=JOIN_SECONDS))

    def test_concurrent_registrations_of_one_name_create_one_row(self):
        self.assertEqual(1, len(set(self.registered(['h@b'] * 12))))

    def test_concurrent_registrations_of_own_names_succeed(self):
        self.assertEqual(12, len(set(self.registered([f'h@{number}' for number in range(12)]))))

    def test_concurrent_registrations_of_different_names_succeed(self):
        failures, start = [], threading.Barrier(10)

        def register(number):
            start.wait()
            try:
                self.register(host=f'h{number}')
            except Exception as exc:
                failures.append(exc)
        threads = [threading.Thread(target=register, args=(number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], failures)
        self.assertEqual(10, len(services.list_all(self.db, DOWN_AFTER)))


@base.on_chosen_databases
class HeartbeatTest(ServiceCase):
    def test_service_up_while_heartbeats_arrive(self):
        registered = self.register()
        self.assertTrue(registered.up)
        self.silence(registered, DOWN_AFTER + 1)
        self.assertFalse(services.get_by_host(
            self.db, binaries.VOLUME, 'h@b', DOWN_AFTER).up)
        self.assertTrue(services.get_by_host(
            self.db, binaries.VOLUME, 'h@b', DOWN_AFTER + 60).up)
        self.assertTrue(services.heartbeat(self.db, registered.id))
        self.assertTrue(services.get_by_host(
            self.db, binaries.VOLUME, 'h@b', DOWN_AFTER).up)

    def test_heartbeat_of_removed_service_rejected(self):
        self.assertFalse(services.heartbeat(self.db, 12345))

    def test_service_up_ignores_process_clock(self):
        lying = self.fixture.open(LyingClock())
        registered = self.register(database=lying)
        self.silence(registered, DOWN_AFTER + 1)
        self.assertFalse(services.get_by_host(
            lying, binaries.VOLUME, 'h@b', DOWN_AFTER).up)
        services.heartbeat(lying, registered.id)
        seen = services.get_by_host(self.db, binaries.VOLUME, 'h@b', DOWN_AFTER)
        self.assertTrue(seen.up)
        self.assertLess(abs(seen.updated_at - self.db.clock.utcnow()),
                        datetime.timedelta(days=1))


@base.on_chosen_databases
class LookTest(ServiceCase):
    def test_services_listed_by_host_and_binary(self):
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

    def test_services_up_evaluated_separately(self):
        self.silence(self.register(host='dead@b'), DOWN_AFTER + 1)
        self.register(host='alive@b')
        self.assertEqual({'dead@b': False, 'alive@b': True}, {
            one.host: one.up for one in services.list_all(self.db, DOWN_AFTER)})

    def test_unknown_service_not_found(self):
        with self.assertRaisesRegex(errors.ServiceNotFound,
                                    'cinder-volume could not be found on host x@y'):
            services.get_by_host(self.db, binaries.VOLUME, 'x@y', DOWN_AFTER)


@base.on_chosen_databases
class DisableTest(ServiceCase):
    def disabled(self):
        seen = services.get_by_host(self.db, binaries.VOLUME, 'h@b', DOWN_AFTER)
        return seen.disabled, seen.disabled_reason, seen.up

    def test_disable_and_enable_service(self):
        self.register()
        services.set_disabled(self.db, binaries.VOLUME, 'h@b', True, 'repair')
        self.assertEqual((True, 'repair', True), self.disabled())
        services.set_disabled(self.db, binaries.VOLUME, 'h@b', False)
        self.assertEqual((False, None, True), self.disabled())

    def test_disable_of_unknown_service_not_found(self):
        with self.assertRaises(errors.ServiceNotFound):
            services.set_disabled(self.db, binaries.VOLUME, 'x@y', True)


@base.on_chosen_databases
class RemoveTest(ServiceCase):
    def test_remove_silent_service(self):
        self.silence(self.register(), DOWN_AFTER + 1)
        other = self.register(host='h@c')
        services.remove(self.db, binaries.VOLUME, 'h@b', DOWN_AFTER)
        self.assertEqual([other.uuid],
                         [one.uuid for one in services.list_all(self.db, DOWN_AFTER)])

    def test_remove_of_running_service_rejected(self):
        self.register()
        with self.assertRaisesRegex(errors.Conflict, 'Stop the service first'):
            services.remove(self.db, binaries.VOLUME, 'h@b', DOWN_AFTER)
        self.assertEqual(1, len(services.list_all(self.db, DOWN_AFTER)))

    def test_remove_of_unknown_service_not_found(self):
        with self.assertRaises(errors.ServiceNotFound):
            services.remove(self.db, binaries.VOLUME, 'h@b', DOWN_AFTER)

    def test_removed_service_registers_again(self):
        presence = services.Presence(self.db, binaries.VOLUME, 'h@b', 'nova')
        presence.beat()
        self.silence(services.list_all(self.db, DOWN_AFTER)[0], DOWN_AFTER + 1)
        services.remove(self.db, binaries.VOLUME, 'h@b', DOWN_AFTER)
        presence.beat()
        self.assertTrue(services.get_by_host(
            self.db, binaries.VOLUME, 'h@b', DOWN_AFTER).up)

    def test_later_process_of_same_name_keeps_registration(self):
        first, second = (services.Presence(self.db, binaries.VOLUME, 'h@b', 'nova', sole=True)
                         for _ in range(2))
        with self.assertLogs('blockattach.storage.db.services', 'ERROR') as said:
            for presence in (first, second, first, second, first):
                presence.beat()
        self.assertRegex('\n'.join(said.output), r'\A.*Lost the service registration .*host=h@b\Z')
        self.assertEqual('another process is registered under the same service name',
                         first.wrong())
        self.assertIsNone(second.wrong())
        self.silence(services.list_all(self.db, DOWN_AFTER)[0], DOWN_AFTER + 1)
        first.beat()
        self.assertFalse(services.get_by_host(
            self.db, binaries.VOLUME, 'h@b', DOWN_AFTER).up)
        second.beat()
        self.assertTrue(services.get_by_host(
            self.db, binaries.VOLUME, 'h@b', DOWN_AFTER).up)

    def test_backend_kept_by_all_cluster_members(self):
        for host in ('one@b', 'two@b'):
            services.register(self.db, binaries.VOLUME, host, 'nova', 'x', cluster='c@b')
        services.register(self.db, binaries.VOLUME, 'three@b', 'nova', 'x')

        def keeping(backend):
            return [(one.host, one.up) for one in services.keeping(
                self.db, binaries.VOLUME, backend, DOWN_AFTER)]

        self.assertEqual([('three@b', True)], keeping('three@b'))
        self.assertEqual([], keeping('one@b'))
        self.assertEqual([('one@b', True), ('two@b', True)], keeping('c@b'))
        self.silence(services.list_all(self.db, DOWN_AFTER, 'one@b')[0], DOWN_AFTER + 1)
        self.assertEqual([('two@b', True), ('one@b', False)], keeping('c@b'))
        self.assertEqual([], services.silent(self.db, binaries.VOLUME, DOWN_AFTER))
        self.assertTrue(services.all_up(self.db, binaries.VOLUME, DOWN_AFTER))
        self.silence(services.list_all(self.db, DOWN_AFTER, 'two@b')[0], DOWN_AFTER + 1)
        self.assertEqual(['c@b'], services.silent(self.db, binaries.VOLUME, DOWN_AFTER))
        self.assertFalse(services.all_up(self.db, binaries.VOLUME, DOWN_AFTER))
        for host, are_all_up in (('one@b', False), ('two@b', True)):
            services.set_disabled(self.db, binaries.VOLUME, host, True, None)
            self.assertEqual(are_all_up, services.all_up(self.db, binaries.VOLUME, DOWN_AFTER))
