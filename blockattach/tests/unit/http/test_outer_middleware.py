"""Handling of proxy headers and CORS by oslo.middleware."""
import unittest

import webob
from oslo_config import cfg

from blockattach.platform.http import middleware
from blockattach.platform.http import outer_middleware

ORIGIN = 'https://dashboard.example.org'


class ProxyTest(unittest.TestCase):

    def setUp(self):
        self.conf = cfg.ConfigOpts()
        outer_middleware.register(self.conf)
        self.conf([], default_config_files=[], default_config_dirs=[])

    def ask(self, method='GET', headers=None, inner=None):
        def serve(request):
            return webob.Response(json=[request.application_url, request.remote_addr])
        application = middleware.application(outer_middleware.layers(self.conf), inner or serve)
        return webob.Request.blank('/x', method=method, headers=headers or {}, environ={
            'REMOTE_ADDR': '192.0.2.1'}).get_response(application)

    def test_default_options_add_no_layers(self):
        self.assertEqual((), outer_middleware.layers(self.conf))

    def test_proxy_headers_applied_if_enabled(self):
        headers = {'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'api.example.org',
                   'X-Forwarded-For': '198.51.100.7', 'X-Forwarded-Prefix': '/volume'}
        self.assertEqual(['http://localhost', '192.0.2.1'], self.ask(headers=headers).json)
        self.conf.set_override('enable_proxy_headers_parsing', True, 'oslo_middleware')
        expected = ['https://api.example.org/volume', '198.51.100.7']
        self.assertEqual(expected, self.ask(headers=headers).json)
        self.assertEqual(['https://api.example.org', '198.51.100.7'], self.ask(headers={
            'Forwarded': 'for=198.51.100.7;proto=https;host=api.example.org'}).json)

    def test_allowed_origin_gets_cors_headers(self):
        self.conf.set_override('allowed_origin', [ORIGIN], 'cors')
        answer = self.ask(headers={'Origin': ORIGIN})
        self.assertEqual(ORIGIN, answer.headers['Access-Control-Allow-Origin'])
        self.assertIn('OpenStack-API-Version', answer.headers['Access-Control-Expose-Headers'])
        self.assertNotIn('Access-Control-Allow-Origin',
                         self.ask(headers={'Origin': 'https://evil.example.org'}).headers)

    def test_cors_preflight_answered(self):
        self.conf.set_override('allowed_origin', [ORIGIN], 'cors')
        wish = {'Origin': ORIGIN, 'Access-Control-Request-Method': 'POST',
                'Access-Control-Request-Headers':
                    'x-auth-token,openstack-api-version,idempotency-key,content-type'}
        answer = self.ask('OPTIONS', wish, lambda request: webob.Response(status=404))
        self.assertEqual((200, ORIGIN), (
            answer.status_code, answer.headers['Access-Control-Allow-Origin']))
        refused = self.ask('OPTIONS', {**wish, 'Access-Control-Request-Headers': 'x-roles'})
        self.assertNotIn('Access-Control-Allow-Origin', refused.headers)
