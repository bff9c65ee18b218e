"""Snapshots: create, show, update, delete and list."""
from blockattach.storage.drivers import faults
from blockattach.tests.api import base
from blockattach.tests.api import snapshots
from blockattach.tests.fixtures import http

PROGRESS = 'os-extended-snapshot-attributes:progress'
PROJECT = 'os-extended-snapshot-attributes:project_id'
KEYS = {'id', 'name', 'description', 'volume_id', 'status', 'size', 'metadata', 'created_at',
        'updated_at'}


class CreateTest(snapshots.SnapshotsTestCase):

    def test_create_snapshot_is_asynchronous(self):
        volume_id = self.volume(size=2)
        made = self.snapshot(volume_id, name=' one ', description='d', metadata={'k': 'v'})
        self.assertEqual(
            ('one', 'd', volume_id, 'creating', 2, {'k': 'v'}, None),
            tuple(made[key] for key in ('name', 'description', 'volume_id', 'status', 'size',
                                        'metadata', 'updated_at')))
        seen = self.seen(made['id'])
        self.assertEqual(('available', '100%', http.PROJECT),
                         (seen['status'], seen[PROGRESS], seen[PROJECT]))
        self.assertEqual({made['id']}, self.kept())
        self.assert_sound()

    def test_snapshot_keys_by_version(self):
        made = self.snapshot(self.volume())
        for version, more in (('3.0', set()), ('3.13', set()), ('3.14', {'group_snapshot_id'}),
                              ('3.41', {'group_snapshot_id', 'user_id'}),
                              ('3.65', {'group_snapshot_id', 'user_id', 'consumes_quota'})):
            with self.subTest(version=version):
                member = self.http.as_member
                shown = member.get(f'/snapshots/{made["id"]}', version=version).body['snapshot']
                self.assertEqual(KEYS | more | {PROGRESS, PROJECT}, shown.keys())
                [listed] = member.get('/snapshots', version=version).body['snapshots']
                self.assertEqual(KEYS | more, listed.keys())
                [detailed] = member.get('/snapshots/detail', version=version).body['snapshots']
                self.assertEqual(shown, detailed)

    def test_snapshot_of_attached_volume_needs_force(self):
        volume_id = self.volume(multiattach=True)
        self.attached(volume_id)
        self.attached(volume_id, base.OTHER_SERVER)
        member = self.http.as_member
        for force in ({}, {'force': False}, {'force': 'no'}):
            self.assert_fault(400, f'Invalid volume: Volume {volume_id} status must be available, '
                                   'but current status is: in-use.', member.post(
                '/snapshots', {'snapshot': {'volume_id': volume_id, **force}}, version='3.65'))
        self.assert_fault(400, "the 'force' flag is invalid", member.post(
            '/snapshots', {'snapshot': {'volume_id': volume_id, 'force': False}}, version='3.66'))
        made = [self.snapshot(volume_id, '3.65', force=True), self.snapshot(volume_id, '3.66'),
                self.snapshot(volume_id, '3.66', force='true')]
        self.assertEqual({one['id'] for one in made}, self.kept())
        self.assertEqual('in-use', self.status(volume_id))

    def test_snapshot_rejected_by_volume_status(self):
        volume_id = self.volume()
        for status, sentence in (
                ('error', 'Invalid volume: The snapshot cannot be created when the volume is in '
                          'error status.'),
                ('maintenance', 'Invalid volume: The snapshot cannot be created when the volume '
                                'is in maintenance mode.')):
            self.done(volume_id, 'os-reset_status', {'status': status}, self.http.as_admin)
            self.assert_fault(400, sentence, self.http.as_member.post(
                '/snapshots', {'snapshot': {'volume_id': volume_id}}))
        self.done(volume_id, 'os-reset_status', {'status': 'available'}, self.http.as_admin)
        self.reserve(volume_id)
        self.assert_fault(400, 'current status is: reserved', self.http.as_member.post(
            '/snapshots', {'snapshot': {'volume_id': volume_id, 'force': True}}))
        self.assertEqual([], self.http.as_member.get('/snapshots').body['snapshots'])

    def test_snapshot_of_unplaced_volume_rejected(self):
        self.store.total_gb = 0
        volume_id = self.volume()
        self.assert_fault(400, 'volume has not been scheduled to any host', self.http.as_member
                          .post('/snapshots', {'snapshot': {'volume_id': volume_id}}))

    def test_unknown_volume_and_malformed_snapshot_rejected(self):
        member = self.http.as_member
        for volume_id in (base.ABSENT, None):
            self.assert_fault(404, f'Volume {volume_id} could not be found.', member.post(
                '/snapshots', {'snapshot': {'volume_id': volume_id}}))
        volume_id = self.volume()
        self.assert_status(404, self.http.as_stranger.post(
            '/snapshots', {'snapshot': {'volume_id': volume_id}}))
        for fields in ({'force': 'maybe'}, {'name': 'x' * 256}, {'metadata': {'k': 1}},
                       {'metadata': {'': 'v'}}, {'more': 1}):
            with self.subTest(fields=fields):
                self.assert_status(400, member.post(
                    '/snapshots', {'snapshot': {'volume_id': volume_id, **fields}}))
        for body in ({}, {'snapshot': {}}, {'snapshot': {'volume_id': 'x'}}):
            self.assert_status(400, member.post('/snapshots', body))

    def test_failed_snapshot_sets_error(self):
        volume_id = self.volume()
        for fault in faults.Fault:
            with self.subTest(fault=fault):
                self.store.faults.plan('create_snapshot', fault)
                made = self.snapshot(volume_id)
                seen = self.seen(made['id'])
                self.assertEqual(('error', '0%'), (seen['status'], seen[PROGRESS]))
                self.assertEqual(set(), self.kept())
                self.assertIn(('VOLUME_VOLUME_SNAPSHOT_009_013', made['id']), self.messages())
                self.assert_fault(400, 'was never created on a backend', self.act_on(
                    made['id'], 'os-reset_status', {'status': 'available'}))
                self.assert_sound()
                self.assert_status(202, self.http.as_member.delete(f'/snapshots/{made["id"]}'))
                self.assertEqual('gone', self.snapshot_status(made['id']))
        self.assertEqual('available', self.status(volume_id))

    def test_snapshot_on_full_backend_creates_message(self):
        volume_id = self.volume()
        self.store.total_gb = 0
        made = self.snapshot(volume_id)
        self.assertEqual('error', self.snapshot_status(made['id']))
        [message] = self.http.as_member.get('/messages').body['messages']
        self.assertIn('create snapshot:Snapshot failed to create. The backend does not '
                      'have enough free space',
                      message['user_message'])

    def test_repeated_request_returns_same_snapshot(self):
        body = {'snapshot': {'volume_id': self.volume()}}
        first, second = (self.http.as_member.post('/snapshots', body, **{'Idempotency-Key': 'k'})
                         for _ in range(2))
        self.assertEqual(first.body['snapshot']['id'], second.body['snapshot']['id'])
        self.assertEqual(1, len(self.kept()))

    def test_snapshot_on_frozen_backend_rejected(self):
        volume_id = self.volume()
        made = self.snapshot(volume_id)
        self.assert_status(200, self.http.as_admin.put(
            '/os-services/freeze', {'host': http.HOST}))
        self.assert_fault(400, 'is frozen', self.http.as_member.post(
            '/snapshots', {'snapshot': {'volume_id': volume_id}}))
        self.assert_fault(400, 'is frozen', self.http.as_member.delete(
            f'/snapshots/{made["id"]}'))


