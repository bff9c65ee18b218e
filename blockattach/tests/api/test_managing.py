"""Manage, unmanage and list of storage that exists on a backend."""
from blockattach.storage.db.services import pools
from blockattach.storage.drivers import base as drivers
from blockattach.storage.drivers import faults
from blockattach.tests.api import actions
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import in_process


class ManagingTestCase(actions.ActionsTestCase):

    @property
    def store(self):
        return self.http.manager.backend.fake_store

    def lies_there(self, name, size_gb=2):
        """Create a volume on the backend that the service did not create, and return its name."""
        self.store.create(drivers.StoredVolume(name, name, size_gb, 'pool'))
        return name

    def manage(self, reference, path='/manageable_volumes', persona=None, version=http.LATEST,
               **more):
        return (persona or self.http.as_admin).post(path, {'volume': {
            'host': http.POOL, 'ref': {'source-name': reference}, **more}}, version=version)

    def managed(self, reference, **more):
        reply = self.manage(reference, **more)
        self.assert_status(202, reply)
        return reply.body['volume']['id']

    def unmanage(self, volume_id, persona=None):
        return self.act(volume_id, 'os-unmanage', {}, persona or self.http.as_admin)

    def allocated(self):
        return pools.get(self.http.database, http.POOL, in_process.DOWN_AFTER).allocated_gb

    def events(self, volume_id):
        return [one['event_id'] for one in self.http.as_admin.get('/messages').body['messages']
                if one['resource_uuid'] == volume_id]

    def listed(self, path='/manageable_volumes', **more):
        query = '&'.join(f'{key}={value}' for key, value in {'host': http.HOST, **more}.items())
        reply = self.http.as_admin.get(f'{path}?{query}')
        self.assert_status(200, reply)
        return reply.body['manageable-volumes']


