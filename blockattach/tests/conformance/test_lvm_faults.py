"""Faults of LVM and foreign volumes, with errors that name the remedy."""
import errno
import os
from unittest import mock

from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.drivers import base
from blockattach.storage.drivers.stores.lvm import group
from blockattach.storage.privileged import lvm
from blockattach.tests.conformance import lvm_backend
from blockattach.tests.conformance import lvm_stand_in
from blockattach.tests.fixtures import exhaustive

VG, POOL, TAG = lvm_backend.GROUP, lvm_backend.POOL, lvm_backend.TAG
THIN_LOG = 'blockattach.storage.drivers.stores.lvm.thin'
TIMEOUTS = (1, 10, 60)
"""Command timeouts in seconds, the shortest first."""
FULL = (('data_percent', r'data of thin pool vg/vg-pool is 96\.0% full; .*lvextend --size'),
        ('metadata_percent', r'metadata .* 96\.0% full; .*lvextend --poolmetadatasize'))


class LvmTest(lvm_backend.LvmTestCase):

    def refuses(self, words, act, *arguments, kind=errors.BackendRefused):
        with self.assertRaisesRegex(kind, words):
            act(*arguments)


class DiskTest(LvmTest):
    """Disk errors during a copy, which are translated like those of a file system."""

    def test_clone_with_disk_error_raises_matching_error(self):
        used = group.VolumeGroup(lvm.Site(VG, '', 60))
        for number, kind in ((errno.ENOSPC, errors.BackendFull),
                             (errno.EDQUOT, errors.BackendFull),
                             (errno.EFBIG, errors.BackendFull),
                             (errno.EROFS, errors.BackendRefused),
                             (errno.EIO, errors.BackendUncertain),
                             (errno.EPIPE, errors.BackendUncertain)):
            def fail(_site, number=number):
                raise OSError(number, os.strerror(number))

            with self.subTest(os.strerror(number)), self.assertRaises(kind) as caught:
                used.do(fail)
            self.assertIs(kind, type(caught.exception))


class CheckTest(LvmTest):
    """Checks at start, which reject an unusable volume group and change nothing."""

    def check_refuses(self, words, lvm_type='thin', **changes):
        before = self.machine.dump()
        self.refuses(words, self.machine.store(lvm_type, **changes).check,
                     kind=errors.ConfigurationError)
        self.assertEqual(before, self.machine.dump())

    def test_missing_volume_group_option_rejected(self):
        self.check_refuses('volume_group is not set', volume_group='')

    def test_absent_volume_group_rejected_not_created(self):
        self.check_refuses('create the volume group with vgcreate', volume_group='other')

    def test_volume_group_with_other_system_id_rejected(self):
        self.machine.change(system_id='other-host')
        self.check_refuses('with system ID other-host .*belongs to another host')

    def test_volume_group_with_other_host_tag_rejected(self):
        self.machine.change(tags=['blockattach.host=other-host'])
        self.check_refuses('blockattach.host=other-host')

    def test_untagged_volume_with_our_name_rejected(self):
        volume = self.volume()
        self.machine.add(volume.name, lvm_stand_in.new_volume('linear', units.GIB))
        self.check_refuses(f'lvchange --addtag blockattach vg/{volume.name}')

    def test_absent_thin_pool_rejected(self):
        self.check_refuses('lvcreate --type thin-pool .*--addtag blockattach --name pool2 vg',
                           thin_pool='pool2')

    def test_untagged_thin_pool_rejected(self):
        self.machine.change(POOL, tags=[])
        self.check_refuses('lvchange --addtag blockattach vg/vg-pool')

    def test_thin_pool_of_other_type_rejected(self):
        self.machine.change(POOL, kind='linear')
        self.check_refuses('is not a thin pool')

    def test_thin_pool_without_zeroing_rejected(self):
        self.machine.change(POOL, zeroes=False)
        self.check_refuses('lvchange --zero y vg/vg-pool')
        self.machine.store('thin', volume_clear='none').check()

    def test_global_filter_accepting_all_rejected(self):
        with self.machine.state() as state:
            state['config']['global_filter'] = '["a|.*|"]'
        self.check_refuses(r'global_filter = \[ "a\|\^/dev/sdb\$\|", "r\|\.\*\|" \]')

    def test_scan_lvs_rejected(self):
        with self.machine.state() as state:
            state['config']['scan_lvs'] = '1'
        self.check_refuses('scan_lvs = 0')

    def test_missing_lvm_rejected(self):
        with mock.patch.dict(os.environ, PATH='/nonexistent'):
            self.check_refuses('cannot run lvm: .*install lvm2')

    def test_hanging_lvm_rejected(self):
        self.machine.fault('fullreport', 'hang')
        self.check_refuses('did not finish within 1 seconds', command_seconds=1)

    def test_lvm_conf_writable_by_others_rejected(self):
        conf = self.machine.folder / 'lvm.conf'
        conf.write_text('')
        conf.chmod(0o666)
        self.check_refuses('is writable by users other than root', conf_file=str(conf))
        self.check_refuses('not the absolute path of an lvm.conf', conf_file='/dev/null')

    def test_configured_lvm_conf_passed_to_lvm(self):
        conf = self.machine.folder / 'lvm.conf'
        conf.write_text('')
        self.machine.store('thin', conf_file=str(conf)).check()
        with self.machine.state() as state:
            self.assertEqual({'LC_ALL': 'C', 'LVM_SUPPRESS_FD_WARNINGS': '1',
                              'LVM_SYSTEM_DIR': str(self.machine.folder)}, state['environment'])

    def test_missing_disks_logged_at_start(self):
        self.machine.change(missing=1)
        with self.assertLogs('blockattach.storage.drivers.stores.lvm.store', 'ERROR'):
            self.machine.store('thin').check()


