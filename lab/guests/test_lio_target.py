"""LIO driver after a power loss, and under hosts whose kernel is logged in, also during an extend.

The conformance kit of the driver runs in test_kits.
"""
from blockattach.platform import units
from lab.guests import base
from lab.guests import lio_driver
from lab.guests.machines import guest
from lab.guests.machines import initiator


class PowerCutTest(base.LabTestCase):
    """LIO's database on one disk, and a volume on another."""

    def test_reservations_outlive_it_but_not_those_of_a_revoked_host(self):
        machine = self.a_guest('lio', modules=guest.STORAGE, disks=[
            guest.make_disk(64 * units.MIB), guest.make_disk(units.GIB)])
        machine.start()
        machine.run('mkfs.ext4', '-q', machine.device(0))
        self.mount(machine)
        given = machine.call(lio_driver.before, machine.device(1))
        self.assertEqual(['holder', 'registered', 'registered', 'none'], given['held'])
        # Nothing is synced. The response to a host guarantees that the registration is stored.
        machine.power_cut()
        machine.start()
        self.mount(machine)
        self.assertEqual(['holder', 'registered', 'none', 'none'],
                         machine.call(lio_driver.after, machine.device(1), given))

    def mount(self, machine):
        machine.run('mount', machine.device(0), '/etc/target')


class KernelHostTest(base.LabTestCase):
    """Change of an access mode while the kernel of a host is logged in."""

    def setUp(self):
        super().setUp()
        self.storage = self.a_guest('storage', modules=guest.STORAGE,
                                    disks=[guest.make_disk(64 * units.MIB)])
        self.host = initiator.Initiator(self.a_guest('host', modules=guest.INITIATOR, udev=True))
        guest.start_all(self.storage, self.host.guest)
        self.host.start()

    def grant(self, mode):
        return self.storage.call(lio_driver.grant, self.storage.device(0), self.storage.address,
                                 self.host.name, 'secret-of-the-host', mode)

    def failure(self):
        """Return the error of a write, or an empty text if it succeeds."""
        done = self.host.guest.run('dd', 'if=/dev/zero', f'of={self.disk}', 'bs=4k', 'count=1',
                                   'oflag=direct', 'status=none', check=False)
        return done.errors

    def read_only(self):
        return self.host.guest.run('blockdev', '--getro', self.disk).output.strip()

    def test_the_session_goes_on_and_a_rescan_informs_the_kernel(self):
        made = self.grant('rw')
        self.disk = self.host.login(made['target_portal'], made['target_iqn'], 'somebody',
                                    'secret-of-the-host', made['target_lun'])
        self.assertEqual('', self.failure())
        session = self.sessions()
        self.grant('ro')
        self.assertNotEqual('', self.failure())
        for mode, flag in (('rw', '0'), ('ro', '1'), ('rw', '0')):
            self.grant(mode)
            self.rescan()
            self.assertEqual(flag, self.read_only())
            self.assertEqual(mode == 'rw', self.failure() == '')
        self.assertEqual(session, self.sessions())

    def sessions(self):
        return self.host.guest.run('iscsiadm', '-m', 'session').output

    def rescan(self):
        self.host.guest.run('iscsiadm', '-m', 'session', '--rescan')


class GrowingTest(base.LabTestCase):
    """Extend of a volume to which the kernel of a host writes all the time."""

    def setUp(self):
        super().setUp()
        self.storage = self.a_guest('storage', modules=guest.STORAGE,
                                    disks=[guest.make_disk(8 * units.GIB)])
        self.host = initiator.Initiator(self.a_guest('host', modules=guest.INITIATOR, udev=True))
        guest.start_all(self.storage, self.host.guest)
        self.host.start()

    def test_the_host_goes_on_and_writes_beyond_the_old_end(self):
        made = self.storage.call(lio_driver.grant_volume, self.storage.address, self.host.name,
                                 'secret-of-the-host')
        found = made['connection']
        disk = self.host.login(found['target_portal'], found['target_iqn'], 'somebody',
                               'secret-of-the-host', found['target_lun'])
        self.assertEqual(units.GIB, self.size(disk))
        session = self.sessions()
        # The loop ends at the first failed write.
        self.host.guest.run('sh', '-c', (
            f'(while dd if=/dev/zero of={disk} bs=64k count=16 oflag=direct status=none; do '
            f'echo; done) < /dev/null > /tmp/written 2> /tmp/failed & echo $! > /tmp/writer'))
        self.storage.call(lio_driver.grow, made['device'], 2)
        self.host.guest.run('iscsiadm', '-m', 'session', '--rescan')
        self.assertEqual(2 * units.GIB, self.size(disk))
        self.host.guest.run('dd', 'if=/dev/zero', f'of={disk}', 'bs=1M', 'seek=2047', 'count=1',
                            'oflag=direct', 'status=none')
        self.host.guest.run('sh', '-c', 'kill "$(cat /tmp/writer)"')
        self.assertEqual('', self.host.guest.run('cat', '/tmp/failed').output)
        self.assertEqual(session, self.sessions())

    def size(self, disk):
        return int(self.host.guest.run('blockdev', '--getsize64', disk).output)

    def sessions(self):
        return self.host.guest.run('iscsiadm', '-m', 'session').output
