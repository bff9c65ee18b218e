"""Processes that send messages over HTTP: only calls, or all messages without a broker."""
import signal
import unittest
from concurrent import futures

import kombu

from blockattach.testing import ports
from blockattach.tests.fixtures import cutting
from blockattach.tests.fixtures import rabbit
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from lab.system import processes

PROCESS_TOPICS = ('cinder-volume', 'cinder-scheduler')


class HttpCase(processes.ProcessesTestCase):
    """Base class with an attach cycle and a request to each process."""

    def attach(self, volume_id, host):
        return self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': base.connector(host)}})

    def attach_and_detach(self, volume_id, host='one'):
        status, made = self.attach(volume_id, host)
        self.assertEqual(200, status, made)
        path = f'/attachments/{made["attachment"]["id"]}'
        self.assertTrue(made['attachment']['connection_info'])
        self.assertEqual(204, self.api.ask('POST', f'{path}/action', {'os-complete': {}})[0])
        self.assertEqual(200, self.api.ask('DELETE', path)[0])

    def check_processes(self):
        status, answer = self.api.ask('PUT', '/os-services/get-log',
                                      {'prefix': 'blockattach.platform.rpc'})
        self.assertEqual(200, status)
        self.assertLessEqual(set(PROCESS_TOPICS),
                             {one['binary'] for one in answer['log_levels']})

    def restart(self, name, number):
        """End a process with a signal and start it again, with another address."""
        ended = self.started.pop(name)
        ended.send_signal(number)
        ended.wait(processes.stack.STOP_SECONDS)
        self.start(name)
        self.assertTrue(base.wait_for(
            lambda: processes.SERVES in self.started[name].text(), processes.START_SECONDS))


class CallsTest(HttpCase):
    """Attach with ``[rpc] calls = http``, which does not use the broker."""

    def bus(self):
        self.options = super().bus()
        return {**self.options, ('rpc', 'calls'): 'http'}

    def test_an_attach_does_not_need_the_broker(self):
        self.begin()
        volume = self.a_volume(self.api)
        self.attach_and_detach(volume)
        # Messages that are sent to these queues are lost.
        with rabbit.connect(self.options['DEFAULT', 'transport_url']) as connection:
            prefix = self.options['rpc', 'topic_prefix']
            for name in (f'{prefix}-volume', f'{prefix}-volume.{processes.HOST}@disks'):
                kombu.Queue(name, channel=connection.channel()).delete()
        self.attach_and_detach(volume)
        self.check_processes()


class WithoutBrokerTest(HttpCase):
    """Services with ``transport_url = http://``, where the database is the only server."""

    def bus(self):
        return {('DEFAULT', 'transport_url'): 'http://'}

    def test_service_without_broker_survives_restarts(self):
        self.begin('control')
        with self.subTest('a volume is created, attached and detached'):
            volume = self.a_volume(self.api)
            self.attach_and_detach(volume)
            self.check_processes()
        for name, number in (('volume', signal.SIGTERM), ('volume', signal.SIGKILL),
                             ('scheduler', signal.SIGKILL)):
            with self.subTest('after a restart of a process', name=name, number=number):
                self.restart(name, number)
                self.attach_and_detach(volume, f'after-{number}')
                self.assertTrue(self.a_volume(self.api))
                self.check_processes()
        with self.subTest('without a volume manager'):
            self.started['volume'].send_signal(signal.SIGTERM)
            self.started.pop('volume').wait(processes.stack.STOP_SECONDS)
            status, answer = self.attach(volume, 'none')
            self.assertIn(status, (500, 503, 504), answer)
        with self.subTest('after a new start'):
            self.start('volume')
            self.assertTrue(base.wait_for(lambda: self.attach(volume, 'again')[0] == 200))


class FaultsTest(HttpCase):
    """Broken connections to the volume manager, and a suspended volume manager."""

    def bus(self):
        self.listening = ports.free_port()
        self.proxy = cutting.CuttingProxy((servers.LOOPBACK, self.listening))
        self.addCleanup(self.proxy.close)
        return {('DEFAULT', 'transport_url'): 'http://'}

    def environment(self, name):
        return {} if name != 'volume' else {
            'OS_RPC__LISTEN': f'{servers.LOOPBACK}:{self.listening}',
            'OS_RPC__ADVERTISE': f'{servers.LOOPBACK}:{self.proxy.port}'}

    def test_every_attach_ends_well(self):
        self.begin()
        volume = self.a_volume(self.api)
        self.attach_and_detach(volume)
        for where in cutting.Where:
            with self.subTest(where):
                before = self.proxy.cut
                self.proxy.arm(where)
                self.attach_and_detach(volume, f'cut-{where.name}')
                self.assertEqual(before + 1, self.proxy.cut)
        with self.subTest('suspended volume manager'), futures.ThreadPoolExecutor(1) as pool:
            base.pause(self.started['volume'])
            try:
                attaching = pool.submit(self.attach_and_detach, volume, 'slow')
                self.assertTrue(base.wait_for(
                    lambda: [one['status'] for one in self.api.list('attachments')]
                    == ['attaching']))
            finally:
                self.started['volume'].send_signal(signal.SIGCONT)
            attaching.result()
        self.assertEqual([], self.api.list('attachments'))


if __name__ == '__main__':
    unittest.main()
