"""Read-only database: writing requests get 503, and reads keep working."""
from blockattach.tests.api import base
from blockattach.tests.fixtures import make


class UnwritableTest(base.ApiTestCase):

    def let_write(self, may):
        with self.http.database.engine.connect() as connection:
            connection.exec_driver_sql(f'PRAGMA query_only={int(not may)}')

    def test_writes_unavailable_with_read_only_database(self):
        volume_id = self.volume()
        free_id = self.volume()
        attachment_id = self.attached(volume_id)
        member = self.http.as_member
        requests = {
            'reserve': (200, lambda: member.post('/attachments', {'attachment': {
                'volume_uuid': free_id, 'instance_uuid': base.OTHER_SERVER}})),
            'update': (200, lambda: member.put(f'/attachments/{attachment_id}', {
                'attachment': {'connector': make.connector()}})),
            'delete': (200, lambda: member.delete(f'/attachments/{attachment_id}')),
            'create volume': (202, lambda: member.post('/volumes', {'volume': {'size': 1}}))}
        self.let_write(False)
        for name, (_, send) in requests.items():
            with self.subTest(name):
                reply = send()
                self.assert_status(503, reply)
                self.assertIn('Cannot write to the database', reply.fault[1])
                self.assertEqual('10', reply.headers['Retry-After'])
        self.assertEqual('in-use', self.shown(volume_id)['status'])
        self.let_write(True)
        for name, (status, send) in requests.items():
            with self.subTest(name):
                self.assert_status(status, send())