class StrangersTest(LvmTest):
    """Logical volumes without the tag of the service, which are foreign."""

    def test_untagged_volume_of_our_name_kept(self):
        for lvm_type in ('thin', 'thick'):
            store = self.machine.store(lvm_type)
            volume, snapshot = self.volume(), self.snapshot(self.volume())
            for name in (volume.name, f'_{snapshot.name}'):
                self.machine.add(name, lvm_stand_in.new_volume('linear', units.GIB))
            before = self.machine.dump()
            for act in ((store.create, volume), (store.delete, volume), (store.device, volume),
                        (store.extend, volume, 2), (store.clone, volume, self.volume()),
                        (store.create_snapshot, self.snapshot(volume)),
                        (store.delete_snapshot, snapshot),
                        (store.clone_snapshot, snapshot, self.volume())):
                self.refuses('does not carry the tag blockattach', *act)
            self.assertEqual(before, self.machine.dump())

    def test_volume_of_other_lvm_type_rejected(self):
        stores = {lvm_type: self.machine.store(lvm_type) for lvm_type in ('thin', 'thick')}
        for lvm_type, other in (('thin', 'thick'), ('thick', 'thin')):
            volume = self.volume()
            stores[lvm_type].create(volume)
            for act in ('create', 'delete', 'device'):
                self.refuses(f'not a logical volume .*{other}.*see lvm_type',
                             getattr(stores[other], act), volume)
            self.assertEqual(1, stores[lvm_type].pools()[0].capabilities['total_volumes'])

    def test_foreign_volumes_reduce_free_space(self):
        self.machine.add('root', lvm_stand_in.new_volume('linear', units.GIB))
        [pool] = self.machine.store('thick').pools()
        self.assertEqual((0, 0.0, 8.0, 3.0), tuple(pool.capabilities[key] for key in (
            'total_volumes', 'provisioned_capacity_gb', 'total_capacity_gb',
            'free_capacity_gb')))

    def test_foreign_thin_volumes_count_as_provisioned(self):
        self.machine.add('other', lvm_stand_in.new_volume('thin', units.GIB, pool=POOL))
        [pool] = self.machine.store('thin').pools()
        self.assertEqual((0, 1.0), (pool.capabilities['total_volumes'],
                                    pool.capabilities['provisioned_capacity_gb']))

    def test_foreign_volume_name_rejected(self):
        store = self.machine.store('thin')
        for name in ('root', '--all', 'volume-x', f'{VG}/root', 'volume-1;reboot'):
            self.refuses('not the name of a logical volume of the service', store.create,
                         base.StoredVolume('x', name, 1, 'tested'))
        self.assertEqual({POOL}, set(self.machine.volumes()))

    def test_created_volumes_have_tag(self):
        self.machine.change(size=16 * units.GIB)
        for lvm_type in ('thin', 'thick'):
            store = self.machine.store(lvm_type)
            volume = self.volume()
            store.create(volume)
            store.create_snapshot(self.snapshot(volume))
            store.clone(volume, self.volume())
        self.assertEqual([[TAG]] * 8, [facts['tags'] for facts in self.machine.volumes().values()])


