"""Unknown options and groups of configuration files."""
import importlib.metadata
import pathlib
import re
import tempfile
import unittest

from oslo_config import cfg
from oslo_config import generator
from oslo_policy import opts as policy_options

from blockattach.platform import log
from blockattach.platform.conf import locations
from blockattach.platform.rpc import transport
from blockattach.storage.conf import embedded
from blockattach.wiring import options

# What a library has registered nowhere, or only where one of its plugins is used.
OF_LIBRARIES = """
[DEFAULT]
transport_url = fake://
log_rotation_type = none
log-dir =
rpc_response_timeout = 3600
control_exchange = x
logfile =
fatal_deprecations = true
rpc_thread_pool_size = 2
[keystone_authtoken]
auth_section = my_account
user_domain_name = d
[oslo_messaging_rabbit]
heartbeat_in_pthread = true
[key_manager]
backend = vault
[vault]
approle_role_id = 1
[healthcheck]
backends = x
[storage-2]
volumes_dir = of a backend that another host serves
[my_account]
username = u
"""

LIBRARIES = ('blockattach.storage.privileged', 'castellan.config', 'keystonemiddleware.auth_token',
             'os_brick', 'oslo.concurrency', 'oslo.limit', 'oslo.log', 'oslo.messaging',
             'oslo.middleware', 'oslo.policy', 'oslo.privsep', 'oslo.reports',
             'oslo.versionedobjects')


def read(conf, *arguments):
    """Read the configuration as a process does, without setting up its log."""
    log.register(conf)
    options.register(conf)
    transport.register_options(conf)
    policy_options.set_defaults(conf)
    locations.read(conf, arguments, project='blockattach', prog='x')


class UnknownOptionsTest(unittest.TestCase):

    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix='blockattach-'))
        self.path = pathlib.Path(folder, 'blockattach.conf')

    def found(self, text, *arguments, all_in_one=False):
        self.path.write_text(text, 'utf-8')
        conf = cfg.ConfigOpts()
        if all_in_one:
            embedded.register(conf)
        read(conf, '--config-file', str(self.path), *arguments)
        return options.find_unknown(conf)

    def test_option_in_former_group_known(self):
        self.assertEqual([], self.found('[control]\nquota_attachments = 7\n'))

    def test_unknown_option_names_nearest(self):
        for text, group, name, nearest in (
                ('[volume]\nenabled_backends = a\n[a]\nvolume_dirr = /x', 'a', 'volume_dirr',
                 'volumes_dir'),
                ('[api]\nosapi-max-limits = 1', 'api', 'osapi-max-limits', 'osapi_max_limit'),
                ('[DEFAULT]\nstate_paht = /x', 'DEFAULT', 'state_paht', 'state_path'),
                ('[Nova]\nauth_urll = http://x', 'nova', 'auth_urll', 'auth_url'),
                ('[rpc]\nzzz = 1', 'rpc', 'zzz', '')):
            with self.subTest(text):
                self.assertEqual([(str(self.path), group, name, nearest)],
                                 list(map(tuple, self.found(text))))

    def test_nearest_option_of_other_group_named_with_group(self):
        for text, name, nearest in (
                ('[api]\nschedule_second = 1', 'schedule_second', '[control] schedule_seconds'),
                ('[volume]\nosapi_max_limit = 1', 'osapi_max_limit', '[api] osapi_max_limit'),
                ('[DEFAULT]\niscsi_helper = x', 'iscsi_helper', ''),
                ('[volume]\nquota_volumess = 1', 'quota_volumess', '[quota] quota_volumes')):
            with self.subTest(text):
                [found] = self.found(text)
                self.assertEqual((name, nearest), (found.name, found.nearest))

    def test_unknown_group_is_reported(self):
        for text, group, nearest in (
                ('[databse]\nconnection = x', 'databse', 'database'),
                ('[volumes]\nenabled_backends = a', 'volumes', 'volume'),
                ('[Databse]\n', 'databse', 'database'),
                ('[backend_defaults]\nvolume_clear = zero', 'backend_defaults', ''),
                ('[storage-2]\nvolume_dirr = x', 'storage-2', '')):
            with self.subTest(text):
                [found] = self.found(text)
                self.assertEqual((str(self.path), group, '', nearest), tuple(found))
        self.assertEqual('[storage-2] is an unknown group', found.finding)

    def test_backend_that_is_not_enabled_is_judged(self):
        [found] = self.found('[storage-2]\nvolumes_dir = /x\ntarget_prot = 3260')
        self.assertEqual(('storage-2', 'target_prot', 'target_port'),
                         (found.group, found.name, found.nearest))

    def test_unknown_option_finding_names_nearest(self):
        [found] = self.found('[api]\nportt = 1')
        self.assertEqual('[api] portt is unknown (did you mean port?)', found.finding)

    def test_backend_of_command_line_checked(self):
        [found] = self.found('[fake]\npool_nam = x\n[file]\npool_name = x', '--backend', 'fake',
                             all_in_one=True)
        self.assertEqual(('fake', 'pool_name'), (found.group, found.nearest))

    def test_unknown_option_in_config_dir_found(self):
        inner = self.path.parent / 'more'
        inner.mkdir()
        (inner / '1.conf').write_text('[volume]\nworker_thread = 1', 'utf-8')
        [found] = self.found('', '--config-dir', str(inner))
        self.assertEqual((str(inner / '1.conf'), 'worker_threads'), (found.path, found.nearest))

    def test_options_of_sample_file_known(self):
        # With the options of the libraries that are installed.
        generator.main(['--namespace', 'blockattach', '--output-file', str(self.path)])
        text, number = re.subn(r'^#(\w+) = <.*>$', r'\1 =', self.path.read_text(), flags=re.M)
        text, more = re.subn(r'^#(\w+) =', r'\1 =', text, flags=re.M)
        self.assertGreater(number + more, 100)
        self.path.write_text(text, 'utf-8')
        conf = cfg.ConfigOpts()
        read(conf)
        conf.set_override('enabled_backends', ['file'], group='volume')
        conf.set_override('config_file', [str(self.path)])
        self.assertEqual([], options.find_unknown(conf))

    def test_groups_of_libraries_are_known(self):
        for entry in importlib.metadata.entry_points(group='oslo.config.opts'):
            if entry.name.startswith(LIBRARIES):
                for group, _ in entry.load()():
                    with self.subTest(library=entry.name, group=str(group)):
                        self.assertEqual([], self.found(f'[{group or "DEFAULT"}]\n'))

    def test_options_of_libraries_known(self):
        self.assertEqual([], self.found(OF_LIBRARIES))
