"""Indexes that MariaDB and PostgreSQL use for the queries of the hot paths.

`test_plans` shows that no query needs to read a whole table. Here the database is so full that the
server prefers an index by itself.
"""
import collections
import unittest

import sqlalchemy as sa

from blockattach.platform import idempotency
from blockattach.platform.db import paging
from blockattach.storage.db import idempotency as idempotency_keys
from blockattach.storage.db import messages
from blockattach.storage.db import quotas
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import detaches
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.attachments import key_rotation
from blockattach.storage.db.attachments import pairs
from blockattach.storage.db.attachments import waits
from blockattach.storage.db.services import services
from blockattach.storage.db.snapshots import snapshot_queries
from blockattach.storage.db.volumes import cached_images
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.db import base
from blockattach.tests.db import full
from blockattach.tests.db import recording
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import make

HOST = full.host(7)
POOL = f'{HOST}#pool'
PROJECT = 'project-7'
VOLUME, VOLUME_PROJECT = full.name('volume', 7), f'project-{7 % full.PROJECTS}'
ROW = full.name('attachment', 3)
E = lifecycle.Event
LIMITS = {lifecycle.State.RESERVED: 86400, lifecycle.State.CONNECTED: 86400}

# Tables with so few rows that a server may prefer to read all of them.
SMALL = {'leases', 'pools', 'qos_specs', 'quota_classes', 'quotas', 'services', 'volume_types',
         'volume_type_extra_specs', 'volume_type_encryptions'}

ONE_ATTACHMENT = 'pk_attachments'
ONE_GRANT = ('pk_grants', 'uq_grants_volume_id_alias')
ONE_VOLUME = 'pk_volumes'
# Any index that begins with the volume, because a volume has few attachments.
OF_VOLUME = ('ix_attachments_volume_id_deleted_initiator', 'ix_attachments_volume_id_rank',
             'ix_attachments_volume_id_previous_initiator', 'uq_attachments_volume_id_slot')
OF_PROJECT = 'ix_attachments_deleted_project_id_created_at_id'
METADATA = 'pk_volume_metadata'
OF_A_VOLUME = 'ix_snapshots_volume_id_deleted'
IMAGE_METADATA = 'pk_volume_image_metadata'
ON_HOST = 'ix_volumes_deleted_pool'
WORK_DUE = ('ix_work_deadline', 'ix_work_host_deadline')
PAGE = paging.Page(limit=10)
# Aliases of tables in queries that read a table more than once.
ALIASES = {'other': 'attachments', 'others': 'attachments', 'writers': 'attachments',
           'former': 'attachments', 'any_grant': 'grants', 'namesake': 'grants', 'copy': 'volumes'}


def attachment_page(db, *filters, **named):
    return attachment_queries.list_page(db, attachment_queries.Filters(*filters, **named), PAGE)


def volume_page(db, project_id, **named):
    return volume_queries.list_page(
        db, volume_queries.Filters(project_id, **named), PAGE)


def snapshot_page(db, project_id, **named):
    return snapshot_queries.list_page(
        db, snapshot_queries.Filters(project_id, **named), PAGE)


def lifecycle_of_an_attachment(db):
    row = attachments.reserve(db, attachments.Wish(
        VOLUME, VOLUME_PROJECT, connector=make.connector('iqn.new')), 60)
    for event in (E.CONNECTED, E.COMPLETE, E.CONNECT, E.REFUSED, E.DISCONNECT, E.DISCONNECTED):
        row = make.move(db, row, event)


def lifecycle_of_a_volume(db):
    volume = make.volume(db, own_status=volume_lifecycle.OwnStatus.AVAILABLE, on_pool=POOL)
    deleting = volumes.start_delete(db, volume, 60)
    work_ends.finish(db, volumes.deletion(volume.id, deleting.generation))
    volume_queries.get_even_deleted(db, volume.id)