class FullTest(LvmTest):
    """Lack of space, which is reported before anything is changed."""

    def test_nearly_full_pool_rejects_writes_and_keeps_serving(self):
        store = self.machine.store('thin')
        volume = self.volume()
        snapshot = self.snapshot(volume)
        store.create(volume)
        store.create_snapshot(snapshot)
        for key, words in FULL:
            self.machine.change(POOL, data_percent=0.0, metadata_percent=0.0)
            self.machine.change(POOL, **{key: 96.0})
            before = self.machine.dump()
            for act in ((store.create, self.volume()), (store.extend, volume, 2),
                        (store.create_snapshot, self.snapshot(volume)),
                        (store.clone, volume, self.volume()), (store.revert, snapshot),
                        (store.clone_snapshot, snapshot, self.volume())):
                self.refuses(words, *act, kind=errors.BackendFull)
            self.assertEqual(before, self.machine.dump())
            self.assertTrue(store.device(volume))
            [pool] = store.pools()
            self.assertEqual('down', pool.capabilities['backend_state'])
            self.assertRegex(pool.capabilities['backend_state_reason'], words)

    def test_filling_pool_logged_once_per_level(self):
        store = self.machine.store('thin')
        self.assertNotIn('backend_state', store.pools()[0].capabilities)
        for percent, level in ((81.0, 'WARNING'), (95.0, 'ERROR')):
            self.machine.change(POOL, data_percent=percent)
            with self.assertLogs(THIN_LOG, 'WARNING') as logged:
                store.pools()
                store.pools()
            self.assertEqual([level], [record.levelname for record in logged.records])
        self.machine.change(POOL, data_percent=10.0)
        with self.assertNoLogs(THIN_LOG, 'WARNING'):
            store.pools()
        self.machine.change(POOL, data_percent=81.0)
        with self.assertLogs(THIN_LOG, 'WARNING'):
            store.pools()

    def test_free_space_of_pool_from_lvm(self):
        self.machine.change(POOL, data_percent=25.0)
        [pool] = self.machine.store('thin').pools()
        self.assertEqual((4.0, 3.0), (pool.capabilities['total_capacity_gb'],
                                      pool.capabilities['free_capacity_gb']))

    def test_lvm_full_error_translated(self):
        store = self.machine.store('thin', full_percent=101)
        self.machine.change(POOL, data_percent=100.0)
        self.refuses('Cannot allocate 1 GiB: lvm lvcreate: .*reached threshold; extend the thin '
                     'pool', store.create, self.volume(), kind=errors.BackendFull)
        thick = self.machine.store('thick')
        self.machine.fault('lvcreate', 'Volume group "vg" has insufficient free space (1 extents)')
        self.refuses('add a disk', thick.create, self.volume(), kind=errors.BackendFull)
        self.assertEqual({POOL}, set(self.machine.volumes()))

    def test_unhealthy_pool_rejects_create(self):
        self.machine.change(POOL, health='metadata_read_only')
        self.refuses('is unhealthy .metadata_read_only', self.machine.store('thin').create,
                     self.volume(), kind=errors.BackendFull)

    def test_overcommit_limit_of_pool_enforced(self):
        store = self.machine.store('thin')
        store.create(self.volume(16))
        self.refuses('has allocated 16 of 16 GiB', store.create, self.volume(),
                     kind=errors.BackendFull)

    def test_reserved_percentage_leaves_no_space(self):
        for lvm_type in ('thin', 'thick'):
            store = self.machine.store(lvm_type, reserved_percentage=100)
            self.refuses('available|of 0 GiB', store.create, self.volume(),
                         kind=errors.BackendFull)

    def test_thick_clone_without_space_leaves_nothing(self):
        store = self.machine.store('thick', volume_clear='none')
        volume = self.volume()
        store.create(volume)
        # The temporary snapshot takes 1 of the 3 GiB that are free.
        for size_gb in (2, 4):
            self.refuses('vgextend|available', store.clone, volume, self.volume(size_gb),
                         kind=errors.BackendFull)
        self.assertEqual({POOL, volume.name}, set(self.machine.volumes()))