class ChangeTest(snapshots.SnapshotsTestCase):

    def test_update_snapshot_name_and_description(self):
        made = self.snapshot(self.volume(), name='a', description='b')
        path = f'/snapshots/{made["id"]}'
        for body, expected in (({'name': ' c '}, ('c', 'b')), ({'description': None}, ('c', None)),
                               ({'display_name': 'd'}, ('d', None)),
                               ({'display_description': 'e'}, ('d', 'e')), ({}, ('d', 'e'))):
            reply = self.http.as_member.put(path, {'snapshot': body})
            self.assert_status(200, reply)
            shown = reply.body['snapshot']
            self.assertEqual(expected, (shown['name'], shown['description']))
            self.assertNotIn(PROGRESS, shown)
        for body in ({'size': 1}, {'name': 'x' * 256}):
            self.assert_status(400, self.http.as_member.put(path, {'snapshot': body}))
        self.assertEqual('d', self.seen(made['id'])['name'])

    def test_update_snapshot_metadata(self):
        made = self.snapshot(self.volume(), metadata={'a': '1'})
        path = f'/snapshots/{made["id"]}/metadata'
        member = self.http.as_member
        self.assertEqual({'metadata': {'a': '1'}}, member.get(path).body)
        self.assertEqual({'metadata': {'a': '2', 'b': '3'}}, member.post(
            path, {'metadata': {'a': '2', 'b': '3'}}).body)
        self.assertEqual({'meta': {'b': '3'}}, member.get(f'{path}/b').body)
        self.assertEqual({'meta': {'c': '4'}},
                         member.put(f'{path}/c', {'meta': {'c': '4'}}).body)
        self.assert_fault(400, 'Request body and URI mismatch',
                          member.put(f'{path}/c', {'meta': {'d': '4'}}))
        self.assert_status(200, member.delete(f'{path}/a'))
        self.assertEqual({'b': '3', 'c': '4'}, self.seen(made['id'])['metadata'])
        for reply in (member.get(f'{path}/a'), member.delete(f'{path}/a')):
            self.assert_fault(
                404, f'Snapshot {made["id"]} has no metadata with key a.', reply)
        self.assertEqual({'metadata': {'x': 'y'}},
                         member.put(path, {'metadata': {'x': 'y'}}).body)
        self.assertEqual({'x': 'y'}, self.seen(made['id'])['metadata'])

    def test_snapshot_metadata_obeys_if_match(self):
        made = self.snapshot(self.volume(), metadata={'a': '1'})
        path = f'/snapshots/{made["id"]}/metadata'
        member = self.http.as_member
        self.assertNotIn('ETag', member.get(path, version='3.14').headers)
        tag = member.get(path, version='3.15').headers['ETag']
        self.assert_status(200, member.post(path, {'metadata': {'b': '2'}}, **{'If-Match': tag}))
        for reply in (member.post(path, {'metadata': {'c': '3'}}, **{'If-Match': tag}),
                      member.put(path, {'metadata': {}}, **{'If-Match': tag})):
            self.assert_status(412, reply)
        self.assertEqual({'a': '1', 'b': '2'}, self.seen(made['id'])['metadata'])


