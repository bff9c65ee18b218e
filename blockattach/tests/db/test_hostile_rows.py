"""Rows of a Cinder database with invalid values: each is reported, and none is imported."""
import sqlalchemy as sa

from blockattach.platform import failpoints
from blockattach.storage.db import models
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import cinder_rows
from blockattach.tests.db import base
from blockattach.tests.db import test_importing
from blockattach.tests.fixtures import cinder
from blockattach.tests.fixtures import hostile_rows
from blockattach.tests.fixtures import make

SERVER = test_importing.SERVER
NAME = 'iqn.2026-01.org.example:compute-1'


class Case(test_importing.Case):

    def setUp(self):
        super().setUp()
        self.rows = hostile_rows.Rows(self.cinder)

    def found(self, **choices):
        return {(one.code, one.table, one.id, one.text.partition(':')[0])
                for one in self.importer(**choices).survey().refused}

    def assert_only_good_taken(self, good):
        """Check that the import takes the valid volumes and no others."""
        self.importer().run()
        with self.database.reader() as connection:
            self.assertEqual(sorted(good), sorted(connection.execute(
                sa.select(models.volumes.c.id)).scalars()))


class HostileRowsTest(Case):

    def test_every_imported_column_has_hostile_values(self):
        # A row with an invalid owner has no owner for the import, so the column is not tested.
        read = {table: set(of.columns) - {of.owner} for table, of in cinder_rows.TABLES.items()
                if table != 'qos_names'}
        old = {'attached_host', 'instance_uuid', 'mountpoint', 'attach_time', 'attach_mode'}
        read['volumes'] -= old
        self.assertEqual(read, {table: set(of) for table, of in hostile_rows.COLUMNS.items()})

    def test_hostile_values_refused_by_table_and_row(self):
        good = self.cinder.volume()
        hostile = self.rows.add_all()
        before = self.tables()
        found = self.found()
        missed = [one for one in hostile
                  if ('damaged', one.table, one.id, one.column) not in found]
        self.assertEqual([], missed)
        self.assertEqual(before, self.tables())
        self.assert_only_good_taken({good})

    def test_rows_without_hostile_value_imported(self):
        """Each hostile row is refused only because of its value."""
        for table in hostile_rows.COLUMNS:
            self.rows.good(table)
        self.assertEqual(set(), self.found())


class DuplicateTest(Case):

    def twice(self, table, **of):
        self.cinder.add(table, **of)
        return self.cinder.add(table, **of)

    def test_duplicate_rows_refused(self):
        volume_id, type_id = self.cinder.volume(), self.rows.good('volume_types')
        snapshot_id, specs_id = self.rows.good('snapshots'), self.rows.good(
            'quality_of_service_specs')
        pair = {'key': 'k', 'value': 'v'}
        hostile = {
            table: self.twice(table, **of) for table, of in {
                'volume_metadata': {'volume_id': volume_id, **pair},
                'volume_admin_metadata': {'volume_id': volume_id, **pair},
                'volume_glance_metadata': {'volume_id': volume_id, **pair},
                'snapshot_metadata': {'snapshot_id': snapshot_id, **pair},
                'volume_types': {'name': 'same', 'is_public': True},
                'volume_type_extra_specs': {'volume_type_id': type_id, **pair},
                'volume_type_projects': {'volume_type_id': type_id, 'project_id': 'p'},
                'quality_of_service_specs': {'specs_id': specs_id, **pair},
                'quotas': {'project_id': 'p', 'resource': 'volumes', 'hard_limit': 1},
                'quota_classes': {'class_name': 'c', 'resource': 'volumes', 'hard_limit': 1},
            }.items()}
        hostile['default_volume_types'] = 'p'
        self.twice('default_volume_types', volume_type_id=type_id, project_id='p')
        found = {(code, table, row) for code, table, row, _ in self.found()}
        self.assertEqual(set(), {('twice', *one) for one in hostile.items()} - found)

    def test_duplicate_qos_specs_name_refused(self):
        one = self.twice('quality_of_service_specs', key='QoS_Specs_Name', value='same')
        self.assertIn(('twice', 'quality_of_service_specs', one, 'value'), self.found())

    def test_duplicate_type_encryption_refused(self):
        type_id = self.rows.good('volume_types')
        for encryption_id in (self.database.new_id(), self.database.new_id()):
            self.cinder.add('encryption', volume_type_id=type_id, provider='luks',
                            control_location='back-end', encryption_id=encryption_id)
            last = encryption_id
        self.assertIn(('twice', 'encryption', last, 'volume_type_id'), self.found())