class InUseTest(LvmTest):
    """Logical volumes in use, which keep their name and their data."""

    def test_delete_of_volume_in_use_rejected(self):
        for lvm_type in ('thin', 'thick'):
            store = self.machine.store(lvm_type)
            volume = self.volume()
            store.create(volume)
            before = self.machine.dump()
            with open(store.device(volume), 'rb'):
                self.refuses('is in use; stop the process .*lsblk', store.delete, volume)
            self.assertEqual(before, self.machine.dump())

    def test_delete_rejected_if_volume_opened_meanwhile(self):
        for lvm_type, verb in (('thin', 'lvremove'), ('thick', 'lvchange')):
            store = self.machine.store(lvm_type)
            volume = self.volume()
            store.create(volume)
            before = self.machine.dump()
            self.machine.fault(verb, f'Logical volume vg/{volume.name} in use.')
            self.refuses(f'lvm {verb}: .* in use; stop the process', store.delete, volume)
            self.machine.fault(verb, None)
            self.assertEqual(before, self.machine.dump())

    def test_delete_of_thick_volume_with_snapshots_rejected(self):
        store = self.machine.store('thick')
        volume = self.volume()
        snapshot = self.snapshot(volume)
        store.create(volume)
        store.create_snapshot(snapshot)
        words = f'has thick snapshots ._{snapshot.name}.; delete them first'
        self.refuses(words, store.delete, volume)
        self.refuses(words, store.extend, volume, 2)


class LostDiskTest(LvmTest):

    def test_create_with_missing_disk_rejected_with_remedy(self):
        store = self.machine.store('thin')
        volume = self.volume()
        store.create(volume)
        self.machine.change(missing=1)
        cure = 'vgextend --restoremissing'
        self.refuses(cure, store.create, self.volume())
        self.refuses(cure, store.extend, volume, 2)
        self.assertTrue(store.device(volume))
        [pool] = store.pools()
        self.assertRegex(pool.capabilities['backend_state_reason'], '1 disks of volume group vg')

    def test_volume_on_missing_disk_neither_exported_nor_wiped(self):
        store = self.machine.store('thick')
        volume = self.volume()
        store.create(volume)
        self.machine.change(volume.name, health='partial', active=False)
        self.refuses('partial LV.*restoremissing', store.device, volume)
        self.refuses('missing disk', store.delete, volume)
        self.assertIn(volume.name, self.machine.volumes())