class DeleteTest(snapshots.SnapshotsTestCase):

    def test_delete_snapshot_keeps_volume(self):
        volume_id = self.volume()
        made = self.snapshot(volume_id)
        reply = self.http.as_member.delete(f'/snapshots/{made["id"]}')
        self.assert_status(202, reply)
        self.assertEqual('', reply.text)
        self.assertEqual(('gone', set()), (self.snapshot_status(made['id']), self.kept()))
        self.assert_fault(404, f'Snapshot {made["id"]} could not be found.',
                          self.http.as_member.delete(f'/snapshots/{made["id"]}'))
        self.assertEqual('available', self.status(volume_id))
        self.assert_sound()

    def test_refused_snapshot_delete_sets_error_deleting(self):
        made = self.snapshot(self.volume())
        self.store.faults.plan('delete_snapshot', faults.Fault.REFUSED)
        self.assert_status(202, self.http.as_member.delete(f'/snapshots/{made["id"]}'))
        self.assertEqual('error_deleting', self.snapshot_status(made['id']))
        self.assertIn(('VOLUME_VOLUME_SNAPSHOT_010_016', made['id']), self.messages())
        self.assert_status(202, self.http.as_member.delete(f'/snapshots/{made["id"]}'))
        self.assertEqual('gone', self.snapshot_status(made['id']))

    def test_delete_of_creating_snapshot_rejected(self):
        self.http.hold = True
        volume_id = self.volume()
        self.http.work.settle()
        made = self.snapshot(volume_id)
        for _ in range(2):
            self.assert_fault(400, 'Invalid snapshot: Snapshot status must be available or error',
                              self.http.as_member.delete(f'/snapshots/{made["id"]}'))
            self.http.work.settle()
            if self.snapshot_status(made['id']) == 'available':
                self.assert_status(202, self.http.as_member.delete(f'/snapshots/{made["id"]}'))

    def test_delete_of_snapshot_being_cloned_rejected(self):
        made = self.snapshot(self.volume())
        self.http.hold = True
        clone = self.volume()
        self.sql(f"UPDATE volumes SET snapshot_id = '{made['id']}' WHERE id = '{clone}'")
        for reply in (self.http.as_member.delete(f'/snapshots/{made["id"]}'),
                      self.act_on(made['id'], 'os-force_delete')):
            self.assert_fault(400, 'A volume is being created from snapshot', reply)
        self.http.work.settle()
        self.assert_status(202, self.http.as_member.delete(f'/snapshots/{made["id"]}'))

    def test_force_delete_snapshot_in_any_status(self):
        volume_id = self.volume()
        for status in ('creating', 'deleting', 'error', 'error_deleting', 'available'):
            with self.subTest(status=status):
                made = self.snapshot(volume_id)
                self.assert_status(202, self.act_on(
                    made['id'], 'os-reset_status', {'status': status}))
                self.assertEqual(status, self.snapshot_status(made['id']))
                self.assert_sound()
                self.assert_status(202, self.act_on(made['id'], 'os-force_delete'))
                self.assertEqual(('gone', set()),
                                 (self.snapshot_status(made['id']), self.kept()))

    def test_force_delete_creating_snapshot(self):
        volume_id = self.volume()
        self.http.hold = True
        made = self.snapshot(volume_id)
        self.assert_status(202, self.act_on(made['id'], 'os-force_delete'))
        self.assertEqual('deleting', self.snapshot_status(made['id']))
        self.http.work.settle()
        self.assertEqual(('gone', set()), (self.snapshot_status(made['id']), self.kept()))
        self.assert_sound()


