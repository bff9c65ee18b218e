"""Unique slot of a plain volume, by which the database itself rejects a second holder."""
from concurrent import futures

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.storage.db import models
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

_rows = models.attachments
WRITERS = 8


@base.on_sqlite_and_servers_in_turn
class SlotTest(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.volume = make.volume(self.database)
        self.first = make.attachment(self.database, self.volume, lifecycle.State.RESERVED)

    def row(self, name, slot):
        return {'id': name, 'volume_id': self.volume.id, 'project_id': 'p', 'state': 'reserved',
                'rank': 4, 'slot': slot, 'generation': 1, 'created_at': self.first.created_at}

    def insert(self, name, slot):
        """Insert a row without the lock of the volume. Return True if the database accepts it."""
        try:
            with self.fixture.open().writer() as connection:
                connection.execute(_rows.insert().values(**self.row(name, slot)))
        except db_exception.DBDuplicateEntry:
            return False
        return True

    def test_holder_has_slot_zero(self):
        with self.database.reader() as connection:
            self.assertEqual(0, connection.execute(sa.select(_rows.c.slot).where(
                _rows.c.id == self.first.id)).scalar_one())

    def test_second_holder_rejected_by_unique_index(self):
        self.assertFalse(self.insert('second', 0))

    def test_concurrent_inserts_into_second_slot_succeed_once(self):
        with futures.ThreadPoolExecutor(WRITERS) as pool:
            answers = list(pool.map(lambda number: self.insert(f'{number}', 1), range(WRITERS)))
        self.assertEqual(1, sum(answers))

    def test_any_number_of_rows_without_slot(self):
        """Rows of multiattach volumes and deleted rows have no slot."""
        self.assertTrue(self.insert('a', None) and self.insert('b', None))

    def test_detach_frees_slot(self):
        make.move(self.database, self.first, lifecycle.Event.RELEASE)
        self.assertTrue(self.insert('second', 0))
