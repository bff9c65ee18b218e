"""Agreement of the documented operations of the Block Storage API with those served."""
from blockattach.storage.api import routes
from blockattach.storage.api.resources import not_offered
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.rules import sources

VALUES = {'id': base.ABSENT, 'key': 'x', 'host': http.HOST}
# Operations that the Block Storage API does not have or has as an action.
BEYOND = {('3.13', 'DELETE /groups/{id}'), ('3.0', 'DELETE /consistencygroups/{id}'),
          ('3.13', 'POST /groups/action')}


class ServedTest(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.table = sources.load_tool('print_served')

    def test_documented_operations_match_routes(self):
        self.assertEqual(
            {row.name: str(row.since) for row in routes.operations()
             if row not in not_offered.OPERATIONS and row.extension is None},
            {name: since for _, since, name in self.table.delivered()})

    def test_unoffered_operations_documented(self):
        left = {(since, name) for _, _, since, name in self.table.left()}
        self.assertEqual(BEYOND, {(str(row.since), row.name) for row in not_offered.OPERATIONS}
                         - left)

    def test_operation_documented_once(self):
        names = [name for _, _, name in self.table.delivered()]
        names += [name for _, _, _, name in self.table.left()]
        self.assertEqual(sorted(set(names)), sorted(names))

    def test_unoffered_operations_respond_as_documented(self):
        for _, status, since, name in self.table.left():
            method, path, *action = name.split(' ', 2)
            body = {action[0].strip('()'): {}} if action else {}
            for version in (since, http.LATEST):
                with self.subTest(name, version=version):
                    reply = self.http.as_admin.send(
                        method, path.format(**VALUES),
                        None if method in ('GET', 'DELETE') else body, version)
                    self.assert_status(status, reply)
                    if status < 400:
                        self.assertEqual([[]], list(reply.body.values()))
                    else:
                        self.assert_fault(status, '', reply)

    def test_always_rejected_operations_respond_400(self):
        volume_id = self.volume()
        bodies = {'os-extend_volume_completion': {'error': False},
                  'os-migrate_volume_completion': {'new_volume': volume_id}}
        rows = {row.name: row for row in routes.operations()}
        for part, since, name in self.table.delivered():
            if part.refused:
                row = rows[name]
                body = {row.action: bodies[row.action]} if row.action else {'host': http.HOST}
                with self.subTest(name):
                    self.assert_fault(400, '', self.http.as_admin.send(
                        row.method, row.path.format(id=volume_id), body, since))