class StatusTest(snapshots.SnapshotsTestCase):

    def test_reset_snapshot_status(self):
        made = self.snapshot(self.volume())
        for status in ('ERROR', 'creating', 'Available'):
            self.assert_status(202, self.act_on(
                made['id'], 'os-reset_status', {'status': status}))
            self.assertEqual(status.lower(), self.snapshot_status(made['id']))
        for status in ('deleted', 'in-use', ''):
            self.assert_fault(400, f'Snapshot status: {status} is invalid', self.act_on(
                made['id'], 'os-reset_status', {'status': status}))
        self.assert_status(400, self.act_on(made['id'], 'os-reset_status', {}))
        self.assert_status(403, self.act_on(made['id'], 'os-reset_status', {'status': 'error'},
                                            self.http.as_member))

    def test_reset_of_busy_snapshot_rejected(self):
        volume_id = self.volume()
        self.http.hold = True
        made = self.snapshot(volume_id)
        for status in ('creating', 'deleting'):
            self.assertEqual(status, self.snapshot_status(made['id']))
            self.assert_fault(409, 'Retry when the operation has finished', self.act_on(
                made['id'], 'os-reset_status', {'status': 'error'}))
            self.assert_fault(409, 'Retry when the operation has finished', self.act_on(
                made['id'], 'os-update_snapshot_status', {
                    'status': {'creating': 'available', 'deleting': 'error_deleting'}[status]}))
            self.assert_status(202, self.act_on(
                made['id'], 'os-update_snapshot_status', {'status': status, 'progress': '7%'}))
            self.assertEqual((status, '7%'), (self.snapshot_status(made['id']),
                                              self.seen(made['id'])[PROGRESS]))
            self.http.work.settle()
            if status == 'creating':
                self.assertEqual('100%', self.seen(made['id'])[PROGRESS])
                self.assert_status(202, self.http.as_member.delete(f'/snapshots/{made["id"]}'))
        self.assertEqual('gone', self.snapshot_status(made['id']))

    def test_update_snapshot_status_by_consumer(self):
        made = self.snapshot(self.volume())
        member = self.http.as_member

        def say(**body):
            return self.act_on(made['id'], 'os-update_snapshot_status', body, member)

        self.assert_fault(400, 'Snapshot status available not allowed for update_snapshot_status',
                          say(status='error'))
        self.act_on(made['id'], 'os-reset_status', {'status': 'creating'})
        self.assert_fault(400, 'Provided snapshot status deleting not allowed for snapshot with '
                               'status creating.', say(status='deleting'))
        for progress in ('101%', '-1%', '5', 'x%', 5):
            self.assert_status(400, say(status='creating', progress=progress))
        self.assert_status(202, say(status='creating', progress='50%'))
        self.assert_status(202, say(status='error', progress='80%'))
        seen = self.seen(made['id'])
        self.assertEqual(('error', '80%'), (seen['status'], seen[PROGRESS]))
        self.act_on(made['id'], 'os-reset_status', {'status': 'deleting'})
        self.assert_status(202, say(status='error_deleting'))
        self.assertEqual('error_deleting', self.snapshot_status(made['id']))
        self.assert_sound()