# Name, function, and the allowed indexes for each large table that the function reads.
QUERIES = {
    'the lifecycle of an attachment': (lifecycle_of_an_attachment, {
        'volumes': ONE_VOLUME, 'grants': ONE_GRANT,
        'attachments': (ONE_ATTACHMENT, OF_PROJECT, *OF_VOLUME)}),
    'the lifecycle of a volume': (lifecycle_of_a_volume, {
        'volumes': (ONE_VOLUME, 'ix_volumes_source_volid_own_status'), 'grants': ONE_GRANT,
        'attachments': OF_VOLUME, 'volume_metadata': METADATA,
        'volume_image_metadata': IMAGE_METADATA, 'snapshots': OF_A_VOLUME,
        'cached_images': 'ix_cached_images_volume_id',
        'work': 'uq_work_noun_resource_id'}),
    'cached images': (lambda db: cached_images.on_host(db, HOST), {
        'cached_images': 'pk_cached_images', 'volumes': ONE_VOLUME}),
    'an announced detach': (lambda db: detaches.cancel(db, make.judged(VOLUME, VOLUME_PROJECT)),
                            {'volumes': ONE_VOLUME}),
    'attachment': (lambda db: attachment_queries.get(db, ROW), {
        'attachments': (ONE_ATTACHMENT, *OF_VOLUME), 'volumes': ONE_VOLUME,
        'grants': ONE_GRANT}),
    'a new attachment': (lambda db: pairs.precondition(
        db, VOLUME, None, {'initiator': 'iqn.7'}), {
        'attachments': OF_VOLUME, 'volumes': ONE_VOLUME, 'grants': ONE_GRANT}),
    'what a pair wants': (lambda db: grants.desired_state(db, VOLUME, 'iqn.7'), {
        'attachments': (ONE_ATTACHMENT, *OF_VOLUME), 'volumes': ONE_VOLUME,
        'grants': ONE_GRANT}),
    'attachments with credentials': (lambda db: attachment_queries.list_page(
        db, attachment_queries.Filters(PROJECT), PAGE, sealed=True), {
        'attachments': 'ix_attachments_deleted_project_id_created_at_id',
        'grants': ONE_GRANT}),
    'attachments of a project': (lambda db: attachment_page(db, PROJECT), {
        'attachments': 'ix_attachments_deleted_project_id_created_at_id'}),
    'attachments of all': (attachment_page, {
        'attachments': 'ix_attachments_deleted_created_at_id'}),
    'attachments of a volume': (lambda db: attachment_page(db, volume_id=VOLUME), {
        'attachments': OF_VOLUME}),
    'attachments of a server': (
        lambda db: attachment_page(db, instance_uuid=full.name('instance', 3)),
        {'attachments': 'ix_attachments_deleted_instance_uuid'}),
    'attachments of a host': (lambda db: attachment_page(db, host='compute-3'), {
        'attachments': 'ix_attachments_deleted_host'}),
    'attachments that wait': (lambda db: attachment_queries.interrupted(db, HOST), {
        'attachments': ('ix_attachments_deadline', 'ix_attachments_deleted_state'),
        'volumes': ONE_VOLUME}),
    'volumes in use': (lambda db: attachment_queries.volumes_in_use(db, HOST), {
        'volumes': ON_HOST, 'attachments': OF_VOLUME}),
    'shared connections': (lambda db: attachment_queries.shared_connections(db, [ROW]), {
        'attachments': (ONE_ATTACHMENT, *OF_VOLUME), 'grants': ONE_GRANT}),
    'counts': (lambda db: attachment_queries.counts(db, [VOLUME]), {'attachments': OF_VOLUME}),
    'overview': (work.overview, {
        'attachments': ('ix_attachments_deadline', 'ix_attachments_deleted_state'),
        # All rows of the table are work in progress, so a server may choose to scan it.
        'work': ('none', *WORK_DUE)}),
    'wanted': (lambda db: grants.wanted(db, [VOLUME]), {
        'grants': ONE_GRANT, 'attachments': OF_VOLUME}),
    'all of a volume': (lambda db: attachment_queries.of_volume(db, VOLUME), {
        'attachments': OF_VOLUME, 'grants': ONE_GRANT}),
    'sealed by another key': (lambda db: next(key_rotation.resealed(db, 1), None), {
        'grants': ('ix_grants_key_id', *ONE_GRANT)}),
    'volume': (lambda db: volume_queries.get(db, VOLUME), {
        'volumes': ONE_VOLUME, 'volume_metadata': METADATA, 'attachments': OF_VOLUME,
        'volume_image_metadata': IMAGE_METADATA}),
    'volumes of a project': (lambda db: volume_page(db, PROJECT), {
        'volumes': 'ix_volumes_deleted_project_id_created_at_id', 'volume_metadata': METADATA,
        'volume_image_metadata': IMAGE_METADATA, 'attachments': OF_VOLUME}),
    'volumes of all': (lambda db: volume_page(db, None), {
        'volumes': 'ix_volumes_deleted_created_at_id', 'volume_metadata': METADATA,
        'volume_image_metadata': IMAGE_METADATA, 'attachments': OF_VOLUME}),
    'what a project has': (lambda db: quotas.show(db, PROJECT), {
        # The table is small, so a server may choose to scan it.
        'work': ('uq_work_noun_resource_id', 'none'),
        'volumes': ('ix_volumes_deleted_project_id_volume_type_id_size_gb',
                    'ix_volumes_claimed_pool', ONE_VOLUME),
        'snapshots': 'ix_snapshots_deleted_project_id_volume_type_id_size_gb',
        'attachments': 'ix_attachments_deleted_project_id_created_at_id'}),
    'snapshots of a project': (lambda db: snapshot_page(db, PROJECT), {
        'snapshots': 'ix_snapshots_deleted_project_id_created_at_id',
        'snapshot_metadata': 'pk_snapshot_metadata'}),
    'snapshots of all': (lambda db: snapshot_page(db, None), {
        'snapshots': 'ix_snapshots_deleted_created_at_id',
        'snapshot_metadata': 'pk_snapshot_metadata'}),
    'snapshots of a volume': (lambda db: snapshot_page(db, PROJECT, equal={'volume_id': VOLUME}), {
        'snapshots': OF_A_VOLUME, 'snapshot_metadata': 'pk_snapshot_metadata'}),
    'volumes that exist': (lambda db: volume_queries.existing_on(db, HOST, [VOLUME]), {
        'volumes': ONE_VOLUME}),
    'pairs at work': (lambda db: attachment_queries.at_work(db, HOST), {
        'attachments': ('ix_attachments_deadline', 'ix_attachments_deleted_state', *OF_VOLUME),
        'volumes': (ONE_VOLUME, ON_HOST)}),
    'work that is due': (lambda db: work.due(db, HOST), {'work': WORK_DUE}),
    'work of schedulers': (lambda db: work.due(db, None), {'work': WORK_DUE}),
    'messages of a project': (lambda db: messages.list_page(db, PROJECT, {}, PAGE), {
        'messages': 'ix_messages_project_id_created_at_id'}),
    'named request': (lambda db: idempotency_keys.find(db, idempotency.Request(
        full.name('scope', 7), 'd')), {'idempotency_keys': 'pk_idempotency_keys'}),
    'what has run out': (lambda db: (messages.purge(db), idempotency_keys.purge(db)), {
        'messages': 'ix_messages_expires_at',
        'idempotency_keys': 'ix_idempotency_keys_expires_at'}),
    'waits that begin': (lambda db: waits.note(db, HOST, LIMITS, 10), {
        'attachments': ('ix_attachments_deleted_state', *OF_VOLUME),
        'volumes': (ONE_VOLUME, ON_HOST), 'waits': 'pk_waits'}),
    'waits that are too long': (lambda db: waits.overdue(db, HOST, LIMITS, 10), {
        'attachments': (ONE_ATTACHMENT, 'ix_attachments_deleted_state'), 'volumes': ONE_VOLUME,
        'waits': ('ix_waits_since', 'pk_waits')}),
    'waits that are over': (lambda db: waits.forget(db, LIMITS, 10), {
        'attachments': (ONE_ATTACHMENT, 'ix_attachments_deleted_state'),
        'waits': ('ix_waits_since', 'pk_waits')}),
    'a heartbeat': (lambda db: services.heartbeat(db, 7), {}),
}


