"""History, explanation and dry run of attachments, for clients of ``blockattach 1.4``."""
from blockattach.storage.domain import connection
from blockattach.storage.drivers import faults
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

ASKED = {'OpenStack-API-Version': 'volume 3.71, blockattach 1.4'}
OLDER = {'OpenStack-API-Version': 'volume 3.71, blockattach 1.3'}


class Case(base.ApiTestCase):

    def send(self, method, path, body=None, client=None, headers=ASKED):
        return (client or self.http.as_member).send(method, path, body, None, headers)

    def read(self, path, name):
        reply = self.send('GET', path)
        self.assert_status(200, reply)
        return reply.body[name]


class HistoryTest(Case):

    def history(self, attachment_id, query=''):
        return self.read(f'/attachments/{attachment_id}/history{query}', 'history')

    def test_history_shows_each_transition(self):
        attachment_id = self.attached(self.volume())
        self.assertLess(self.http.as_member.delete(f'/attachments/{attachment_id}').status, 300)
        found = self.history(attachment_id)
        self.assertEqual(
            [('create', None, 'reserved'), ('connect', 'reserved', 'connecting'),
             ('connected', 'connecting', 'connected'), ('complete', 'connected', 'attached'),
             ('disconnect', 'attached', 'disconnecting'),
             ('disconnected', 'disconnecting', 'gone')],
            [(one['event'], one['from'], one['to']) for one in found])

    def test_history_shows_user_and_request_id(self):
        made = self.send('POST', '/attachments', {'attachment': {
            'volume_uuid': self.volume(), 'instance_uuid': base.SERVER}})
        [found] = self.history(made.body['attachment']['id'])
        self.assertEqual(made.headers['x-openstack-request-id'], found['request_id'])
        self.assertIsNotNone(found['user_id'])

    def test_history_shows_reason_of_refusal(self):
        attachment_id = self.reserve(self.volume())
        self.http.manager.backend.fake_target.faults.plan('grant', faults.Fault.REFUSED)
        self.assertEqual(500, self.http.as_member.put(f'/attachments/{attachment_id}', {
            'attachment': {'connector': make.connector()}}).status)
        last = self.history(attachment_id)[-1]
        self.assertEqual(('refused', 'reserved'), (last['event'], last['to']))
        self.assertTrue(last['reason'])

    def test_history_paginated_by_limit_and_after(self):
        attachment_id = self.attached(self.volume())
        self.assertEqual([1, 2], [one['generation'] for one in self.history(
            attachment_id, '?limit=2')])
        self.assertEqual([3, 4], [one['generation'] for one in self.history(
            attachment_id, '?limit=2&after=2')])
        for query in ('?after=x', '?after=-1', '?limit=x', '?limit=-1', f'?after={10 ** 18}'):
            self.assert_status(400, self.send(
                'GET', f'/attachments/{attachment_id}/history{query}'))

    def of_volume(self, volume_id, query='', client=None, status=200):
        headers = {'OpenStack-API-Version': 'volume 3.71, blockattach 1.7'}
        reply = self.send('GET', f'/attachments/history?volume_id={volume_id}{query}',
                          client=client, headers=headers)
        self.assert_status(status, reply)
        return reply.body.get('history')

    def test_history_of_volume_includes_gone_attachments(self):
        volume_id = self.volume(multiattach=True)
        gone = self.attached(volume_id)
        self.http.as_member.delete(f'/attachments/{gone}')
        live = self.reserve(volume_id)
        self.reserve(self.volume())
        found = self.of_volume(volume_id)
        self.assertEqual(
            [(gone, one['event']) for one in self.history(gone)] + [(live, 'create')],
            [(one['attachment_id'], one['event']) for one in found])
        self.assertEqual(sorted(one['id'] for one in found), [one['id'] for one in found])
        self.assertEqual(found[2:4], self.of_volume(
            volume_id, f'&limit=2&after={found[1]["id"]}'))

    def test_history_of_volume_hidden_from_other_projects(self):
        volume_id = self.volume()
        self.reserve(volume_id)
        self.assertEqual([], self.of_volume(volume_id, client=self.http.as_stranger))
        self.assertEqual([], self.of_volume(volume_id, '&all_tenants=1',
                                            client=self.http.as_stranger))
        self.assertEqual(1, len(self.of_volume(volume_id, '&all_tenants=1',
                                               client=self.http.as_admin)))
        self.assertEqual([], self.of_volume(base.new_id()))

    def test_history_of_volume_with_malformed_parameters_rejected(self):
        for query in ('', 'x', "x'&limit=1"):
            self.of_volume(query, status=400)
        for query in ('&after=x', '&limit=-1', '&all_tenants=perhaps'):
            self.of_volume(self.volume(), query, client=self.http.as_admin, status=400)

    def test_history_of_volume_unknown_to_older_clients(self):
        reply = self.send('GET', f'/attachments/history?volume_id={self.volume()}')
        self.assert_status(404, reply)

    def test_history_and_explain_hidden_from_older_clients(self):
        attachment_id = self.reserve(self.volume())
        for noun in ('history', 'explain'):
            self.assert_status(404, self.send('GET', f'/attachments/{attachment_id}/{noun}',
                                              headers=OLDER))
            self.assert_status(404, self.send('GET', f'/attachments/{base.new_id()}/{noun}'))


