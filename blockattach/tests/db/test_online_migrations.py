"""Online migrations of rows of the previous release, which come before the contraction."""
import sqlalchemy as sa

from blockattach.storage.db import models
from blockattach.storage.db.schema import online_migrations
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

_volumes = models.volumes
_UNNAMED = _volumes.c.name.is_(None)
MANY = 5
OLDER = ['0.8', '0.9']


def without_name(database):
    """Return the number of volumes without a name."""
    with database.reader() as connection:
        return len(connection.execute(_volumes.select().where(_UNNAMED)).all())


def give_names(database, most):
    """Name a batch of the volumes without a name."""
    with database.writer() as connection:
        ids = connection.scalars(sa.select(_volumes.c.id).where(_UNNAMED).limit(most)).all()
        connection.execute(_volumes.update().where(_volumes.c.id.in_(ids)).values(name='x'))
    return online_migrations.Progress(len(ids), len(ids))


MIGRATION = online_migrations.Migration('names', 'Every volume has a name.', without_name,
                                        give_names)


@base.on_sqlite_and_servers_in_turn
class OnlineMigrationsTest(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        for _ in range(MANY):
            make.volume(self.database)
        with self.database.writer() as connection:
            connection.execute(_volumes.update().values(name=None))

    def run_it(self, most=None, *others):
        return online_migrations.run(self.database, most, (*others, MIGRATION))

    def test_new_rows_need_no_online_migration(self):
        self.assertEqual({0}, {result.found for result in online_migrations.run(self.database)})
        self.assertEqual({}, online_migrations.remaining(self.database))

    def test_online_migration_processes_each_row_once(self):
        self.assertEqual([('names', MANY, MANY, 0, None)], self.run_it())
        self.assertEqual([('names', 0, 0, 0, None)], self.run_it())
        self.assertEqual({}, online_migrations.remaining(self.database, (MIGRATION,)))

    def test_online_migration_limited_and_resumed(self):
        self.assertEqual([('names', 3, 3, 2, None)], self.run_it(3))
        self.assertEqual({'names': 2}, online_migrations.remaining(self.database, (MIGRATION,)))
        self.assertEqual([('names', 2, 2, 0, None)], self.run_it(3))

    def test_failing_online_migration_does_not_stop_others(self):
        def fail(database, most):
            raise OSError('no')

        failing = online_migrations.Migration('failing', '', lambda database: 1, fail)
        with self.assertLogs('blockattach', 'ERROR'):
            first, second = self.run_it(None, failing)
        self.assertIsInstance(first.failure, OSError)
        self.assertEqual((MANY, None), (second.done, second.failure))


@base.on_sqlite_and_servers_in_turn
class OlderServicesTest(base.DatabaseTestCase):

    def test_contract_blocked_by_services_of_older_release(self):
        for number, release in enumerate(('0.8', '0.9', '1.0', '9.9')):
            services.register(self.database, binaries.VOLUME, f'h{number}@b', 'nova', 'instance',
                              release)
        [found] = online_migrations.hindrances(self.database, 60, OLDER)
        self.assertIn(f'{binaries.VOLUME} on h0@b (release 0.8), '
                      f'{binaries.VOLUME} on h1@b (release 0.9)', found)
        self.assertNotIn('h2@b', found)
        # The first service is upgraded, and the second one has been down for long.
        services.register(self.database, binaries.VOLUME, 'h0@b', 'nova', 'instance', '1.0')
        with self.database.writer() as connection:
            connection.execute(sa.text("UPDATE services SET reported_at = '2020-01-01' "
                                       "WHERE host = 'h1@b'"))
        self.assertEqual([], online_migrations.hindrances(self.database, 60, OLDER))
