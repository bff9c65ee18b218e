"""Conformance kit of targets for the real LIO on logical volumes. Runs in a guest, see test_kits.

All operations go through the privsep daemon, which only has the capabilities of its context.
"""
import dataclasses
import os
import socket
import subprocess
import tempfile

from oslo_config import cfg

from blockattach.conformance import scsi as kit_scsi
from blockattach.conformance import target
from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.domain import connection
from blockattach.storage.drivers.targets import lio
from blockattach.storage.privileged import context
from blockattach.testing import initiator
from blockattach.testing import scsi
from blockattach.tests.conformance import settings
from lab.guests import lvm_devices

PREFIX = 'iqn.2026-01.org.example.lab:'
PORTALS = ('127.0.0.1', '127.0.0.2', '::1')

_RO = connection.AccessMode.RO
_BLOCK = 512


def setUpModule():
    conf = cfg.ConfigOpts()
    conf([], project='blockattach')
    context.configure(conf)


def tearDownModule():
    context.lio.stop()


def make_target(**changed):
    """Return a target with several portals and a prefix of its own."""
    usual = dataclasses.replace(settings.settings('/run'), target='lio', target_port=3260,
                                target_prefix=PREFIX, target_secondary_ip_addresses=PORTALS[1:])
    made = lio.LioTarget(dataclasses.replace(usual, **changed))
    made.check()
    return made


def info(made, grant):
    """Return the connection_info of a grant, as the Block Storage API returns it."""
    return made.to_dict() | {'auth_method': 'CHAP', 'auth_username': grant.credential.username,
                             'auth_password': grant.credential.password}


class Lio(lvm_devices.OnLvm):
    """Base class whose targets are removed at the end of each test."""

    def setUp(self):
        super().setUp()
        self.addCleanup(self.take_away)

    def take_away(self):
        for found in self.target.exports():
            self.target.unexport(found.volume_id)

    def make(self):
        return make_target()

    def host(self):
        return initiator.KitInitiator()

    def commander(self):
        return scsi.KitScsi()

    def session(self, made, grant, **options):
        """Return a session of a host that sends SCSI commands of the test."""
        session = scsi.Session(grant.initiator, info(made, grant), **options)
        self.addCleanup(session.close)
        return session


class LioTest(target.TargetContract, Lio):
    pass


