"""Service on LVM and LIO, with two hosts that use os-brick.

A volume is attached to both hosts, to one of them read-only, before and after each test.
"""
import contextlib
import hashlib
from concurrent import futures

from blockattach.platform import clock as clocks
from blockattach.platform import units
from blockattach.testing import scsi
from lab.guests import base
from lab.guests import compute_host
from lab.guests import storage_host
from lab.guests.machines import guest as guests
from lab.guests.machines import initiator

# Hosts queue writes while the storage is down. A busy machine may take long to restart it.
OUTAGE_SECONDS = 1000
SECONDS = 300.0
KEY = 0xa1
MODES = ('rw', 'ro')
LUN = 0

# Write a block repeatedly, each time at the next offset and synchronously. The pause leaves
# processor time to others.
WRITE_ON = """
set -e
written=0
until [ -e /run/enough ]; do
    dd if=/run/block of="$1" bs=4k count=1 seek=$written oflag=direct,sync status=none
    written=$((written + 1))
    echo $written >/run/written.new
    mv /run/written.new /run/written
    sleep 0.2
done
"""
CHECKSUM = 'dd if="$1" bs=1M count="$2" iflag=direct,count_bytes status=none | sha256sum'
BLOCK = hashlib.shake_256(b'a block').digest(4096)


class Host(initiator.Initiator):
    """Compute host and its attachment of the volume."""

    def __init__(self, name, mode):
        super().__init__(guests.Guest(name, modules=guests.INITIATOR, udev=True))
        self.mode = mode
        self.held = None

    def start(self, replacement_timeout=OUTAGE_SECONDS):
        super().start(replacement_timeout)
        self.guest.run('sh', '-c', 'cat >/run/block', given=BLOCK)

    def attach(self, service, volume_id):
        self.held = self.guest.call(compute_host.attach, service, volume_id, self.mode,
                                    self.guest.address, timeout=SECONDS)

    def detach(self, service):
        self.guest.call(compute_host.detach, service, self.held, timeout=SECONDS)

    def grow(self):
        return self.guest.call(compute_host.grow, self.held, timeout=SECONDS)

    @property
    def disk(self):
        return self.held['device']['path']

    def session(self):
        """Return the number of the session, which changes with each login."""
        return self.guest.run('iscsiadm', '-m', 'session').output.split()[1]

    def reservation(self, *words):
        self.guest.run('sg_persist', '--out', *words, self.disk)


