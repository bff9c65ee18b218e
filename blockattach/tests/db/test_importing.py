"""Import of a Cinder database: imported, changed and refused rows, repeats and resumption."""
import functools

import sqlalchemy as sa

from blockattach.platform import failpoints
from blockattach.storage import errors
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.importing import importer
from blockattach.storage.db.importing import source
from blockattach.storage.db.snapshots import snapshot_queries
from blockattach.storage.db.types import qos_specs
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import connection
from blockattach.storage.domain import importing
from blockattach.tests.db import base
from blockattach.tests.fixtures import cinder
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import make

POINT = 'db.importer.drafts.after'
SERVER = '6f4b0fb6-55f4-4ce2-a1d5-9f8c2b1d8a01'
CREDENTIAL = connection.Credential('someone', 'a-shared-secret')


class Interrupted(Exception):
    """Simulated end of the process."""


def interrupt():
    raise Interrupted


class Case(base.DatabaseTestCase):

    OLD = False

    def setUp(self):
        super().setUp()
        self.there = database.DatabaseFixture(self.KIND, migrated=False)
        self.addCleanup(self.there.close)
        self.cinder = cinder.Cinder(self.there.database.engine, self.OLD)

    def importer(self, **choices):
        read = source.Source(self.there.url)
        self.addCleanup(read.close)
        return importer.Importer(self.database, read, importing.Choices(**choices), '__DEFAULT__')

    def refused(self, **choices):
        return [(one.code, one.id) for one in self.importer(**choices).survey().refused]

    def tables(self):
        """Return all rows of the database by table."""
        with self.database.reader() as connection:
            names = sa.inspect(self.database.engine).get_table_names()
            return {name: sorted(map(repr, connection.exec_driver_sql(
                f'SELECT * FROM {name}'))) for name in names}


@base.on_every_database
class ImportTest(Case):

    def test_volume_imported_with_its_children(self):
        volume_id = self.cinder.volume(display_description='a disk', bootable=True)
        self.cinder.add('volume_metadata', volume_id=volume_id, key='k', value='v')
        self.cinder.add('volume_admin_metadata', volume_id=volume_id, key='readonly',
                        value='True')
        self.cinder.add('volume_glance_metadata', volume_id=volume_id, key='min_ram', value='1')
        snapshot_id = self.cinder.add(
            'snapshots', volume_id=volume_id, project_id=cinder.PROJECT, user_id='user',
            status='available', volume_size=1, volume_type_id=cinder.TYPE_ID)
        self.cinder.add('volumes', status='deleted', deleted=True, volume_type_id=cinder.TYPE_ID)
        self.importer().run()
        taken = volume_queries.get(self.database, volume_id)
        self.assertEqual(
            ('mine', 'a disk', 'available', 'detached', True, True, cinder.POOL, {'k': 'v'},
             {'min_ram': '1'}, cinder.TYPE_ID),
            (taken.name, taken.description, taken.status, taken.attach_status, taken.bootable,
             taken.readonly, taken.pool, taken.metadata, taken.image_metadata,
             taken.volume_type_id))
        self.assertEqual(volume_id,
                         snapshot_queries.get(self.database, snapshot_id).volume_id)

    def test_types_qos_specs_and_quotas_imported(self):
        type_id = self.cinder.add('volume_types', name='fast', is_public=False)
        specs = self.cinder.add('quality_of_service_specs', key='QoS_Specs_Name', value='slow')
        for key, value in (('consumer', 'front-end'), ('total_iops_sec', '100')):
            self.cinder.add('quality_of_service_specs', specs_id=specs, key=key, value=value)
        self.cinder.add('volume_type_extra_specs', volume_type_id=type_id, key='multiattach',
                        value='<is> True')
        self.cinder.add('volume_type_projects', volume_type_id=type_id, project_id='p')
        self.cinder.add('default_volume_types', volume_type_id=type_id, project_id='p')
        for resource, limit in (('volumes', 7), ('volumes_fast', 3), ('consistencygroups', 1)):
            self.cinder.add('quotas', project_id='p', resource=resource, hard_limit=limit)
        made = self.importer().run()
        kind = volume_types.get(self.database, type_id)
        self.assertEqual(('fast', False, {'multiattach': '<is> True'}),
                         (kind.name, kind.is_public, kind.extra_specs))
        self.assertEqual({'total_iops_sec': '100'}, qos_specs.get(self.database, specs).specs)
        self.assertEqual((2, 1), (made.taken['quotas'], made.left['quotas']))
        self.assertEqual(1, made.taken['default_volume_types'])
        self.assertEqual(cinder.TYPE_ID,
                         volume_types.get_by_name(self.database, '__DEFAULT__').id)

    def test_live_attachment_keeps_id_connection_and_credential(self):
        volume_id = self.cinder.volume(status='in-use', multiattach=True)
        one = self.cinder.attachment(volume_id)
        self.cinder.attachment(volume_id, 'compute-2', attach_mode='ro')
        self.importer().run()
        row = attachment_queries.get(self.database, one)
        self.assertEqual(('attached', 'compute-1', '/dev/vdb', cinder.MADE),
                         (row.state, row.host, row.mountpoint, row.attached_at))
        self.assertEqual(f'iqn.2010-10.org.openstack:volume-{volume_id}',
                         row.connection['target_iqn'])
        self.assertNotIn('auth_password', row.connection)
        self.assertEqual('in-use', volume_queries.get(self.database, volume_id).status)
        wanted = grants.wanted(self.database, [volume_id])
        self.assertEqual(
            [(f'iqn.2026-01.org.example:compute-{number}', True, connection.AccessMode.RW,
              CREDENTIAL) for number in (1, 2)],
            [(grant.initiator, grant.adopted, grant.mode, grant.credential) for grant in wanted])

    def test_second_import_changes_nothing(self):
        volume_id = self.cinder.volume(status='in-use')
        self.cinder.attachment(volume_id)
        self.cinder.add('quotas', project_id='p', resource='volumes', hard_limit=3)
        self.importer().run()
        before = self.tables()
        again = self.importer().run()
        self.assertEqual(0, sum(again.taken.values()))
        self.assertEqual(before, self.tables())

    def test_interrupted_import_resumed(self):
        first = self.cinder.volume()
        failpoints.arm(POINT, interrupt)
        try:
            self.assertRaises(Interrupted, self.importer().run)
        finally:
            failpoints.disarm(POINT)
        second = self.cinder.volume()
        made = self.importer().run()
        self.assertEqual((1, 1), (made.taken['volumes'], made.there['volumes']))
        for volume_id in (first, second):
            self.assertEqual('available', volume_queries.get(self.database, volume_id).status)

    def test_survey_writes_nothing(self):
        self.cinder.volume()
        before = self.tables()
        self.assertEqual(1, self.importer().survey().found['volumes'])
        self.assertEqual(before, self.tables())

    def test_source_database_opened_read_only(self):
        self.cinder.volume()
        read = source.Source(self.there.url)
        self.addCleanup(read.close)
        with self.assertRaises(sa.exc.SQLAlchemyError), read._engine.begin() as there:
            there.exec_driver_sql('DELETE FROM volumes')