class CredentialTest(Case):
    """Incomplete CHAP credentials, or ones that no target accepts."""

    BAD = (..., None, '', 'x' * 65, 'a\0b', 'a b', 'ä', 7, ['a'])

    def test_invalid_credential_of_connection_refused(self):
        for bad in self.BAD:
            for name in ('auth_username', 'auth_password'):
                with self.subTest(name, bad=bad):
                    value = bad if name != 'auth_password' or bad != 'x' * 65 else 'x' * 129
                    volume_id = self.cinder.volume(status='in-use', provider_auth=None)
                    one = self.cinder.attachment(volume_id)
                    info = hostile_rows.connection_info(volume_id, **{name: value})
                    self.set(one, info)
                    found = {(table, row) for code, table, row, _ in self.found()
                             if code == 'damaged'}
                    self.assertTrue({('volumes', volume_id), ('volume_attachment', one)} & found)

    def test_invalid_credential_of_volume_refused(self):
        for auth in ('CHAP  b', 'CHAP a ', f'CHAP {"x" * 65} b', f'CHAP a {"x" * 129}',
                     'CHAP a\tb c'):
            with self.subTest(auth):
                volume_id = self.cinder.volume(status='in-use', provider_auth=auth)
                self.cinder.attachment(volume_id)
                self.assertIn(('damaged', 'volumes', volume_id, 'provider_auth'), self.found())

    def test_invalid_connection_info_values_refused(self):
        for key, values in {
                'target_portal': (..., 7, '', 'x' * 256), 'target_lun': (..., '1', True, -1),
                'target_iqn': (7,), 'target_portals': ('a', [], [7]), 'target_luns': ([True],),
                'discard': ('yes',), 'logical_block_size': ('big', [1]),
                'qos_specs': ('a', {'a': [1]})}.items():
            for value in values:
                with self.subTest(key, value=value):
                    volume_id = self.cinder.volume(status='in-use')
                    one = self.cinder.attachment(volume_id)
                    self.set(one, hostile_rows.connection_info(volume_id, **{key: value}))
                    rows = {(table, row) for _, table, row, _ in self.found()}
                    self.assertIn(('volume_attachment', one), rows)

    def set(self, attachment_id, info):
        with self.cinder.engine.begin() as connection:
            connection.exec_driver_sql('UPDATE volume_attachment SET connection_info = ? '
                                       'WHERE id = ?', (info, attachment_id))


class QosTest(Case):

    def test_invalid_qos_specs_refused_with_their_types(self):
        for key, value in (('consumer', 'nobody'), ('consumer', None),
                           ('read_iops_sec_per_gb', 'many')):
            with self.subTest(key):
                specs = self.rows.good('quality_of_service_specs')
                self.cinder.add('quality_of_service_specs', specs_id=specs, key=key, value=value)
                kind = self.cinder.add('volume_types', name=specs, qos_specs_id=specs,
                                       is_public=True)
                refused = {(one.table, one.id) for one in self.importer().survey().refused}
                self.assertLessEqual({('quality_of_service_specs', specs), ('volume_types', kind)},
                                refused)


class OldRowsTest(Case):

    OLD = True

    def test_invalid_attachment_columns_of_volume_refused(self):
        for column, values in {'attached_host': hostile_rows.COLUMNS['volume_attachment'][
                'attached_host'], 'instance_uuid': ('x',), 'mountpoint': ('a\0b',),
                'attach_time': ('yesterday',)}.items():
            for value in values:
                if isinstance(value, bytes) or 'CAST' in value:
                    continue
                with self.subTest(column, value=value):
                    volume_id = self.cinder.volume(status='in-use', **{
                        'attached_host': 'compute-1', column: value})
                    self.assertIn(('damaged', 'volumes', volume_id, column),
                                  self.found(initiators={'compute-1': NAME}))

    def test_unknown_attached_mode_refused(self):
        volume_id = self.cinder.volume(status='in-use', attached_host='compute-1')
        self.cinder.add('volume_admin_metadata', volume_id=volume_id, key='attached_mode',
                        value='exploded')
        self.assertIn(('damaged', 'volumes', volume_id, 'attach_mode'),
                      self.found(initiators={'compute-1': NAME}))


@base.on_sqlite_and_servers_in_turn
class DatesTest(Case):

    def test_unreadable_date_refused(self):
        volume_id = self.cinder.volume()
        date = {'sqlite': 'yesterday', 'postgresql': 'infinity'}.get(
            self.database.engine.dialect.name, '0000-00-00 00:00:00')
        with self.cinder.engine.begin() as connection:
            if connection.dialect.name not in ('sqlite', 'postgresql'):
                connection.exec_driver_sql("SET SESSION sql_mode = ''")
            connection.exec_driver_sql(
                f"UPDATE volumes SET created_at = '{date}' WHERE id = '{volume_id}'")
        self.assertEqual({('damaged', 'volumes', volume_id, 'created_at')}, self.found())

    def test_reference_in_upper_case_refused(self):
        """Case-insensitive databases find such a row, and the import refuses it."""
        one = self.rows.good('snapshots')
        kind = self.rows.good('volume_type_extra_specs')
        with self.cinder.engine.begin() as connection:
            for table, column, row in (('snapshots', 'volume_id', one),
                                       ('volume_type_extra_specs', 'volume_type_id', kind)):
                connection.exec_driver_sql(
                    f"UPDATE {table} SET {column} = UPPER({column}) WHERE id = '{row}'")
        found = self.found()
        self.assertIn(('damaged', 'volume_type_extra_specs', kind, 'volume_type_id'), found)
        self.assertTrue(self.importer().survey().left['lost'] or (
            'damaged', 'snapshots', one, 'volume_id') in found)

    def test_orphan_row_with_accented_owner_ignored(self):
        """A database that compares without accents finds it, and it belongs to no snapshot."""
        snapshot_id = self.rows.good('snapshots')
        owner = f'à{snapshot_id[1:]}'
        with self.cinder.engine.begin() as connection:
            connection.execute(sa.text('UPDATE snapshots SET id = :owner WHERE id = :id'), {
                'owner': f'a{snapshot_id[1:]}', 'id': snapshot_id})
        self.cinder.add('snapshot_metadata', snapshot_id=owner, key='', value='v')
        self.assertEqual(set(), self.found())

    def test_keys_with_trailing_blank_imported_separately(self):
        volume_id = self.cinder.volume()
        for key in ('k', 'k '):
            self.cinder.add('volume_metadata', volume_id=volume_id, key=key, value='v')
        self.assertEqual(set(), self.found())
        self.importer().run()
        self.assertEqual({'k', 'k '}, volume_queries.get(
            self.database, volume_id).metadata.keys())