class Plans:
    """Query plans on one filled database per class, since filling it takes seconds."""

    KIND = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        base.need(cls.KIND)
        cls.fixture = database.DatabaseFixture(cls.KIND, fresh=True)
        cls.addClassCleanup(cls.fixture.close)
        cls.database = cls.fixture.database
        full.fill(cls.database)

    def used(self, act):
        """Return the indexes by which each large table is read."""
        with recording.statements(self.database) as sent:
            act(self.database)
        found = collections.defaultdict(set)
        with self.database.engine.connect() as connection:
            for statement, values in sent:
                for table, index in self.explain(connection, statement, values):
                    found[table].add(index)
        return {table: indexes for table, indexes in found.items() if table not in SMALL}

    def test_queries_use_expected_index(self):
        for name, (act, expected) in QUERIES.items():
            with self.subTest(name):
                found = self.used(act)
                self.assertEqual(set(expected), set(found))
                for table, indexes in found.items():
                    allowed = expected[table]
                    self.assertLessEqual(
                        indexes, {allowed} if isinstance(allowed, str) else set(allowed), table)

    def test_query_without_index_found(self):
        def look(db):
            with db.reader() as connection:
                connection.execute(sa.text("SELECT id FROM attachments WHERE last_error = 'x'"))

        self.assertEqual({'attachments': {'none'}}, self.used(look))


class MariadbTest(Plans, unittest.TestCase):

    KIND = database.MYSQL

    def explain(self, connection, statement, values):
        """Yield each table with an index that reads it."""
        for row in connection.exec_driver_sql(f'EXPLAIN {statement}', values).mappings():
            table = ALIASES.get(row['table'], row['table'])
            # With index_merge, a second index narrows the rows of the first one.
            for index in (row['key'] or 'none').split('|') if table else ():
                yield table, f'pk_{table}' if index == 'PRIMARY' else index


class PostgresqlTest(Plans, unittest.TestCase):

    KIND = database.POSTGRESQL

    def explain(self, connection, statement, values):
        """Yield each table with an index that reads it."""
        [row] = connection.exec_driver_sql(f'EXPLAIN (FORMAT JSON) {statement}', values)
        yield from self.walk(row[0][0]['Plan'], None)

    def walk(self, node, table):
        table = node.get('Relation Name', table)
        if 'Seq Scan' in node['Node Type']:
            yield table, 'none'
        if 'Index Name' in node:
            yield table, node['Index Name']
        for inner in node.get('Plans', ()):
            yield from self.walk(inner, table)