class RefusalTest(Case):

    def test_unsupported_volumes_refused(self):
        wrong = {
            'in_work': self.cinder.volume(status='deleting'),
            'no_pool': self.cinder.volume(host='storage-9'),
            'other_name': self.cinder.volume(_name_id='another'),
            'encrypted': self.cinder.volume(encryption_key_id='a-key'),
            'replicated': self.cinder.volume(replication_status='enabled'),
            'no_type': self.cinder.volume(volume_type_id=SERVER),
        }
        other = self.cinder.volume()
        wrong['snapshot_in_work'] = self.cinder.add(
            'snapshots', volume_id=other, project_id=cinder.PROJECT, user_id='user',
            status='deleting', volume_size=1)
        self.assertEqual(sorted(wrong.items()), sorted(self.refused()))
        self.assertNotIn('no_pool', dict(self.refused(pools={'storage-9': cinder.POOL})))
        self.importer().run()
        self.assertRaises(errors.VolumeNotFound, volume_queries.get, self.database,
                          wrong['in_work'])

    def test_migrating_and_encrypted_volumes_refused(self):
        type_id = self.cinder.add('volume_types', name='secret', is_public=True)
        self.cinder.add('encryption', encryption_id=SERVER, volume_type_id=type_id,
                        provider='luks', control_location='front-end')
        wrong = {('encrypted', self.cinder.volume(volume_type_id=type_id)),
                 ('in_work', self.cinder.volume(migration_status='migrating'))}
        self.assertEqual(wrong, set(self.refused()))

    def test_several_servers_on_plain_volume_refused(self):
        wrong = self.cinder.volume(status='in-use')
        for host in ('compute-1', 'compute-2'):
            self.cinder.attachment(wrong, host)
        self.assertEqual([('many_holders', wrong)], self.refused())

    def test_os_attach_attachment_needs_initiator(self):
        """Cinder stores the server of os-attach, but neither its host nor its connection."""
        volume_id = self.cinder.volume(status='in-use')
        one = self.cinder.attachment(volume_id, attached_host=None, connector=None,
                                     connection_info=None, instance_uuid=SERVER)
        [found] = self.importer().survey().refused
        self.assertEqual(('no_initiator', 'volume_attachment', one, SERVER, ''), tuple(found))
        name = 'iqn.2026-01.org.example:compute-1'
        self.importer(initiators={SERVER: name}).run()
        [row] = attachment_queries.of_volume(self.database, volume_id)
        self.assertEqual((name, f'iqn.2010-10.org.openstack:volume-{volume_id}', None),
                         (row.initiator, row.connection['target_iqn'], row.host))
        [wanted] = grants.wanted(self.database, [volume_id])
        self.assertEqual(CREDENTIAL, wanted.credential)

    def test_unsupported_attachments_refused(self):
        def attached(**values):
            return self.cinder.attachment(self.cinder.volume(status='in-use'), **values)
        wrong = {
            'no_initiator': attached(connector=None),
            'bad_connector': attached(connector='{"host": "a", "initiator": "no name"}'),
            'not_iscsi': attached(connection_info='{"driver_volume_type": "rbd"}'),
            'other_target': attached(connection_info='{"target_iqn": "iqn.x:other"}'),
        }
        found = dict(self.refused())
        self.assertEqual(wrong['no_initiator'], found['no_initiator'])
        self.assertEqual(set(wrong), set(found))
        self.assertNotIn('no_initiator', dict(self.refused(
            initiators={'compute-1': 'iqn.2026-01.org.example:compute-1'})))

    def test_in_use_volume_without_attachment_refused(self):
        wrong = [self.cinder.volume(status=status) for status in ('in-use', 'detaching')]
        self.assertEqual({('unknown_holder', one) for one in wrong}, set(self.refused()))

    def test_attachment_without_chap_refused(self):
        volume_id = self.cinder.volume(status='in-use', provider_auth=None)
        one = self.cinder.attachment(volume_id, connection_info=None)
        self.assertEqual([('no_chap', one)], self.refused())

    def test_taken_type_name_refused(self):
        used = make.volume_type(self.database, 'fast')
        make.volume(self.database, kind=used)
        make.volume_type(self.database, 'spare')
        wrong = self.cinder.add('volume_types', name='fast', is_public=True)
        self.cinder.add('volume_types', name='spare', is_public=True)
        self.assertEqual([('name_taken', wrong)], self.refused())

    def test_unknown_schema_revision_rejected(self):
        with self.there.database.engine.begin() as there:
            there.exec_driver_sql("UPDATE alembic_version SET version_num = 'ffffffffffff'")
        with self.assertRaisesRegex(errors.ConfigurationError, 'revision ffffffffffff'):
            self.importer()

    def test_import_rejected_while_cinder_runs(self):
        self.cinder.add('services', binary='cinder-volume', host='a',
                        updated_at=self.database.clock.utcnow())
        with self.assertRaisesRegex(errors.ConfigurationError, 'cinder-volume on a'):
            self.importer().run()


