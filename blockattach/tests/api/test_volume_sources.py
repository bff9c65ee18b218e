"""Volumes created from a source volume or from a snapshot."""
from blockattach.storage.db import models
from blockattach.storage.db.services import pools
from blockattach.storage.db.services import services
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import binaries
from blockattach.storage.drivers import faults
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import stored_snapshots

OTHER_HOST = 'storage-2@fake'


class SourceTestCase(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.store = self.http.manager.backend.fake_store

    def ask(self, persona=None, version='3.71', key=None, **fields):
        headers = {} if key is None else {'Idempotency-Key': key}
        return (persona or self.http.as_member).post('/volumes', {'volume': fields}, version,
                                                     **headers)

    def made(self, **fields):
        reply = self.ask(**fields)
        self.assert_status(202, reply)
        return reply.body['volume']

    def snapshot(self, volume_id, **changed):
        volume = volume_queries.get(self.http.database, volume_id)
        snapshot_id = stored_snapshots.insert(self.http.database, volume, **changed)
        stored_snapshots.keep(self.store, volume, snapshot_id)
        return snapshot_id

    def each(self, size=2, **fields):
        """Return the sources of a create request: a volume, and a snapshot of it."""
        volume_id = self.volume(size=size, **fields)
        snapshot_id = self.snapshot(volume_id)
        return {'source_volid': volume_id}, {'snapshot_id': snapshot_id}

    def names(self):
        return sorted(self.store.sizes())

    def volumes(self):
        return self.http.as_admin.get('/volumes?all_tenants=1').body['volumes']


class MadeTest(SourceTestCase):

    def test_create_from_source_response_and_result(self):
        for source in self.each():
            with self.subTest(source=source):
                made = self.made(**source)
                wanted = {'source_volid': None, 'snapshot_id': None, 'size': 2,
                          'volume_type': '__DEFAULT__', 'availability_zone': 'nova',
                          'bootable': 'false', **source}
                self.assertEqual({'status': 'creating', **wanted},
                                 {key: made[key] for key in ('status', *wanted)})
                shown = self.shown(made['id'])
                self.assertEqual({'status': 'available', **wanted},
                                 {key: shown[key] for key in ('status', *wanted)})
                self.assertEqual(http.POOL, shown['os-vol-host-attr:host'])
                self.assertEqual(source, {
                    key: value for key, value in self.http.as_member.get(
                        '/volumes/detail').body['volumes'][0].items() if key in source})

    def test_backend_clones_volume_and_snapshot(self):
        volume, snapshot = self.each()
        self.made(**volume)
        self.made(**snapshot)
        calls = self.store.faults.calls
        self.assertEqual((1, 1, 1), (calls['create'], calls['clone'], calls['clone_snapshot']))

    def test_create_larger_than_source(self):
        for source in self.each():
            made = self.made(size=3, **source)
            self.assertEqual(3, self.shown(made['id'])['size'])
            self.assertEqual(3, self.store.sizes()[f'volume-{made["id"]}'])

    def test_clone_inherits_bootable_and_image_metadata(self):
        volume, snapshot = self.each()
        volume_id = volume['source_volid']
        self.sql(f"UPDATE volumes SET bootable = 1 WHERE id = '{volume_id}'")
        self.sql("INSERT INTO volume_image_metadata (volume_id, key, value) "
                 f"VALUES ('{volume_id}', 'os_distro', 'debian')")
        for source in (volume, snapshot):
            made = self.made(**source)
            self.assertEqual('true', made['bootable'])
            self.assertEqual('true', self.shown(made['id'])['bootable'])
            with self.http.database.reader() as reader:
                rows = reader.execute(models.volume_image_metadata.select().where(
                    models.volume_image_metadata.c.volume_id == made['id'])).all()
            self.assertEqual([('os_distro', 'debian')], [(row.key, row.value) for row in rows])

    def test_clone_of_attached_volume_accepted(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.assertEqual('available', self.shown(self.made(source_volid=volume_id)['id'])[
            'status'])
        self.assertEqual('in-use', self.shown(volume_id)['status'])

    def test_clone_keeps_source_volid_of_deleted_source(self):
        volume_id = self.volume()
        made = self.made(source_volid=volume_id)
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))
        self.assertEqual(volume_id, self.shown(made['id'])['source_volid'])

    def test_idempotent_repeat_after_source_deleted(self):
        sources = self.each()
        made = [self.made(key=f'once-{number}', **source)['id']
                for number, source in enumerate(sources)]
        self.sql('DELETE FROM snapshots')
        self.assert_status(202, self.http.as_member.delete(
            f'/volumes/{sources[0]["source_volid"]}'))
        for number, source in enumerate(sources):
            again = self.made(key=f'once-{number}', **source)
            self.assertEqual(made[number], again['id'])
            self.assertEqual(404, self.ask(**source).status)


