"""Health check at ``/healthcheck``."""
import ipaddress
import json
import unittest
import weakref

import webob
from oslo_config import cfg

from blockattach.platform import clock
from blockattach.platform import errors
from blockattach.platform.conf import health as health_conf
from blockattach.platform.health import monitor
from blockattach.platform.http import health

NETWORKS = (ipaddress.ip_network('192.0.2.0/24'), ipaddress.ip_network('::1/128'))


def behind(environ, start_response):
    """Application behind the health check, which answers 404."""
    start_response('404 Not Found', [('Content-Length', '0')])
    return []


class HealthCheckTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        health.register(self.conf)
        self.conf([], default_config_files=[], default_config_dirs=[])
        self.wrong = dict.fromkeys(health.CHECKS.values())
        self.monitor = monitor.Monitor('blockattach-api', health_conf.HealthSettings(),
                                       clock.Clock())
        for name in self.wrong:
            self.monitor.add(name, lambda name=name: self.wrong[name])

    def ask(self, path='/healthcheck', method='GET', address='192.0.2.7', **headers):
        built = health.with_health(behind, self.conf, self.monitor, NETWORKS)
        self.monitor.look()
        request = webob.Request.blank(path, method=method, headers=headers,
                                      environ={'REMOTE_ADDR': address})
        return request.get_response(built)

    def test_healthy_process_answers_200(self):
        answer = self.ask()
        self.assertEqual((200, b'OK', 'text/plain'),
                         (answer.status_int, answer.body, answer.content_type))
        self.assertEqual(204, self.ask(method='HEAD').status_int)

    def test_each_failed_check_answers_503(self):
        for name in self.wrong:
            with self.subTest(name=name):
                self.wrong = {**dict.fromkeys(self.wrong), name: 'is away'}
                answer = self.ask()
                self.assertEqual((503, f'{name}: is away'), (answer.status_int, answer.text))
                self.assertEqual(503, self.ask(method='HEAD').status_int)
                self.assertEqual(200, self.ask('/healthcheck/live').status_int)

    def test_unselected_check_ignored(self):
        self.conf.set_override('backends', ['blockattach_database'], group='healthcheck')
        self.wrong['backends'] = 'no backend is up'
        self.assertEqual(200, self.ask().status_int)
        self.wrong['database'] = 'is away'
        self.assertEqual(503, self.ask().status_int)

    def test_health_before_first_check_answers_503(self):
        built = health.with_health(behind, self.conf, self.monitor, NETWORKS)
        self.assertEqual(503, webob.Request.blank('/healthcheck').get_response(built).status_int)

    def test_health_needs_no_token(self):
        self.assertEqual(200, self.ask(**{'X-Auth-Token': 'x'}).status_int)

    def test_other_paths_and_methods_passed_on(self):
        for path, method in (('/healthcheck', 'POST'), ('/healthcheck/', 'GET'), ('/', 'GET'),
                             ('/v3/healthcheck', 'GET'), ('/healthcheck/live', 'DELETE')):
            with self.subTest(path=path, method=method):
                self.assertEqual(404, self.ask(path, method).status_int)

    def test_health_as_json(self):
        self.wrong['bus'] = 'is away'
        answer = self.ask(Accept='application/json')
        self.assertEqual({'detailed': False,
                          'reasons': ['database: OK', 'bus: is away', 'backends: OK']},
                         json.loads(answer.body))

    def test_details_shown_to_allowed_networks(self):
        self.conf.set_override('detailed', True, group='healthcheck')
        for address, headers, detailed in (
                ('192.0.2.7', {}, True), ('::1', {}, True), ('198.51.100.1', {}, False),
                ('', {}, False), ('unix', {}, False),
                ('192.0.2.7', {'X-Forwarded-For': '192.0.2.9'}, False),
                ('192.0.2.7', {'Forwarded': 'for=192.0.2.9'}, False)):
            with self.subTest(address=address, headers=headers):
                answer = self.ask(address=address, Accept='application/json', **headers)
                self.assertEqual((200, detailed), (answer.status_int, 'threads' in answer.json))

    def test_details_despite_dead_weak_proxy(self):
        self.conf.set_override('detailed', True, group='healthcheck')
        # The set is collected at once.
        proxy = weakref.proxy(set())
        with self.assertRaises(ReferenceError):
            len(proxy)
        for kind in ('application/json', 'text/html'):
            with self.subTest(kind):
                self.assertEqual(200, self.ask(Accept=kind).status_int)

    def test_details_off_by_default(self):
        self.assertNotIn('threads', self.ask(Accept='application/json').json)

    def test_health_from_other_network_not_found(self):
        self.conf.set_override('allowed_source_ranges', ['192.0.2.0/24'], group='healthcheck')
        self.assertEqual(200, self.ask().status_int)
        self.assertEqual(404, self.ask(address='198.51.100.1').status_int)

    def test_unknown_check_rejected(self):
        self.conf.set_override('backends', ['blockattach_weather'], group='healthcheck')
        with self.assertRaisesRegex(errors.ConfigurationError, 'blockattach_weather'):
            self.ask()
