"""Faults of LIO: tampered, stale, shared, broken or missing configuration."""
import dataclasses
import errno
import os

from blockattach.platform import errors
from blockattach.storage.domain import connection
from blockattach.storage.drivers.targets import lio
from blockattach.tests.conformance import lio_backend

_RW = connection.AccessMode.RW
_RO = connection.AccessMode.RO
_STRANGER = 'iqn.2026-01.org.example:somebody'
_HOST = 'iqn.2026-01.org.example:host-0'


class TamperedTest(lio_backend.Lio):
    """Changes by another program, which are detected and repaired by a repeated grant."""

    def setUp(self):
        super().setUp()
        self.export = self.an_export()
        self.grant, self.reader = (self.a_grant(self.export),
                                   self.a_grant(self.export, 1, _RO))
        for grant in (self.grant, self.reader):
            self.target.grant(self.export, grant)
        self.whole = self.target.exports()

    def write(self, path, text):
        with open(path, 'w', encoding='ascii') as file:
            file.write(text)

    def repaired(self, who=None):
        """Repeat the grants, and check that the exports are as before."""
        for grant in (self.grant, self.reader) if who is None else (who,):
            self.target.grant(self.export, grant)
        self.assertEqual(self.whole, self.target.exports())

    def test_opened_target_attributes_repaired(self):
        group = self.group(self.export)
        for name, value in (('authentication', '0'), ('generate_node_acls', '1'),
                            ('demo_mode_discovery', '1'), ('prod_mode_write_protect', '0')):
            with self.subTest(name):
                self.write(f'{group}/attrib/{name}', value)
                self.assertFalse(self.truth(self.export)[self.grant.initiator].intact)
                self.repaired(self.grant)

    def test_session_without_acl_ended(self):
        group = self.group(self.export)
        self.assertTrue(self.logs_in(self.export, self.grant))
        self.write(f'{group}/dynamic_sessions', _STRANGER)
        self.assertFalse(self.truth(self.export)[self.grant.initiator].intact)
        self.target.grant(self.export, self.grant)
        found = self.truth(self.export)[self.grant.initiator]
        self.assertEqual((0, True), (found.sessions, found.intact))

    def test_foreign_account_listed_and_replaced(self):
        self.write(f'{self.entry(self.export, self.grant)}/auth/userid', 'other')
        found = self.truth(self.export)[self.grant.initiator]
        self.assertEqual('other', found.account)
        missing, _ = connection.difference([self.grant, self.reader],
                                           self.truth(self.export).values())
        self.assertEqual({(self.grant.volume_id, self.grant.initiator)}, missing)
        self.repaired(self.grant)
        self.assertTrue(self.logs_in(self.export, self.grant))

    def test_foreign_secret_replaced(self):
        self.write(f'{self.entry(self.export, self.grant)}/auth/password', 'other-secret')
        self.repaired(self.grant)
        self.assertTrue(self.logs_in(self.export, self.grant))

    def test_acl_without_authentication_repaired(self):
        for field, value in (('attrib/authentication', '0'), ('auth/password', 'NULL'),
                             ('auth/userid', 'NULL'), ('auth/userid_mutual', 'other')):
            with self.subTest(field):
                self.write(f'{self.entry(self.export, self.grant)}/{field}', value)
                self.assertFalse(self.truth(self.export)[self.grant.initiator].intact)
                self.assertTrue(self.truth(self.export)[self.reader.initiator].intact)
                self.repaired(self.grant)

    def test_writable_reader_repaired(self):
        self.write(f'{self.entry(self.export, self.reader)}/lun_0/write_protect', '0')
        self.assertEqual(_RW, self.granted(self.export)[self.reader.initiator])
        self.repaired(self.reader)

    def test_write_commands_disabled_for_reader(self):
        store = self.store(self.export)
        for name, value in (('max_write_same_len', '65535'), ('emulate_tpws', '1')):
            self.write(f'{store}/attrib/{name}', value)
            self.assertFalse(self.truth(self.export)[self.reader.initiator].intact)
            self.assertTrue(self.truth(self.export)[self.grant.initiator].intact)
            self.repaired(self.reader)

    def test_acl_without_lun_or_with_other_repaired(self):
        entry = self.entry(self.export, self.grant)
        os.unlink(self.link(f'{entry}/lun_0'))
        self.assertFalse(self.truth(self.export)[self.grant.initiator].intact)
        self.repaired(self.grant)
        os.mkdir(f'{entry}/lun_1')
        self.assertFalse(self.truth(self.export)[self.grant.initiator].intact)
        self.repaired(self.grant)

    def test_removed_or_added_portals_repaired(self):
        portals = f'{self.group(self.export)}/np'
        os.rmdir(f'{portals}/127.0.0.1:3260')
        self.assertFalse(self.truth(self.export)[self.grant.initiator].intact)
        self.repaired(self.grant)
        os.mkdir(f'{portals}/0.0.0.0:3261')
        self.assertFalse(self.truth(self.export)[self.grant.initiator].intact)
        self.repaired(self.grant)

    def test_second_portal_group_removed(self):
        os.mkdir(f'{os.path.dirname(self.group(self.export))}/tpgt_2')
        self.assertFalse(self.truth(self.export)[self.grant.initiator].intact)
        self.repaired(self.grant)

    def test_disabled_target_enabled(self):
        self.write(f'{self.group(self.export)}/enable', '0')
        self.assertFalse(self.truth(self.export)[self.grant.initiator].intact)
        self.repaired(self.grant)

    def test_lun_with_foreign_backstore_replaced_despite_sessions(self):
        other = self.an_export()
        self.target.grant(other, self.a_grant(other))
        link = self.link(f'{self.group(self.export)}/lun/lun_0')
        os.unlink(link)
        os.symlink(self.store(other), link)
        self.assertFalse(self.truth(self.export)[self.reader.initiator].intact)
        self.target.grant(self.export, self.grant)
        self.assertEqual({self.grant.initiator: _RW}, self.granted(self.export))
        self.assertEqual(self.name(self.export), os.path.basename(self.store(self.export)))
        self.target.grant(self.export, self.reader)
        self.assertTrue(self.truth(self.export)[self.reader.initiator].intact)
        self.assertTrue(self.truth(other)[_HOST].intact)

    def test_backstore_with_other_device_replaced(self):
        moved = dataclasses.replace(self.export, device=self.make_device('other', 1))
        self.target.grant(moved, self.grant)
        self.assertEqual({self.grant.initiator: _RW}, self.granted(self.export))