@base.on_sqlite_and_servers_in_turn
class ResumeTest(Case):

    def test_attachment_id_of_other_volume_refused(self):
        attachment = make.attachment(self.database, make.volume(
            self.database, kind=make.volume_type(self.database, 'other')))
        volume_id = self.cinder.volume(status='in-use')
        self.cinder.attachment(volume_id, id=attachment.id)
        self.assertEqual({('id_taken', 'volume_attachment', attachment.id, '')}, self.found())
        self.importer().run()
        self.assertEqual(0, self.importer().run().taken['volumes'])

    def test_volumes_of_refused_type_refused(self):
        used = make.volume_type(self.database, 'fast')
        make.volume(self.database, kind=used)
        wrong = self.cinder.add('volume_types', name='fast', is_public=True)
        of_it, good = self.cinder.volume(volume_type_id=wrong), self.cinder.volume()
        self.assertEqual({('name_taken', 'volume_types', wrong, ''),
                          ('no_type', 'volumes', of_it, '')}, self.found())
        self.assertEqual(1, self.importer().run().taken['volumes'])
        self.assertEqual('available', volume_queries.get(self.database, good).status)

    def test_type_changed_after_import_kept(self):
        type_id = self.rows.good('volume_types')
        self.cinder.add('volume_type_extra_specs', volume_type_id=type_id, key='k', value='v')
        self.cinder.add('encryption', volume_type_id=type_id, provider='luks',
                        control_location='back-end', encryption_id=self.database.new_id())
        self.importer().run()
        volume_types.delete_extra_spec(self.database, type_id, 'k')
        volume_types.delete_encryption(self.database, type_id, None)
        volume_types.create_encryption(self.database, type_id, 'plain', 'back-end', None, None)
        before = self.tables()
        self.assertEqual(0, sum(self.importer().run().taken.values()))
        self.assertEqual(before, self.tables())

    def test_counts_of_interrupted_import_repaired_on_resume(self):
        make.pool(self.database, cinder.POOL)
        self.cinder.volume(size=3)
        failpoints.arm('db.derived.counts.before', test_importing.interrupt)
        try:
            self.assertRaises(test_importing.Interrupted, self.importer().run)
        finally:
            failpoints.disarm('db.derived.counts.before')
        self.importer().run()
        with self.database.reader() as connection:
            self.assertEqual(3, connection.execute(sa.select(models.pools.c.allocated_gb).where(
                models.pools.c.name == cinder.POOL)).scalar_one())

    def test_orphan_rows_counted(self):
        for table in ('snapshots', 'volume_attachment'):
            hanging = self.rows.good(table)
            with self.cinder.engine.begin() as connection:
                connection.exec_driver_sql(
                    f"UPDATE {table} SET volume_id = '{SERVER}' WHERE id = '{hanging}'")
        self.assertEqual(2, self.importer().survey().left['lost'])


class RefusingDatabaseTest(Case):

    def test_volume_refused_by_database_reported_others_imported(self):
        with self.database.engine.begin() as connection:
            connection.exec_driver_sql(
                "CREATE TRIGGER refuse BEFORE INSERT ON volumes WHEN NEW.name = 'wrong' "
                "BEGIN SELECT RAISE(ABORT, 'not this one'); END")
        good = [self.cinder.volume() for _ in range(3)]
        wrong = self.cinder.volume(display_name='wrong')
        made = self.importer().run()
        self.assertEqual([('not_written', 'volumes', wrong, 'not this one')],
                         [(one.code, one.table, one.id, one.text) for one in made.refused])
        self.assertEqual(3, made.taken['volumes'])
        for volume_id in good:
            self.assertEqual('available', volume_queries.get(self.database, volume_id).status)
        with self.database.engine.begin() as connection:
            connection.exec_driver_sql('DROP TRIGGER refuse')
        self.assertEqual(1, self.importer().run().taken['volumes'])
