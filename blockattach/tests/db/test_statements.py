"""Statements that each request executes, and messages that it sends over the bus.

Counted are SELECT, INSERT, UPDATE and DELETE, but not the begin and the end of transactions. A
compound statement (BEGIN NOT ATOMIC on MariaDB, WITH on PostgreSQL) counts as one, and lists all
of its changes. The tables below are literal, so a test fails with each additional, missing or
different statement. doc/source/contributor/statements.rst explains them.
"""
import contextlib
import re
import uuid

from blockattach.storage.db import models
from blockattach.tests.db import base
from blockattach.tests.db import recording
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

COUNTED = ('SELECT', 'INSERT', 'UPDATE', 'DELETE', 'WITH', 'BEGIN NOT ATOMIC')
CHANGES = re.compile(r'\b(UPDATE|INSERT INTO|DELETE FROM) (\w+)(, \w+)?')
BOTH = 'UPDATE volumes, UPDATE attachments'
"""Statement that is compound on the servers. SQLite needs two."""

EVENT = 'INSERT attachment_events'
"""Insert of the history event that belongs to each move."""

CONNECT = [
    ('SELECT volumes', 'manager: the volume, the rows of the initiator and its credential'),
    (f'UPDATE attachments, {EVENT}', 'manager: the connection; other hosts learn nothing by it'),
]

DELETE = [
    ('SELECT attachments', 'the row with its volume: visible, allowed, checked'),
    (f'{BOTH}, {EVENT}', 'the intent, if what was read still holds'),
    ('SELECT volumes', 'manager: the volume and the rows of the initiator'),
]

# The messages of each request, and its statements with their reasons, in their order.
REQUESTS = {
    'create': (['volume connect'], [
        ('SELECT volumes', 'the volume and its attachments: visible, allowed, admitted'),
        (f'UPDATE volumes, INSERT grants, INSERT attachments, {EVENT}',
         'one more move, if what was read still holds; the words; the credential of a host that '
         'is new to the volume; the row, with its intent'),
        *CONNECT]),
    'create beside others': (['volume connect'], [
        ('SELECT volumes', 'the same'),
        (f'UPDATE volumes, INSERT grants, INSERT attachments, {EVENT}', 'the same'),
        *CONNECT]),
    'reserve': ([], [
        ('SELECT volumes', 'the volume and its attachments: visible, allowed, admitted'),
        (f'UPDATE volumes, INSERT attachments, {EVENT}',
         'one more move, if what was read still holds; the words; the row')]),
    'update': (['volume connect'], [
        ('SELECT attachments', 'the row with its volume: visible, allowed, checked'),
        (f'{BOTH}, INSERT grants, {EVENT}',
         'the intent, if what was read still holds; the credential of a host that is new to the '
         'volume'),
        *CONNECT]),
    'update beside others': (['volume connect'], [
        ('SELECT attachments', 'the row with its volume: visible, allowed, checked'),
        (f'{BOTH}, {EVENT}', 'the intent, if what was read still holds'),
        ('SELECT volumes', 'whether the host has a credential, and which names are free'),
        ('INSERT grants', 'the credential of a host that is new to the volume'),
        *CONNECT]),
    'update again': (['volume connect'], [
        ('SELECT attachments', 'the row with its volume and its credential'),
        (f'{BOTH}, {EVENT}', 'the intent, if what was read still holds'),
        CONNECT[0],
        ('SELECT volumes', 'manager: the same with rows that had the initiator before; only while '
                           'a row gets another connector is there one'),
        CONNECT[1]]),
    'complete': ([], [
        ('SELECT attachments', 'the row with its volume: visible, allowed, checked'),
        (f'{BOTH}, {EVENT}', 'the state, if what was read still holds')]),
    'show attachment': ([], [
        ('SELECT attachments', 'the row with the credential of its connection')]),
    'delete': (['volume disconnect'], [
        *DELETE,
        (f'{BOTH}, DELETE grants, {EVENT}',
         'manager: the end, which says whether anything remains on the volume; the credential, '
         'unless another row needs it')]),
    'delete a reserved one': ([], [
        ('SELECT attachments', 'the row with its volume: visible, allowed, checked'),
        (f'{BOTH}, {EVENT}', 'the end; it says that nothing remains on the volume')]),
    'delete beside others': (['volume disconnect'], [
        *DELETE,
        (f'{BOTH}, {EVENT}', 'manager: the end'),
        ('DELETE grants', 'manager: the credential, unless a row needs it that has come since'),
        ('SELECT attachments', 'the answer: what remains on the volume')]),
    'show volume': ([], [
        ('SELECT volumes', 'the volume with its type and its metadata'),
        ('SELECT attachments', 'its attachments, and the metadata of its image')]),
    'list volumes': ([], [
        ('SELECT volumes', 'the page'),
        ('SELECT volume_metadata', 'its metadata, and that of images'),
        ('SELECT attachments', 'the servers of those that are attached')]),
    'list volumes after a marker': ([], [
        ('SELECT volumes', 'the marker'), ('SELECT volumes', 'the page'),
        ('SELECT volume_metadata', 'its metadata, and that of images'),
        ('SELECT attachments', 'the servers of those that are attached')]),
    'list volumes with a count': ([], [
        ('SELECT volumes', 'the page'),
        ('SELECT volume_metadata', 'its metadata, and that of images'),
        ('SELECT attachments', 'the servers of those that are attached'),
        ('SELECT volumes', 'the count')]),
    'list attachments': ([], [
        ('SELECT attachments', 'the page with the credentials')]),
    'list attachments after a marker': ([], [
        ('SELECT attachments', 'the marker'),
        ('SELECT attachments', 'the page with the credentials')]),
    'create a volume': (['scheduler place_volume', 'volume accept_work'], [
        ('SELECT volume_types', 'the type'),
        ('SELECT quotas', 'the limits of the project, none of which is near'),
        ('SELECT volume_types', 'a share of the type, so that it stays as it is'),
        ('SELECT volume_types', 'the type, as it is under that lock'),
        ('INSERT volumes', 'the row'),
        ('INSERT work', 'its making'),
        ('SELECT volumes', 'scheduler: attempts, hints and what else filters look at'),
        ('SELECT pools', 'scheduler: the pools and their services'),
        ('UPDATE volumes', 'scheduler: the pool, if it is still waiting for one'),
        ('UPDATE pools', 'scheduler: the room, if it is still there'),
        ('UPDATE work', 'manager: the owner'),
        ('SELECT volumes', 'manager: what is to be made, and of what'),
        ('UPDATE volumes', 'manager: it is available'),
        ('DELETE work', 'manager: it has ended'),
        ('UPDATE pools', 'manager: what is free now')]),
    'delete a volume': (['volume start_work'], [
        ('SELECT volumes', 'the volume with its type and its metadata: visible'),
        ('SELECT attachments', 'its attachments, and the metadata of its image'),
        ('SELECT volumes', 'the volume, locked'),
        ('SELECT volumes', 'whether another one is being made of it, or it has snapshots'),
        ('SELECT services', 'whether its backend is frozen'),
        ('UPDATE volumes', 'the intent'),
        ('INSERT work', 'its removal'),
        ('UPDATE work', 'manager: the owner'),
        ('SELECT volumes', 'manager: what is to be removed, and what before it'),
        ('SELECT volumes', 'manager: the volume, locked'),
        ('DELETE work', 'manager: it has ended'),
        ('UPDATE pools', 'manager: its room is free'),
        ('DELETE grants', 'manager: the credentials'),
        ('UPDATE volumes', 'manager: the end'),
        ('UPDATE pools', 'manager: what is free now')]),
}


