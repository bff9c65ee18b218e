"""Purge of deleted rows after their retention time, except those still referenced."""
import collections
import datetime
from concurrent import futures

import sqlalchemy as sa

from blockattach.platform import clock as clocks
from blockattach.platform import idempotency
from blockattach.platform.db import engine
from blockattach.platform.db import paging
from blockattach.storage.db import idempotency as idempotency_keys
from blockattach.storage.db import messages
from blockattach.storage.db import models
from blockattach.storage.db import purging
from blockattach.storage.db import work_ends
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import messages as domain_messages
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.db import base
from blockattach.tests.db import recording
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import make

DAY = datetime.timedelta(days=1)
GONE = volume_lifecycle.OwnStatus.GONE
TABLES = models.metadata.tables


@base.on_sqlite_and_servers_in_turn
class PurgeTest(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.clock = clock.ManualClock()
        self.db = self.fixture.open(self.clock)
        self.kept = self.rows()

    def rows(self):
        with self.database.reader() as connection:
            return {name: connection.execute(sa.select(sa.func.count()).select_from(
                table)).scalar_one() for name, table in TABLES.items()}

    def more(self):
        """Return the number of additional rows per table since the start of the test."""
        now = self.rows()
        return {name: now[name] - self.kept[name] for name in now if now[name] != self.kept[name]}

    def gone_volume(self, **more):
        """Create a volume, attach and detach it, delete it, and return it."""
        volume = make.volume(self.db, metadata={'key': 'value'}, **more)
        row = make.attachment(self.db, volume)
        for event in (lifecycle.Event.DISCONNECT, lifecycle.Event.DISCONNECTED):
            row = make.move(self.db, row, event)
        self.delete(volume)
        return volume

    def delete(self, volume):
        deleting = volumes.start_delete(self.db, volume, 60)
        work_ends.finish(self.db, volumes.deletion(volume.id, deleting.generation))

    def later(self, days):
        self.clock.advance(days * 24 * 3600)

    def purge(self, days=30, **more):
        return purging.purge(self.db, days * DAY, **more)

    def test_purge_order_children_before_parents(self):
        names = [table.name for table in purging.tables()]
        for name in names:
            for key in TABLES[name].foreign_keys:
                if key.column.table.name in names:
                    self.assertLess(names.index(name), names.index(key.column.table.name))
        with_history = {name for name, table in TABLES.items() if 'deleted' in table.c}
        self.assertLessEqual(with_history, set(names))

    def test_purge_deletes_rows_past_retention(self):
        kind = make.volume_type(self.db, extra_specs={'key': 'value'})
        self.gone_volume(kind=kind)
        volume_types.delete(self.db, kind.id)
        make.pool(self.db)
        self.later(29)
        self.assertEqual([], self.purge())
        self.later(2)
        self.assertEqual([('attachments', 1), ('volumes', 1), ('volume_types', 1)], self.purge())
        self.assertEqual({'attachment_events': 6, 'pools': 1}, self.more())
        self.assertEqual([], self.purge())
        purging.purge_expired(self.db)
        self.assertEqual({'pools': 1}, self.more())

    def test_purge_keeps_live_rows(self):
        volume = make.volume(self.db, multiattach=True, metadata={'key': 'value'})
        row = make.attachment(self.db, volume)
        left = make.attachment(self.db, volume)
        for event in (lifecycle.Event.DISCONNECT, lifecycle.Event.DISCONNECTED):
            left = make.move(self.db, left, event)
        before = volume_queries.get(self.db, volume.id)
        self.later(1000)
        self.assertEqual([('attachments', 1)], self.purge())
        self.assertEqual(before, volume_queries.get(self.db, volume.id))
        self.assertEqual([row.id], [server.attachment_id for server in before.attached])

    def test_purge_keeps_referenced_rows(self):
        kind = make.volume_type(self.db)
        first = self.gone_volume(kind=kind)
        self.later(20)
        self.gone_volume(kind=kind)
        volume_types.delete(self.db, kind.id)
        # A wrong timestamp makes the type look older than a volume that uses it.
        with self.db.writer() as connection:
            connection.execute(TABLES['volume_types'].update().where(
                TABLES['volume_types'].c.id == kind.id).values(
                    deleted_at=self.clock.utcnow() - 1000 * DAY))
        self.later(20)
        self.assertEqual([('attachments', 1), ('volumes', 1)], self.purge())
        with self.db.reader() as connection:
            left = connection.execute(sa.select(TABLES['volumes'].c.id)).scalars().all()
        self.assertNotIn(first.id, left)
        self.later(20)
        self.assertEqual([('attachments', 1), ('volumes', 1), ('volume_types', 1)], self.purge())

    def test_purge_stops_at_limit(self):
        for _ in range(3):
            self.gone_volume()
        self.later(40)
        self.assertEqual([('attachments', 2)], self.purge(most=2))
        self.assertEqual([('attachments', 1), ('volumes', 1)], self.purge(most=2))
        self.assertEqual([('volumes', 2)], self.purge(most=2))

    def history(self, number, every=1):
        """Insert attachments of a live volume, of which every ``every``-th has ended."""
        volume = make.volume(self.db, multiattach=True)
        template = make.attachment(self.db, volume, lifecycle.State.RESERVED)
        make.move(self.db, template, lifecycle.Event.RELEASE)
        rows = TABLES['attachments']
        with self.db.writer() as connection:
            [row] = connection.execute(rows.select()).mappings()
            connection.execute(rows.insert(), [
                {**row, 'id': f'{index:036}', 'deleted': index % every == 0}
                for index in range(1, number)])

    def test_purge_of_more_than_one_batch_and_part(self):
        self.history(purging.PART + purging.BATCH + 10)
        self.later(40)
        self.assertEqual([('attachments', purging.PART + purging.BATCH + 10)], self.purge())
        self.assertEqual(0, self.more().get('attachments', 0))

    def test_purge_reads_each_table_part_once(self):
        """The cost follows from the size of the table, also where few rows are deleted."""
        parts = 4
        self.history(parts * purging.PART + 1, every=300)
        self.later(40)
        sent = collections.Counter()

        def count(connection, cursor, statement, *rest):
            if 'FROM attachments' in statement.replace('\n', '').split('WHERE')[0]:
                sent[statement.split()[0]] += 1

        with recording.listening(self.db, before_cursor_execute=count):
            [(_, number)] = self.purge()
        self.assertEqual(parts * purging.PART // 300 + 1, number)
        # One query finds the end of the part, and one the rows to purge. One transaction deletes
        # them.
        self.assertEqual({'SELECT': 2 * (parts + 1), 'DELETE': parts + 1}, sent)
        self.assertEqual([], self.purge())

    def test_purge_batch_size(self):
        self.history(10)
        self.later(40)
        commits = []
        sa.event.listen(self.db.engine, 'commit', commits.append)
        self.assertEqual([('attachments', 10)], self.purge(batch=3))
        self.assertEqual(4, len(commits))

    def test_dry_run_purge_changes_nothing(self):
        self.gone_volume(kind=make.volume_type(self.db))
        self.later(40)
        before = self.rows()
        deleting = self.purge(dry_run=True)
        self.assertEqual(before, self.rows())
        self.assertEqual([('attachments', 1)], self.purge(dry_run=True, most=1))
        self.assertEqual(deleting, self.purge())

    def test_purge_deletes_expired_keys_and_messages(self):
        text = domain_messages.DELETE_FAILED
        messages.create(self.db, 'p', None, text, 'volume')
        request = idempotency.named('p', 'u', 'POST', '/volumes', 'key', 'digest')
        with self.db.writer() as connection:
            idempotency_keys.remember(connection, self.db, request, 'volume', -40 * 24 * 3600)
            connection.execute(TABLES['messages'].update().values(
                expires_at=datetime.datetime(2020, 1, 1)))
        messages.create(self.database, 'p', None, text, 'another')
        self.assertEqual({('idempotency_keys', 1), ('messages', 1)}, set(self.purge()))
        self.assertEqual(1, len(messages.list_page(self.db, 'p', {}, paging.Page())))


class Dated(clocks.Clock):
    """Real clock with another date, so that a repeated verb really sleeps."""

    def __init__(self, dates):
        self._dates = dates

    def utcnow(self):
        return self._dates.utcnow()


@base.on_sqlite_and_servers_in_turn
class BesideTest(base.DatabaseTestCase):
    """Purge beside a service that continues to attach."""

    LIVE = 25
    WORKERS = 3

    def test_purge_does_not_block_attachments(self):
        manual = clock.ManualClock()
        old = self.fixture.open(manual)
        volume = make.volume(old, multiattach=True)
        for _ in range(40):
            row = make.attachment(old, volume, lifecycle.State.RESERVED)
            make.move(old, row, lifecycle.Event.RELEASE)
            gone = make.volume(old)
            deleting = volumes.start_delete(old, gone, 60)
            work_ends.finish(old, volumes.deletion(gone.id, deleting.generation))
        manual.advance(40 * 24 * 3600)
        operator = self.fixture.open(Dated(manual))

        def live(number):
            """Attach and detach, on the volume with the history and on short-lived volumes."""
            mine = self.fixture.open()
            for count in range(self.LIVE):
                wish = attachments.Wish(volume.id, make.PROJECT, str(number), None,
                                        make.connector(f'iqn.{number}'))
                row = attachments.reserve(mine, wish, 60)
                row = make.move(mine, row, lifecycle.Event.CONNECTED)
                row = make.move(mine, row, lifecycle.Event.DISCONNECT)
                make.move(mine, row, lifecycle.Event.DISCONNECTED)
                if count % 5 == 0:
                    make.volume(mine)

        purged = collections.Counter()
        with futures.ThreadPoolExecutor(self.WORKERS) as pool:
            living = [pool.submit(live, number) for number in range(self.WORKERS)]
            while not all(one.done() for one in living):
                purged.update(dict(purging.purge(operator, 30 * DAY, batch=5)))
            for one in living:
                one.result()
        purged.update(dict(purging.purge(operator, 30 * DAY)))
        self.assertEqual((40, 40), (purged['attachments'], purged['volumes']))
        self.assertEqual([], attachment_queries.of_volume(self.database, volume.id))
        self.assertEqual('available', volume_queries.get(self.database, volume.id).status)


@base.on_every_server
class MeanwhileTest(base.DatabaseTestCase):

    def test_purge_keeps_row_referenced_meanwhile(self):
        """Another transaction refers to the row between the check and the delete."""
        manual = clock.ManualClock()
        database = self.fixture.open(manual)
        kind = make.volume_type(database)
        volume = make.volume(database, kind=kind)
        deleting = volumes.start_delete(database, volume, 60)
        work_ends.finish(database, volumes.deletion(volume.id, deleting.generation))
        manual.advance(40 * 24 * 3600)
        referred = []

        def refer(connection):
            if connection.get_execution_options().get(engine.WRITER) and not referred:
                referred.append(volume.id)
                with self.database.writer() as again:
                    again.execute(TABLES['attachments'].insert().values(
                        id='a', volume_id=volume.id, project_id='p', state='reserved', rank=4,
                        generation=1, created_at=manual.utcnow()))

        sa.event.listen(database.engine, 'engine_connect', refer)
        self.assertEqual([], purging.purge(database, 30 * DAY))
        self.assertTrue(referred)