class ManageTest(ManagingTestCase):

    def test_managed_volume_keeps_size_and_data(self):
        for path, version in (('/manageable_volumes', '3.8'), ('/os-volume-manage', '3.0')):
            with self.subTest(path):
                before = self.allocated()
                self.lies_there('disk')
                reply = self.manage('disk', path, version=version, name=' mine ',
                                    description='found', metadata={'k': 'v'}, bootable=True)
                self.assert_status(202, reply)
                answered = reply.body['volume']
                self.assertEqual(('creating', 0), (answered['status'], answered['size']))
                shown = self.shown(answered['id'])
                self.assertEqual(
                    ('available', 2, 'mine', 'found', {'k': 'v'}, 'true', http.POOL),
                    (*(shown[key] for key in ('status', 'size', 'name', 'description', 'metadata',
                                              'bootable')), shown['os-vol-host-attr:host']))
                self.assertNotIn('disk', self.store.sizes())
                self.assertEqual(2, self.store.sizes()[f'volume-{answered["id"]}'])
                self.assertEqual(2, self.allocated() - before)

    def test_managed_volume_attached_and_deleted(self):
        volume_id = self.managed(self.lies_there('disk'))
        attachment_id = self.reserve(volume_id)
        self.connect(attachment_id)
        self.http.as_member.delete(f'/attachments/{attachment_id}')
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))
        self.assertEqual({}, self.store.sizes())
        self.assertEqual(0, self.allocated())

    def test_manage_in_full_pool_accepted(self):
        self.lies_there('disk', self.store.total_gb)
        self.http.manager.report()
        self.assertEqual('available', self.shown(self.managed('disk'))['status'])

    def test_manage_with_host_without_pool_accepted(self):
        self.lies_there('disk')
        self.assertEqual(http.POOL, self.shown(self.managed('disk', host=http.HOST))[
            'os-vol-host-attr:host'])

    def test_unmanageable_storage_sets_error_and_stays(self):
        existing = self.volume()
        self.lies_there('snapshot-of-others')
        self.lies_there('refused')
        self.store.faults.plan('manage', faults.Fault.REFUSED)
        for name in ('absent', f'volume-{existing}', 'snapshot-of-others', 'refused'):
            with self.subTest(name):
                before, given = self.store.sizes(), self.allocated()
                volume_id = self.managed(name)
                shown = self.shown(volume_id)
                self.assertEqual(('error', 0, None), (
                    shown['status'], shown['size'], shown['os-vol-host-attr:host']))
                self.assertEqual(['VOLUME_VOLUME_008_058'], self.events(volume_id))
                self.assert_status(202, self.http.as_admin.delete(f'/volumes/{volume_id}'))
                self.assert_status(404, self.http.as_admin.get(f'/volumes/{volume_id}'))
                self.assertEqual((before, given), (self.store.sizes(), self.allocated()))

    def test_manage_rejected_by_scheduler_filter(self):
        self.lies_there('disk')
        volume_id = self.managed('disk', availability_zone='mars')
        self.assertEqual('error', self.shown(volume_id)['status'])
        self.assertEqual(['VOLUME_VOLUME_008_003'], self.events(volume_id))
        self.assertEqual({'disk': 2}, self.store.sizes())

    def test_manage_beyond_quota_sets_error(self):
        self.lies_there('disk', 5)
        self.assert_status(200, self.http.as_admin.put(
            f'/os-quota-sets/{self.http.as_admin.project_id}', {'quota_set': {'gigabytes': 4}}))
        volume_id = self.managed('disk')
        self.assertEqual('error', self.shown(volume_id)['status'])
        self.assertEqual(({'disk': 5}, 0), (self.store.sizes(), self.allocated()))
        self.assert_status(200, self.http.as_admin.put(
            f'/os-quota-sets/{self.http.as_admin.project_id}', {'quota_set': {'volumes': 1}}))
        self.assert_status(413, self.manage('disk'))

    def test_manage_with_null_host_rejected_as_missing(self):
        for version, sentence in (('3.15', 'Host field is missing.'),
                                  ('3.16', "Cluster 'nowhere' not found")):
            fields = {'cluster': 'nowhere'} if version == '3.16' else {}
            self.assert_fault(400, sentence, self.http.as_admin.post('/manageable_volumes', {
                'volume': {'host': None, 'ref': {'source-name': 'disk'}, **fields}},
                version=version))

    def test_malformed_manage_rejected(self):
        self.lies_there('disk')
        both = 'One and only one of cluster and host must be set.'
        for sentence, version, more in (
                ('Host field is missing.', '3.15', {'host': None}),
                (both, '3.16', {'host': None}),
                (both, '3.16', {'cluster': 'c@fake'}),
                ('source-name', '3.71', {'ref': {'source-id': 'x'}}),
                ('source-name', '3.71', {'ref': 'disk'}),
                ("Host 'nowhere' not found", '3.71', {'host': 'nowhere'}),
                (f"Host '{http.HOST}#other' not found", '3.71', {'host': f'{http.HOST}#other'}),
                ("Cluster 'nowhere' not found", '3.71', {'host': None, 'cluster': 'nowhere'}),
                ("Cannot find requested 'none' volume type", '3.71', {'volume_type': 'none'}),
                ('cluster', '3.15', {'cluster': 'x'}),
                ('other', '3.71', {'other': 'x'})):
            with self.subTest(sentence):
                body = {'host': http.POOL, 'ref': {'source-name': 'disk'}, **more}
                body = {key: value for key, value in body.items() if value is not None}
                self.assert_fault(400, sentence, self.http.as_admin.post(
                    '/manageable_volumes', {'volume': body}, version=version))
        self.assert_status(404, self.manage('disk', version='3.7'))
        self.assertEqual([], self.http.as_admin.get('/volumes').body['volumes'])

    def test_manage_on_disabled_backend_rejected(self):
        self.sql('UPDATE services SET disabled = 1')
        self.assert_fault(400, 'Service is unavailable at this time.',
                          self.manage(self.lies_there('disk')))
        reply = self.http.as_admin.get(f'/manageable_volumes?host={http.HOST}')
        self.assert_fault(400, 'Service is unavailable at this time.', reply)


class UnmanageTest(ManagingTestCase):

    def test_unmanaged_data_stays_and_managed_again(self):
        volume_id = self.volume()
        self.assert_status(202, self.unmanage(volume_id))
        self.assert_status(404, self.http.as_admin.get(f'/volumes/{volume_id}'))
        self.assertEqual({f'volume-{volume_id}': 1}, self.store.sizes())
        self.assertEqual(0, self.allocated())
        again = self.managed(f'volume-{volume_id}')
        self.assertEqual(('available', 1), tuple(
            self.shown(again)[key] for key in ('status', 'size')))
        self.assertEqual({f'volume-{again}': 1}, self.store.sizes())

    def test_unmanage_of_used_volume_rejected(self):
        reserved, with_snapshot = self.volume(), self.volume()
        self.reserve(reserved)
        self.assert_status(202, self.http.as_member.post(
            '/snapshots', {'snapshot': {'volume_id': with_snapshot}}))
        for volume_id in (reserved, with_snapshot):
            with self.subTest(volume_id):
                self.assert_fault(400, 'Volume status must be available', self.unmanage(volume_id))
                self.assertIn(f'volume-{volume_id}', self.store.sizes())

    def test_unmanage_of_encrypted_volume_rejected(self):
        volume_id = self.volume()
        self.sql(f"UPDATE volumes SET encrypted = 1 WHERE id = '{volume_id}'")
        self.assert_fault(400, 'Unmanaging encrypted volumes is not supported.',
                          self.unmanage(volume_id))

    def test_unmanage_of_failed_manage_deletes_volume(self):
        volume_id = self.managed('absent')
        self.assert_status(202, self.unmanage(volume_id))
        self.assert_status(404, self.http.as_admin.get(f'/volumes/{volume_id}'))

    def test_unmanage_with_refused_unexport_keeps_volume(self):
        volume_id = self.volume()
        self.http.manager.backend.fake_target.faults.plan('unexport', faults.Fault.REFUSED)
        self.assert_status(202, self.unmanage(volume_id))
        self.assertEqual('available', self.shown(volume_id)['status'])
        self.assertEqual(['VOLUME_VOLUME_006_001'], self.events(volume_id))

    def test_manage_and_unmanage_forbidden_for_members(self):
        volume_id = self.volume()
        self.assert_status(403, self.unmanage(volume_id, self.http.as_member))
        self.assert_status(403, self.manage('disk', persona=self.http.as_member))
        self.assert_status(403, self.http.as_member.get(f'/manageable_volumes?host={http.HOST}'))