class LioAccessTest(target.AccessContract, Lio):

    def test_a_write_that_its_host_would_not_send_is_refused_by_the_target(self):
        export = self.an_export()
        writer, reader = self.a_grant(export), self.a_grant(export, 1, _RO)
        pattern = b'\x77' * _BLOCK
        with (self.session(self.target.grant(export, writer), writer) as writing,
              self.session(self.target.grant(export, reader), reader) as reading):
            self.assertEqual(scsi.GOOD, writing.write(0, pattern).status)
            self.assertEqual(scsi.Answer(scsi.CHECK_CONDITION, scsi.DATA_PROTECT),
                             reading.write(0, bytes(_BLOCK)))
            for cdb in LIES:
                reading.send(cdb, to_host=_BLOCK)
                with open(export.device, 'rb', buffering=0) as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    self.assertEqual(pattern, file.read(_BLOCK), cdb.hex())
            self.assertEqual(scsi.GOOD, writing.write(0, pattern).status)

    def test_a_mode_changed_live_holds_from_the_next_command_on(self):
        export = self.an_export()
        grant, other = self.a_grant(export), self.a_grant(export, 1)
        session = self.session(self.target.grant(export, grant), grant)
        beside = self.session(self.target.grant(export, other), other)
        for mode, key in ((_RO, scsi.DATA_PROTECT), (connection.AccessMode.RW, 0)):
            self.target.grant(export, dataclasses.replace(grant, mode=mode))
            self.assertEqual(key, session.write(0, bytes(_BLOCK)).key)
            self.assertEqual(scsi.GOOD, beside.write(1, bytes(_BLOCK)).status)

    def test_each_portal_is_a_path_to_the_same_bytes(self):
        export = self.an_export()
        grant = self.a_grant(export)
        made = self.target.grant(export, grant)
        self.assertEqual(3, len(made.portals))
        sessions = [self.session(made, grant, portal=portal) for portal in made.portals]
        for number, session in enumerate(sessions):
            self.assertEqual(scsi.GOOD, session.write(number, bytes(_BLOCK)).status)
        self.target.revoke(export.volume_id, grant.initiator)
        for session in sessions:
            with self.assertRaises(scsi.Lost):
                session.write(0, bytes(_BLOCK))

    def test_a_new_size_is_there_for_a_session_that_goes_on(self):
        export = self.an_export()
        grant = self.a_grant(export)
        session = self.session(self.target.grant(export, grant), grant)
        beyond = units.GIB // _BLOCK
        self.assertNotEqual(scsi.GOOD, session.write(beyond, bytes(_BLOCK)).status)
        self.grow_device(export.device, 2)
        self.assertEqual(scsi.GOOD, session.write(beyond, bytes(_BLOCK)).status)

    def test_the_target_proves_itself_to_those_that_ask(self):
        self.target = make_target(mutual_chap_username='storage',
                                  mutual_chap_password='secret-of-storage')
        export = self.an_export()
        grant = self.a_grant(export)
        made = info(self.target.grant(export, grant), grant)
        for asked in ({}, {'mutual_username': 'storage', 'mutual_password': 'secret-of-storage'}):
            scsi.Session(grant.initiator, made | asked).close()
        with self.assertRaises(scsi.Lost):
            scsi.Session(grant.initiator, made | {
                'mutual_username': 'storage', 'mutual_password': 'another-secret'})

    def test_a_device_in_use_is_refused(self):
        export = self.an_export()
        held = os.open(export.device, os.O_RDONLY | os.O_EXCL)
        self.addCleanup(os.close, held)
        with self.assertRaisesRegex(errors.BackendRefused, 'in use on this host'):
            self.target.grant(export, self.a_grant(export))
        self.assertEqual({}, self.granted(export))

    def test_a_file_is_refused(self):
        export = dataclasses.replace(self.an_export(), device=__file__)
        with self.assertRaisesRegex(errors.BackendRefused, 'not a block device'):
            self.target.grant(export, self.a_grant(export))

    def test_a_port_in_use_is_refused(self):
        export = self.an_export()
        with socket.create_server(('127.0.0.1', 0)) as taken:
            self.target = make_target(target_port=taken.getsockname()[1])
            with self.assertRaisesRegex(errors.BackendRefused, 'another program listens'):
                self.target.grant(export, self.a_grant(export))
        self.assertEqual({}, self.granted(export))


# WRITE SAME (10, 16), with UNMAP, WRITE (10), UNMAP, COMPARE AND WRITE, all declared as reads.
LIES = tuple(bytes.fromhex(text) for text in (
    '41000000000000000100', '41080000000000000100', '93000000000000000000000000010000',
    '93080000000000000000000000080000', '93000000000000000000000000000000',
    '2a000000000000000100', '8a000000000000000000000000010000', '42000000000000001800',
    '89000000000000000000000000010000'))


class LioScsiTest(kit_scsi.ScsiContract, Lio):
    pass


class LargeBlockTest(kit_scsi.ScsiContract, Lio):
    """SCSI tests on a device with blocks of 4096 bytes."""

    def make_device(self, volume_id, size_gb):
        return loop_device(self, size_gb, '--sector-size', '4096')

    def grow_device(self, device, size_gb):
        os.truncate(_bytes_of(device), units.gib_to_bytes(size_gb))
        subprocess.run(['losetup', '--set-capacity', device], check=True)

    def allocated_bytes(self, device):
        return os.stat(_bytes_of(device)).st_blocks * 512

    def test_a_host_sees_large_blocks(self):
        export = self.an_export()
        said = self.logged_in(export, self.a_grant(export)).capacity()
        self.assertEqual((4096, 4096), (said.block_size, said.physical_block_size))


