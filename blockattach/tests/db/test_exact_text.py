"""Strings that differ only in a trailing blank, which are distinct on every database."""
import sqlalchemy as sa

from blockattach.platform.db import paging
from blockattach.storage import errors
from blockattach.storage.db import quotas
from blockattach.storage.db import schema
from blockattach.storage.db.types import qos_specs
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.tests.db import base
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import make

PAIRS = {'a': '1', 'a ': '2', 'A': '3'}
TEXTS = {(table, column) for table, columns in {
    'qos_specs': ('live_name', 'name'), 'quota_classes': ('class_name',),
    'snapshot_metadata': ('key', 'value'), 'snapshots': ('description', 'name'),
    'volume_image_metadata': ('key', 'value'),
    'volume_metadata': ('key', 'value'), 'volume_type_extra_specs': ('key', 'value'),
    'volume_types': ('description', 'live_name', 'name'),
    'volumes': ('description', 'name')}.items() for column in columns}


@base.on_every_database
class ExactTextTest(base.DatabaseTestCase):

    def names(self, **filters):
        return [one.name for one in volume_queries.list_page(
            self.database, volume_queries.Filters(make.PROJECT, **filters), paging.Page())]

    def test_metadata_keys_with_trailing_blank_distinct(self):
        volume = make.volume(self.database, metadata=PAIRS)
        self.assertEqual(PAIRS, volume_queries.get(self.database, volume.id).metadata)
        other = make.volume(self.database)
        self.assertEqual(PAIRS, volumes.change_metadata(
            self.database, other, lambda found: {**found, **PAIRS}))
        self.assertEqual({'a': '1', 'A': '3'}, volumes.change_metadata(
            self.database, other,
            lambda found: {key: value for key, value in found.items() if key != 'a '}))

    def test_filters_with_trailing_blank_distinct(self):
        for name in ('2', '2 '):
            make.volume(self.database, name=name, metadata={'key': name})
        for name in ('2', '2 '):
            self.assertEqual([name], self.names(equal={'name': name}))
            self.assertEqual([name], self.names(metadata={'key': name}))
        self.assertEqual([], self.names(metadata={'key ': '2'}))

    def test_quota_class_with_trailing_blank_distinct(self):
        before = quotas.show_class(self.database, 'default')
        quotas.change_class(self.database, 'default ', {'volumes': 77})
        self.assertEqual(before, quotas.show_class(self.database, 'default'))
        self.assertEqual(77, quotas.show_class(self.database, 'default ')['volumes'])

    def test_type_and_spec_names_with_trailing_blank_distinct(self):
        for name in ('fast', 'fast '):
            made = volume_types.create(self.database, name, None, True, PAIRS)
            self.assertEqual(made, volume_types.get_by_name(self.database, name))
            self.assertEqual(PAIRS, made.extra_specs)
            qos_specs.create(self.database, name, 'back-end', PAIRS)
        self.assertRaises(errors.VolumeTypeNameNotFound, volume_types.get_by_name, self.database,
                          'fast  ')


@base.on_every_database
class CollationTest(base.DatabaseTestCase):
    MIGRATED = False

    def exact(self):
        """Return the columns whose collation does not pad with blanks."""
        with self.database.reader() as connection:
            return {tuple(row) for row in connection.execute(sa.text(
                'SELECT table_name, column_name FROM information_schema.columns '
                'WHERE table_schema = DATABASE() '
                "AND (collation_name LIKE '%nopad%' OR collation_name LIKE '%0900%')"))}

    def test_upgraded_text_columns_compare_exactly(self):
        schema.upgrade(self.database.engine)
        if self.KIND == database.MYSQL:
            self.assertEqual(TEXTS, self.exact())
