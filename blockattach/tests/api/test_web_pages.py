"""Cross-site requests of web pages without authentication, which are rejected."""
import json

import webob

from blockattach.storage.api import routes
from blockattach.tests.api import base
from blockattach.tests.fixtures import make

EVIL = 'http://evil.example'
WRITES_BY_GET = {'GET /qos-specs/{id}/associate', 'GET /qos-specs/{id}/disassociate',
                 'GET /qos-specs/{id}/disassociate_all'}


class WebPagesTest(base.ApiTestCase):

    def act(self, volume_id, action, body, **headers):
        """Send an unauthenticated action with exactly these headers, as a web page could."""
        request = webob.Request.blank(
            f'/v3/{self.http.as_admin.project_id}/volumes/{volume_id}/action', method='POST',
            headers=headers)
        request.body = json.dumps({action: body}).encode()
        return self.http.answer(request)

    def test_cross_site_action_without_preflight_rejected(self):
        volume_id = self.volume()
        for status, headers in ((415, {}), (415, {'Content-Type': 'text/plain'}),
                                (403, {'Origin': EVIL}), (403, {'Origin': 'null'}),
                                (403, {'Origin': EVIL, 'Content-Type': 'application/json'}),
                                (403, {'Host': 'evil.example',
                                       'Content-Type': 'application/json'})):
            with self.subTest(headers=headers):
                self.assert_status(status, self.act(volume_id, 'os-reset_status',
                                                    {'status': 'error'}, **headers))
                self.assertEqual('available', self.shown(volume_id)['status'])

    def test_request_with_foreign_host_header_rejected(self):
        reply = self.http.as_admin.get('/attachments/detail', Host='evil.example')
        self.assert_fault(403, 'the header Host must be localhost', reply)

    def test_cross_site_get_that_writes_rejected(self):
        admin = self.http.as_admin
        gold = admin.post('/qos-specs', {'qos_specs': {'name': 'gold'}}).body['qos_specs']['id']
        kind = make.volume_type(self.http.database)
        path = f'/qos-specs/{gold}/associate?vol_type_id={kind.id}'
        for headers in ({'Sec-Fetch-Site': 'cross-site'}, {'Sec-Fetch-Site': 'same-site'},
                        {'Referer': f'{EVIL}/page'}, {'Origin': EVIL}):
            with self.subTest(headers=headers):
                self.assert_fault(403, 'requests of web pages', admin.get(path, **headers))
                self.assertEqual([], admin.get(f'/qos-specs/{gold}/associations').body[
                    'qos_associations'])
                if 'Origin' not in headers:
                    self.assert_status(200, admin.get('/qos-specs', **headers))
        for headers in ({}, {'Sec-Fetch-Site': 'none'}, {'Sec-Fetch-Site': 'same-origin'}):
            self.assert_status(202, admin.get(path, **headers))

    def test_writing_get_routes_known(self):
        self.assertEqual(WRITES_BY_GET, {row.name for row in routes.operations() if row.writes})