class ExplainTest(Case):

    def setUp(self):
        super().setUp()
        self.volume_id = self.volume(multiattach=True)
        self.host = make.connector()
        self.attachment_id = self.attached(self.volume_id, connector=self.host)
        self.target = self.http.manager.backend.fake_target

    def explain(self, attachment_id=None):
        return self.read(f'/attachments/{attachment_id or self.attachment_id}/explain',
                         'explanation')

    def test_explain_shows_agreement_of_record_and_target(self):
        info = self.http.as_member.get(
            f'/attachments/{self.attachment_id}').body['attachment']['connection_info']
        self.target.log_in(self.volume_id, self.host['initiator'], connection.Credential(
            info['auth_username'], info['auth_password']))
        found = self.explain()
        self.assertEqual((None, 'Record and target agree.'),
                         (found['difference'], found['found']))
        self.assertEqual({'reason': None, 'exported': True, 'mode': 'rw', 'sessions': 1},
                         found['target'])
        self.assertEqual(('attached', 'complete'),
                         (found['record']['state'], found['record']['last_move']['event']))

    def test_explain_shows_host_without_session(self):
        found = self.explain()
        self.assertEqual(('idle', 0), (found['difference'], found['target']['sessions']))
        self.assertIn('iscsiadm', found['advice'][0])

    def test_explain_shows_grant_missing_at_target(self):
        self.target.lose_everything()
        found = self.explain()
        self.assertEqual(('missing', False, None), (
            found['difference'], found['target']['exported'], found['target']['mode']))

    def test_explain_shows_unknown_if_target_unreachable(self):
        self.target.faults.plan('exports', faults.Fault.REFUSED)
        self.assertEqual('unknown', self.explain()['difference'])
        self.http.managers.remove(http.HOST)
        found = self.explain()
        self.assertEqual('unknown', found['difference'])
        self.assertEqual('The backend of the volume does not respond.', found['target']['reason'])
        shown = self.send('GET', f'/attachments/{self.attachment_id}/explain',
                          client=self.http.as_admin).body['explanation']['target']['reason']
        self.assertNotIn(shown, (None, found['target']['reason']))

    def test_explain_shows_shared_session(self):
        other = self.attached(self.volume_id, base.OTHER_SERVER, self.host)
        self.assertEqual([other], self.explain()['session_shared_with'])

    def test_explain_of_reserved_and_deleted_attachment(self):
        found = self.explain(self.reserve(self.volume()))
        self.assertEqual(('reserved', None, None), (
            found['record']['state'], found['difference'], found['target']['exported']))
        self.assertLess(self.http.as_member.delete(
            f'/attachments/{self.attachment_id}').status, 300)
        found = self.explain()
        self.assertEqual(('gone', None), (found['record']['state'], found['difference']))

    def test_explain_shows_backend_to_admin_only(self):
        self.assertIsNone(self.explain()['backend'])
        reply = self.send('GET', f'/attachments/{self.attachment_id}/explain',
                          client=self.http.as_admin)
        self.assertEqual(http.HOST, reply.body['explanation']['backend'])


class DryRunTest(Case):

    def dry_run(self, volume_id, headers=ASKED, **more):
        return self.send('POST', '/attachments?dry_run=true', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.SERVER, **more}}, headers=headers)

    def rows(self):
        return self.http.as_admin.get('/attachments?all_tenants=1').body['attachments']

    def test_dry_run_shows_attachment_without_creating(self):
        volume_id = self.volume()
        before = self.shown(volume_id)
        reply = self.dry_run(volume_id, mode='ro', connector=make.connector(host='compute-1'))
        self.assert_status(200, reply)
        shown = reply.body['attachment']
        self.assertEqual(
            ('00000000-0000-0000-0000-000000000000', 'attaching', 'ro', 'target', 'compute-1', {}),
            tuple(shown[name] for name in ('id', 'status', 'mode', 'mode_enforced_by', 'host',
                                           'connection_info')))
        self.assertEqual([], self.rows())
        self.assertEqual(before, self.shown(volume_id))
        self.reserve(volume_id)

    def test_dry_run_returns_errors_of_create(self):
        plain = self.volume()
        self.attached(plain)
        self.assert_status(400, self.dry_run(plain, instance_uuid=base.OTHER_SERVER))
        self.assert_status(404, self.dry_run(base.new_id()))
        free = self.volume()
        self.assert_status(400, self.dry_run(free, connector={'host': 'compute-1'}))
        self.http.managers.remove(http.HOST)
        self.assertGreaterEqual(self.dry_run(free, connector=make.connector()).status, 500)
        self.assert_status(200, self.dry_run(free))
        self.assertEqual(1, len(self.rows()))

    def test_dry_run_beyond_quota_rejected(self):
        self.assert_status(200, self.send('PUT', f'/os-quota-sets/{make.PROJECT}', {
            'quota_set': {'attachments': 0}}, client=self.http.as_admin))
        self.assert_status(413, self.dry_run(self.volume()))

    def test_dry_run_shows_shared_connections(self):
        volume_id, host = self.volume(multiattach=True), make.connector()
        there = self.attached(volume_id, connector=host)
        shown = self.dry_run(volume_id, mode='ro', connector=host).body['attachment']
        self.assertEqual(([there], 'consumer'),
                         (shown['shared_connections'], shown['mode_enforced_by']))

    def test_invalid_dry_run_value_rejected(self):
        self.assert_status(400, self.send('POST', '/attachments?dry_run=perhaps', {
            'attachment': {'volume_uuid': self.volume()}}))
        self.assertEqual([], self.rows())

    def test_dry_run_ignored_for_older_clients(self):
        self.assert_status(200, self.dry_run(self.volume(), headers=OLDER))
        self.assertEqual(1, len(self.rows()))
