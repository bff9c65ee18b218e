"""Pagination of every list that is sorted in the database, by every key and direction."""
import datetime
import importlib
import itertools
import pkgutil

import sqlalchemy as sa

import blockattach.storage.db
from blockattach.platform.db import paging
from blockattach.storage.db import models
from blockattach.tests.db import base

ROWS = 4
_START = datetime.datetime(2026, 1, 1)
_STEP = datetime.timedelta(microseconds=1)
# Four rows produce ties, and NULL in nullable columns.
VALUES = {sa.Boolean: (False, True), sa.Integer: (1, 2, 10), sa.String: ('B', 'a', 'a%'),
          sa.DateTime: (_START, _START + _STEP, _START + 2 * _STEP)}
DIRECTIONS = (paging.ASCENDING, paging.DESCENDING)


def lists():
    """Return the sort columns of each list, by module."""
    # Only alembic can import the migration scripts.
    modules = [importlib.import_module(one.name) for one in pkgutil.walk_packages(
        blockattach.storage.db.__path__, 'blockattach.storage.db.') if '.migrations' not in
        one.name]
    return {module.__name__: module.SORT_COLUMNS for module in modules
            if hasattr(module, 'SORT_COLUMNS')}


def is_unique(column):
    return any(column.name in index.columns for index in column.table.indexes if index.unique) or \
        any(column.name in one.columns for one in column.table.constraints
            if isinstance(one, sa.UniqueConstraint))


def value(column, number, pace):
    """Return one of few values of the column's type, cycling at a different pace per column."""
    if is_unique(column):
        return None if column.nullable else f'{column.name}-{number}'
    values = next(values for kind, values in VALUES.items() if isinstance(column.type, kind))
    if column.nullable:
        values = (*values, None)
    return values[(number + pace) % len(values)]


@base.on_every_database
class WalkTest(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.lists = lists()
        self.ids = {}
        wanted = {columns['id'].table for columns in self.lists.values()}
        for table in models.metadata.sorted_tables:
            if table in wanted:
                self.fill(table)

    def fill(self, table):
        self.ids[table] = [self.database.new_id() for _ in range(ROWS)]
        with self.database.writer() as connection:
            for number, one in enumerate(self.ids[table]):
                connection.execute(table.insert().values({
                    column.name: self.ids[next(iter(column.foreign_keys)).column.table][number]
                    if column.foreign_keys else value(column, number, pace)
                    for pace, column in enumerate(table.columns)} | {'id': one}))

    def walk(self, columns, sort, size):
        found, marker = [], None
        while True:
            with self.database.reader() as connection:
                page = paging.fetch(connection, columns['id'].table.select(), columns,
                                    paging.Page(size, marker, sort=sort), sa.true(), KeyError)
            found += [row.id for row in page]
            if len(page) < size or len(found) > 100:
                return found
            marker = page[-1].id

    def assert_walked(self, name, sort):
        columns = self.lists[name]
        with self.subTest(name, sort=sort):
            whole = self.walk(columns, sort, 100)
            self.assertEqual(len(set(whole)), len(whole))
            self.assertLessEqual(set(self.ids[columns['id'].table]), set(whole))
            for size in (1, 2):
                self.assertEqual(whole, self.walk(columns, sort, size), size)

    def test_pages_by_each_key_and_direction_complete(self):
        self.assertGreater(len(self.lists), 6)
        for name, columns in self.lists.items():
            for sort in itertools.product(columns, DIRECTIONS):
                self.assert_walked(name, (sort,))

    def test_pages_by_two_keys_in_mixed_directions_complete(self):
        """The pairs are adjacent keys, and each boolean key with a text key."""
        for name, columns in self.lists.items():
            keys = tuple(columns)
            pairs = {*zip(keys[::2], keys[1::2], strict=False), *(
                (key, 'name') for key, column in columns.items()
                if isinstance(column.type, sa.Boolean))}
            for first, second in sorted(pairs):
                self.assert_walked(
                    name, ((first, paging.ASCENDING), (second, paging.DESCENDING)))
