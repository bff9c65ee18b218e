"""QEMU host, with a stand-in for QEMU on its monitor socket or without any."""
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import uuid

from blockattach.compute import errors
from blockattach.compute.hosts import base
from blockattach.compute.hosts import qemu
from blockattach.compute.hosts import qemu_disks
from blockattach.compute.hosts import qemu_process
from blockattach.compute.hosts import qemu_records
from blockattach.compute.hosts import qmp
from blockattach.storage.domain import connection

HOUR = 3600.0
_RW = connection.AccessMode.RW
_ENDS = object()


def event(name, **data):
    """Return an event message of QEMU."""
    return {'event': name, 'data': data, 'timestamp': {'seconds': 0, 'microseconds': 0}}


def refusal(text, kind='GenericError'):
    """Return an error message of QEMU."""
    return {'error': {'class': kind, 'desc': text}}


class StandIn:
    """Stand-in for the monitor of QEMU with prepared messages for each command.

    A command without prepared messages succeeds.
    """

    def __init__(self, test, folder, name=qemu_process.ACT, **messages):
        self.asked, self.arguments = [], {}
        self._messages = messages
        self._listening = socket.socket(socket.AF_UNIX)
        test.addCleanup(self._listening.close)
        inside = os.open(folder, os.O_PATH)
        self._listening.bind(f'/proc/self/fd/{inside}/{name}')
        os.close(inside)
        self._listening.listen()
        thread = threading.Thread(target=self._serve, daemon=True)
        thread.start()
        test.addCleanup(thread.join)
        test.addCleanup(self._listening.shutdown, socket.SHUT_RDWR)

    def _serve(self):
        while True:
            try:
                taken, _ = self._listening.accept()
            except OSError:
                return
            # A client that only checks for a listener reads nothing.
            with contextlib.suppress(OSError), taken, taken.makefile('rwb') as lines:
                self._send(lines, {'QMP': {}})
                for line in lines:
                    request = json.loads(line)
                    self.asked.append(request['execute'])
                    self.arguments[request['execute']] = request['arguments']
                    if not self._answer(lines, request):
                        break

    def _answer(self, lines, request):
        for message in self._messages.get(request['execute'].replace('-', '_'), [{'return': {}}]):
            if message is _ENDS:
                return False
            self._send(lines, message if 'event' in message else {**message, 'id': request['id']})
        return True

    def _send(self, lines, message):
        lines.write(json.dumps(message).encode() + b'\n')
        lines.flush()


class Folder(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix='qemu-'))


class MonitorTest(Folder):

    def test_event_before_answer_kept(self):
        StandIn(self, self.folder, stop=[event('STOP'), event('X'), {'return': 7}, event('Y')])
        with qmp.Monitor(self.folder, qemu_process.ACT) as monitor:
            self.assertEqual(7, monitor.call('stop'))
            for name in 'STOP', 'Y':
                found = monitor.wait(lambda one, name=name: one['event'] == name, HOUR)
                self.assertEqual(name, found['event'])

    def test_refusal_has_text_of_qemu(self):
        StandIn(self, self.folder, stop=[refusal('not now', 'DeviceNotFound')])
        with qmp.Monitor(self.folder, qemu_process.ACT) as monitor:
            with self.assertRaises(qmp.Refused) as caught:
                monitor.call('stop')
            self.assertEqual(('DeviceNotFound', 'not now'),
                             (caught.exception.kind, caught.exception.description))
            self.assertEqual({}, monitor.call('cont'))

    def test_connection_closed_by_qemu_is_no_answer(self):
        StandIn(self, self.folder, stop=[_ENDS])
        with qmp.Monitor(self.folder, qemu_process.ACT) as monitor:
            self.assertRaises(qmp.NoAnswer, monitor.call, 'stop')

    def test_connect_without_listener_is_not_running(self):
        self.assertRaises(qmp.NotRunning, qmp.Monitor, self.folder, 'nothing')
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(os.path.join(self.folder, 'left'))
        self.assertRaises(qmp.NotRunning, qmp.Monitor, self.folder, 'left')

    def test_connect_waits_for_full_backlog(self):
        before = []

        def connect():
            made = socket.socket(socket.AF_UNIX)
            self.addCleanup(made.close)
            made.setblocking(False)
            before.append(made)
            made.connect(os.path.join(self.folder, 'busy'))

        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.path.join(self.folder, 'busy'))
            listening.listen(0)
            with self.assertRaises(BlockingIOError):
                while True:
                    connect()
            begun = threading.Event()

            def take():
                begun.wait()
                for _ in before:
                    taken, _ = listening.accept()
                    self.addCleanup(taken.close)

            thread = threading.Thread(target=take, daemon=True)
            thread.start()
            begun.set()
            qmp.Monitor(self.folder, 'busy').close()
            thread.join()

    def test_connect_in_folder_beyond_address_length(self):
        deep = os.path.join(self.folder, *['folder' * 4] * 8)
        os.makedirs(deep)
        StandIn(self, deep)
        with qmp.Monitor(deep, qemu_process.ACT) as monitor:
            self.assertEqual(os.getpid(), monitor.pid)


