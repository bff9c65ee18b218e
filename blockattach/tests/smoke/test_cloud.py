"""Cloud of separate processes, which are used, killed and stopped."""
import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
import uuid
from concurrent import futures

from cinderclient import client as cinder_client
from cinderclient import exceptions as cinder_exceptions
from keystoneauth1 import exceptions as keystone_exceptions
from openstack import exceptions

from blockattach.testing import initiator
from blockattach.testing import ports
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import polling
from blockattach.tests.functional import base
from blockattach.tests.functional import commands
from blockattach.tests.rules import sources
from lab.smoke import clouds

ETC = sources.ROOT / 'etc'
NAME = 'iqn.2026-01.org.example:{}'
PIECE = 64 * 1024
THREADS = 4


def host(name):
    """Return an initiator whose timeout is that of the test."""
    return initiator.Initiator(NAME.format(name), timeout=polling.LIMIT)


class Load:
    """Attach cycles of several threads on one volume, from construction until `end`.

    Requests that are refused temporarily or not answered are repeated. Other errors fail the test.
    """

    def __init__(self, cloud, volume):
        self._cloud = cloud
        self._volume = volume
        self._over = threading.Event()
        self.done = [0] * THREADS
        self._pool = futures.ThreadPoolExecutor(THREADS)
        self._running = [self._pool.submit(self._repeat, number) for number in range(THREADS)]

    def _repeat(self, number):
        storage = self._cloud.connect('ann').block_storage
        while not self._over.is_set():
            with contextlib.suppress(keystone_exceptions.ConnectionError,
                                     exceptions.ConflictException,
                                     exceptions.NotFoundException), self._unless_busy():
                made = storage.create_attachment(
                    self._volume, connector=base.connector(f'host-{number}'),
                    instance=str(uuid.uuid4()))
                storage.complete_attachment(made)
                storage.delete_attachment(made)
                self.done[number] += 1

    @contextlib.contextmanager
    def _unless_busy(self):
        try:
            yield
        except exceptions.HttpException as error:
            if error.status_code not in (503, 504):
                raise

    def until_more(self):
        """Wait until each thread has finished another cycle."""
        before = list(self.done)
        polling.until(lambda: any(one.done() for one in self._running) or all(
            now > then for now, then in zip(self.done, before, strict=True)))

    def end(self):
        """Stop after the current cycle of each thread.

        :raises Exception: error of a thread
        """
        self._over.set()
        with self._pool:
            for one in self._running:
                one.result()


