"""Log levels, which are read and set at run time."""
import logging

from blockattach.tests.api import base
from blockattach.tests.fixtures import http

LOGGER = f'{__name__}.some'


class LogLevelsTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.logger = logging.getLogger(LOGGER)
        self.logger.setLevel('WARNING')

    def put(self, action, version='3.32', **body):
        return self.http.as_admin.put(f'/os-services/{action}', body, version=version)

    def shown(self, **body):
        reply = self.put('get-log', prefix=LOGGER, **body)
        self.assert_status(200, reply)
        return {(one['binary'], one['host']): one['levels'].get(LOGGER)
                for one in reply.body['log_levels']}

    def set(self, **body):
        reply = self.put('set-log', prefix=LOGGER, **body)
        self.assert_status(202, reply)
        self.assertEqual('', reply.text)

    def test_get_log_asks_every_service(self):
        self.assertEqual(
            {('cinder-api', http.API_HOST): 'WARNING', ('cinder-volume', http.HOST): 'WARNING',
             ('cinder-scheduler', 'control-1'): 'WARNING'}, self.shown())

    def test_get_log_filtered_by_binary_and_server(self):
        for body, expected in (
                ({'binary': 'cinder-scheduler'}, {'cinder-scheduler'}),
                ({'binary': 'cinder-api', 'server': 'control-1'}, {'cinder-api'}),
                ({'binary': 'cinder-api', 'server': 'storage-1'}, set()),
                ({'binary': 'cinder-backup'}, set()),
                ({'server': 'storage-1'}, {'cinder-volume'}),
                ({'server': http.HOST}, {'cinder-volume'}),
                ({'server': 'storage-9'}, set()),
                ({'binary': '*', 'server': None},
                 {'cinder-api', 'cinder-scheduler', 'cinder-volume'}),
                ({'binary': None, 'server': ''},
                 {'cinder-api', 'cinder-scheduler', 'cinder-volume'})):
            with self.subTest(body):
                self.assertEqual(expected, {binary for binary, _ in self.shown(**body)})

    def test_set_log_changes_levels(self):
        for binary in ('cinder-volume', 'cinder-scheduler', 'cinder-api'):
            for level in ('debug', 'ERROR'):
                with self.subTest(binary, level=level):
                    self.set(binary=binary, level=level)
                    self.assertEqual(level.upper(), logging.getLevelName(self.logger.level))
                    self.assertEqual({level.upper()}, set(self.shown().values()))

    def test_log_levels_limited_to_prefix(self):
        other = logging.getLogger(f'{__name__}.other')
        other.setLevel('WARNING')
        self.set(level='DEBUG')
        self.assertEqual(logging.WARNING, other.level)
        self.assertNotIn(other.name, self.put(
            'get-log', prefix=LOGGER).body['log_levels'][0]['levels'])

    def test_silent_service_not_asked_for_log_levels(self):
        self.sql("UPDATE services SET reported_at = '2020-01-01 00:00:00.000000'")
        self.assertEqual({('cinder-api', http.API_HOST)}, set(self.shown()))

    def test_malformed_log_level_requests_change_nothing(self):
        for action, body in (('set-log', {}), ('set-log', {'level': 'LOUD'}),
                             ('set-log', {'level': None}), ('set-log', {'level': ''}),
                             ('set-log', {'level': 'DEBUG', 'binary': 'cinder-party'}),
                             ('set-log', {'level': 'DEBUG', 'colour': 'red'}),
                             ('get-log', {'server': 's' * 256}), ('get-log', {'prefix': 1})):
            with self.subTest(action, body=body):
                self.assert_status(400, self.put(action, **{'prefix': LOGGER, **body}))
        self.assertEqual(logging.WARNING, self.logger.level)

    def test_log_level_permissions_and_version(self):
        for action in ('get-log', 'set-log'):
            with self.subTest(action):
                self.assert_status(403, self.http.as_member.put(
                    f'/os-services/{action}', {'level': 'DEBUG'} if action == 'set-log' else {}))
                self.assert_status(404, self.put(action, version='3.31', level='DEBUG'))
        self.assertEqual(logging.WARNING, self.logger.level)