class UncertainTest(LvmTest):

    def refused_after(self, seconds, volume):
        """Create a volume with a command timeout, and return its error and the process that hung.

        The process is None if the machine was too busy to start it in time.
        """
        store = self.machine.store('thin', command_seconds=seconds)
        with self.assertRaises(errors.BlockattachError) as caught:
            store.create(volume)
        with self.machine.state() as state:
            return caught.exception, state.pop('hung', None)

    def test_hanging_command_killed_and_uncertain(self):
        volume = self.volume()
        self.machine.fault('lvcreate', 'hang')
        for seconds in TIMEOUTS:
            refusal, hung = self.refused_after(seconds, volume)
            if hung is not None:
                break
        self.assertIsInstance(refusal, errors.BackendUncertain)
        self.assertIn(f'lvm lvcreate did not finish within {seconds} seconds and was killed',
                      str(refusal))
        with self.assertRaises(ProcessLookupError):
            os.kill(hung, 0)
        self.machine.fault('lvcreate', None)
        self.machine.store('thin').create(volume)
        self.assertIn(volume.name, self.machine.volumes())

    def test_unknown_lvm_error_uncertain(self):
        self.machine.fault('lvcreate', 'the moon is full')
        self.refuses('exited with status 5: the moon is full', self.machine.store('thin').create,
                     self.volume(), kind=errors.BackendUncertain)


    def test_partial_delete_of_snapshot_uncertain(self):
        volume = self.volume()
        snapshot = self.snapshot(volume)
        store = self.machine.store('thick')
        store.create(volume)
        store.create_snapshot(snapshot)
        self.machine.fault('lvchange', f'Logical volume vg/_{snapshot.name} in use.')
        self.refuses('left incomplete: .* in use', store.delete_snapshot, snapshot,
                     kind=errors.BackendUncertain)
        self.machine.fault('lvchange', None)
        self.refuses('the remainder of a deleted snapshot', store.revert, snapshot)
        store.delete_snapshot(snapshot)
        store.delete(volume)
        self.assertEqual({POOL, 'deleted'}, {name if name == POOL else name.partition('-')[0]
                                             for name in self.machine.volumes()})

    def test_revert_of_volume_opened_meanwhile_changes_nothing(self):
        store, volume = self.machine.store('thin'), self.volume()
        snapshot = self.snapshot(volume)
        store.create(volume)
        store.create_snapshot(snapshot)
        before = self.machine.dump()
        self.machine.fault('lvchange', f'Logical volume vg/{volume.name} in use.')
        self.refuses('in use', store.revert, snapshot)
        self.assertEqual(before, self.machine.dump())


class WipeTest(LvmTest):

    def test_deleted_thick_volume_renamed_and_wiped_later(self):
        store = self.machine.store('thick')
        volume = self.volume()
        store.create(volume)
        store.delete(volume)
        [deleted] = set(self.machine.volumes()) - {POOL}
        self.assertRegex(deleted, f'^deleted-{volume.id}-[0-9a-f]{{8}}$')
        self.assertEqual(3.0, store.pools()[0].capabilities['free_capacity_gb'])

    @exhaustive.only
    def test_wipe_limited_by_bandwidth(self):
        store = self.machine.store('thick', volume_clear_bandwidth=256)
        volume = self.volume(2)
        store.create(volume)
        store.delete(volume)
        [deleted] = set(self.machine.volumes()) - {POOL}
        rounds = 0
        while deleted in self.machine.volumes():
            store.wipe()
            rounds += 1
            if rounds == 4:
                # The space of a wiped volume is freed in parts.
                self.assertEqual(units.GIB, self.machine.volumes()[deleted]['size'])
        self.assertEqual(8, rounds)

    def test_delete_without_clearing_frees_space_at_once(self):
        store = self.machine.store('thick', volume_clear='none')
        volume = self.volume()
        store.create(volume)
        store.create_snapshot(self.snapshot(volume))
        store.delete_snapshot(self.snapshot(volume))
        for name in set(self.machine.volumes()) - {POOL, volume.name}:
            store.delete_snapshot(base.StoredSnapshot('x', name.removeprefix('_'), volume))
        store.delete(volume)
        self.assertEqual({POOL}, set(self.machine.volumes()))

    def test_pending_wipes_freed_when_clearing_disabled(self):
        store, volume = self.machine.store('thick'), self.volume()
        store.create(volume)
        store.delete(volume)
        self.machine.store('thick', volume_clear='none').wipe()
        self.assertEqual({POOL}, set(self.machine.volumes()))

    def test_failed_wipe_logged_once_and_retried(self):
        store = self.machine.store('thick')
        volume = self.volume()
        store.create(volume)
        store.delete(volume)
        self.machine.fault('lvchange', 'no')
        with self.assertLogs('blockattach.storage.drivers.stores.lvm.thick', 'ERROR') as logged:
            for _ in range(60):
                store.wipe()
        self.assertEqual(1, len(logged.records))
        self.machine.fault('lvchange', None)
        for _ in range(4):
            store.wipe()
        self.assertEqual({POOL}, set(self.machine.volumes()))
