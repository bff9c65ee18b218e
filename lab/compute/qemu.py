"""Hosts of QEMU guests, and their volumes on a tgtd with grants like those of the service."""
import dataclasses
import os
import secrets
import shutil
import tempfile
import unittest
import uuid

from blockattach.compute.hosts import base
from blockattach.compute.hosts import qemu
from blockattach.compute.hosts import qemu_disks
from blockattach.compute.hosts import qemu_process
from blockattach.storage.domain import connection
from blockattach.storage.drivers.targets import tgt
from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import guests
from blockattach.tests.conformance import settings

BINARY = qemu.QemuSettings('', '').binary
SMALL = 16 * 2 ** 20
"""Size in bytes of a volume whose size does not matter."""


class Backing(unittest.TestCase):
    """Tests with a target and a guest image that all tests of a class share."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix='compute-'))
        kernel = guests.find()
        cls.missing = kernel.missing()
        for name, there in (('tgtd', tgtd.program()), (BINARY, shutil.which(BINARY))):
            if there is None:
                cls.missing = f'{name} is not installed'
        if cls.missing is None:
            cls.boots = kernel.build(cls.folder)
            cls.target = tgt.TgtTarget(settings.settings(
                os.path.join(cls.folder, 'target'), settings.free_port()))
            cls.addClassCleanup(cls.target.stop)
            cls.target.start()

    def setUp(self):
        if self.missing is not None:
            if os.environ.get('CI') == 'true':
                self.fail(self.missing)
            self.skipTest(self.missing)
        self.place = tempfile.mkdtemp(prefix='hosts-', dir=self.folder)
        self.devices = {}
        super().setUp()

    def make(self, name, **changes):
        """Create a host.

        :param changes: changed settings of the host
        """
        return qemu.QemuHost(qemu.QemuSettings(**{
            'state_dir': os.path.join(self.place, name), 'host': name, 'accelerator': 'tcg',
            'stop_seconds': 0.0, 'release_seconds': 120.0,
            **dataclasses.asdict(self.boots), **changes}))

    def disk(self, host, server_id, device='/dev/vdb', volume_id=None,
             mode=connection.AccessMode.RW, size=SMALL):
        """Grant a server on a host access to a volume, and return the disk.

        :param volume_id: an existing volume; None to create one
        """
        volume_id = volume_id or str(uuid.uuid4())
        self.devices[volume_id] = device
        path = self.path(volume_id)
        if not os.path.exists(path):
            with open(path, 'wb') as file:
                file.truncate(size)
        credential = connection.Credential(f'user{secrets.token_hex(8)}', secrets.token_hex(8))
        granted = self.target.grant(
            connection.Export(volume_id, f'volume-{volume_id}', path, 1),
            connection.Grant(volume_id, host.connector(server_id)['initiator'], mode, credential,
                             f'-{secrets.token_hex(4)}'))
        return base.Disk(volume_id, device, mode, True, {
            **granted.to_dict(), 'auth_method': 'CHAP', 'auth_username': credential.username,
            'auth_password': credential.password})

    def path(self, volume_id):
        """Return the path of the file with the bytes of a volume."""
        return os.path.join(self.place, f'volume-{volume_id}')

    def server_folder(self, host, server_id):
        """Return the directory in which a host keeps the files of a server."""
        return os.path.join(self.place, host.connector(server_id)['host'], server_id)

    def console(self, host, server_id):
        """Return the console on the serial line of a server."""
        return guests.Console(os.path.join(self.server_folder(host, server_id),
                                           qemu_process.CONSOLE))

    def seen(self, host, server_id, volume_id):
        """Wait until the guest sees the disk of a volume, and return its view of the disk."""
        console = self.console(host, server_id)
        place = f'0000:00:{qemu_disks.slot(self.devices[volume_id]):02x}.0'
        found = []

        def is_seen():
            found[:] = [disk for disk in console.disks() if disk.place == place]
            return bool(found)

        self.until(is_seen)
        return found[0]

    def until(self, condition):
        self.assertTrue(guests.clocks.Clock().until(condition, 300.0, 0.1))

    def read(self, host, server_id, volume_id):
        """Return the bytes that the guest reads at the beginning of a disk."""
        return self.console(host, server_id).read(self.seen(host, server_id, volume_id).name)

    def write(self, host, server_id, volume_id, data):
        """Write at the beginning of a disk from the guest, and return True if that succeeds."""
        return self.console(host, server_id).write(
            self.seen(host, server_id, volume_id).name, data)
