"""Import of Cinder attachments with logged-in hosts, and the command of the import."""
import functools
import io
import json
import sys
import tempfile

from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.importing import importer
from blockattach.storage.db.importing import source
from blockattach.storage.domain import connection
from blockattach.storage.domain import importing
from blockattach.storage.drivers import base as drivers
from blockattach.tests.fixtures import cinder
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import hostile_rows
from blockattach.tests.fixtures import make
from blockattach.tests.functional import instances
from blockattach.tests.functional import test_manage

CREDENTIAL = connection.Credential('someone', 'a-shared-secret')
HOSTS = ('compute-1', 'compute-2')


def typed(text):
    """Replace the standard input of the process by a text."""
    sys.stdin = io.StringIO(text)


class AdoptionTest(instances.WorldTestCase):

    def setUp(self):
        super().setUp()
        there = database.DatabaseFixture(migrated=False)
        self.addCleanup(there.close)
        peer = cinder.Cinder(there.database.engine)
        volume_id = peer.volume(status='in-use', host=instances.POOL, multiattach=True)
        for host in HOSTS:
            peer.attachment(volume_id, host)
        self.world.store.create(drivers.StoredVolume(
            volume_id, f'volume-{volume_id}', 1, 'pool'))
        self.world.target.offer_to_all(connection.Export(
            volume_id, f'volume-{volume_id}', f'/dev/fake/volume-{volume_id}', 1), CREDENTIAL)
        for host in HOSTS:
            self.world.target.log_in(volume_id, instances.initiator_of(host), CREDENTIAL)
        read = source.Source(there.url)
        self.addCleanup(read.close)
        importer.Importer(self.world.database, read, importing.Choices(), '__DEFAULT__').run()
        self.rows = {row.host: row for row in attachment_queries.of_volume(
            self.world.database, volume_id)}
        self.volume_id = volume_id

    def sessions(self):
        return {grant.initiator.rpartition(':')[2]: grant.sessions
                for export in self.world.target.exports() for grant in export.grants}

    def test_imported_sessions_survive_start_and_repair_passes(self):
        self.world.start_instance()
        for _ in range(3):
            self.world.instance.look()
            self.assertEqual(dict.fromkeys(HOSTS, 1), self.sessions())
        self.assert_agree()

    def test_delete_of_imported_attachment_keeps_other_session(self):
        self.world.instance.look()
        self.world.delete(self.rows['compute-1'])
        self.assertEqual({'compute-2': 1}, self.sessions())
        self.world.delete(self.rows['compute-2'])
        for _ in range(3):
            self.world.instance.look()
        self.assertEqual({}, self.sessions())
        self.assert_agree()

    def test_update_of_imported_attachment_keeps_connection(self):
        self.world.instance.look()
        before = self.rows['compute-1']
        again = self.world.update(before, 'compute-1')
        self.assertEqual(before.connection['target_iqn'], again.connection['target_iqn'])
        self.assertEqual(CREDENTIAL, make.credential(
            self.world.database, self.volume_id, before.initiator))
        self.assertEqual(dict.fromkeys(HOSTS, 1), self.sessions())