def shape(statement):
    """Return the verb and the table of each part of a statement."""
    words = statement.split()
    if words[0] == 'SELECT':
        return f'SELECT {table(words)}'
    return ', '.join(f'{verb.split()[0]} {name}' for verb, *names in CHANGES.findall(statement)
                     for name in (each.strip(', ') for each in names) if name)


def table(words):
    """Return the table after the first FROM outside of parentheses."""
    depth = 0
    for number, word in enumerate(words):
        if depth == 0 and word == 'FROM':
            return words[number + 1]
        depth += word.count('(') - word.count(')')
    raise AssertionError(words)


class Case(base.DatabaseTestCase):

    def setUp(self):
        base.need(self.KIND)
        self.http = http.ApiFixture(kind=self.KIND)
        self.addCleanup(self.http.close)
        self.database = self.http.database
        self.api = self.http.as_member

    @contextlib.contextmanager
    def statements(self):
        """Yield a list that collects the shapes of the counted statements within the context."""
        sent = []

        def remember(connection, cursor, statement, values, context, many):
            plain = statement.lstrip('( \n')
            if plain.startswith(COUNTED):
                sent.append(shape(plain))

        with recording.listening(self.database, before_cursor_execute=remember):
            yield sent

    def watched(self, act):
        """Run a request, and return its response, its messages and its statements."""
        del self.http.managers.sent[:]
        with self.statements() as sent:
            reply = act()
        self.assertLess(reply.status, 300, reply.text)
        return reply.body, list(self.http.managers.sent), sent

    def expect(self, name, act):
        """Compare a request with its row of the table and return its response."""
        body, messages, sent = self.watched(act)
        wanted_messages, wanted = REQUESTS[name]
        with self.subTest(name):
            self.assertEqual(wanted_messages, messages)
            self.assertEqual(self.written([statement for statement, _ in wanted]), sent)
        return body

    def written(self, statements):
        """Return the statements as the database of the test gets them.

        SQLite has no compound statements.
        """
        if self.KIND != database.SQLITE:
            return statements
        return [one for statement in statements for one in statement.split(', ')]

    def volume(self, **wanted):
        return self.api.post('/volumes', {'volume': {
            'size': 1, 'metadata': {'a': '1', 'b': '2'}, **wanted}}).body['volume']['id']

    def create(self, volume_id, connector=None):
        body = {'volume_uuid': volume_id, 'instance_uuid': http.PROJECT}
        if connector is not None:
            body['connector'] = connector
        return self.api.post('/attachments', {'attachment': body})

    def update(self, made, connector):
        return self.api.put(f'/attachments/{made}', {'attachment': {'connector': connector}})

    def complete(self, made):
        return self.api.post(f'/attachments/{made}/action', {'os-complete': None})


