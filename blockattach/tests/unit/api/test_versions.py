"""History of the API versions and version discovery."""
import unittest

from blockattach.platform.http.operation import V
from blockattach.storage.api import routes
from blockattach.storage.api import versions
from blockattach.storage.api.resources import versions as resource
from blockattach.tests.unit.http import tiny


class HistoryTest(unittest.TestCase):
    """History of the API versions."""

    def test_history_has_each_version_once(self):
        self.assertEqual([V(3, minor) for minor in range(72)],
                         [version for version, _ in versions.HISTORY])

    def test_each_version_has_description(self):
        for version, text in versions.HISTORY + versions.EXTENSION_HISTORY:
            with self.subTest(version=version):
                self.assertRegex(text, r'^[A-Za-z].{15,88}\.$')

    def test_minimum_and_maximum_version(self):
        self.assertEqual((V(3, 0), V(3, 71)), (versions.MINIMUM, versions.MAXIMUM))

    def test_each_operation_starts_at_known_version(self):
        known = {version for version, _ in versions.HISTORY}
        for row in routes.operations():
            with self.subTest(operation=row.name):
                self.assertIn(row.since, known)


class DiscoveryTest(unittest.TestCase):
    """Version discovery without a token or a project, with any version header."""

    def setUp(self):
        self.api = tiny.Tiny(resource.OPERATIONS, check_answers=True)

    def test_version_document(self):
        wanted = {'versions': [{
            'id': 'v3.0', 'status': 'CURRENT', 'version': '3.71', 'min_version': '3.0',
            'updated': versions.UPDATED,
            'links': [{'rel': 'describedby', 'type': 'text/html',
                       'href': 'https://docs.openstack.org/'},
                      {'rel': 'self', 'href': 'http://localhost/v3/'}],
            'media-types': [{'base': 'application/json',
                             'type': 'application/vnd.openstack.volume+json;version=3'}],
        }]}
        for path, status in (('/', 300), ('/v3', 200), ('/v3/', 200)):
            for token, version in ((None, None), ('broken', 'volume 9.9')):
                with self.subTest(path=path, token=token):
                    answer = self.api.call('GET', path, token=token, version=version)
                    self.assertEqual((status, 'application/json', wanted), (
                        answer.status_int, answer.content_type, answer.json))

    def test_other_major_versions_not_found(self):
        for path in ('/v2/', '/v4/', '/v2', '/v1/', '/v3.1/'):
            with self.subTest(path=path):
                answer = self.api.call('GET', path)
                self.assertEqual((404, 'application/json'),
                                 (answer.status_int, answer.content_type))