class ListTest(ManagingTestCase):

    def test_list_manageable_volumes(self):
        volume_id = self.volume()
        self.lies_there('disk', 3)
        self.assertEqual([
            {'reference': {'source-name': f'volume-{volume_id}'}, 'size': 1,
             'safe_to_manage': False},
            {'reference': {'source-name': 'disk'}, 'size': 3, 'safe_to_manage': True}],
            self.listed())
        detail = {one['reference']['source-name']: one
                  for one in self.listed('/os-volume-manage/detail')}
        self.assertEqual(
            {'reason_not_safe': 'already managed', 'cinder_id': volume_id, 'extra_info': None},
            {key: detail[f'volume-{volume_id}'][key]
             for key in ('reason_not_safe', 'cinder_id', 'extra_info')})
        self.assertEqual((None, None), (detail['disk']['reason_not_safe'],
                                        detail['disk']['cinder_id']))

    def test_unmanaged_volume_listed_as_safe_to_manage(self):
        volume_id = self.volume()
        self.unmanage(volume_id)
        self.assertEqual([True], [one['safe_to_manage'] for one in self.listed()])

    def test_manageable_list_sorted_and_paginated(self):
        for name, size in (('a', 2), ('b', 1), ('c', 3)):
            self.lies_there(name, size)

        def names(**more):
            return ''.join(one['reference']['source-name'] for one in self.listed(**more))
        for expected, more in (
                ('cba', {}), ('abc', {'sort': 'reference:asc'}), ('cab', {'sort': 'size'}),
                ('bac', {'sort_key': 'size', 'sort_dir': 'asc'}), ('cb', {'limit': 2}),
                ('a', {'marker': 'b'}), ('b', {'limit': 1, 'offset': 1}), ('', {'limit': 0})):
            with self.subTest(more):
                self.assertEqual(expected, names(**more))

    def test_malformed_manageable_list_rejected(self):
        for sentence, query in (
                ('One and only one of cluster and host must be set.', ''),
                ('One and only one of cluster and host must be set.',
                 f'host={http.HOST}&cluster=x'),
                ("Host 'nowhere' not found", 'host=nowhere'),
                ('Invalid sort keys passed: name', f'host={http.HOST}&sort=name'),
                ('Invalid sort dirs passed: up', f'host={http.HOST}&sort=size:up'),
                ('marker not found', f'host={http.HOST}&marker=none'),
                ('limit', f'host={http.HOST}&limit=-1')):
            with self.subTest(query):
                self.assert_fault(400, sentence,
                                  self.http.as_admin.get(f'/manageable_volumes?{query}'))
        self.assert_fault(400, 'Host field is missing.', self.http.as_admin.get(
            '/manageable_volumes?cluster=x', version='3.16'))
        self.assert_status(404, self.http.as_admin.get(
            f'/manageable_volumes?host={http.HOST}', version='3.7'))