@base.on_every_database
class StatementsTest(Case):

    def test_statements_of_attach_with_connector(self):
        volume_id = self.volume()
        made = self.expect('create', lambda: self.create(volume_id, make.connector()))
        made = made['attachment']['id']
        self.expect('show attachment', lambda: self.api.get(f'/attachments/{made}'))
        self.expect('complete', lambda: self.complete(made))
        self.expect('show volume', lambda: self.api.get(f'/volumes/{volume_id}'))
        self.expect('delete', lambda: self.api.delete(f'/attachments/{made}'))

    def test_statements_of_attach_after_reserve(self):
        volume_id, connector = self.volume(), make.connector()
        made = self.expect('reserve', lambda: self.create(volume_id))['attachment']['id']
        self.expect('update', lambda: self.update(made, connector))
        self.expect('update again', lambda: self.update(made, connector))
        reserved = self.create(self.volume()).body['attachment']['id']
        self.expect('delete a reserved one', lambda: self.api.delete(f'/attachments/{reserved}'))

    def test_statements_independent_of_other_attachments(self):
        """Many attachments and many deleted ones cause no additional statement."""
        volume_id = self.volume(volume_type=make.volume_type(self.database, multiattach=True).id)
        for _ in range(5):
            gone = self.create(volume_id, make.connector()).body['attachment']['id']
            self.complete(self.create(volume_id, make.connector()).body['attachment']['id'])
            self.api.delete(f'/attachments/{gone}')
        made = self.expect('create beside others', lambda: self.create(
            volume_id, make.connector()))['attachment']['id']
        self.expect('complete', lambda: self.complete(made))
        self.expect('show volume', lambda: self.api.get(f'/volumes/{volume_id}'))
        self.expect('delete beside others', lambda: self.api.delete(f'/attachments/{made}'))
        made = self.create(volume_id).body['attachment']['id']
        self.expect('update beside others', lambda: self.update(made, make.connector()))

    def test_statements_of_lists(self):
        for _ in range(3):
            made = self.create(self.volume(), make.connector()).body['attachment']['id']
            self.complete(made)
        found = self.expect('list volumes', lambda: self.api.get('/volumes/detail'))['volumes']
        self.assertEqual([({'a': '1', 'b': '2'}, 1)] * 3, [
            (one['metadata'], len(one['attachments'])) for one in found])
        self.expect('list volumes after a marker', lambda: self.api.get(
            f'/volumes/detail?marker={found[0]["id"]}'))
        self.expect('list volumes with a count', lambda: self.api.get(
            '/volumes/detail?with_count=true'))
        self.expect('list attachments', lambda: self.api.get('/attachments/detail'))
        self.expect('list attachments after a marker', lambda: self.api.get(
            f'/attachments/detail?marker={made}'))

    def test_statements_of_lists_independent_of_length(self):
        """Volumes with metadata, every tenth attached twice, cause no additional statement."""
        kind = make.volume_type(self.database, multiattach=True).id
        for number in range(20):
            volume_id = self.volume(volume_type=kind)
            for _ in range(0 if number % 10 else 2):
                self.complete(self.create(volume_id, make.connector()).body['attachment']['id'])
        found = self.expect('list volumes', lambda: self.api.get(
            '/volumes/detail?limit=20'))['volumes']
        self.assertEqual([0] * 18 + [2] * 2, sorted(len(one['attachments']) for one in found))
        self.assertEqual([{'a': '1', 'b': '2'}] * 20, [one['metadata'] for one in found])

    def test_statements_of_volume_create(self):
        def create():
            return self.api.post('/volumes', {'volume': {'size': 1}})

        # The first request reads the pools, which are cached for a while.
        create()
        volume_id = self.expect('create a volume', create)['volume']['id']
        self.assertEqual('available', self.api.get(f'/volumes/{volume_id}').body[
            'volume']['status'])
        self.expect('delete a volume', lambda: self.api.delete(f'/volumes/{volume_id}'))
        self.assertEqual(404, self.api.get(f'/volumes/{volume_id}').status)


