"""Extensions, which name the parts of the API that are served."""
from blockattach.platform.http import operation
from blockattach.storage.api import routes
from blockattach.storage.api.resources import extensions
from blockattach.tests.api import base


def _row(text):
    """Return an operation named like ``POST /volumes/{id}/action (os-attach)``."""
    method, path, *action = text.split(' ')
    return operation.Operation(method, path, lambda services, call: None,
                               action=action[0][1:-1] if action else None)


class ExtensionsTest(base.ApiTestCase):

    def list(self):
        reply = self.http.as_reader.get('/extensions', version='3.0')
        self.assert_status(200, reply)
        return {one['alias']: one for one in reply.body['extensions']}

    def test_listed_extensions_match_served_routes(self):
        served = {row.name.replace('{host}', '{id}') for row in routes.operations()}
        listed = self.list()
        for one in extensions.EXTENSIONS:
            with self.subTest(one.alias):
                if one.alias in listed:
                    self.assertIn(one.by.replace('{host}', '{id}'), served)
        self.assertLessEqual({'os-services', 'os-volume-actions', 'scheduler-stats',
                              'os-availability-zone', 'qos-specs'}, listed.keys())
        self.assertEqual(set(), {'backups', 'consistencygroups', 'cgsnapshots'} & listed.keys())

    def test_show_extension(self):
        wanted = {'alias': 'os-hosts', 'name': 'Hosts', 'updated': '2011-06-29T00:00:00+00:00',
                  'description': 'Hosts of services, for administrators.', 'links': []}
        self.assertEqual(wanted, self.list()['os-hosts'])
        reply = self.http.as_reader.get('/extensions/os-hosts')
        self.assertEqual({'extension': wanted}, reply.body)
        for alias in ('zz', 'backups'):
            self.assert_fault(404, 'The resource could not be found.',
                              self.http.as_reader.get(f'/extensions/{alias}'))

    def test_known_extensions_have_unique_aliases(self):
        self.assertEqual(32, len({one.alias for one in extensions.EXTENSIONS}))

    def test_extension_listed_if_its_route_served(self):
        for one in extensions.EXTENSIONS:
            with self.subTest(one.alias):
                row, _ = extensions.operations([_row(one.by.replace('{id}', '{name}'))])
                listed = row.handler(None, None)['extensions']
                self.assertIn(one.alias, [other['alias'] for other in listed])
        row, _ = extensions.operations([])
        self.assertEqual({'extensions': []}, row.handler(None, None))
