"""Query plans of frequent requests, which use an index also in a full database."""
import datetime

from blockattach.platform.db import paging
from blockattach.storage.db import messages
from blockattach.storage.db import purging
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.attachments import history
from blockattach.storage.db.attachments import pairs
from blockattach.storage.db.attachments import waits
from blockattach.storage.db.snapshots import snapshot_queries
from blockattach.storage.db.snapshots import snapshots
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.tests.db import base
from blockattach.tests.db import recording
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import make

HOST = 'storage-1@file'
LIMITS = {lifecycle.State.RESERVED: 60, lifecycle.State.CONNECTED: 600}


@base.on_every_database
class PlanTest(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.volume = make.volume(self.database, multiattach=True)
        self.row = make.attachment(self.database, self.volume, instance_uuid='i',
                                   with_connector=make.connector('iqn.a', 'compute-1'))

    def explain(self, statement, values):
        """Return the lines of the plan, and True if it scans a whole table."""
        with self.database.engine.connect() as connection:
            if self.KIND == database.SQLITE:
                lines = [row.detail for row in connection.exec_driver_sql(
                    f'EXPLAIN QUERY PLAN {statement}', values)]
                return lines, any(line.startswith('SCAN') for line in lines)
            if self.KIND == database.POSTGRESQL:
                # PostgreSQL would always prefer to scan a table of few rows.
                connection.exec_driver_sql('SET enable_seqscan = off')
                lines = [row[0] for row in connection.exec_driver_sql(
                    f'EXPLAIN {statement}', values)]
                return lines, any('Seq Scan' in line for line in lines)
            found = connection.exec_driver_sql(f'EXPLAIN {statement}', values).mappings().all()
            return found, any(
                row['table'] and row['possible_keys'] is None
                # Reading in the order of the primary key is no scan if LIMIT ends it early.
                and not (row['key'] == 'PRIMARY' and ' LIMIT ' in statement) for row in found)

    def check(self, acts, small=None):
        """Check that the plan of each statement uses an index.

        :param small: prefix of tables that may be scanned
        """
        for name, act in acts.items():
            with recording.statements(self.database) as sent:
                act()
            self.assertNotEqual([], sent, name)
            for statement, values in sent:
                if small and f'FROM {small}' in statement:
                    continue
                with self.subTest(name=name, statement=statement):
                    lines, through_all = self.explain(statement, values)
                    self.assertFalse(through_all, lines)

    def page(self, *filters, **named):
        return attachment_queries.list_page(
            self.database, attachment_queries.Filters(*filters, **named), paging.Page(limit=10))

    def test_attachment_lifecycle_uses_indexes(self):
        def live():
            row = attachments.reserve(self.database, attachments.Wish(
                self.volume.id, make.PROJECT, connector=make.connector('iqn.b')), 60)
            for event in (lifecycle.Event.CONNECTED, lifecycle.Event.COMPLETE,
                          lifecycle.Event.CONNECT, lifecycle.Event.REFUSED,
                          lifecycle.Event.DISCONNECT, lifecycle.Event.DISCONNECTED):
                row = make.move(self.database, row, event)

        self.check({'lifecycle': live})

    def test_attachment_queries_use_indexes(self):
        self.check({
            'get': lambda: attachment_queries.get(self.database, self.row.id),
            'project': lambda: self.page(make.PROJECT), 'all': self.page,
            'volume': lambda: self.page(volume_id=self.volume.id),
            'instance': lambda: self.page(instance_uuid='i'),
            'host': lambda: self.page(host='compute-1'),
            'interrupted': lambda: attachment_queries.interrupted(self.database, HOST),
            'in use': lambda: attachment_queries.volumes_in_use(self.database, HOST),
            'new': lambda: pairs.precondition(
                self.database, self.volume.id, 'i', {'initiator': 'iqn.a'}),
            'pair': lambda: grants.desired_state(self.database, self.volume.id, 'iqn.a'),
            'wanted': lambda: grants.wanted(self.database, [self.volume.id]),
            'shared connections': lambda: attachment_queries.shared_connections(
                self.database, [self.row.id]),
            'wait': lambda: waits.note(self.database, HOST, LIMITS, 10),
            'wait too long': lambda: waits.overdue(self.database, HOST, LIMITS, 10),
            'wait no more': lambda: waits.forget(self.database, LIMITS, 10),
            'pair of one': lambda: attachment_queries.of_pair(
                self.database, self.volume.id, 'iqn.a'),
            'counts': lambda: attachment_queries.counts(self.database, [self.volume.id])})

    def test_history_queries_use_indexes(self):
        self.check({
            'history': lambda: history.of_attachment(self.database, self.row.id),
            'last': lambda: history.last_of_attachment(self.database, self.row.id),
            'number': lambda: history.number(self.database),
            'positions': lambda: history.positions(self.database),
            'after': lambda: history.after(self.database, 1)})
        if self.KIND != database.SQLITE:
            # SQLite reports the walk along the primary key as a scan.
            self.check({'purge': lambda: history.purge(self.database)})

    def test_overview_uses_indexes(self):
        # All rows of the table are work in progress, so the overview reads all of them.
        self.check({'overview': lambda: work.overview(self.database)}, small='work')

    def test_volume_queries_use_indexes(self):
        def page(project_id):
            return volume_queries.list_page(
                self.database, volume_queries.Filters(project_id), paging.Page(limit=10))

        self.check({
            'get': lambda: volume_queries.get(self.database, self.volume.id),
            'project': lambda: page(make.PROJECT), 'all': lambda: page(None),
            'exist': lambda: volume_queries.existing_on(self.database, HOST, [self.volume.id]),
            'at work': lambda: attachment_queries.at_work(self.database, HOST),
            'work': lambda: work.due(self.database, HOST),
            'work of schedulers': lambda: work.due(self.database, None),
            'messages': lambda: messages.list_page(self.database, 'p', {}, paging.Page())})

    def test_snapshot_queries_use_indexes(self):
        made = snapshots.create(self.database, snapshots.Draft(
            self.volume, make.PROJECT, make.USER, None, None, {'k': 'v'}, True), 60)

        def page(project_id):
            return snapshot_queries.list_page(
                self.database, snapshot_queries.Filters(project_id), paging.Page(limit=10))

        def live():
            found = snapshots.create(self.database, snapshots.Draft(
                self.volume, make.PROJECT, make.USER, None, None, {}, True), 60)
            work_ends.finish(self.database, snapshots.creation(found.id, 1))
            deleting = snapshots.start_delete(self.database, found, 60)
            work_ends.finish(self.database, snapshots.deletion(found.id, deleting.generation))

        self.check({
            'get': lambda: snapshot_queries.get(self.database, made.id),
            'project': lambda: page(make.PROJECT), 'all': lambda: page(None),
            'volume': lambda: snapshot_queries.of_volume(self.database, self.volume.id),
            'lifecycle': live})

    def test_volume_lifecycle_uses_indexes(self):
        def live():
            volume = make.volume(self.database)
            deleting = volumes.start_delete(self.database, volume, 60)
            work_ends.finish(self.database, volumes.deletion(volume.id, deleting.generation))

        self.check({'lifecycle': live})

    def test_purge_uses_indexes(self):
        if self.KIND == database.SQLITE:
            self.skipTest('SQLite reports the walk along the key as a scan')
        manual = clock.ManualClock()
        old = self.fixture.open(manual)
        gone = make.volume(old)
        deleting = volumes.start_delete(old, gone, 60)
        work_ends.finish(old, volumes.deletion(gone.id, deleting.generation))
        self.check({'purge': lambda: purging.purge(self.database, datetime.timedelta(days=0))},
                   small='volume_type')

    def test_page_read_in_index_order(self):
        if self.KIND != database.SQLITE:
            self.skipTest('the servers choose a plan by the number of rows')
        for act in (lambda: self.page(make.PROJECT), self.page):
            with recording.statements(self.database) as sent:
                act()
            for statement, values in sent:
                self.assertNotIn('TEMP B-TREE', str(self.explain(statement, values)))

    def test_plan_without_index_found(self):
        statement = 'SELECT id FROM attachments WHERE last_error = ' + (
            '?' if self.KIND == database.SQLITE else '%s')
        _, through_all = self.explain(statement, ('x',))
        self.assertTrue(through_all)
