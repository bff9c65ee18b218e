"""Frozen backends, which neither create nor delete volumes but keep attaching them."""
from blockattach.tests.api import base
from blockattach.tests.fixtures import http


class FreezingTest(base.ApiTestCase):

    def put(self, action, version='3.71', **body):
        return self.http.as_admin.put(f'/os-services/{action}', body, version=version)

    def freeze(self):
        reply = self.put('freeze', host=http.HOST)
        self.assert_status(200, reply)
        self.assertEqual('', reply.text)

    def shown(self):
        service = self.http.as_admin.get('/os-services').body['services'][0]
        return service['status'], service['disabled_reason'], service['frozen']

    def test_frozen_backend_gets_no_new_volume(self):
        self.freeze()
        self.http.manager.report()
        made = self.http.as_member.post('/volumes', {'volume': {'size': 1}}).body['volume']
        self.assertEqual('error', self.http.as_member.get(
            f'/volumes/{made["id"]}').body['volume']['status'])
        for persona, words in ((self.http.as_admin, 'frozen'),
                               (self.http.as_member, 'out of service')):
            reply = persona.get(f'/messages?resource_uuid={made["id"]}')
            self.assertIn(words, reply.body['messages'][0]['user_message'])

    def test_delete_of_volume_on_frozen_backend_rejected(self):
        volume = self.volume()
        self.freeze()
        reply = self.http.as_member.delete(f'/volumes/{volume}')
        self.assert_status(400, reply)
        self.assertIn('frozen', reply.fault[1])
        self.assert_status(400, self.http.as_admin.delete(f'/volumes/{volume}?force=true'))
        self.assert_status(200, self.put('thaw', host=http.HOST))
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume}'))

    def test_delete_of_unplaced_volume_accepted_while_frozen(self):
        self.freeze()
        made = self.http.as_member.post('/volumes', {'volume': {'size': 1}}).body['volume']
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{made["id"]}'))

    def test_volume_on_frozen_backend_attached_and_detached(self):
        volume = self.volume()
        self.freeze()
        attached = self.attached(volume)
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{attached}'))

    def test_frozen_service_shown_and_thaw_restores_status(self):
        self.freeze()
        self.assertEqual(('disabled', 'frozen', True), self.shown())
        self.put('thaw', host=http.HOST)
        self.assertEqual(('enabled', None, False), self.shown())
        self.put('disable-log-reason', host=http.HOST, binary='cinder-volume',
                 disabled_reason='new disks')
        self.freeze()
        self.assertEqual(('disabled', 'new disks', True), self.shown())
        self.put('thaw', host=http.HOST)
        self.assertEqual(('disabled', 'new disks', False), self.shown())

    def test_freeze_and_thaw_are_idempotent(self):
        self.assert_status(200, self.put('thaw', host=http.HOST))
        self.assertEqual(('enabled', None, False), self.shown())
        for _ in range(2):
            self.freeze()
            self.assertEqual(('disabled', 'frozen', True), self.shown())

    def test_freeze_of_unknown_host_rejected(self):
        for action in ('freeze', 'thaw', 'failover_host', 'failover'):
            for body in ({'host': 'storage-9@fake'}, {'host': 'control-1'}):
                with self.subTest(action, body=body):
                    status = 400 if action in ('freeze', 'thaw') else 404
                    self.assert_fault(status, 'could not be found', self.put(action, **body))
        self.assert_status(400, self.put('freeze', cluster='alpha@fake'))

    def test_malformed_freeze_requests_rejected(self):
        for action, version, body in (
                ('freeze', '3.71', {}), ('freeze', '3.71', {'host': ''}),
                ('freeze', '3.71', {'host': http.HOST, 'cluster': 'alpha@fake'}),
                ('freeze', '3.25', {'cluster': 'alpha@fake'}),
                ('thaw', '3.71', {'host': http.HOST, 'colour': 'red'}),
                ('failover_host', '3.71', {'backend_id': 'other'}),
                ('failover', '3.71', {'backend_id': 'other'})):
            with self.subTest(action, version=version, body=body):
                self.assert_status(400, self.put(action, version, **body))
        self.assertEqual(('enabled', None, False), self.shown())

    def test_failover_rejected_without_replication(self):
        for action in ('failover_host', 'failover'):
            for more in ({}, {'backend_id': 'other'}):
                with self.subTest(action, more=more):
                    reply = self.put(action, host=http.HOST, **more)
                    self.assert_status(400, reply)
                    self.assertIn('not replicated', reply.fault[1])
        self.assert_status(404, self.put('failover', '3.25', host=http.HOST))

    def test_freeze_and_failover_forbidden_for_members(self):
        for action in ('freeze', 'thaw', 'failover_host', 'failover'):
            with self.subTest(action):
                self.assert_status(403, self.http.as_member.put(
                    f'/os-services/{action}', {'host': http.HOST}))