class RefusedTest(SourceTestCase):

    def refused(self, status, sentence, **fields):
        before = self.volumes(), self.names()
        self.assert_fault(status, sentence, self.ask(**fields))
        self.assertEqual(before, (self.volumes(), self.names()))

    def test_unknown_source_not_found(self):
        self.refused(404, f'Volume {base.ABSENT} could not be found.', source_volid=base.ABSENT)
        self.refused(404, f'Snapshot {base.ABSENT} could not be found.', snapshot_id=base.ABSENT)
        self.refused(400, 'snapshot_id', snapshot_id='x')

    def test_source_of_another_project_not_found(self):
        volume, snapshot = self.each()
        self.refused(404, 'could not be found', persona=self.http.as_stranger, **volume)
        self.refused(404, 'could not be found', persona=self.http.as_stranger, **snapshot)
        self.made(persona=self.http.as_admin, **volume)
        self.made(persona=self.http.as_admin, **snapshot)

    def test_deleted_snapshot_not_found(self):
        _, snapshot = self.each()
        self.sql('UPDATE snapshots SET deleted = 1')
        self.refused(404, f'Snapshot {snapshot["snapshot_id"]} could not be found.', **snapshot)

    def test_more_than_one_source_rejected(self):
        volume, snapshot = self.each()
        for more in (snapshot, {'imageRef': base.ABSENT}):
            self.refused(400, 'Invalid input received: May specify only one of backup, imageRef, '
                              'snapshot, source volume', **volume, **more)

    def test_source_rejected_by_status(self):
        volume, snapshot = self.each()
        self.sql("UPDATE snapshots SET status = 'creating'")
        self.refused(400, "Invalid snapshot: Originating snapshot status must be one of "
                          "'available' values", **snapshot)
        self.http.as_admin.post(f'/volumes/{volume["source_volid"]}/action',
                                {'os-reset_status': {'status': 'error'}})
        self.refused(400, "Invalid volume: Originating source volume status must be one of "
                          "'available, in-use' values", **volume)

    def test_create_smaller_than_source_rejected(self):
        volume, snapshot = self.each()
        self.refused(400, "Volume size '1'GB cannot be smaller than original volume size  2GB. "
                          'They must be >= original volume size.', size=1, **volume)
        self.refused(400, "Volume size '1'GB cannot be smaller than the snapshot size 2GB. They "
                          'must be >= original snapshot size.', size=1, **snapshot)
        for size in (0, '0', 'x', -1):
            self.assertEqual(400, self.ask(size=size, **volume).status)

    def test_create_in_other_zone_than_source_rejected(self):
        services.register(self.http.database, binaries.VOLUME, OTHER_HOST, 'east', 'x')
        volume, snapshot = self.each()
        self.refused(400, 'Volume must be in the same availability zone as the source volume',
                     availability_zone='east', **volume)
        self.refused(400, 'Volume must be in the same availability zone as the snapshot',
                     availability_zone='east', **snapshot)
        self.made(availability_zone='nova', **volume)


class ZonesTest(SourceTestCase):

    SETTINGS = {'cloned_volume_same_az': False}

    def test_create_in_other_zone_without_cloned_volume_same_az_fails(self):
        services.register(self.http.database, binaries.VOLUME, OTHER_HOST, 'east', 'x')
        for source in self.each():
            made = self.made(availability_zone='east', **source)
            self.assertEqual(('error', 'east'), tuple(
                self.shown(made['id'])[key] for key in ('status', 'availability_zone')))


class TypeTest(SourceTestCase):

    def setUp(self):
        super().setUp()
        self.fast = make.volume_type(self.http.database, 'fast',
                                     extra_specs={'volume_backend_name': 'fake'})
        self.wide = make.volume_type(self.http.database, 'wide', multiattach=True,
                                     extra_specs={'volume_backend_name': 'fake'})

    def another_backend(self):
        pools.report(self.http.database, OTHER_HOST, [(f'{OTHER_HOST}#pool', {
            'total_capacity_gb': 9000, 'free_capacity_gb': 9000, 'multiattach': True})],
            make.ZONE)
        services.register(self.http.database, binaries.VOLUME, OTHER_HOST, make.ZONE, 'x')

    def test_clone_inherits_type_of_source(self):
        for source in self.each(volume_type='fast'):
            self.assertEqual('fast', self.made(**source)['volume_type'])

    def test_clone_with_another_type(self):
        for source in self.each(volume_type='fast'):
            made = self.made(volume_type='wide', **source)
            self.assertIs(True, made['multiattach'])
            self.assertEqual('available', self.shown(made['id'])['status'])

    def test_clone_with_another_type_of_same_backend(self):
        self.another_backend()
        for source in self.each(volume_type='fast'):
            self.assertEqual('wide', self.made(volume_type='wide', **source)['volume_type'])

    def test_clone_with_incompatible_type_rejected(self):
        self.another_backend()
        volume, snapshot = self.each(volume_type='fast')
        kind = make.volume_type(self.http.database, 'any')
        sealed = volume_types.create(self.http.database, 'sealed', None, True,
                                     {'volume_backend_name': 'fake'})
        volume_types.create_encryption(self.http.database, sealed.id, 'luks', 'back-end')
        for other in (kind, sealed):
            self.assert_fault(
                400, f'Invalid volume_type provided: {other.id} (requested type is not '
                     'compatible; either match source volume, or omit type argument).',
                self.ask(volume_type=other.id, **volume))
            self.assert_fault(
                400, f'Invalid volume_type provided: {other.id} (requested type is not '
                     'compatible; recommend omitting the type argument).',
                self.ask(volume_type=other.id, **snapshot))

    def test_clone_of_source_with_private_type_rejected(self):
        volume_id = self.volume(volume_type='fast')
        self.sql("UPDATE volume_types SET is_public = 0 WHERE name = 'fast'")
        self.assert_fault(404, f'Volume type {self.fast.id} could not be found.',
                          self.ask(source_volid=volume_id))
        self.made(persona=self.http.as_admin, source_volid=volume_id)