class OthersTest(lio_backend.Lio):
    """Foreign configuration, which is neither listed nor changed."""

    def test_foreign_targets_and_backstores_kept(self):
        others = (f'{self.kernel.root}/iscsi/{_STRANGER}',
                  f'{self.kernel.root}/iscsi/iqn.2026-01.org.other:volume-{"0" * 8}',
                  f'{self.kernel.root}/core/iblock_0', f'{self.kernel.root}/core/iblock_0/disk')
        for path in others:
            os.mkdir(path)
        before = self.on_disk()
        export = self.an_export()
        self.target.grant(export, self.a_grant(export))
        self.assertEqual([export.volume_id], [found.volume_id for found in self.target.exports()])
        self.target.unexport(export.volume_id)
        self.assertEqual((), self.target.exports())
        self.assertEqual(before, self.on_disk())

    def test_target_with_other_prefix_kept(self):
        export = self.an_export()
        self.target.grant(export, self.a_grant(export))
        self.settings = dataclasses.replace(self.settings,
                                            target_prefix='iqn.2026-01.org.example.other:')
        other = self.make()
        self.assertEqual((), other.exports())
        other.unexport(export.volume_id)
        self.assertEqual({_HOST: _RW}, self.granted(export))

    def test_invalid_volume_ids_rejected(self):
        for volume_id in ('', '..', '../x', f'{"0" * 8}-0000-0000-0000-00000000000/'):
            for act in (self.target.unexport, self.target.reservations,
                        lambda volume_id: self.target.revoke(volume_id, _HOST)):
                with self.assertRaises(errors.BackendRefused):
                    act(volume_id)

    def test_backstore_shared_by_foreign_target_kept(self):
        export = self.an_export()
        grant = self.a_grant(export)
        self.target.grant(export, grant)
        store = self.store(export)
        path = f'{self.kernel.root}/iscsi/{_STRANGER}'
        for folder in (path, f'{path}/tpgt_1', f'{path}/tpgt_1/lun/lun_0'):
            os.mkdir(folder)
        os.symlink(store, f'{path}/tpgt_1/lun/lun_0/other')
        with self.assertRaisesRegex(errors.BackendUncertain, 'busy'):
            self.target.unexport(export.volume_id)
        self.assertTrue(os.path.isdir(store))
        self.target.grant(export, grant)
        self.assertTrue(self.truth(export)[grant.initiator].intact)


