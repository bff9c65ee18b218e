"""Transfers of volumes between projects."""
import itertools
import threading

from blockattach.storage.db import models
from blockattach.storage.domain import transfers as domain_transfers
from blockattach.storage.domain.invariants import observed
from blockattach.storage.volume import checker
from blockattach.tests.api import base
from blockattach.tests.api import snapshots
from blockattach.tests.api import test_bad_input
from blockattach.tests.api import test_quotas
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

PATHS = ('/os-volume-transfer', '/volume-transfers')
OFFERED = 'awaiting-transfer'
ACTIONS = {
    **test_bad_input.ACTIONS, 'os-extend': {'new_size': 2}, 'os-set_bootable': {'bootable': True},
    'os-unmanage': {}, 'os-force_delete': None, 'os-update_readonly_flag': {'readonly': True},
    'os-volume_upload_image': {'image_name': 'mine'}, 'revert': {'snapshot_id': None},
    'os-reimage': {'image_id': '11111111-1111-4111-8111-111111111111'},
}
CREATE, ACCEPT = 'transfers.create', 'transfers.accept'
"""Verbs of a transfer by the names of their failpoints."""


def offer(test, made):
    """Offer a volume for transfer."""
    return test.http.as_member.post(PATHS[1], {'transfer': {'volume_id': made['volume']}})


def accept(test, offered):
    """Accept an offered volume as another project."""
    made = offered.body['transfer']
    return test.http.as_stranger.post(
        f'{PATHS[1]}/{made["id"]}/accept', {'accept': {'auth_key': made['auth_key']}})


