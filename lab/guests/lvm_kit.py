"""Conformance kit of stores on a real volume group, and tests of real faults.

Runs in a guest, see `test_lvm_store`. The tests use the given disks only, with an lvm.conf of
their own. It is fast: no metadata backups, no daemons.
"""
import dataclasses
import fcntl
import json
import os
import pathlib
import subprocess
import tempfile
import unittest
import uuid

from blockattach.conformance import store
from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.conf import backend as backend_conf
from blockattach.storage.drivers import base
from blockattach.storage.drivers.stores import lvm as lvm_stores
from blockattach.storage.drivers.stores.lvm import group
from blockattach.storage.privileged import context
from blockattach.storage.privileged import lvm as privileged
from blockattach.tests.conformance import settings

# Empty disks of the guest.
DISK, SECOND_DISK = '/dev/ubda', '/dev/ubdb'
GROUP = 'lab'
POOL = 'lab-pool'
# An LV of another program keeps the pool active between tests. It only counts in totals.
STRANGER = 'stranger'
SITE = privileged.Site(GROUP, '', 60)

CONF = """
devices {{
    global_filter = [ {accepted}, "r|.*|" ]
    hints = "none"
    sysfs_scan = 0
    md_component_detection = 0
    multipath_component_detection = 0
}}
backup {{ backup = 0 archive = 0 }}
activation {{
    udev_sync = 0 udev_rules = 0 verify_udev_operations = 0 monitoring = 0
    reserved_stack = 64 reserved_memory = 256
}}
"""