class CommandTest(test_manage.ManageTestCase):

    def setUp(self):
        super().setUp()
        there = database.DatabaseFixture(migrated=False)
        self.addCleanup(there.close)
        self.peer = cinder.Cinder(there.database.engine)
        self.wrong = self.peer.volume(status='deleting')
        self.right = self.peer.volume()
        self.state_dir = self.enterContext(tempfile.TemporaryDirectory(prefix='blockattach-'))
        self.arguments = ('import', 'cinder', '--connection', there.url)
        self.check(0, 'db', 'sync')

    def asked(self, status, *more):
        self.check(status, *self.arguments, '--format', 'json', *more)
        return json.loads(self.said)

    def test_import_with_refused_row_writes_nothing(self):
        self.check(3, *self.arguments)
        self.assertIn(self.wrong, self.said)
        self.assertIn('Nothing was written.', self.said)
        said = self.asked(3, '--dry-run')
        self.assertEqual([{'code': 'in_work', 'table': 'volumes', 'id': self.wrong, 'holder': '',
                           'text': ''}], said['refused'])
        self.assertEqual((False, 2, 0), (said['written'], said['found']['volumes'],
                                         said['there']['volumes']))

    def test_import_reads_url_from_standard_input(self):
        self.check(3, *self.arguments[:-1], '-', '--dry-run', prepare=functools.partial(
            typed, f'{self.arguments[-1]}\n'))
        self.assertIn(self.wrong, self.said)

    def test_import_with_leave_refused_writes_the_rest(self):
        said = self.asked(3, '--leave-refused')
        self.assertEqual((True, 1), (said['written'], said['taken']['volumes']))
        said = self.asked(3, '--leave-refused')
        self.assertEqual((1, 0), (said['there']['volumes'], sum(said['taken'].values())))

    def test_hostile_rows_refused_and_nothing_written(self):
        """Reports name table and row, with and without --dry-run, in text and in JSON."""
        hostile = hostile_rows.Rows(self.peer).add_all()
        self.check(3, *self.arguments)
        self.assertIn('Nothing was written.', self.said)
        lines = set(map(str.strip, self.said.splitlines()))
        for one in hostile:
            start = f'{one.table} {one.id}: {one.column}: '
            self.assertTrue(any(line.startswith(start) for line in lines), one)
        for more in ((), ('--dry-run',)):
            said = self.asked(3, *more)
            self.assertEqual((False, 0, 0), (
                said['written'], sum(said['taken'].values()), sum(said['there'].values())))
            found = {(one['table'], one['id']) for one in said['refused']}
            self.assertLess({(one.table, one.id) for one in hostile}, found)
        self.asked(3, '--leave-refused')
        said = self.asked(3, '--leave-refused')
        self.assertEqual(said['there']['volumes'], 1)

    def test_broken_database_refused_in_a_line(self):
        path = f'{self.state_dir}/whole.sqlite'
        with self.peer.engine.connect() as connection:
            connection.exec_driver_sql('PRAGMA wal_checkpoint(TRUNCATE)')
            root = connection.exec_driver_sql(
                "SELECT rootpage FROM sqlite_master WHERE name = 'volumes'").scalar_one()
        with open(self.arguments[-1].removeprefix('sqlite:///'), 'rb') as file:
            whole = file.read()
        with open(path, 'wb') as file:
            file.write(whole)
        self.check(3, 'import', 'cinder', '--connection', f'sqlite:///{path}')
        page = int.from_bytes(whole[16:18], 'big')
        for name, content in {
                'torn': whole[:page * (root - 1)] + b'x' * page + whole[page * root:],
                'empty': b'', 'text': b'no database at all\n' * 400, 'cut': whole[:page * 2],
                'header': whole[:page], 'zeros': whole[:page] + bytes(len(whole) - page),
                'flipped': whole[:page] + bytes(255 - one for one in whole[page:])}.items():
            with self.subTest(name):
                # Each database is in its own file, because SQLite keeps journals beside the file.
                path = f'{self.state_dir}/{name}.sqlite'
                with open(path, 'wb') as file:
                    file.write(content)
                self.refused('Cinder database', 'import', 'cinder', '--connection',
                             f'sqlite:///{path}')
        for url in ('nonsense', 'sqlite:////proc/no/such', 'nodialect://a/b',
                    'postgresql://127.0.0.1:1/cinder', 'mysql+pymysql://127.0.0.1:1/cinder'):
            with self.subTest(url):
                self.refused('Cinder database', 'import', 'cinder', '--connection', url)

    def test_import_of_other_database_refused(self):
        self.refused('not supported: revision ', 'import', 'cinder', '--connection',
                     f'sqlite:///{self.state_dir}/blockattach.sqlite')
        self.refused('--pool must be HOST=VALUE', *self.arguments, '--pool', 'a')
