"""Contract of the local host, whose servers are disks of the host; files replace devices."""
import json
import os

from blockattach.compute import errors
from blockattach.compute.hosts import base
from blockattach.compute.hosts.local import connectors
from blockattach.compute.hosts.local import host as local_host
from blockattach.conformance import hosts
from blockattach.storage.domain import connection
from blockattach.tests.conformance import settings

RIGHT, WRONG = 'secret-of-twelve', 'another-secret'
SIZE = 8192


class FileConnector(connectors.Connector):
    """Connector of volumes that are files, with links for those connected."""

    def __init__(self, folder):
        self._folder = folder
        os.makedirs(folder, exist_ok=True)

    def check(self):
        pass

    def properties(self, server_id):
        return {'initiator': f'iqn.2026-01.org.example:{server_id}'}

    def connect(self, server_id, disk):
        if disk.info['auth_password'] != RIGHT:
            raise errors.HostRefused(reason='the password is wrong')
        if not os.path.exists(disk.info['file']):
            with open(disk.info['file'], 'wb') as file:
                file.write(bytes(SIZE))
        link = self._link(server_id, disk.volume_id)
        if not os.path.lexists(link):
            os.symlink(disk.info['file'], link)
        return disk.info['file']

    def path(self, server_id, volume_id):
        link = self._link(server_id, volume_id)
        return os.readlink(link) if os.path.lexists(link) else None

    def disconnect(self, server_id, volume_id):
        if self.path(server_id, volume_id) is not None:
            os.unlink(self._link(server_id, volume_id))

    def resize(self, server_id, volume_id, size_gb):
        return self.path(server_id, volume_id)

    def connected(self):
        return os.listdir(self._folder)

    def _link(self, server_id, volume_id):
        return connectors.folder(self._folder, server_id, volume_id)


class LocalHostTest(hosts.HostContract):

    moves = False
    has_bytes = True

    def setUp(self):
        self.folder = settings.folder(self)
        self.modes = {}
        self.connector = FileConnector(os.path.join(self.folder, 'connected'))
        super().setUp()

    def make(self, name):
        return local_host.LocalHost(name, os.path.join(self.folder, name), self.connector,
                                    user=lambda: 0)

    def disk(self, host, server_id, device='/dev/vdb', volume_id=None,
             mode=connection.AccessMode.RW):
        volume_id = volume_id or str(hosts.uuid.uuid4())
        self.modes[server_id, volume_id] = mode
        return base.Disk(volume_id, device, mode, True, {
            'driver_volume_type': 'iscsi', 'file': os.path.join(self.folder, volume_id),
            'auth_password': RIGHT})

    def unreachable(self, disk):
        return base.Disk(disk.volume_id, disk.device, disk.mode, True,
                         {**disk.info, 'auth_password': WRONG})

    def path(self, server_id):
        return os.path.join(self.folder, 'host-a', 'servers', server_id, 'vdb')

    def read(self, host, server_id, volume_id):
        with open(self.path(server_id), 'rb') as file:
            return file.read().rstrip(b'\0')

    def write(self, host, server_id, volume_id, data):
        if self.modes[server_id, volume_id] is connection.AccessMode.RO:
            return False
        with open(self.path(server_id), 'r+b') as file:
            file.write(data)
        return True

    def test_failed_disk_disconnects_other_disks_of_spawn(self):
        server_id = str(hosts.uuid.uuid4())
        guest = self.guest([self.disk(self.host, server_id, '/dev/vda'),
                            self.unreachable(self.disk(self.host, server_id))], server_id)
        with self.assertRaises(errors.HostRefused):
            self.host.spawn(guest)
        self.assertEqual({}, self.host.servers())
        self.assertEqual([], self.connector.connected())

    def test_start_disconnects_disks_no_longer_attached(self):
        guest = self.spawned('/dev/vda', '/dev/vdb')
        self.host.start(self.guest(guest.disks[1:], guest.server_id))
        self.assert_has(self.host, guest.server_id, guest.disks[1])
        self.assertEqual(1, len(self.connector.connected()))

    def test_second_disk_of_same_device_name_rejected(self):
        guest = self.spawned('/dev/vdb')
        with self.assertRaises(errors.HostRefused):
            self.host.plug(guest.server_id, self.disk(self.host, guest.server_id))
        self.assert_has(self.host, guest.server_id, *guest.disks)

    def test_chap_password_not_stored(self):
        guest = self.spawned('/dev/vdb')
        path = os.path.join(self.folder, 'host-a', 'servers', guest.server_id, 'server.json')
        with open(path, encoding='utf-8') as file:
            text = file.read()
        self.assertIn(guest.disks[0].volume_id, json.dumps(json.loads(text)))
        self.assertNotIn(RIGHT, text)
        self.assertEqual(0o600, os.stat(path).st_mode & 0o777)