def lvm(*words, check=True):
    """Run ``lvm`` and return its output."""
    done = subprocess.run(['lvm', *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False,
                          env={**os.environ, 'LC_ALL': 'C', 'LVM_SUPPRESS_FD_WARNINGS': '1'})
    if check and done.returncode:
        raise AssertionError(f'lvm {" ".join(words)}: {done.stderr}')
    return done.stdout


def report(verb, kind, fields):
    """Return the rows of an LVM report on the group, with sizes in bytes."""
    said = json.loads(lvm(verb, '--reportformat', 'json', '--units', 'b', '--nosuffix', '-o',
                          fields, GROUP))
    return said['report'][0][kind]


def configure(*accepted):
    """Write an lvm.conf that accepts only these devices, and return its path."""
    folder = os.environ.get('LVM_SYSTEM_DIR') or tempfile.mkdtemp(prefix='lvm-')
    os.environ['LVM_SYSTEM_DIR'] = folder
    path = pathlib.Path(folder, 'lvm.conf')
    path.write_text(CONF.format(
        accepted=', '.join(json.dumps(f'a|^{device}$|') for device in accepted)))
    return str(path)


def backend_settings(lvm_type, **changes):
    """Return the settings of a backend on the group."""
    options = {'volume_group': GROUP, 'lvm_type': lvm_type, 'thin_pool': POOL,
               'conf_file': os.path.join(os.environ['LVM_SYSTEM_DIR'], 'lvm.conf'),
               'command_seconds': 60, 'warn_percent': 80, 'full_percent': 95,
               'volume_clear_bandwidth': 512, **changes}
    return dataclasses.replace(
        settings.settings('/nowhere'), store='lvm', max_over_subscription_ratio=4.0,
        lvm=backend_conf.LvmSettings(**options))


class Lvm(store.StoreContract):
    """Base class of store tests. All tests of a class share a volume group."""

    lvm_type = ''

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        context.lvm.set_client_mode(False)
        configure(DISK)
        lvm('vgcreate', '--yes', GROUP, DISK)
        cls.addClassCleanup(lvm, 'vgremove', '--yes', '--force', GROUP)

    def make(self):
        self.addCleanup(self.remove_all)
        return lvm_stores.load(backend_settings(self.lvm_type))

    remake = make

    def make_unusable(self):
        return lvm_stores.load(backend_settings(self.lvm_type, volume_group='another'))

    def remove_all(self):
        """Remove all volumes of a test, but not the pool and the foreign LV."""
        # The next test expects new volumes to read as zeros, as they do after a wipe.
        lvm('lvremove', '--yes', '--force', '--config', 'devices/issue_discards=1', '--select',
            f'lv_name!={POOL} && lv_name!={STRANGER}', GROUP)

    def test_pools_report_what_lvm_reports(self):
        volume = self._created(2)
        pool = self.store.pools()[0].capabilities
        self.assertEqual(self.expected(volume), {key: pool[key] for key in (
            'total_capacity_gb', 'free_capacity_gb', 'provisioned_capacity_gb', 'total_volumes')})

    def test_a_volume_in_use_grows_under_its_user(self):
        volume = self._created()
        with open(self.store.device(volume), 'rb') as device:
            self.store.extend(volume, 2)
            self.assertEqual(2 * units.GIB, device.seek(0, os.SEEK_END))

    def test_a_volume_in_use_is_not_deleted(self):
        volume = self._created()
        with open(self.store.device(volume), 'rb'), \
                self.assertRaisesRegex(errors.BackendRefused, 'in use; stop the process'):
            self.store.delete(volume)
        self.assertEqual(1, self.size_gb(volume))

    def test_a_volume_without_a_device_gets_it_back(self):
        volume = self._created()
        lvm('vgchange', '--activate', 'n', GROUP)
        self.assertEqual(1, self.size_gb(volume))


class ThinStoreTest(Lvm):
    lvm_type = 'thin'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        lvm('lvcreate', '--yes', '--type', 'thin-pool', '--size', '4g', '--addtag', 'blockattach',
            '--name', POOL, GROUP)
        lvm('lvcreate', '--yes', '--type', 'thin', '--virtualsize', '64m', '--thinpool', POOL,
            '--name', STRANGER, GROUP)

    def expected(self, volume):
        [pool] = [row for row in report('lvs', 'lv', 'lv_name,lv_size,data_percent')
                  if row['lv_name'] == POOL]
        free = int(pool['lv_size']) * (1 - float(pool['data_percent']) / 100)
        return {'total_capacity_gb': 4.0, 'free_capacity_gb': units.bytes_to_gib(int(free)),
                'provisioned_capacity_gb': 2.06, 'total_volumes': 1}


class ThickStoreTest(Lvm):
    lvm_type = 'thick'

    def expected(self, volume):
        [group] = report('vgs', 'vg', 'vg_size,vg_free')
        return {'total_capacity_gb': units.bytes_to_gib(int(group['vg_size'])),
                'free_capacity_gb': units.bytes_to_gib(int(group['vg_free'])),
                'provisioned_capacity_gb': 2.0, 'total_volumes': 1}


class FaultsTest(unittest.TestCase):
    """Faults of disks and of the kernel, with the errors of LVM 2.03."""

    def setUp(self):
        super().setUp()
        context.lvm.set_client_mode(False)
        configure(DISK, SECOND_DISK)
        lvm('vgcreate', '--yes', GROUP, DISK, SECOND_DISK)
        self.addCleanup(self.remove_group)

    def remove_group(self):
        configure(DISK, SECOND_DISK)
        lvm('vgextend', '--restoremissing', GROUP, SECOND_DISK, check=False)
        lvm('vgremove', '--yes', '--force', GROUP, check=False)

    def store(self, lvm_type='thick', **changes):
        return lvm_stores.load(backend_settings(lvm_type, **changes))

    def volume(self, size_gb=1):
        volume_id = str(uuid.uuid4())
        return base.StoredVolume(volume_id, f'volume-{volume_id}', size_gb, 'tested')

    def created(self, store):
        volume = self.volume()
        store.create(volume)
        return volume

    def refuses(self, kind, words, act, *arguments):
        with self.assertRaisesRegex(kind, words):
            act(*arguments)

    def test_a_full_pool(self):
        lvm('lvcreate', '--yes', '--type', 'thin-pool', '--size', '64m', '--addtag', 'blockattach',
            '--name', POOL, GROUP)
        lvm('lvchange', '--errorwhenfull', 'y', f'{GROUP}/{POOL}')
        # Allow more over-subscription than usual, as the pool only has 64 MiB.
        store = lvm_stores.load(dataclasses.replace(
            backend_settings('thin'), max_over_subscription_ratio=1000.0))
        volume = self.created(store)
        self.assertNotIn('backend_state', store.pools()[0].capabilities)
        with open(store.device(volume), 'wb', buffering=0) as device, \
                self.assertRaises(OSError):
            while device.write(bytes(units.MIB)):
                os.fsync(device)
        snapshot = base.StoredSnapshot(volume.id, f'snapshot-{volume.id}', volume)
        for act in ((store.create, self.volume()), (store.create_snapshot, snapshot),
                    (store.clone, volume, self.volume()), (store.extend, volume, 2)):
            self.refuses(errors.BackendFull, r'100\.0% full; extend the pool: lvextend', *act)
        # Check the error of LVM itself, as the store refuses before it calls LVM.
        with self.assertRaisesRegex(privileged.CommandFailed, 'reached threshold') as caught:
            privileged.snapshot_thin(SITE, volume.name, f'_{snapshot.name}')
        self.assertIsInstance(group.error_of(1, *caught.exception.args), errors.BackendFull)
        pool = store.pools()[0].capabilities
        self.assertEqual((0.0, 'down', 1), (pool['free_capacity_gb'], pool['backend_state'],
                                            pool['total_volumes']))
        store.delete(volume)
        store.create(self.volume())

    def test_a_group_without_room(self):
        store = self.store()
        self.refuses(errors.BackendFull, 'available', store.create, self.volume(100))
        with self.assertRaisesRegex(privileged.CommandFailed, 'insufficient free space') as caught:
            privileged.create_thick(SITE, self.volume().name, 100 * units.GIB)
        self.assertIsInstance(group.error_of(1, *caught.exception.args), errors.BackendFull)
        self.assertEqual([], report('lvs', 'lv', 'lv_name'))

    def test_a_group_that_lost_a_disk(self):
        store = self.store()
        lvm('lvcreate', '--yes', '--type', 'linear', '--size', '64m', '--name', STRANGER, GROUP,
            SECOND_DISK)
        volume = self.created(store)
        lvm('vgchange', '--activate', 'n', GROUP)
        configure(DISK)
        with self.assertLogs('blockattach.storage.drivers.stores.lvm.store', 'ERROR'):
            store.check()
        self.assertTrue(os.path.exists(store.device(volume)))
        self.refuses(errors.BackendRefused, 'vgextend --restoremissing', store.create,
                     self.volume())
        self.assertRegex(store.pools()[0].capabilities['backend_state_reason'], '1 disks')

    def test_a_group_of_another_host(self):
        lvm('vgchange', '--yes', '--systemid', 'another', GROUP)
        as_the_other = 'global/system_id_source="lvmlocal" local/system_id="another"'
        self.addCleanup(lvm, 'vgremove', '--yes', '--config', as_the_other, GROUP)
        self.refuses(errors.ConfigurationError, 'belongs to another host', self.store().check)

    def test_a_group_that_does_not_exist(self):
        self.refuses(errors.ConfigurationError, 'vgcreate', self.store(volume_group='no').check)

    def test_a_filter_that_accepts_every_disk(self):
        path = pathlib.Path(configure(DISK))
        safe = path.read_text()
        path.write_text(safe.replace('"r|.*|"', '"a|.*|"'))
        with self.assertRaises(errors.ConfigurationError) as caught:
            self.store().check()
        line = str(caught.exception).rpartition(': ')[2]
        self.assertIn(f'"a|^{DISK}$|", "a|^{SECOND_DISK}$|", "r|.*|"', line)
        path.write_text(f'devices {{ {line} }}')
        self.store().check()

    def test_a_command_that_waits_for_another_that_hangs(self):
        volume = self.volume()
        with open(f'/run/lock/lvm/V_{GROUP}', 'w') as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            self.refuses(errors.BackendUncertain, 'lvm fullreport did not finish within 2 seconds',
                         self.store(command_seconds=2).create, volume)
            # No lvm process waits for the lock any more.
            self.assertEqual('', subprocess.run(['pgrep', '-x', 'lvm'], check=False, text=True,
                                                capture_output=True).stdout)
        self.store().create(volume)


del Lvm