class SnapshotTest(ManagingTestCase):
    """Manage, unmanage and list of snapshots."""

    def lies_there_too(self, name, volume_id):
        """Create a snapshot on the backend that the service did not create."""
        volume = drivers.StoredVolume(volume_id, f'volume-{volume_id}', 1, 'pool')
        self.store.create_snapshot(drivers.StoredSnapshot(name, name, volume))

    def manage_snapshot(self, volume_id, reference, path='/manageable_snapshots', persona=None,
                        version=http.LATEST, **more):
        return (persona or self.http.as_admin).post(path, {'snapshot': {
            'volume_id': volume_id, 'ref': {'source-name': reference}, **more}}, version=version)

    def managed_snapshot(self, volume_id, reference, **more):
        reply = self.manage_snapshot(volume_id, reference, **more)
        self.assert_status(202, reply)
        self.assertEqual('creating', reply.body['snapshot']['status'])
        return reply.body['snapshot']['id']

    def status_of(self, snapshot_id):
        return self.http.as_admin.get(f'/snapshots/{snapshot_id}').body['snapshot']['status']

    def test_managed_snapshot_belongs_to_volume(self):
        volume_id = self.volume()
        for path, version in (('/manageable_snapshots', '3.8'), ('/os-snapshot-manage', '3.0')):
            with self.subTest(path):
                self.lies_there_too('snapshot-old', volume_id)
                snapshot_id = self.managed_snapshot(volume_id, 'snapshot-old', path=path,
                                                    version=version, name='mine')
                self.assertEqual('available', self.status_of(snapshot_id))
                self.assertIn(f'snapshot-{snapshot_id}', self.store.sizes())
                self.assertNotIn('snapshot-old', self.store.sizes())

    def test_unmanageable_snapshot_sets_error_and_stays(self):
        volume_id = self.volume()
        existing = self.http.as_admin.post('/snapshots', {'snapshot': {'volume_id': volume_id}})
        existing = existing.body['snapshot']['id']
        for name in ('absent', f'volume-{volume_id}', f'snapshot-{existing}'):
            with self.subTest(name):
                before = self.store.sizes()
                snapshot_id = self.managed_snapshot(volume_id, name)
                self.assertEqual('error', self.status_of(snapshot_id))
                self.assertEqual(['VOLUME_VOLUME_SNAPSHOT_009_058'], self.events(snapshot_id))
                self.assert_status(202, self.http.as_admin.delete(f'/snapshots/{snapshot_id}'))
                self.assertEqual(before, self.store.sizes())

    def test_delete_while_snapshot_managing_rejected(self):
        volume_id = self.volume()
        self.lies_there_too('snapshot-old', volume_id)
        self.http.hold = True
        snapshot_id = self.managed_snapshot(volume_id, 'snapshot-old')
        self.assert_fault(400, 'is being managed', self.http.as_admin.post(
            f'/snapshots/{snapshot_id}/action', {'os-force_delete': {}}))
        self.assert_status(400, self.http.as_admin.delete(
            f'/volumes/{volume_id}?cascade=true&force=true'))
        self.http.hold = False
        self.http.work.settle()
        self.assertEqual('available', self.status_of(snapshot_id))

    def test_unmanaged_snapshot_managed_again(self):
        volume_id = self.volume()
        self.lies_there_too('snapshot-old', volume_id)
        snapshot_id = self.managed_snapshot(volume_id, 'snapshot-old')
        self.assert_status(202, self.http.as_admin.post(
            f'/snapshots/{snapshot_id}/action', {'os-unmanage': {}}))
        self.assert_status(404, self.http.as_admin.get(f'/snapshots/{snapshot_id}'))
        self.assertIn(f'snapshot-{snapshot_id}', self.store.sizes())
        again = self.managed_snapshot(volume_id, f'snapshot-{snapshot_id}')
        self.assertEqual('available', self.status_of(again))

    def test_list_manageable_snapshots(self):
        volume_id = self.volume()
        self.lies_there_too('snapshot-old', volume_id)
        existing = self.http.as_admin.post('/snapshots', {'snapshot': {'volume_id': volume_id}})
        existing = existing.body['snapshot']['id']
        for path in ('/manageable_snapshots', '/os-snapshot-manage'):
            reply = self.http.as_admin.get(f'{path}/detail?host={http.HOST}')
            self.assert_status(200, reply)
            self.assertEqual(
                {('snapshot-old', True, None, None),
                 (f'snapshot-{existing}', False, 'already managed', existing)},
                {(one['reference']['source-name'], one['safe_to_manage'],
                  one['reason_not_safe'], one['cinder_id'])
                 for one in reply.body['manageable-snapshots']})

    def test_malformed_snapshot_manage_rejected(self):
        volume_id = self.volume()
        self.assert_fault(400, 'source-name', self.http.as_admin.post(
            '/manageable_snapshots', {'snapshot': {'volume_id': volume_id, 'ref': None}}))
        self.assert_status(404, self.manage_snapshot(
            '00000000-0000-4000-8000-000000000000', 'x'))
        self.assert_status(403, self.manage_snapshot(volume_id, 'x', persona=self.http.as_member))