class ServiceTest(base.LabTestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.clock, cls.shown = clocks.Clock(), []
        cls.addClassCleanup(cls.print_times)
        cls.storage = storage_host.StorageHost()
        cls.addClassCleanup(cls.storage.guest.close)
        cls.hosts = [Host(name, mode)
                     for name, mode in zip(('writer', 'reader'), MODES, strict=True)]
        for host in cls.hosts:
            cls.addClassCleanup(host.guest.close)
        cls.writer, cls.reader = cls.hosts
        guests.start_all(cls.storage.guest, *(host.guest for host in cls.hosts))
        cls.storage.prepare()
        with cls.timed('start of the service'):
            cls.storage.serve()
        for host in cls.hosts:
            host.start()
        with cls.timed('create of a volume'):
            cls.volume_id = cls.storage.api.create_volume(1)
        with cls.timed('attach of two hosts in parallel by os-brick'):
            cls.both(lambda host: host.attach(cls.storage.service, cls.volume_id))

    @classmethod
    @contextlib.contextmanager
    def timed(cls, what):
        """Measure the duration of a step for the report."""
        began = cls.clock.monotonic()
        yield
        cls.shown.append(f'{what:<64}{cls.clock.monotonic() - began:6.1f} s')

    @classmethod
    def print_times(cls):
        cls.report('service', '\n'.join(['the service on LVM and LIO:', *cls.shown, '']))

    @classmethod
    def both(cls, act):
        """Call a function for both hosts in parallel."""
        with futures.ThreadPoolExecutor() as pool:
            return list(pool.map(act, cls.hosts))

    def test_write_of_one_host_read_by_other(self):
        written = hashlib.shake_256(b'written').digest(4 * units.MIB)
        self.writer.guest.run('dd', f'of={self.writer.disk}', 'bs=1M', 'iflag=fullblock',
                              'oflag=direct', given=written)
        self.assert_reads(written)

    def test_the_target_refuses_what_the_reader_writes(self):
        """A write in a session with the reader's name and credential is refused by the target.

        The kernel of the reader would not send the write.
        """
        self.writer.guest.run('dd', 'if=/run/block', f'of={self.writer.disk}', 'oflag=direct',
                              'bs=4k')
        with self.session_of(self.reader) as session:
            self.assertEqual(scsi.Answer(scsi.CHECK_CONDITION, scsi.DATA_PROTECT),
                             session.write(0, bytes(len(BLOCK))))
        self.assert_reads(BLOCK)

    def test_writer_continues_while_reader_detached(self):
        service, left = self.storage.service, self.reader.held
        with self.goes_on() as further:
            with self.timed('disconnect by os-brick and detach of a host'):
                self.reader.detach(service)
            with self.assertRaisesRegex(scsi.Lost, 'log'):
                self.session_of(self.reader)
            further()
            self.reader.attach(service, self.volume_id)
            further()
        self.assertNotEqual(left['id'], self.reader.held['id'])

    def test_a_volume_that_is_used_grows(self):
        """The driver extends the volume, without a request to the API."""
        with self.goes_on() as further:
            self.storage.guest.call(storage_host.extend, self.volume_id, 2)
            self.assertEqual([2 * units.GIB] * 2, self.both(Host.grow))
            further()
        self.writer.guest.run('dd', 'if=/run/block', f'of={self.writer.disk}', 'bs=1M',
                              'seek=1024', 'oflag=direct')

    def test_persistent_reservation_shown_in_attachment(self):
        self.assertEqual(['none', 'none'], self.reservations())
        self.writer.reservation('--register', f'--param-sark={KEY:#x}')
        self.assertEqual(['registered', 'none'], self.reservations())
        self.writer.reservation('--reserve', f'--param-rk={KEY:#x}', '--prout-type=1')
        self.assertEqual(['holder', 'none'], self.reservations())
        self.writer.reservation('--clear', f'--param-rk={KEY:#x}')
        self.assertEqual(['none', 'none'], self.reservations())

    def test_all_is_restored_after_a_power_cut(self):
        self.writer.reservation('--register', f'--param-sark={KEY:#x}', '--param-aptpl')
        sessions = self.both(Host.session)
        with self.goes_on() as further:
            self.storage.guest.power_cut()
            self.storage.guest.start()
            with self.timed('power loss until the service is ready'):
                self.storage.serve()
            with self.timed('readiness until all grants are restored (limit 10 s)'):
                for host in self.hosts:
                    self.storage.guest.wait_for('test', '-d', self.entry_of(host),
                                                timeout=SECONDS)
            with self.timed('restored grants until the hosts continue'):
                further()
        self.assertEqual(sessions, self.both(Host.session))
        self.assertEqual(['registered', 'none'], self.reservations())
        self.assertEqual(list(MODES), [shown['attach_mode'] for shown in self.attachments()])
        self.writer.reservation('--clear', f'--param-rk={KEY:#x}')

    @contextlib.contextmanager
    def goes_on(self):
        """Write continuously during the context, then check the data on all hosts.

        The context yields a function that waits until more has been written.
        """
        machine = self.writer.guest
        machine.run('rm', '-f', '/run/written', '/run/enough')
        writing = machine.spawn('sh', '-c', WRITE_ON, 'sh', self.writer.disk)
        self.addCleanup(writing.kill)

        def further():
            before = machine.run('cat', '/run/written', check=False).output.strip() or '0'
            machine.wait_for('sh', '-c', '[ "$(cat /run/written)" -gt "$0" ]', before,
                             timeout=SECONDS)

        further()
        yield further
        machine.run('touch', '/run/enough')
        done = writing.wait(SECONDS)
        self.assertEqual((0, ''), (done.code, done.errors))
        self.assert_reads(BLOCK * int(machine.run('cat', '/run/written').output))

    def assert_reads(self, written):
        """Check that both hosts and the storage host read this data at the start of the volume."""
        read = [(self.storage.guest, self.storage.device(self.volume_id)),
                *((host.guest, host.disk) for host in self.hosts)]
        for machine, device in read:
            done = machine.run('sh', '-c', CHECKSUM, 'sh', device, str(len(written)))
            self.assertEqual(hashlib.sha256(written).hexdigest(), done.output.split()[0])

    def session_of(self, host):
        return scsi.Session(host.name, host.held['connection'])

    def entry_of(self, host):
        """Return the path of the ACL of a host in LIO's configfs."""
        iqn = host.held['connection']['target_iqn']
        return f'/sys/kernel/config/target/iscsi/{iqn}/tpgt_1/acls/{host.name}/lun_{LUN}'

    def attachments(self):
        return [self.storage.api.ask('GET', f'/attachments/{host.held["id"]}')['attachment']
                for host in self.hosts]

    def reservations(self):
        return [shown['reservation'] for shown in self.attachments()]
