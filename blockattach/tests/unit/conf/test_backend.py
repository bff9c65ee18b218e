"""Options in the group of a backend."""
import tempfile
import unittest

from oslo_config import cfg

from blockattach.storage.conf import backend
from blockattach.storage.drivers.targets import tgtd

TEXT = """
[disks]
target_ip_address = {}
target_secondary_ip_addresses = {}
"""


class AddressTest(unittest.TestCase):

    def settings(self, address, *others):
        conf = cfg.ConfigOpts()
        conf.register_opts(backend.OPTS, group='disks')
        with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
            file.write(TEXT.format(address, ','.join(others)))
            file.flush()
            conf([], default_config_files=[file.name], default_config_dirs=[])
            return backend.settings(conf, 'disks', '/nonexistent')

    def portals(self, settings):
        return tgtd.Tgtd('/nonexistent', (
            settings.target_ip_address, *settings.target_secondary_ip_addresses), 3260).portals()

    def test_ipv6_portal_has_one_pair_of_brackets(self):
        for address in ('::1', '[::1]'):
            settings = self.settings(address, '[2001:db8::2]', '2001:db8::3', '192.0.2.4')
            self.assertEqual('::1', settings.target_ip_address)
            self.assertEqual(('[::1]:3260', '[2001:db8::2]:3260', '[2001:db8::3]:3260',
                              '192.0.2.4:3260'), self.portals(settings))

    def test_target_ip_address_default_is_loopback(self):
        self.assertEqual(('127.0.0.1', ()), (
            self.settings('127.0.0.1').target_ip_address,
            self.settings('127.0.0.1').target_secondary_ip_addresses))
