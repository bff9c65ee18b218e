"""Faults around the real LIO, caused by other programs or by the exported device.

Runs in a guest with the kit of the target (test_kits). Further faults are tested on a fake kernel.
"""
import dataclasses
import os
import unittest

from blockattach.platform import errors
from blockattach.storage.domain import connection
from blockattach.testing import scsi
from lab.guests import lio
from lab.guests import lio_kit
from lab.guests import lvm_devices
from lab.guests import lvm_kit

setUpModule, tearDownModule = lio_kit.setUpModule, lio_kit.tearDownModule

_RO, _RW = connection.AccessMode.RO, connection.AccessMode.RW
_BLOCK = bytes(512)
STRANGER = 'iqn.2026-01.org.example:stranger'


class LvmUnderLioTest(lio_kit.Lio):
    """An exported logical volume cannot be removed, and a missing one cannot be exported."""

    def test_lvremove_of_an_exported_volume_is_refused_and_its_host_goes_on(self):
        export = self.an_export()
        grant = self.a_grant(export)
        session = self.session(self.target.grant(export, grant), grant)
        with self.assertRaisesRegex(AssertionError, 'in use'):
            lvm_kit.lvm('lvremove', '--yes', '--force', export.device)
        with self.assertRaisesRegex(errors.BackendRefused, 'in use; stop the process'):
            lvm_devices.devices().delete(export.device)
        self.assertEqual(scsi.GOOD, session.write(0, _BLOCK).status)

    def test_a_volume_whose_device_is_gone_is_refused_with_the_remedy(self):
        export = self.an_export()
        lvm_kit.lvm('lvchange', '--activate', 'n', export.device)
        self.addCleanup(lvm_kit.lvm, 'lvchange', '--activate', 'y', export.device)
        with self.assertRaisesRegex(errors.BackendRefused, 'a logical volume must be active'):
            self.target.grant(export, self.a_grant(export))
        self.assertEqual({}, self.granted(export))


class OtherProgramsTest(lio_kit.Lio):
    """Changes of other programs are listed, and repaired by the next grant."""

    def test_a_target_that_was_opened_to_all_is_closed(self):
        export = self.an_export()
        grant = self.a_grant(export, mode=_RO)
        made = self.target.grant(export, grant)
        lio.open_to_all(made.target_name, grant.initiator)
        for name, credential in ((STRANGER, None), (grant.initiator, grant.credential)):
            self.assertTrue(self.host().can_log_in(made, name, credential))
        [found] = self.granted(export)
        self.assertEqual((_RW, False), (found.mode, found.intact))
        self.assertEqual(made, self.target.grant(export, grant))
        [found] = self.granted(export)
        self.assertEqual((_RO, True), (found.mode, found.intact))
        self.assertFalse(self.host().can_log_in(made, STRANGER, None))
        with self.session(made, grant) as session:
            self.assertEqual(scsi.DATA_PROTECT, session.write(0, _BLOCK).key)

    def test_stale_backstore_and_credential_replaced_by_grant(self):
        """A grant replaces a backstore of another device and a credential of another host."""
        export, other = self.an_export(), self.an_export()
        grant = self.a_grant(export)
        name = f'{lio_kit.PREFIX}{export.name}'
        stale = dataclasses.replace(grant, credential=connection.Credential(
            'stale', 'secret-of-long-ago'))
        lio.export(other.device, '127.0.0.1', name, [
            (grant.initiator, stale.credential.username, stale.credential.password, False)])
        self.addCleanup(lio.forget)
        self.assertFalse(any(found.intact for found in self.granted(export)))
        made = self.target.grant(export, grant)
        self.assertFalse(self.host().can_log_in(made, grant.initiator, stale.credential))
        with self.session(made, grant) as session:
            self.assertEqual(scsi.GOOD, session.write(0, b'\x55' * 512).status)
        for device, byte in ((export.device, b'\x55'), (other.device, b'\0')):
            with open(device, 'rb', buffering=0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                self.assertEqual(byte * 512, file.read(512))

    def granted(self, export):
        """Return the grants of a volume that the target lists."""
        [found] = [found for found in self.target.exports()
                   if found.volume_id == export.volume_id]
        return found.grants


class SettingsTest(unittest.TestCase):

    def test_an_address_of_another_host_is_refused(self):
        with self.assertRaisesRegex(errors.ConfigurationError, '192.0.2.1.*target_ip_address'):
            lio_kit.make_target(target_ip_address='192.0.2.1')

    def test_a_secret_that_is_too_short_is_refused(self):
        target = lio_kit.make_target()
        export = connection.Export(STRANGER[-8:], 'volume', '/dev/null', 1)
        grant = connection.Grant(export.volume_id, STRANGER, _RW,
                                 connection.Credential('user', 'short'))
        with self.assertRaisesRegex(errors.BackendRefused, '12 to 255.*detach and attach the'):
            target.grant(export, grant)