class StaleTest(lio_backend.Lio):
    """Leftovers of an earlier instance or of another service under our names."""

    def test_stale_backstore_of_same_name_removed(self):
        export = self.an_export()
        leftover = f'{self.kernel.root}/core/iblock_3/{self.name(export)}'
        os.mkdir(os.path.dirname(leftover))
        os.mkdir(leftover)
        for file, text in (('control', f'udev_path={export.device}'), ('enable', '1')):
            with open(f'{leftover}/{file}', 'w', encoding='ascii') as written:
                written.write(text)
        self.assertEqual([(export.volume_id, ())],
                         [(found.volume_id, found.grants) for found in self.target.exports()])
        self.target.grant(export, self.a_grant(export))
        self.assertTrue(self.truth(export)[_HOST].intact)
        self.assertFalse(os.path.exists(leftover))

    def test_device_held_by_other_program_rejected_with_remedy(self):
        export = self.an_export()
        leftover = f'{self.kernel.root}/core/iblock_3/disk'
        os.mkdir(os.path.dirname(leftover))
        os.mkdir(leftover)
        for file, text in (('control', f'udev_path={export.device}'), ('enable', '1')):
            with open(f'{leftover}/{file}', 'w', encoding='ascii') as written:
                written.write(text)
        with self.assertRaisesRegex(errors.BackendRefused, 'in use on this host.*stop the'):
            self.target.grant(export, self.a_grant(export))
        self.assertEqual({}, self.granted(export))
        self.assertTrue(os.path.isdir(leftover))

    def test_export_in_other_hba_adopted(self):
        export = self.an_export()
        self.target.export(export)
        made = self.store(export)
        elsewhere = f'{self.kernel.root}/core/iblock_0'
        os.rename(os.path.dirname(made), elsewhere)
        link = self.link(f'{self.group(export)}/lun/lun_0')
        os.unlink(link)
        os.symlink(f'{elsewhere}/{self.name(export)}', link)
        self.target.grant(export, self.a_grant(export))
        self.assertTrue(self.truth(export)[_HOST].intact)
        self.assertEqual(f'{elsewhere}/{self.name(export)}', self.store(export))
        self.target.unexport(export.volume_id)
        self.assertEqual((), self.target.exports())