class CloudTest(base.StackTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.cloud = clouds.Cloud()
        cls.addClassCleanup(cls.cloud.close)
        cls.storage = cls.cloud.storage

    def attach(self, volume, name, **wanted):
        """Attach a volume to a server, and return the attachment and its connection info."""
        made = self.storage.create_attachment(
            volume, instance=str(uuid.uuid4()), connector={
                **base.connector(name), 'initiator': NAME.format(name)}, **wanted)
        self.storage.complete_attachment(made)
        return made, self.storage.get_attachment(made.id).connection_info

    def remove(self, volume, *attachments):
        """Detach and delete a volume, and wait until it is gone."""
        for attachment in attachments:
            self.storage.delete_attachment(attachment)
        polling.until(functools.partial(self.detached, volume))
        polling.until(functools.partial(self.cloud.with_status, volume.id, 'available'))
        self.storage.delete_volume(volume)
        polling.until(lambda: self.storage.find_volume(volume.id, ignore_missing=True) is None)

    def detached(self, volume):
        """Return True if the volume has no attachment, and delete those that are left.

        A request without an answer may have left an attachment.
        """
        remaining = list(self.storage.attachments(volume_id=volume.id))
        for attachment in remaining:
            with contextlib.suppress(exceptions.HttpException):
                self.storage.delete_attachment(attachment)
        return not remaining

    def test_write_of_one_host_read_by_read_only_host(self):
        self.outside_program(initiator.available(), initiator.PROGRAM)
        volume = self.cloud.a_volume()
        writes, its_info = self.attach(volume, 'host-a')
        reads, other_info = self.attach(volume, 'host-b', mode='ro')
        with host('host-a').open(its_info) as session:
            session.write(0, PIECE, 0xa1)
        with host('host-b').open(other_info, read_only=True) as session:
            self.assertTrue(session.read(0, PIECE, 0xa1))
        self.assertRaises(initiator.InitiatorError, host('host-b').open, its_info)
        self.storage.delete_attachment(writes)
        self.assertFalse(host('host-a').can_log_in(its_info))
        self.assertTrue(host('host-b').can_log_in(other_info))
        self.remove(volume, reads)

    @exhaustive.only
    def test_the_volume_service_is_killed_under_load(self):
        self.outside_program(initiator.available(), initiator.PROGRAM)
        kept, info = self.attach(self.cloud.a_volume(), 'host-k')
        shared = self.cloud.a_volume()
        with host('host-k').open(info) as session:
            session.write(0, PIECE, 0x11)
            load = Load(self.cloud, shared)
            load.until_more()
            self.cloud.running['volume'].kill()
            session.write(PIECE, PIECE, 0x22)
            self.cloud.start('volume')
            load.until_more()
            load.end()
            self.assertTrue(session.read(0, PIECE, 0x11))
            self.assertTrue(session.read(PIECE, PIECE, 0x22))
        self.assertEqual('attached', self.storage.get_attachment(kept.id).status)
        self.assertTrue(host('host-k').can_log_in(info))
        self.remove(shared)
        self.remove(self.storage.get_volume(kept.volume_id), kept)

    def test_each_process_ends_in_order_under_load(self):
        self.outside_program(initiator.available(), initiator.PROGRAM)
        kept, info = self.attach(self.cloud.a_volume(), 'host-o')
        shared = self.cloud.a_volume()
        with host('host-o').open(info) as session:
            load = Load(self.cloud, shared)
            for number, name in enumerate(clouds.PROCESSES):
                load.until_more()
                ended = self.cloud.running[name]
                self.assertEqual(0, ended.end(), ended.text())
                self.assertNotIn('Traceback', ended.text())
                # An attached host needs none of the processes.
                session.write(number * PIECE, PIECE, number)
                self.cloud.start(name)
            load.until_more()
            load.end()
            polling.until(self.cloud.is_up)
            for number in range(len(clouds.PROCESSES)):
                self.assertTrue(session.read(number * PIECE, PIECE, number))
        self.remove(shared)
        self.remove(self.storage.get_volume(kept.volume_id), kept)

    def test_clients(self):
        session = self.cloud.connect('ann').session
        cinder = cinder_client.Client('3.71', session=session, service_type='block-storage')
        shell = self.cloud.keystone.login('ann', self.cloud.passwords['ann'], 'shop')
        variables = {'OS_AUTH_TYPE': 'password', 'OS_REGION_NAME': shell['region_name'],
                     'OS_VOLUME_API_VERSION': '3.71',
                     **{f'OS_{name.upper()}': value for name, value in shell['auth'].items()}}
        volume = self.cloud.a_volume(name='by-sdk')
        made, _ = self.attach(volume, 'host-c')
        with self.subTest('python-cinderclient'):
            self.assertIn('by-sdk', [one.name for one in cinder.volumes.list()])
            self.assertEqual('attached', cinder.attachments.show(made.id).status)
        with self.subTest('openstackclient'):
            done = commands.run('openstack', ['volume', 'show', 'by-sdk', '-f', 'value', '-c',
                                              'status'], variables)
            self.assertEqual((0, 'in-use\n'), done[:2], done)
        with self.subTest('they agree on the end'):
            cinder.attachments.delete(made.id)
            done = commands.run('openstack', ['volume', 'delete', 'by-sdk'], variables)
            self.assertEqual(0, done.status, done)
            polling.until(lambda: self.storage.find_volume(volume.id) is None)
            self.assertRaises(cinder_exceptions.NotFound, cinder.volumes.get, volume.id)

    def test_an_administrator_reaches_every_process(self):
        cinder = cinder_client.Client('3.71', session=self.cloud.connect('admin').session,
                                      service_type='block-storage')
        for level in ('DEBUG', 'INFO'):
            cinder.services.set_log_levels(level, '*', '', 'blockattach.storage.volume')
            seen = cinder.services.get_log_levels('*', '', 'blockattach.storage.volume.')
            self.assertEqual({('cinder-api', level), ('cinder-volume', level),
                              ('cinder-scheduler', level)},
                             {(one.binary, one.level) for one in seen})
        backend, = (one.host for one in cinder.services.list(binary='cinder-volume'))
        cinder.services.freeze_host(backend)
        self.assertTrue(cinder.services.list(binary='cinder-volume')[0].frozen)
        self.assertRaises(cinder_exceptions.BadRequest, cinder.services.failover_host, backend,
                          None)
        cinder.services.thaw_host(backend)
        self.assertFalse(cinder.services.list(binary='cinder-volume')[0].frozen)

    def test_commands_of_an_operator(self):
        with self.subTest('of this cloud'):
            self.assertIn(f'{clouds.HOST}@disks', self.cloud.run('manage', 'service', 'list'))
            self.cloud.run('manage', 'attachments', 'check')
            self.cloud.run('status', 'upgrade', 'check')
        with self.subTest('on an empty database'), contextlib.closing(
                database.DatabaseFixture(database.MYSQL, migrated=False)) as empty:
            other = self.cloud.folder / 'empty.conf'
            other.write_text(self.cloud.configuration.read_text('utf-8').replace(
                self.cloud.rows.url, empty.url), 'utf-8')
            said = self.cloud.run('scheduler', configuration=other, status=1)
            self.assertIn('blockattach-manage db sync', said)
            self.cloud.run('manage', 'db', 'sync', configuration=other)
            self.cloud.run('manage', 'db', 'version', configuration=other)

    def check_serves(self, command, port, **environment):
        """Check that an API under another web server answers beside the one of the cloud."""
        log = self.cloud.folder / f'{port}.log'
        with log.open('wb') as said:
            process = subprocess.Popen(
                command, stdout=said, stderr=said, cwd=self.cloud.folder, env={
                    **os.environ, **environment,
                    'PATH': f'{os.path.dirname(sys.executable)}:{os.environ["PATH"]}',
                    'BLOCKATTACH_CONFIG_FILES': str(self.cloud.configuration)})
        try:
            storage = polling.until(lambda: self.served(process, port))
            volume = self.cloud.a_volume(storage)
            made = storage.create_attachment(volume, instance=str(uuid.uuid4()),
                                             connector=base.connector('host-w'))
            self.assertTrue(self.storage.get_attachment(made.id).connection_info)
            self.remove(volume, made)
            process.send_signal(signal.SIGTERM)
            polling.until(lambda: process.poll() is not None)
        finally:
            process.kill()
            process.wait()
        self.assertNotIn('Traceback', log.read_text())

    def served(self, process, port):
        """Return the client of a user once the server answers, or None."""
        self.assertIsNone(process.poll(), 'the web server has ended')
        with contextlib.suppress(keystone_exceptions.ClientException, exceptions.SDKException):
            storage = self.cloud.connect('ann', block_storage_endpoint_override=(
                f'http://127.0.0.1:{port}/v3')).block_storage
            list(storage.volumes())
            return storage
        return None

    def test_uwsgi(self):
        port, health = ports.free_port(), ports.free_port()
        ini = self.cloud.folder / 'blockattach-api.ini'
        ini.write_text((ETC / 'uwsgi' / ini.name).read_text().replace(
            '127.0.0.1:8776', f'127.0.0.1:{port}').replace(
            '127.0.0.1:8777', f'127.0.0.1:{health}'))
        self.check_serves(['uwsgi', '--ini', str(ini)], port)

    @exhaustive.only
    def test_granian(self):
        port = ports.free_port()
        self.check_serves([str(ETC / 'granian' / 'blockattach-api.sh')], port, PORT=str(port))


