"""Serving of the attachment map page: its files, their headers, and the disabled default."""
import re

import webob

from blockattach.storage.api import attachment_map
from blockattach.tests.api import base

ENABLED = {'map': {'enabled': True}}
ANYWHERE = re.compile(rb'(?:src|href)="([^"#]*)"|(?:from|import) \'([^\']*)\'')


class MapTestCase(base.ApiTestCase):

    SETTINGS = {'options': ENABLED}

    def ask(self, path, method='GET', **headers):
        return webob.Request.blank(path, method=method, headers=headers).get_response(self.http)

    def parts(self):
        """Return the paths of the page and of every file that it refers to, directly or
        indirectly.
        """
        found, new = {'/map'}, ['/map']
        while new:
            path = new.pop()
            for matched in ANYWHERE.finditer(self.ask(path).body):
                name = (matched[1] or matched[2]).decode()
                # Absolute paths would break the page behind a proxy with a path prefix.
                self.assertRegex(name, r'^(?:\./|map/)[a-z_]+\.(?:js|css|svg)$')
                part = f'/map/{name.rpartition("/")[2]}'
                if part not in found:
                    found.add(part)
                    new.append(part)
        return found


class OffByDefaultTest(base.ApiTestCase):

    def test_map_not_served_by_default(self):
        for path in ('/map', '/map/main.js'):
            answer = webob.Request.blank(path).get_response(self.http)
            self.assertEqual(404, answer.status_code)


class MapTest(MapTestCase):

    def test_map_files_served_without_token(self):
        parts = self.parts()
        self.assertGreaterEqual(parts, {'/map', '/map/main.js', '/map/map.css', '/map/icon.svg'})
        for path in sorted(parts):
            with self.subTest(path):
                answer = self.ask(path)
                self.assertEqual(200, answer.status_code)
                suffix = path.rpartition('.')[2] if '.' in path else 'html'
                self.assertEqual(f'{attachment_map.TYPES[suffix]}; charset=UTF-8',
                                 answer.headers['Content-Type'])
                self.assertEqual(len(answer.body), answer.content_length)

    def test_files_outside_map_page_not_found(self):
        self.assertEqual(404, self.ask('/map/__init__.py').status_code)
        self.assertEqual(404, self.ask('/map/../map').status_code)
        self.assertEqual(404, self.ask('/map/').status_code)

    def test_content_security_policy_refuses_external_and_inline(self):
        for path in sorted(self.parts()):
            with self.subTest(path):
                headers = self.ask(path).headers
                policy = dict(one.strip().split(' ', 1) for one in
                              headers['Content-Security-Policy'].split(';'))
                self.assertEqual("'none'", policy.pop('default-src'))
                for name in ('script-src', 'style-src', 'connect-src', 'img-src'):
                    self.assertEqual("'self'", policy.pop(name))
                for name in ('frame-ancestors', 'form-action', 'base-uri', 'trusted-types'):
                    self.assertEqual("'none'", policy.pop(name))
                self.assertEqual({'require-trusted-types-for': "'script'"}, policy)
                self.assertEqual('nosniff', headers['X-Content-Type-Options'])
                self.assertEqual('no-referrer', headers['Referrer-Policy'])
        page = self.ask('/map').text
        self.assertNotRegex(page, r'<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=')

    def test_map_etag_match_returns_304(self):
        for path in sorted(self.parts()):
            with self.subTest(path):
                first = self.ask(path)
                self.assertEqual('no-cache', first.headers['Cache-Control'])
                again = self.ask(path, **{'If-None-Match': first.headers['ETag']})
                self.assertEqual((304, b''), (again.status_code, again.body))
                self.assertEqual(first.headers['ETag'], again.headers['ETag'])
                self.assertEqual(200, self.ask(path, **{'If-None-Match': '"other"'}).status_code)

    def test_map_head_returns_headers_of_get(self):
        shown, head = self.ask('/map'), self.ask('/map', 'HEAD')
        self.assertEqual((200, b''), (head.status_code, head.body))
        self.assertEqual(dict(shown.headers), dict(head.headers))

    def test_other_methods_on_map_rejected(self):
        for method in ('POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'):
            with self.subTest(method):
                answer = self.ask('/map', method)
                self.assertEqual((405, 'GET, HEAD'), (answer.status_code, answer.headers['Allow']))

    def test_api_routes_unchanged_by_map(self):
        self.assert_status(200, self.http.as_reader.get('/attachments'))
        self.assertEqual(300, self.ask('/').status_code)
        self.assertEqual(404, self.ask('/mapping').status_code)