class ChangeTest(Case):

    def test_changed_values_reported(self):
        available, used = self.cinder.volume, functools.partial(self.cinder.volume,
                                                                status='in-use')
        wanted = {
            'no_longer_offered': available(status='awaiting-transfer'),
            'status': available(status='attaching'),
            'group_left': available(group_id='a-group'),
            'counted': available(use_quota=False),
            'default_type': available(volume_type_id=None),
            'detaching': self.cinder.attachment(used(), attach_status='detaching'),
            'consumer_enforces': self.cinder.attachment(used(), attach_mode='ro'),
            'unconnected': self.cinder.attachment(
                available(status='attaching'), attach_status='attaching', connector=None,
                connection_info=None),
        }
        spare = make.volume_type(self.database, 'spare').id
        self.cinder.add('volume_types', name='spare', is_public=True)
        found = self.importer().survey()
        self.assertEqual([], found.refused)
        changed = {(one.code, one.id) for one in found.changed}
        self.assertLess(set(wanted.items()), changed)
        self.assertIn(('default_replaced', spare), changed)
        self.assertEqual(set(importing.CHANGED), {code for code, _ in changed})


@base.on_every_database
class OldSchemaTest(Case):

    OLD = True

    def test_attachment_in_volume_columns_imported(self):
        volume_id = self.cinder.volume(
            status='in-use', attach_status='attached', attached_host='compute-1',
            instance_uuid=SERVER, mountpoint='/dev/vdc',
            attach_time='2014-03-01T10:00:00.000000')
        self.cinder.add('volume_admin_metadata', volume_id=volume_id, key='attached_mode',
                        value='ro')
        self.assertEqual(['no_initiator'], [code for code, _ in self.refused()])
        name = 'iqn.2026-01.org.example:compute-1'
        self.importer(initiators={'compute-1': name}).run()
        [row] = attachment_queries.of_volume(self.database, volume_id)
        self.assertEqual(
            ('attached', name, '/dev/vdc', 'ro', f'{cinder.ADDRESS}:3260', 2014),
            (row.state, row.initiator, row.mountpoint, row.mode,
             row.connection['target_portal'], row.attached_at.year))