class FaultTest(lio_backend.Lio):
    """Faults with the right kind of error and a text that names the remedy."""

    def test_unusable_credential_rejected(self):
        export = self.an_export()
        grant = dataclasses.replace(self.a_grant(export),
                                    credential=connection.Credential('user', 'elevenchars'))
        numbers = [dataclasses.replace(grant, credential=connection.Credential(name, 'x' * 16))
                   for name in ('0xabc', '0Babc')]
        for refused in (grant, *numbers):
            with self.assertRaisesRegex(errors.BackendRefused,
                                        '12 to 255.*0x or 0b.*detach and attach the volume again'):
                self.target.grant(export, refused)
        self.assertEqual((), self.target.exports())

    def test_missing_or_non_block_device_rejected(self):
        for device in ('/dev/fake/none', __file__, '/dev/fake/a,readonly=0', 'relative'):
            with self.assertRaisesRegex(errors.BackendRefused, 'not a block device.*active'):
                export = dataclasses.replace(self.an_export(), device=device)
                self.target.grant(export, self.a_grant(export))
            self.assertEqual({}, self.granted(export))

    def test_invalid_initiator_rejected(self):
        export = self.an_export()
        for name in ('iqn.2026-01.org.example:host_1', '../x',
                     'iqn.2026-01.org.example:a/b', 'nonsense', '',
                     f'iqn.2026-01.org.example:{"x" * 300}'):
            with self.assertRaisesRegex(errors.BackendRefused, 'without underscores'):
                self.target.grant(export, dataclasses.replace(self.a_grant(export),
                                                              initiator=name))
            self.target.revoke(export.volume_id, name)
        self.assertEqual((), self.target.exports())

    def test_port_in_use_rejected(self):
        export = self.an_export()
        self.kernel.fail('np/', errno.EINVAL)
        with self.assertRaisesRegex(errors.BackendRefused,
                                    'another program listens on 127.0.0.1:3260.*target_port'):
            self.target.grant(export, self.a_grant(export))
        self.assertEqual({}, self.granted(export))

    def test_failed_grant_leaves_nothing(self):
        export = self.an_export()
        for place in ('acls/[^/]+$', 'acls/[^/]+/lun_0$', 'acls/[^/]+/lun_0/unit$',
                      'write_protect$', 'auth/userid$', 'auth/password$'):
            with self.subTest(place):
                self.target.export(export)
                self.kernel.fail(place, errno.ENOMEM)
                with self.assertRaisesRegex(errors.BackendRefused, 'cannot grant access'):
                    self.target.grant(export, self.a_grant(export))
                self.assertEqual({}, self.granted(export))

    def test_failed_change_of_grant_uncertain(self):
        export = self.an_export()
        grant = self.a_grant(export)
        self.target.grant(export, grant)
        self.kernel.fail('write_protect', errno.EIO)
        with self.assertRaises(errors.BackendUncertain):
            self.target.grant(export, dataclasses.replace(grant, mode=_RO))
        self.kernel.fail('acls/[^/]+$', errno.EIO)
        with self.assertRaises(errors.BackendUncertain):
            self.target.revoke(export.volume_id, grant.initiator)

    def test_missing_lio_reported_with_remedy(self):
        export = self.an_export()
        os.rename(f'{self.kernel.root}/core', f'{self.kernel.root}/away')
        cure = 'modprobe -a target_core_mod|mount -t configfs'
        with self.assertRaisesRegex(errors.BackendRefused, cure):
            self.target.grant(export, self.a_grant(export))
        for act in (self.target.exports, lambda: self.target.unexport(export.volume_id),
                    lambda: self.target.revoke(export.volume_id, _HOST)):
            with self.assertRaisesRegex(errors.BackendUncertain, cure):
                act()


class StartTest(lio_backend.Lio):
    """Checks at start, which reject an unusable configuration."""

    def refused(self, **changed):
        made = lio.LioTarget(dataclasses.replace(self.settings, **changed))
        with self.assertRaises(errors.ConfigurationError) as caught:
            made.check()
        return str(caught.exception)

    def test_foreign_portal_address_rejected_at_start(self):
        self.assertRegex(self.refused(target_ip_address='192.0.2.1'),
                         '192.0.2.1.*target_ip_address')
        self.assertRegex(self.refused(target_secondary_ip_addresses=('127.0.0.2', 'fe80::dead')),
                         'fe80::dead.*target_secondary_ip_addresses')

    def test_invalid_target_prefix_rejected_at_start(self):
        for prefix in ('volume-', 'iqn.2010-10.org.OpenStack:', 'iqn.2010-10.org.open_stack:'):
            self.assertIn('target_prefix', self.refused(target_prefix=prefix))

    def test_short_mutual_secret_rejected_at_start(self):
        self.assertIn('12 to 255', self.refused(mutual_chap_username='storage',
                                                mutual_chap_password='short'))

    def test_missing_lio_rejected_at_start(self):
        os.rename(f'{self.kernel.root}/core', f'{self.kernel.root}/away')
        self.assertRegex(self.refused(), 'modprobe -a target_core_mod|mount -t configfs')

    def test_missing_lio_modules_rejected_at_start(self):
        self.kernel.fail('core/iblock_', errno.ENOENT)
        self.assertRegex(self.refused(), 'modprobe -a target_core_iblock')

    def test_unusable_reservation_folder_rejected_at_start(self):
        os.rmdir(f'{self.kernel.database}/pr')
        with open(f'{self.kernel.database}/pr', 'wb'):
            pass
        self.assertRegex(self.refused(), '/pr.*power loss')

    def test_reservation_folders_created_at_start(self):
        for name in ('pr', 'alua'):
            self.assertTrue(os.path.isdir(f'{self.kernel.database}/{name}'))