class RuleTest(SourceTestCase):

    SETTINGS = {'rules': {'volume:multiattach': 'role:admin'}}

    def test_clone_of_multiattach_source_needs_permission(self):
        kind = make.volume_type(self.http.database, multiattach=True)
        reply = self.ask(persona=self.http.as_admin, size=1, volume_type=kind.id)
        self.assert_fault(403, 'volume:multiattach',
                          self.ask(source_volid=reply.body['volume']['id']))


class PlacedTest(SourceTestCase):
    """Placement of a volume, which has to be on the backend of its source."""

    def another(self, **capabilities):
        pools.report(self.http.database, OTHER_HOST, [(f'{OTHER_HOST}#pool', {
            'total_capacity_gb': 9000, 'free_capacity_gb': 9000, 'multiattach': True})],
            make.ZONE)
        services.register(self.http.database, binaries.VOLUME, OTHER_HOST, make.ZONE, 'x')

    def message(self, volume_id):
        found = self.http.as_member.get('/messages').body['messages']
        return [one['user_message'] for one in found if one['resource_uuid'] == volume_id]

    def test_clone_placed_on_backend_of_source(self):
        sources = self.each()
        self.another()
        for source in sources:
            made = self.made(**source)
            self.assertEqual(http.POOL, self.shown(made['id'])['os-vol-host-attr:host'])

    def test_clone_without_space_on_source_backend_fails(self):
        sources = self.each()
        self.another()
        for source in sources:
            with self.subTest(source=source):
                self.http.hold = True
                made = self.made(size=5000, **source)
                said = 'not enough free space; the source of the volume is on another backend'
                self.assertIn(said, self.message(made['id'])[0])
                self.http.hold = False
                self.http.as_member.get('/volumes')
                self.assertEqual('error', self.shown(made['id'])['status'])
                self.assertIn(said, self.message(made['id'])[0])

    def test_clone_faults_set_error_and_leave_nothing(self):
        volume, snapshot = self.each()
        before = self.names()
        for verb, source in (('clone', volume), ('clone_snapshot', snapshot)):
            for fault in faults.Fault:
                with self.subTest(verb=verb, fault=fault):
                    self.store.faults.plan(verb, fault)
                    made = self.made(**source)
                    self.assertEqual('error', self.shown(made['id'])['status'])
                    self.assertEqual(2, len(self.message(made['id'])))
                    self.assertEqual(before, self.names())
        self.assertEqual('available', self.shown(volume['source_volid'])['status'])


class KeptTest(SourceTestCase):
    """Protection of the source while it is copied."""

    def test_delete_of_source_rejected_while_cloning(self):
        volume_id = self.volume()
        self.http.hold = True
        made = self.made(source_volid=volume_id)
        for persona, query in ((self.http.as_member, ''), (self.http.as_admin, '?force=true')):
            self.assert_fault(400, 'Invalid volume: Volume status must be available or error',
                              persona.delete(f'/volumes/{volume_id}{query}'))
        self.http.hold = False
        self.http.as_member.get('/volumes')
        self.assertEqual('available', self.shown(made['id'])['status'])
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))

    def test_clone_of_deleting_source_rejected(self):
        volume_id = self.volume()
        self.http.hold = True
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))
        self.assert_fault(400, 'Originating source volume status', self.ask(
            source_volid=volume_id))

    def test_reset_clone_releases_source(self):
        volume_id = self.volume()
        self.http.hold = True
        made = self.made(source_volid=volume_id)
        self.assert_status(202, self.http.as_admin.post(
            f'/volumes/{made["id"]}/action', {'os-reset_status': {'status': 'error'}}))
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))