class WaysTest(Folder):
    """Plug of a volume with several portals."""

    def setUp(self):
        super().setUp()
        self.host = qemu.QemuHost(qemu.QemuSettings(self.folder, 'host'))
        self.server_id = str(uuid.uuid4())
        qemu_records.Records(self.folder).write(
            qemu_records.Record(self.server_id, 'server', 1, 256, ()))
        self.dead, self.open = self.portal(), self.portal(listens=True)

    def portal(self, listens=False):
        """Return the address of a portal that refuses connections, or of one that listens."""
        taken = self.enterContext(socket.socket())
        taken.bind(('127.0.0.1', 0))
        if listens:
            taken.listen()
        return f'127.0.0.1:{taken.getsockname()[1]}'

    def plug(self, *portals, **messages):
        stand_in = StandIn(self, os.path.join(self.folder, self.server_id),
                           query_block=[{'return': []}], **messages)
        self.host.plug(self.server_id, base.Disk(str(uuid.uuid4()), '/dev/vdb', _RW, True, {
            'target_portal': portals[0], 'target_iqn': 'iqn.0', 'target_lun': 1,
            'target_portals': list(portals),
            'target_iqns': [f'iqn.{number}' for number, _ in enumerate(portals)],
            'target_luns': [number + 1 for number, _ in enumerate(portals)]}))
        return stand_in

    def test_plug_uses_first_open_portal(self):
        stand_in = self.plug(self.dead, self.open, self.dead)
        self.assertEqual(1, stand_in.asked.count('blockdev-add'))
        found = stand_in.arguments['blockdev-add']
        self.assertEqual((self.open, 'iqn.1', 2),
                         (found['portal'], found['target'], found['lun']))
        self.assertIs(True, stand_in.arguments['device_add']['share-rw'])

    def test_plug_without_usable_portal_refused(self):
        for portals, words, messages in (
                ((self.dead, self.dead), 'refused; 127.0.0.1:', {}),
                ((self.dead, self.open), f'{self.open}: no such target',
                 {'blockdev_add': [refusal('no such target')]})):
            with self.subTest(portals), self.assertRaises(errors.HostRefused) as caught:
                self.plug(*portals, **messages)
            self.assertIn(words, str(caught.exception))
            self.assertEqual({}, self.host.disks(self.server_id))
            os.remove(os.path.join(self.folder, self.server_id, qemu_process.ACT))


class UnplugTest(Folder):

    def setUp(self):
        super().setUp()
        self.host = qemu.QemuHost(qemu.QemuSettings(self.folder, 'host', release_seconds=HOUR))
        self.server_id, self.volume_id = str(uuid.uuid4()), str(uuid.uuid4())
        disk = qemu_records.Disk(self.volume_id, '/dev/vdb', _RW)
        qemu_records.Records(self.folder).write(
            qemu_records.Record(self.server_id, 'server', 1, 256, (disk,)))
        self.has = {'return': [{'qdev': '/machine/peripheral/disk-5/virtio-backend', 'inserted': {
            'node-name': qemu_disks.node(self.volume_id), 'ro': False}}]}

    def unplug(self, **messages):
        stand_in = StandIn(self, os.path.join(self.folder, self.server_id),
                           query_block=[self.has], **messages)
        self.host.unplug(self.server_id, self.volume_id)
        return stand_in

    def test_unplug_refused_by_guest_is_device_busy(self):
        with self.assertRaises(errors.DeviceBusy):
            self.unplug(device_del=[{'return': {}}, event(
                'DEVICE_UNPLUG_GUEST_ERROR', device='disk-5', path='/machine')])

    def test_repeated_unplug_waits_for_guest(self):
        stand_in = self.unplug(device_del=[
            refusal('Device disk-5 is already in the process of unplug'),
            event('DEVICE_DELETED', path='/machine/peripheral/disk-5/virtio-backend'),
            event('DEVICE_DELETED', device='disk-4', path='/machine/peripheral/disk-4'),
            event('DEVICE_DELETED', device='disk-5', path='/machine/peripheral/disk-5')])
        self.assertEqual('blockdev-del', stand_in.asked[-1])

    def test_unplug_of_released_device_succeeds(self):
        stand_in = self.unplug(device_del=[refusal('no such device', 'DeviceNotFound')])
        self.assertEqual('blockdev-del', stand_in.asked[-1])

    def test_unplug_refused_by_qemu_is_host_error(self):
        with self.assertRaises(errors.HostError) as caught:
            self.unplug(device_del=[refusal('migration in progress')])
        self.assertNotIsInstance(caught.exception, errors.HostRefused | errors.DeviceBusy)