class ListTest(snapshots.SnapshotsTestCase):

    def setUp(self):
        super().setUp()
        self.volumes = [self.volume(), self.volume()]
        self.made = [self.snapshot(self.volumes[number % 2], name=f'n{number}',
                                   metadata={'k': str(number)}) for number in range(3)]

    def names(self, query='', version=http.LATEST, persona=None):
        reply = (persona or self.http.as_member).get(f'/snapshots{query}', version=version)
        self.assert_status(200, reply)
        return [one['name'] for one in reply.body['snapshots']]

    def test_snapshots_list_filtered_sorted_paginated(self):
        first = self.volumes[0]
        rows = (
            ('', ['n2', 'n1', 'n0']), ('?sort=name:asc', ['n0', 'n1', 'n2']),
            ('?limit=1', ['n2']), (f'?marker={self.made[1]["id"]}', ['n0']),
            ('?offset=1', ['n1', 'n0']), ('?name=n1', ['n1']), ('?status=error', []),
            (f'?volume_id={first}', ['n2', 'n0']), ('?metadata={"k":"1"}', ['n1']),
            ('?availability_zone=nova', ['n2', 'n1', 'n0']), ('?availability_zone=x', []),
            ('?consumes_quota=true', ['n2', 'n1', 'n0']), ('?consumes_quota=false', []),
        )
        for query, expected in rows:
            with self.subTest(query=query):
                self.assertEqual(expected, self.names(query))
        body = self.http.as_member.get('/snapshots/detail?limit=2&with_count=true').body
        self.assertEqual(3, body['count'])
        self.assertIn(f'/snapshots/detail?limit=2&with_count=true&marker={self.made[1]["id"]}',
                      body['snapshots_links'][0]['href'])

    def test_invalid_snapshots_query_rejected(self):
        member = self.http.as_member
        for query in ('?limit=x', '?sort=size', '?colour=red', '?name~=n', '?consumes_quota=x',
                      '?metadata=x'):
            with self.subTest(query=query):
                self.assert_status(400, member.get(f'/snapshots{query}'))
        self.assert_fault(404, f'Snapshot {base.ABSENT} could not be found.',
                          member.get(f'/snapshots?marker={base.ABSENT}'))

    def test_snapshots_filters_by_version(self):
        self.assertEqual(3, len(self.names('?metadata={"k":"1"}', '3.21')))
        self.assertEqual(['n1'], self.names('?metadata={"k":"1"}', '3.22'))
        self.assertEqual(3, len(self.names('?colour=red', '3.30')))
        self.assert_status(400, self.http.as_member.get('/snapshots?sort=name', version='3.29'))
        admin = self.http.as_admin
        self.assertEqual(['n1'], self.names('?name~=1', '3.34', admin))
        self.assertEqual([], self.names('?name~=1', '3.33', admin))
        self.assertEqual([], self.names('?with_count=true', '3.44', admin))

    def test_snapshots_scope_by_project(self):
        self.assertEqual([], self.names(persona=self.http.as_stranger))
        self.assertEqual([], self.names('?all_tenants=1', persona=self.http.as_stranger))
        others = http.Persona(self.http, 'admin,member,reader', http.OTHER_PROJECT)
        self.assertEqual([], self.names(persona=others))
        self.assertEqual(3, len(self.names('?all_tenants=1', persona=others)))
        for persona, status in ((self.http.as_stranger, 404), (others, 200)):
            self.assert_status(status, persona.get(f'/snapshots/{self.made[0]["id"]}'))