class FlatTest(Case):
    """Cost of a volume with many attachments by the rows that MariaDB reads."""

    KIND = database.MYSQL
    OTHERS = 500
    GONE = 1000
    _COUNTERS = "SHOW SESSION STATUS WHERE Variable_name LIKE 'Handler_read%%'"

    def crowd(self, volume_id):
        """Insert live and deleted attachments of the volume with their grants."""
        now = self.database.clock.utcnow()
        sealed = self.database.sealer.sealed('x')
        rows = [{'id': str(uuid.uuid4()), 'volume_id': volume_id, 'project_id': http.PROJECT,
                 'instance_uuid': str(uuid.uuid4()), 'rank': None if number >= self.OTHERS else 1,
                 'state': 'gone' if number >= self.OTHERS else 'attached',
                 'legacy_reservation': False, 'mode': 'rw', 'initiator': f'iqn.{number}',
                 'connector': '{}', 'connection': '{}', 'generation': 3, 'created_at': now,
                 'deleted': number >= self.OTHERS} for number in range(self.OTHERS + self.GONE)]
        grants = [{'volume_id': volume_id, 'initiator': f'iqn.{number}', 'alias': f'-{number}',
                   'username': 'u', 'sealed_password': sealed.text, 'key_id': sealed.key_id,
                   'created_at': now} for number in range(self.OTHERS)]
        volumes = models.volumes
        with self.database.writer() as connection:
            connection.execute(models.attachments.insert(), rows)
            connection.execute(models.grants.insert(), grants)
            connection.execute(volumes.update().where(volumes.c.id == volume_id).values(
                lowest_rank=1, status='in-use', attach_status='attached'))

    def looked_at(self, act):
        """Return the response of a request, and the number of rows that the server has read for
        it.
        """
        counted, before_it = [0], {}

        def read(cursor):
            other = cursor.connection.cursor()
            other.execute(self._COUNTERS)
            total = sum(int(value) for _, value in other.fetchall())
            other.close()
            return total

        def before(connection, cursor, statement, values, context, many):
            first = read(cursor)
            # Reading the counters increases them, too.
            before_it[cursor.connection] = 2 * read(cursor) - first

        def after(connection, cursor, statement, values, context, many):
            counted[0] += read(cursor) - before_it.pop(cursor.connection)

        with recording.listening(self.database, before_cursor_execute=before,
                                 after_cursor_execute=after):
            reply = act()
        self.assertLess(reply.status, 300, reply.text)
        return reply.body, counted[0]

    def lifecycle(self, volume_id):
        """Return the rows read by each request in the lifecycle of one more attachment."""
        found = {}
        made, found['create'] = self.looked_at(lambda: self.create(volume_id, make.connector()))
        made = made['attachment']['id']
        _, found['complete'] = self.looked_at(lambda: self.complete(made))
        reserved, found['reserve'] = self.looked_at(lambda: self.create(volume_id))
        reserved = reserved['attachment']['id']
        _, found['update'] = self.looked_at(lambda: self.update(reserved, make.connector()))
        return found

    def test_rows_read_independent_of_attachment_count(self):
        kind = make.volume_type(self.database, multiattach=True).id
        few, many = self.volume(volume_type=kind), self.volume(volume_type=kind)
        self.complete(self.create(few, make.connector()).body['attachment']['id'])
        self.crowd(many)
        cost, crowded = self.lifecycle(few), self.lifecycle(many)
        for name, number in cost.items():
            self.assertLess(0, number)
            self.assertLessEqual(crowded[name], 1.2 * number, (name, cost, crowded))


class GoalsTest(base.unittest.TestCase):
    """Upper bounds of the number of statements."""

    MOST = {'create': 4, 'complete': 2, 'delete': 4, 'update': 4, 'reserve': 2, 'show volume': 2,
            'show attachment': 2, 'create a volume': 15, 'delete a volume': 15}
    LIST = 3
    # The marker is looked up, and all matching rows are counted.
    MORE = {'list volumes after a marker': 1, 'list volumes with a count': 1}

    CYCLES = {('create', 'complete', 'delete'): 10,
              ('reserve', 'update', 'complete', 'delete'): 12}

    def test_statements_per_cycle_bounded(self):
        for names, most in self.CYCLES.items():
            self.assertLessEqual(sum(len(REQUESTS[name][1]) for name in names), most, names)

    def test_statements_per_request_bounded(self):
        for name, (_, statements) in REQUESTS.items():
            most = (self.LIST + self.MORE.get(name, 0) if name.startswith('list')
                    else self.MOST.get(name))
            if most is not None:
                self.assertLessEqual(len(statements), most, name)