class PlacesTest(unittest.TestCase):

    def test_slot_derived_from_device_name(self):
        for name, place in (('/dev/vda', 4), ('vdb', 5), ('/dev/sdz', 29), ('/dev/vdab', 31)):
            with self.subTest(name):
                self.assertEqual(place, qemu_disks.slot(name))

    def test_slot_of_invalid_device_name_refused(self):
        for name in ('/dev/vdac', '/dev/vd1', '/dev/nvme0', ''):
            with self.subTest(name):
                self.assertRaises(errors.HostRefused, qemu_disks.slot, name)


class HangingTest(Folder):

    def test_hanging_qemu_reported_as_running(self):
        """A hanging QEMU must not keep the agent from reporting the other servers."""
        host = qemu.QemuHost(qemu_process.QemuSettings(self.folder, 'host-a'))
        for name in ('hangs', 'is-off'):
            host.define(base.Guest(name, name, 1, 64, ()))
        StandIn(self, os.path.join(self.folder, 'hangs'), qemu_process.ASK,
                query_status=[_ENDS])
        self.assertEqual({'hangs': base.Power.RUNNING, 'is-off': base.Power.STOPPED},
                         host.servers())


    def test_servers_queried_concurrently(self):
        """Hung QEMUs do not delay the report of the others."""
        host = qemu.QemuHost(qemu_process.QemuSettings(self.folder, 'host-a'))
        all_asked = threading.Barrier(4)
        for number in range(4):
            host.define(base.Guest(str(number), 'web', 1, 64, ()))
            StandIn(self, os.path.join(self.folder, str(number)), qemu_process.ASK,
                    query_status=Delayed(all_asked.wait, [{'return': {'status': 'shutdown'}}]))
        self.assertEqual({base.Power.STOPPED}, set(host.servers().values()))


class Delayed:
    """Messages sent after an event."""

    def __init__(self, wait, messages):
        self._wait, self._messages = wait, messages

    def __iter__(self):
        self._wait()
        return iter(self._messages)


HANGS = """
import socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen(int(sys.argv[2]))
print('listens', flush=True)
sys.stdin.read()
"""


class HangingProcessTest(Folder):
    """QEMU that accepts connections and never answers."""

    def hang(self, backlog):
        self.server_id = str(uuid.uuid4())
        self.host = qemu.QemuHost(qemu.QemuSettings(self.folder, 'host', binary=sys.executable))
        self.host.define(base.Guest(self.server_id, 'web', 1, 64, ()))
        process = subprocess.Popen(
            [sys.executable, '-c', HANGS, qemu_process.ACT, str(backlog), self.server_id],
            cwd=os.path.join(self.folder, self.server_id), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        process.stdout.readline()
        return process

    def test_destroy_of_hanging_qemu_kills_it(self):
        process = self.hang(backlog=1)
        self.host.destroy(self.server_id)
        self.assertEqual(-signal.SIGKILL, process.wait())
        self.assertEqual({}, self.host.servers())

    def test_destroy_of_hanging_qemu_that_takes_no_connection_kills_it(self):
        process = self.hang(backlog=0)
        place = os.path.join(self.folder, self.server_id, qemu_process.ACT)
        with self.assertRaises(BlockingIOError):
            while True:
                waiting = self.enterContext(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(place)
        self.host.destroy(self.server_id)
        self.assertEqual(-signal.SIGKILL, process.wait())

    def test_stop_of_hanging_qemu_kills_it(self):
        process = self.hang(backlog=1)
        StandIn(self, os.path.join(self.folder, self.server_id), qemu_process.ASK,
                query_status=[_ENDS])
        self.host.stop(self.server_id)
        self.assertEqual(-signal.SIGKILL, process.wait())


class NothingTest(Folder):

    def test_check_names_missing_program(self):
        for changes, name in (({'binary': 'no-such-qemu'}, 'no-such-qemu'),
                              ({'binary': 'true', 'kernel': '/no/kernel'}, '/no/kernel'),
                              ({'binary': 'true'}, 'iSCSI')):
            with self.subTest(name), self.assertRaises(errors.ConfigurationError) as caught:
                qemu.QemuHost(qemu.QemuSettings(self.folder, 'host', **changes)).check()
            self.assertIn(name, str(caught.exception))

    def test_initiator_unique_per_server_and_host(self):
        names = {qemu.QemuHost(qemu.QemuSettings(self.folder, host)).connector(server)['initiator']
                 for host in ('host-a', 'host-b') for server in ('server-1', 'server-2')}
        self.assertEqual(4, len(names))

    def test_failed_qemu_start_leaves_no_files(self):
        for binary in ('false', 'true', 'no-such-qemu'):
            host = qemu.QemuHost(qemu.QemuSettings(self.folder, 'host', binary=binary))
            guest = base.Guest(str(uuid.uuid4()), 'server', 1, 256, ())
            for act in (host.spawn, host.receive):
                with self.subTest(binary, act=act.__name__):
                    self.assertRaises(errors.HostRefused, act, guest)
                    self.assertEqual([], os.listdir(self.folder))
