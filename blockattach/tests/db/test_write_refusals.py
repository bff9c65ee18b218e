"""Database that refuses writes, which is reported until it accepts them again."""
import os

import sqlalchemy as sa
from sqlalchemy import event

from blockattach.platform import errors
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

READ_ONLY = {'sqlite': ('PRAGMA query_only=1', 'PRAGMA query_only=0'),
             'mysql': ('SET SESSION TRANSACTION READ ONLY', 'SET SESSION TRANSACTION READ WRITE'),
             'postgresql': ('SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY',
                            'SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE')}
FULL = ('PRAGMA max_page_count=1', 'PRAGMA max_page_count=4294967294')


class RefusalTestCase(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.volume = make.volume(self.database)
        self.statement = None
        event.listen(self.database.engine, 'checkout', self.prepare)

    def prepare(self, connection, _record, _proxy):
        """Run the statement on each connection at checkout, because it affects only one
        connection.
        """
        if self.statement is not None:
            cursor = connection.cursor()
            cursor.execute(self.statement)
            cursor.close()
            connection.commit()

    def reserve(self):
        return attachments.reserve(self.database, attachments.Wish(
            self.volume.id, self.volume.project_id), 60)

    def refuses_until(self, before, after):
        self.statement = before
        for _ in range(2):
            with self.assertRaises(errors.DatabaseNotWritable) as caught:
                self.reserve()
            self.assertEqual('10', caught.exception.retry_after)
        self.assertEqual(str(errors.DatabaseNotWritable()), self.database.wrong())
        self.assertEqual([], attachment_queries.of_volume(self.database, self.volume.id))
        self.statement = after
        self.assertIsNone(self.database.wrong())
        self.reserve()


@base.on_sqlite_and_servers_in_turn
class ReadOnlyTest(RefusalTestCase):

    def test_read_only_database_reported_until_writable(self):
        self.refuses_until(*READ_ONLY[self.database.engine.dialect.name])


class EmbeddedTest(RefusalTestCase):
    """Write refusals of SQLite."""

    def test_full_disk_reported_until_space_freed(self):
        # Free pages in the file are reused before the file grows.
        with self.database.writer() as connection:
            connection.execute(sa.text('CREATE TABLE filler (text BLOB)'))
        self.statement = FULL[0]
        with self.assertRaises(errors.DatabaseNotWritable), \
                self.database.writer() as connection:
            connection.execute(sa.text('INSERT INTO filler VALUES (zeroblob(1000000))'))
        self.statement = FULL[1]
        self.assertIsNone(self.database.wrong())
        self.reserve()

    def test_removed_database_file_reported(self):
        path = self.database.engine.url.database
        kept = f'{path}.kept'
        os.rename(path, kept)
        self.assertIn('was removed or replaced', self.database.wrong())
        with self.assertRaisesRegex(errors.DatabaseNotWritable, 'removed or replaced'):
            self.reserve()
        with open(path, 'wb'):
            self.assertIn('was removed or replaced', self.database.wrong())
        os.replace(kept, path)
        self.assertIsNone(self.database.wrong())
        self.reserve()
