"""Unified limits in Keystone: requests, answers and caching."""
import subprocess
import sys
import tempfile
import unittest

from oslo_config import cfg

from blockattach.platform import errors
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import limits as fixtures
from blockattach.wiring import limits
from blockattach.wiring import options

PROJECT = 'a-project'
WITHOUT_OSLO_LIMIT = """
import sys
from oslo_config import cfg
sys.modules['oslo_limit'] = None
from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.wiring import options
from blockattach.wiring import limits
conf = cfg.ConfigOpts()
options.register(conf)
conf(['--config-file', sys.argv[1]], default_config_dirs=[])
try:
    limits.source(conf, clock.Clock())
except errors.ConfigurationError as exc:
    print(exc)
"""


class SourceTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.keystone = fixtures.LimitsStandIn()
        self.addCleanup(lambda: self.keystone.close())
        self.clock = clock.ManualClock()

    def source(self, driver='unified_limits', others=None, **changed):
        groups = {'quota': {'quota_driver': driver},
                  limits.GROUP: {**self.keystone.options(), **changed}, **(others or {})}
        lines = [line for group, given in groups.items() for line in (f'[{group}]', *(
            f'{name} = {value}' for name, value in given.items() if value is not None))]
        conf = cfg.ConfigOpts()
        options.register(conf)
        conf(['--config-file', self.file(*lines)], default_config_dirs=[])
        return limits.source(conf, self.clock)

    def file(self, *lines):
        file = self.enterContext(tempfile.NamedTemporaryFile('w', suffix='.conf'))
        file.write('\n'.join(lines))
        file.flush()
        return file.name

    def test_database_driver_has_no_source(self):
        self.assertIsNone(self.source('database'))

    def test_project_limit_overrides_registered_limit(self):
        self.keystone.registered |= {'volumes': 10, 'gigabytes': 100}
        self.keystone.of_projects |= {PROJECT: {'volumes': 3}, 'another': {'gigabytes': 5}}
        found = self.source()
        self.assertEqual({'volumes': 3, 'gigabytes': 100}, found(PROJECT))
        self.assertEqual({'volumes': 10, 'gigabytes': 5}, found('another'))
        self.assertEqual({'volumes': 10, 'gigabytes': 100}, found('a third'))

    def test_endpoint_found_by_service_and_region(self):
        self.keystone.registered['volumes'] = 1
        found = self.source(endpoint_id=None, endpoint_service_type=fixtures.TYPE,
                            endpoint_region_name=fixtures.REGION)
        self.assertEqual({'volumes': 1}, found(PROJECT))

    def test_account_in_auth_section(self):
        self.keystone.registered['volumes'] = 1
        account = {name: self.keystone.options()[name] for name in fixtures.ACCOUNT}
        found = self.source(**dict.fromkeys(fixtures.ACCOUNT), auth_section='an_account',
                            others={'an_account': account})
        self.assertEqual({'volumes': 1}, found(PROJECT))

    def test_unlimited_limit_is_minus_one(self):
        self.keystone.registered['volumes'] = -1
        self.assertEqual({'volumes': -1}, self.source()(PROJECT))

    def test_unsupported_enforcement_model_refused(self):
        self.keystone.model = 'strict-two-level'
        found = self.source()
        with self.assertLogs('blockattach.platform.unified_limits') as logged:
            self.assertRaises(errors.LimitsUnavailable, found, PROJECT)
        self.assertIn('strict-two-level', logged.output[0])
        self.keystone.model = 'flat'
        self.assertEqual({}, found(PROJECT))

    def test_limits_cached(self):
        found = self.source()
        self.assertEqual({}, found(PROJECT))
        self.keystone.registered['volumes'] = 1
        asked = len(self.keystone.asked)
        self.assertEqual({}, found(PROJECT))
        self.assertEqual(asked, len(self.keystone.asked))
        self.clock.advance(10)
        self.assertEqual({'volumes': 1}, found(PROJECT))

    def test_failed_request_is_limits_unavailable(self):
        found = self.source()
        for status in (500, 403):
            self.keystone.status = status
            self.assertRaises(errors.LimitsUnavailable, found, PROJECT)
        self.keystone.status = 200
        self.assertEqual({}, found(PROJECT))
        self.keystone.close()
        self.clock.advance(10)
        self.assertRaises(errors.LimitsUnavailable, found, PROJECT)
        self.keystone = fixtures.LimitsStandIn()

    def test_incomplete_configuration_rejected(self):
        for changed in ({'endpoint_id': None}, {'auth_type': None},
                        {'auth_type': 'no-such-plugin'}, {'auth_url': None}):
            with self.subTest(changed):
                self.assertRaises(errors.ConfigurationError, self.source, **changed)

    def test_missing_oslo_limit_rejected(self):
        done = subprocess.run(
            [sys.executable, '-c', WITHOUT_OSLO_LIMIT,
             self.file('[quota]', 'quota_driver = unified_limits')],
            capture_output=True, text=True, check=True)
        self.assertIn('Install blockattach[limits] ([quota] quota_driver in ', done.stdout)
