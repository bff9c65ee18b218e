"""LIO in one guest and the kernel's initiator in two others, over routed links."""
import hashlib

from blockattach.platform import units
from lab.guests import base
from lab.guests import lio
from lab.guests.machines import guest
from lab.guests.machines import initiator
from lab.guests.machines import remote

IQN = 'iqn.2026-01.org.example:lab'


class TwoHostsTest(base.LabTestCase):

    def setUp(self):
        super().setUp()
        self.storage = self.a_guest('storage', disks=[guest.make_disk(64 * units.MIB)],
                                    modules=guest.STORAGE)
        self.writer, self.reader = (
            initiator.Initiator(self.a_guest(name, modules=guest.INITIATOR, udev=True))
            for name in ('writer', 'reader'))
        guest.start_all(self.storage, self.writer.guest, self.reader.guest)
        self.portal = f'{self.storage.address}:3260'
        self.storage.call(lio.export, self.storage.device(0), self.storage.address, IQN, [
            (self.writer.name, 'writer', 'secret-of-writer', False),
            (self.reader.name, 'reader', 'secret-of-reader', True)])
        self.writer.start()
        self.reader.start()

    def login(self, host, password=None):
        name = host.guest.name
        return host.login(self.portal, IQN, name, password or f'secret-of-{name}')

    def checksum(self, machine, device):
        done = machine.run('sh', '-c', 'dd if=$0 bs=1M count=4 iflag=direct | sha256sum', device)
        return done.output.split()[0]

    def test_each_host_is_granted_as_its_account_says(self):
        with self.assertRaisesRegex(remote.CommandFailed, 'authorization failure'):
            self.login(self.reader, 'secret-of-nobody')
        writing, reading = self.login(self.writer), self.login(self.reader)
        block = hashlib.shake_256(b'written').digest(4 * units.MIB)
        self.writer.guest.run('dd', f'of={writing}', 'bs=1M', 'iflag=fullblock', 'oflag=direct',
                              given=block)
        expected = hashlib.sha256(block).hexdigest()
        self.assertEqual(expected, self.checksum(self.reader.guest, reading))
        self.assertEqual(expected, self.checksum(self.storage, self.storage.device(0)))
        self.assertEqual('1', self.reader.guest.run('blockdev', '--getro', reading).output.strip())
        with self.assertRaisesRegex(remote.CommandFailed, 'Read-only'):
            self.reader.guest.run('dd', 'if=/dev/zero', f'of={reading}', 'bs=1M', 'count=1')
        self.storage.call(lio.withdraw, IQN, self.reader.name)
        read = ('dd', 'bs=1M', 'count=1', 'of=/dev/null', 'iflag=direct')
        self.assertNotEqual(0, self.reader.guest.run(*read, f'if={reading}', check=False).code)
        self.assertEqual(expected, self.checksum(self.writer.guest, writing))
        self.writer.logout(self.portal, IQN)
