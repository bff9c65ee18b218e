"""Limits that Keystone keeps: how it is asked, what its answers mean, and when it is not asked."""
import tempfile
import unittest

from oslo_config import cfg

from blockattach import errors
from blockattach.conf import options
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import limits as fixtures
from blockattach.wiring import limits

PROJECT = 'a-project'


class SourceTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.keystone = fixtures.LimitsStandIn()
        self.addCleanup(lambda: self.keystone.close())
        self.clock = clock.ManualClock()

    def source(self, driver='unified_limits', **changed):
        given = {**self.keystone.options(), **changed}
        lines = ['[quota]', f'quota_driver = {driver}', f'[{limits.GROUP}]', *(
            f'{name} = {value}' for name, value in given.items() if value is not None)]
        file = self.enterContext(tempfile.NamedTemporaryFile('w', suffix='.conf'))
        file.write('\n'.join(lines))
        file.flush()
        conf = cfg.ConfigOpts()
        options.register(conf)
        conf(['--config-file', file.name], default_config_dirs=[])
        return limits.source(conf, self.clock)

    def test_the_database_by_default(self):
        self.assertIsNone(self.source('database'))

    def test_what_a_project_may_have(self):
        self.keystone.registered |= {'volumes': 10, 'gigabytes': 100}
        self.keystone.of_projects |= {PROJECT: {'volumes': 3}, 'another': {'gigabytes': 5}}
        found = self.source()
        self.assertEqual({'volumes': 3, 'gigabytes': 100}, found(PROJECT))
        self.assertEqual({'volumes': 10, 'gigabytes': 5}, found('another'))
        self.assertEqual({'volumes': 10, 'gigabytes': 100}, found('a third'))

    def test_an_answer_is_used_for_a_while(self):
        found = self.source()
        self.assertEqual({}, found(PROJECT))
        self.keystone.registered['volumes'] = 1
        asked = len(self.keystone.asked)
        self.assertEqual({}, found(PROJECT))
        self.assertEqual(asked, len(self.keystone.asked))
        self.clock.advance(10)
        self.assertEqual({'volumes': 1}, found(PROJECT))

    def test_no_answer_is_no_limit_of_anything(self):
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

    def test_what_is_missing_in_the_configuration(self):
        for changed in ({'endpoint_id': None}, {'auth_type': None},
                        {'auth_type': 'no-such-plugin'}, {'auth_url': None}):
            with self.subTest(changed):
                self.assertRaises(errors.ConfigurationError, self.source, **changed)
