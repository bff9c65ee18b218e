"""Privileged LVM functions: rejected names, and the privsep daemon."""
import shlex
import sys

from oslo_config import cfg

from blockattach.platform import errors
from blockattach.storage.privileged import context
from blockattach.storage.privileged import lvm
from blockattach.tests.conformance import lvm_backend

ID = 'abcdef00-0000-4000-8000-000000000000'
OURS = f'volume-{ID}'


class RefusedTest(lvm_backend.LvmTestCase):

    def setUp(self):
        super().setUp()
        self.site = lvm.Site(lvm_backend.GROUP, '', 60)

    def assert_refused(self, act, *arguments, site=None):
        before = self.machine.dump()
        with self.assertRaises(ValueError):
            act(site or self.site, *arguments)
        self.assertEqual(before, self.machine.dump())

    def test_foreign_volume_name_rejected(self):
        for name in ('root', '', '-y', f'{OURS}\n', f'x{OURS}', f'{OURS}x', f'vg/{OURS}',
                     f'volume-{ID.upper()}', 'vg-pool'):
            with self.subTest(name):
                for act, *more in ((lvm.create_thick, 1), (lvm.extend, 1), (lvm.rename, OURS),
                                   (lvm.snapshot_thin, OURS), (lvm.activate,),
                                   (lvm.deactivate,), (lvm.remove,), (lvm.split_snapshot,),
                                   (lvm.zero, 0, 1), (lvm.copy, OURS, 0, 1)):
                    self.assert_refused(act, name, *more)
                self.assert_refused(lvm.rename, OURS, name)
                self.assert_refused(lvm.copy, OURS, name, 0, 1)

    def test_option_as_name_rejected(self):
        self.assert_refused(lvm.create_thin, '--config=x', OURS, 1)
        self.assert_refused(lvm.content, site=self.site._replace(group='--help'))

    def test_zero_of_live_volume_rejected(self):
        self.assert_refused(lvm.zero, OURS, 0, 1)
        self.assert_refused(lvm.cut, OURS, 1)

    def test_remove_of_untagged_volume_rejected(self):
        volume = self.volume()
        self.machine.store('thin').create(volume)
        self.machine.change(volume.name, tags=[])
        self.assert_refused(lvm.remove, volume.name)

    def test_remove_of_volume_with_thick_snapshots_rejected(self):
        store, volume = self.machine.store('thick'), self.volume()
        store.create(volume)
        store.create_snapshot(self.snapshot(volume))
        self.assert_refused(lvm.remove, volume.name)


class DaemonTest(lvm_backend.LvmTestCase):
    """Privsep daemon as a process of its own, which has no privileges in the test."""

    def setUp(self):
        super().setUp()
        file = self.machine.folder / 'service.conf'
        helper = shlex.join([sys.executable, '-m', 'oslo_privsep.daemon', '--config-file',
                             str(file)])
        file.write_text(f'[privsep_lvm]\ncapabilities =\nhelper_command = {helper}\n')
        conf = cfg.ConfigOpts()
        conf(['--config-file', str(file)], project='blockattach')
        context.configure(conf)
        for known in context.CONTEXTS:
            self.addCleanup(cfg.CONF.clear_override, 'helper_command', known.cfg_section)
        context.lvm.set_client_mode(True)
        self.addCleanup(context.lvm.stop)

    def test_store_works_through_daemon(self):
        store = self.machine.store('thin')
        store.check()
        volume = self.volume()
        store.create(volume)
        self.assertEqual(1, store.pools()[0].capabilities['total_volumes'])
        store.delete(volume)
        self.assertEqual({lvm_backend.POOL}, set(self.machine.volumes()))

    def test_daemon_errors_keep_class(self):
        site = lvm.Site('another', '', 60)
        with self.assertRaisesRegex(lvm.CommandFailed, 'not found'):
            lvm.content(site)
        with self.assertRaises(ValueError):
            lvm.remove(site, 'root')
        with self.assertRaises(errors.BackendRefused):
            self.machine.store('thin', volume_group='another').create(self.volume())

    def test_failed_daemon_start_names_option(self):
        cfg.CONF.set_override('helper_command', 'false', group='privsep_lvm')
        with self.assertRaisesRegex(errors.ConfigurationError, r'helper_command in .privsep_lvm'):
            self.machine.store('thin').check()