def loop_device(test, size_gb, *options):
    """Create a loop device over a sparse file, which is fast."""
    path = os.path.join(test.enterContext(tempfile.TemporaryDirectory(dir='/dev/shm')), 'bytes')
    with open(path, 'wb') as file:
        file.truncate(units.gib_to_bytes(size_gb))
    done = subprocess.run(['losetup', '--find', '--show', *options, path], check=True,
                          capture_output=True, text=True)
    device = done.stdout.strip()
    # The kernel detaches the device when LIO closes it.
    test.addCleanup(subprocess.run, ['losetup', '--detach', device], check=True)
    return device


def _bytes_of(device):
    """Return the path of the file behind a loop device."""
    with open(f'/sys/block/{os.path.basename(device)}/loop/backing_file') as file:
        return file.read().strip()


class LioResizeTest(target.ResizeContract, Lio):
    pass


class LioReservationTest(target.ReservationContract, Lio):
    """Reservation tests with hosts that send real registrations."""

    def setUp(self):
        self.sessions = {}
        super().setUp()
        self.made = self.target.grant(self.export, self.grants[0])

    def of(self, grant):
        if grant.initiator not in self.sessions:
            self.sessions[grant.initiator] = self.session(self.made, grant)
        return self.sessions[grant.initiator]

    def registers(self, export, grants):
        for number, grant in enumerate(grants):
            self.assertEqual(scsi.GOOD, self.of(grant).register(0xa + number, True).status)

    def reserves(self, export, holder):
        key = 0xa + self.grants.index(holder)
        self.assertEqual(scsi.GOOD, self.of(holder).reserve(key).status)

    def test_without_a_reservation_a_host_cannot_write(self):
        self.registers(self.export, self.grants[:2])
        self.reserves(self.export, self.grants[0])
        self.assertEqual(scsi.RESERVATION_CONFLICT,
                         self.of(self.grants[1]).write(0, bytes(_BLOCK)).status)
        self.target.revoke(self.export.volume_id, self.grants[0].initiator)
        # The first command after a change of reservations returns a unit attention.
        self.of(self.grants[1]).write(0, bytes(_BLOCK))
        self.assertEqual(scsi.GOOD, self.of(self.grants[1]).write(0, bytes(_BLOCK)).status)

    def test_all_registrants_hold_a_reservation_of_that_kind(self):
        self.registers(self.export, self.grants[:2])
        self.of(self.grants[0]).reserve(0xa, scsi.WRITE_EXCLUSIVE_ALL_REGISTRANTS)
        self.assertEqual([connection.HostReservation.HOLDER] * 2, self.held()[:2])


class CostTest(Lio):
    """Duration of a connect alone and beside fifty other volumes, reported but not asserted.

    The load of the machine varies. The devices are loop devices, which are created fast.
    """

    def make_device(self, volume_id, size_gb):
        return loop_device(self, size_gb)

    def test_fifty_other_volumes(self):
        alone = self.seconds()
        for _ in range(50):
            export = self.an_export()
            self.target.grant(export, self.a_grant(export))
        beside = self.seconds()
        print(f'conformance: LIO: connect {alone * 1000:.1f} ms alone, {beside * 1000:.1f} ms '
              f'beside 50 volumes: ratio {beside / alone:.2f}', flush=True)

    def seconds(self):
        """Return the shortest of ten durations, as load only makes a connect slower."""
        clock, found = clocks.Clock(), []
        for export in [self.an_export() for _ in range(10)]:
            start = clock.monotonic()
            self.target.grant(export, self.a_grant(export))
            found.append(clock.monotonic() - start)
        return min(found)
