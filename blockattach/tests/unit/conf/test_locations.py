"""Locations of options in the messages about them."""
import os
import tempfile
import unittest
from unittest import mock

from oslo_config import cfg

from blockattach.platform import errors
from blockattach.platform.conf import health
from blockattach.platform.conf import locations

OPTIONS = (cfg.IntOpt('threads', default=1, min=1), cfg.StrOpt('host', default='here'),
           cfg.URIOpt('url', schemes=['http']))


class LocationsTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, 'x.conf')
        self.conf = cfg.ConfigOpts()
        self.conf.register_opts(OPTIONS, group='api')
        self.conf.register_opts([cfg.StrOpt('state_path')])
        self.conf.register_cli_opts([cfg.BoolOpt('debug')])

    def read(self, text='', *arguments):
        with open(self.path, 'w', encoding='utf-8') as file:
            file.write(text)
        locations.read(self.conf, ['--config-file', self.path, *arguments], project='x')

    def refused(self, text, *arguments):
        with self.assertRaises(errors.ConfigurationError) as caught:
            self.read(text, *arguments)
        return str(caught.exception)

    def test_location_of_value(self):
        with mock.patch.dict(os.environ, {'OS_API__HOST': 'there'}):
            self.read('[DEFAULT]\nstate_path = /x\n[api]\nurl = http://x', '--debug')
            for group, name, expected in (
                    ('DEFAULT', 'state_path', f'[DEFAULT] state_path in {self.path}'),
                    ('api', 'url', f'[api] url in {self.path}'),
                    ('api', 'host', '[api] host in the environment variable OS_API__HOST'),
                    ('api', 'threads', f'[api] threads, not set in {self.path}'),
                    ('DEFAULT', 'debug', '[DEFAULT] debug on the command line'),
                    ('api', None, f'group [api] in {self.path}')):
                with self.subTest(name=name):
                    self.assertEqual(expected, locations.where(self.conf, group, name))

    def test_invalid_value_reported_with_location(self):
        for text, words in (
                ('[api]\nthreads = many', f'[api] threads in {self.path} is invalid: '),
                ('[api]\nthreads = 0', f'[api] threads in {self.path} is invalid: '),
                ('[api]\nurl = gopher://x', f'[api] url in {self.path} is invalid: '),
                ('[DEFAULT]\ndebug = perhaps', self.path)):
            with self.subTest(text=text):
                message = self.refused(text)
                self.assertIn(words, message)
                self.assertNotIn('\n', message)
        with mock.patch.dict(os.environ, {'OS_API__THREADS': 'many'}):
            self.assertIn('OS_API__THREADS', self.refused(''))

    def test_invalid_value_of_later_group_reported(self):
        self.read('[disks]\nsize = big')
        self.conf.register_opts([cfg.IntOpt('size')], group='disks')
        with self.assertRaisesRegex(errors.ConfigurationError, r'\[disks\] size in '):
            locations.check_values(self.conf, ['disks'])

    def test_innermost_named_option_reported(self):
        self.read('[api]\nhost = x')
        with (self.assertRaises(errors.ConfigurationError) as caught,
              locations.named(self.conf, 'DEFAULT', 'state_path'),
              locations.named(self.conf, 'api', 'host')):
            raise errors.ConfigurationError(reason='cannot listen')
        self.assertEqual(f'cannot listen ([api] host in {self.path})', str(caught.exception))

    def test_invalid_network_rejected(self):
        self.conf.register_opts(health.OPTS, group=health.GROUP)
        self.read('[health]\ndetailed_source_ranges = here')
        with self.assertRaisesRegex(errors.ConfigurationError,
                                    r"cannot parse a network: 'here'.*\[health\]"):
            health.settings(self.conf, 'blockattach-x')

    def test_health_file_has_process_name(self):
        self.conf.register_opts(health.OPTS, group=health.GROUP)
        self.read('[health]\nfile = /run/{process}.health')
        self.assertEqual('/run/blockattach-x.health',
                         health.settings(self.conf, 'blockattach-x').file)