class TransfersTest(base.ApiTestCase):

    def offer(self, volume_id, path=PATHS[1], version=http.LATEST, **fields):
        """Create a transfer and return it with its auth key."""
        reply = self.http.as_member.post(path, {'transfer': {'volume_id': volume_id, **fields}},
                                         version=version)
        self.assert_status(202, reply)
        return reply.body['transfer']

    def accept(self, made, persona=None, path=PATHS[1], **fields):
        return (persona or self.http.as_stranger).post(
            f'{path}/{made["id"]}/accept', {'accept': {'auth_key': made['auth_key'], **fields}})

    def status(self, volume_id):
        return self.shown(volume_id)['status']

    def violations(self):
        return checker.Checker(self.http.database, {
            http.HOST: self.http.manager.backend.fake_target}).violations()

    def test_accept_with_key_changes_project(self):
        for path in PATHS:
            with self.subTest(path=path):
                volume_id = self.volume()
                made = self.offer(volume_id, path, name='mine')
                self.assertEqual(OFFERED, self.status(volume_id))
                reply = self.accept(made, path=path)
                self.assert_status(202, reply)
                self.assertEqual({'id', 'name', 'volume_id', 'links'},
                                 reply.body['transfer'].keys())
                shown = self.http.as_stranger.get(f'/volumes/{volume_id}').body['volume']
                self.assertEqual('available', shown['status'])
                self.assertEqual(
                    http.OTHER_PROJECT,
                    self.shown(volume_id)['os-vol-tenant-attr:tenant_id'])
                self.assert_status(404, self.http.as_member.get(f'/volumes/{volume_id}'))
                self.assert_status(404, self.http.as_admin.get(f'{path}/{made["id"]}'))
                self.assert_status(404, self.accept(made, path=path))

    def test_auth_key_in_create_response_only(self):
        made = self.offer(self.volume())
        key = made.pop('auth_key')
        self.assertEqual(32, len(key))
        shown = self.http.as_member.get(f'/volume-transfers/{made["id"]}')
        self.assertEqual({'transfer': made}, shown.body)
        for reply in (shown, self.http.as_member.get('/volume-transfers/detail')):
            self.assertNotIn(key, reply.text)

    def test_transfer_keys_by_version(self):
        volume_id = self.volume()
        base_keys = {'id', 'name', 'volume_id', 'links', 'created_at'}
        rows = (('3.0', base_keys), ('3.30', base_keys), ('3.54', base_keys),
                ('3.55', base_keys | {'no_snapshots'}),
                ('3.57', base_keys | {
                    'no_snapshots', 'accepted', 'source_project_id', 'destination_project_id'}))
        for path, (version, keys) in itertools.product(PATHS, rows):
            with self.subTest(path=path, version=version):
                made = self.offer(volume_id, path, version)
                self.assertEqual(keys | {'auth_key'}, made.keys())
                for listed in (path, f'{path}/detail'):
                    self.assertEqual([made['id']], [one['id'] for one in self.http.as_member.get(
                        listed, version=version).body['transfers']])
                self.assert_status(202, self.http.as_member.delete(f'{path}/{made["id"]}',
                                                                   version=version))

    def test_transfer_fields_by_version(self):
        made = self.offer(self.volume(), name='to you', no_snapshots=True)
        self.assertEqual(
            ('to you', True, http.PROJECT, None, False),
            tuple(made[key] for key in ('name', 'no_snapshots', 'source_project_id',
                                        'destination_project_id', 'accepted')))
        self.assert_fault(400, 'no_snapshots', self.http.as_member.post(
            PATHS[0], {'transfer': {'volume_id': self.volume(), 'no_snapshots': True}},
            version='3.54'))

    def test_transfer_name_trimmed_and_no_snapshots_parsed(self):
        for word, expected in (('true', True), ('no', False), ('1', True), (False, False)):
            made = self.offer(self.volume(), name=' to you ', no_snapshots=word)
            self.assertEqual(('to you', expected), (made['name'], made['no_snapshots']))
        for fields in ({'name': ''}, {'name': '  '}, {'no_snapshots': 'maybe'},
                       {'no_snapshots': 1}, {'no_snapshots': None}):
            with self.subTest(fields):
                self.assert_status(400, self.http.as_member.post('/volume-transfers', {
                    'transfer': {'volume_id': self.volume(), **fields}}))

    def test_numeric_auth_key_accepted(self):
        made = self.offer(self.volume())
        for key in (5, 10 ** 18, 0, ''):
            self.assert_fault(400, 'Invalid auth key', self.accept(made, auth_key=key))
        with self.http.database.writer() as connection:
            connection.execute(models.transfers.update().values(
                sealed=domain_transfers.seal('12345')))
        self.assert_status(202, self.accept(made, auth_key=12345))

    def test_accept_with_wrong_key_changes_nothing(self):
        volume_id = self.volume()
        made = self.offer(volume_id)
        reply = self.accept(made, auth_key='0' * 32)
        self.assert_fault(400, f'Invalid auth key: Attempt to transfer {made["id"]} with invalid '
                               'auth key.', reply)
        self.assertEqual(OFFERED, self.status(volume_id))
        self.assert_status(202, self.accept(made))

    def test_accept_of_deleted_transfer_not_found(self):
        volume_id = self.volume()
        made = self.offer(volume_id)
        self.assert_status(202, self.http.as_member.delete(f'/volume-transfers/{made["id"]}'))
        self.assertEqual('available', self.status(volume_id))
        self.assert_fault(404, f'Transfer {made["id"]} could not be found.', self.accept(made))

    def test_attach_and_delete_of_offered_volume_rejected(self):
        volume_id = self.volume()
        self.offer(volume_id)
        member = self.http.as_member
        for reply in (
                member.post('/attachments', {'attachment': {
                    'volume_uuid': volume_id, 'instance_uuid': base.SERVER}}),
                member.post(f'/volumes/{volume_id}/action', {'os-reserve': None}),
                member.delete(f'/volumes/{volume_id}')):
            self.assert_status(400, reply)
        self.assert_fault(400, 'Invalid volume: status must be available', member.post(
            '/volume-transfers', {'transfer': {'volume_id': volume_id}}))
        self.assertEqual(OFFERED, self.status(volume_id))

    def test_transfer_of_reserved_volume_rejected(self):
        volume_id = self.volume()
        self.reserve(volume_id)
        self.assert_fault(400, 'status must be available', self.http.as_member.post(
            '/volume-transfers', {'transfer': {'volume_id': volume_id}}))
        self.assertEqual('reserved', self.status(volume_id))

    def test_transfer_of_encrypted_volume_from_3_70(self):
        kind = make.encrypted_type(self.http.database)
        volume_id = self.volume(volume_type=kind.name)
        self.assert_fault(400, 'transferring encrypted volume is not supported',
                          self.http.as_member.post(
                              '/volume-transfers', {'transfer': {'volume_id': volume_id}},
                              version='3.69'))
        self.assert_fault(400, 'an encrypted volume without its snapshots is not supported',
                          self.http.as_member.post('/volume-transfers', {'transfer': {
                              'volume_id': volume_id, 'no_snapshots': True}}))
        self.offer(volume_id, version='3.70')

    def test_unknown_volume_and_malformed_transfer_rejected(self):
        member = self.http.as_member
        self.assert_fault(404, f'Volume {base.ABSENT} could not be found.', member.post(
            PATHS[0], {'transfer': {'volume_id': base.ABSENT}}))
        for body in ({}, {'transfer': {}}, {'transfer': {'volume_id': 'no-uuid'}},
                     {'transfer': {'volume_id': base.ABSENT, 'more': 1}}):
            with self.subTest(body=body):
                self.assert_status(400, member.post(PATHS[0], body))
        made = self.offer(self.volume())
        for body in ({}, {'accept': {}}, {'accept': {'auth_key': None}}):
            with self.subTest(body=body):
                self.assert_status(400, member.post(f'{PATHS[0]}/{made["id"]}/accept', body))

    def test_reset_status_voids_transfer(self):
        volume_id = self.volume()
        made = self.offer(volume_id)
        self.assert_status(202, self.http.as_admin.post(
            f'/volumes/{volume_id}/action', {'os-reset_status': {'status': 'available'}}))
        path = f'/volume-transfers/{made["id"]}'
        for reply in (self.accept(made), self.http.as_member.get(path),
                      self.http.as_member.delete(path)):
            self.assert_status(404, reply)
        self.assertEqual('available', self.status(volume_id))
        self.assert_status(202, self.accept(self.offer(volume_id)))

    def test_force_detach_keeps_transfer(self):
        volume_id = self.volume()
        made = self.offer(volume_id)
        self.assert_status(202, self.http.as_admin.post(
            f'/volumes/{volume_id}/action', {'os-force_detach': {}}))
        self.assertEqual(OFFERED, self.status(volume_id))
        self.assert_status(202, self.accept(made))

    def test_force_delete_voids_transfer(self):
        volume_id = self.volume()
        made = self.offer(volume_id)
        self.assert_status(202, self.http.as_admin.delete(f'/volumes/{volume_id}?force=true'))
        self.assertEqual([], self.http.as_member.get('/volume-transfers').body['transfers'])
        self.assert_status(404, self.accept(made))

    def test_volume_without_its_transfer_reported_and_reset(self):
        volume_id = self.volume()
        self.offer(volume_id)
        self.assertEqual([], self.violations())
        self.sql('DELETE FROM transfers')
        [found] = self.violations()
        self.assertEqual(('offers_are_there', observed.RESET.format(volume_id=volume_id)),
                         (found.invariant, found.repair))
        self.assert_status(202, self.http.as_admin.post(
            f'/volumes/{volume_id}/action', {'os-reset_status': {'status': 'available'}}))
        self.assertEqual([], self.violations())

    def test_concurrent_accepts_succeed_once(self):
        volume_id = self.volume()
        made = self.offer(volume_id)
        replies = []
        threads = [threading.Thread(target=lambda persona=persona: replies.append(
            (persona.project_id, self.accept(made, persona))))
            for persona in (self.http.as_stranger, self.http.as_member)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        [project_id] = [project for project, reply in replies if reply.status == 202]
        self.assertEqual([202, 404], sorted(reply.status for _, reply in replies))
        self.assertEqual(project_id, self.shown(volume_id)['os-vol-tenant-attr:tenant_id'])

    def test_transfers_list_filtered_sorted_paginated(self):
        made = [self.offer(self.volume(), name=f'{number}') for number in range(3)]
        for one in made:
            one.pop('auth_key')
        member = self.http.as_member
        third, second, first = (made[number] for number in (2, 1, 0))
        rows = (
            ('', [third, second, first]), ('?limit=1', [third]), ('?sort=name:asc', made),
            (f'?marker={second["id"]}', [first]), ('?offset=2', [first]), ('?name=1', [second]),
            (f'?volume_id={first["volume_id"]}', [first]),
            ('?all_tenants=1', [third, second, first]),
        )
        for query, expected in rows:
            with self.subTest(query=query):
                self.assertEqual(expected, member.get(
                    f'/volume-transfers/detail{query}').body['transfers'])
                names = member.get(f'/volume-transfers{query}').body['transfers']
                self.assertEqual([one['id'] for one in expected], [one['id'] for one in names])
        self.assertEqual({'id', 'name', 'volume_id', 'links'},
                         member.get('/volume-transfers').body['transfers'][0].keys())
        body = member.get('/volume-transfers?limit=1').body
        self.assertIn(f'marker={third["id"]}', body['transfers_links'][0]['href'])
        self.assert_status(404, member.get(f'/volume-transfers?marker={base.ABSENT}'))
        self.assert_status(400, member.get('/volume-transfers?colour=red'))
        self.assertEqual([], self.http.as_stranger.get('/volume-transfers').body['transfers'])
        others = http.Persona(self.http, 'admin,member,reader', http.OTHER_PROJECT)
        self.assertEqual([], others.get('/volume-transfers').body['transfers'])
        self.assertEqual(3, len(others.get('/volume-transfers?all_tenants=1').body['transfers']))


class SnapshotsTest(test_quotas.Case):

    def test_accepted_transfer_moves_snapshots_within_quota(self):
        volume_id = self.volume(size=2)
        snapshot_id = self.snapshot(volume_id)
        made = self.http.as_member.post('/volume-transfers', {
            'transfer': {'volume_id': volume_id}}).body['transfer']
        self.http.as_admin.put(f'/os-quota-sets/{http.OTHER_PROJECT}', {
            'quota_set': {'snapshots': 0}})

        def accept():
            return self.http.as_stranger.post(f'/volume-transfers/{made["id"]}/accept', {
                'accept': {'auth_key': made['auth_key']}})
        self.assert_exceeded('SnapshotLimitExceeded: Maximum number of snapshots allowed (0) '
                             'exceeded', accept())
        self.assertEqual(['awaiting-transfer'], [
            one['status'] for one in self.http.as_member.get(
                '/volumes/detail').body['volumes']])
        self.http.as_admin.delete(f'/os-quota-sets/{http.OTHER_PROJECT}')
        self.assert_status(202, accept())
        with self.http.database.reader() as connection:
            self.assertEqual([(snapshot_id, http.OTHER_PROJECT)], [
                (row.id, row.project_id) for row in connection.execute(
                    models.snapshots.select())])

    def test_transfer_with_busy_snapshot_rejected(self):
        volume_id = self.volume()
        snapshot_id = self.snapshot(volume_id, 'creating')
        offer = {'volume_id': volume_id}
        self.assert_fault(
            400, f'Invalid snapshot: snapshot: {snapshot_id} status must be available',
            self.http.as_member.post('/volume-transfers', {'transfer': offer}))
        self.assert_status(202, self.http.as_member.post('/volume-transfers', {
            'transfer': {**offer, 'no_snapshots': True}}))


class ForeignSnapshotTest(snapshots.SnapshotsTestCase):
    """Transferred volume whose former project has kept the snapshots."""

    def setUp(self):
        super().setUp()
        self.volume_id = self.volume()
        self.kept_id = self.snapshot(self.volume_id)['id']

    def offer(self, persona, **fields):
        return persona.post('/volume-transfers', {'transfer': {
            'volume_id': self.volume_id, **fields}}, version=http.LATEST)

    def accept(self, persona, made):
        return persona.post(f'/volume-transfers/{made["id"]}/accept',
                            {'accept': {'auth_key': made['auth_key']}}, version=http.LATEST)

    def give_away(self):
        made = self.offer(self.http.as_member, no_snapshots=True).body['transfer']
        self.assert_status(202, self.accept(self.http.as_stranger, made))

    def break_snapshot(self):
        self.sql(f"UPDATE snapshots SET status = 'error' WHERE id = '{self.kept_id}'")

    def assert_unnamed(self, reply):
        self.assertNotIn(self.kept_id, reply.text)
        return reply

    def test_cascade_delete_rejected_hides_foreign_snapshot_ids(self):
        self.give_away()
        for query in ('', '?cascade=true', '?cascade=true&force=true'):
            reply = self.assert_unnamed(self.http.as_stranger.delete(
                f'/volumes/{self.volume_id}{query}', version=http.LATEST))
            self.assertIn(reply.status, (400, 403))
        reply = self.http.as_stranger.delete(f'/volumes/{self.volume_id}?cascade=true',
                                             version=http.LATEST)
        self.assert_fault(400, 'A snapshot belongs to another project', reply)

    def test_volume_actions_hide_foreign_snapshot_ids(self):
        self.give_away()
        for broken in (False, True):
            if broken:
                self.break_snapshot()
            for name, value in ACTIONS.items():
                with self.subTest(name, broken=broken):
                    self.assert_unnamed(self.act(
                        self.volume_id, name, value, self.http.as_stranger, http.LATEST))
        for path in ('', '/metadata', '/encryption'):
            self.assert_unnamed(self.http.as_stranger.get(f'/volumes/{self.volume_id}{path}'))

    def test_foreign_snapshot_keeps_project_over_transfers(self):
        self.give_away()
        self.break_snapshot()
        own_id = self.snapshot(self.volume_id, persona=self.http.as_stranger)['id']
        made = self.assert_unnamed(self.offer(self.http.as_stranger)).body['transfer']
        # A project may also accept its own transfer.
        self.assert_status(202, self.accept(self.http.as_stranger, made))
        for mine, persona in ((own_id, self.http.as_stranger),
                              (self.kept_id, self.http.as_member)):
            self.assertEqual([mine], [one['id'] for one in persona.get(
                '/snapshots').body['snapshots']])

    def test_transfer_rejection_names_own_snapshot(self):
        self.break_snapshot()
        self.assert_fault(400, f'snapshot: {self.kept_id} status must be available',
                          self.offer(self.http.as_member))

    def test_accept_rejection_hides_foreign_snapshot_id(self):
        made = self.offer(self.http.as_member).body['transfer']
        self.break_snapshot()
        reply = self.assert_unnamed(self.accept(self.http.as_stranger, made))
        self.assert_fault(400, 'a snapshot is not in the expected available state', reply)
