"""Rows that the release before wrote are brought to what this one writes; then it may contract."""
import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach import secrets
from blockattach.db import contracting
from blockattach.db import grants
from blockattach.db import migrate
from blockattach.db import models
from blockattach.db import online_migrations
from blockattach.db import sealed_grants
from blockattach.db import services
from blockattach.domain import binaries
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

_grants = models.attachment.grants
MANY = 5
OLDER = ['0.1', '0.2']


class Case(base.DatabaseTestCase):
    """Expanded, and not contracted: as it is while two releases are at work."""

    MIGRATED = False

    def setUp(self):
        super().setUp()
        migrate.expand(self.database.engine)

    def use_before(self):
        """Rows as the release before leaves them."""
        volume = make.volume(self.database, multiattach=True)
        for number in range(MANY):
            make.attachment(self.database, volume,
                            with_connector=make.connector(f'iqn.{number}'))
        with self.database.writer() as connection:
            connection.execute(_grants.update().values(key_id=None))
        return volume


@base.on_every_database
class OnlineMigrationsTest(Case):

    def test_nothing_to_do_is_done(self):
        self.assertEqual([('grants_key_id', 0, 0, 0, None)], online_migrations.run(self.database))
        self.assertEqual({}, online_migrations.left(self.database))

    def test_every_credential_says_which_key_sealed_it(self):
        volume = self.use_before()
        [key] = self.database.sealer.ring()
        self.assertEqual([('grants_key_id', MANY, MANY, 0, None)],
                         online_migrations.run(self.database))
        self.assertEqual({key.id: MANY}, sealed_grants.counts(self.database))
        self.assertEqual(MANY, len(grants.wanted(self.database, volume.id)))
        self.assertEqual([('grants_key_id', 0, 0, 0, None)], online_migrations.run(self.database))

    def test_it_stops_where_it_is_told_and_goes_on(self):
        self.use_before()
        self.assertEqual([('grants_key_id', 3, 3, 2, None)],
                         online_migrations.run(self.database, 3))
        self.assertEqual({'grants_key_id': 2}, online_migrations.left(self.database))
        self.assertEqual([('grants_key_id', 2, 2, 0, None)],
                         online_migrations.run(self.database, 3))

    def test_a_lost_key_does_not_hold_it_up(self):
        self.use_before()
        self.database.sealer = secrets.Sealer([secrets.new_key()])
        self.assertEqual([('grants_key_id', MANY, MANY, 0, None)],
                         online_migrations.run(self.database))
        self.assertEqual({secrets.UNKNOWN_KEY: MANY}, sealed_grants.counts(self.database))

    def test_one_that_fails_does_not_stop_the_others(self):
        self.use_before()

        def fail(database, most):
            raise OSError('no')

        failing = online_migrations.Migration('failing', '', lambda database: 1, fail)
        with self.assertLogs('blockattach', 'ERROR'):
            first, second = online_migrations.run(
                self.database, migrations=(failing, *online_migrations.MIGRATIONS))
        self.assertIsInstance(first.failure, OSError)
        self.assertEqual((MANY, None), (second.done, second.failure))


@base.on_every_database
class ContractTest(Case):

    def hindrances(self):
        return contracting.hindrances(self.database, 60, OLDER)

    def test_rows_that_wait_stand_against_it(self):
        self.use_before()
        [told] = self.hindrances()
        self.assertIn(f'{MANY} rows wait for the online migration grants_key_id', told)
        online_migrations.run(self.database)
        self.assertEqual([], self.hindrances())

    def test_services_of_older_releases_stand_against_it(self):
        for number, release in enumerate((None, '0.2', '0.3', '9.9')):
            services.register(self.database, binaries.VOLUME, f'h{number}@b', 'nova', 'life',
                              release)
        [told] = self.hindrances()
        self.assertIn(f'{binaries.VOLUME} on h0@b (release not told), '
                      f'{binaries.VOLUME} on h1@b (release 0.2)', told)
        self.assertNotIn('h2@b', told)
        # One that is upgraded, and one that has been silent for long.
        services.register(self.database, binaries.VOLUME, 'h0@b', 'nova', 'life', '0.3')
        with self.database.writer() as connection:
            connection.execute(sa.text("UPDATE services SET reported_at = '2020-01-01' "
                                       "WHERE host = 'h1@b'"))
        self.assertEqual([], self.hindrances())

    def test_the_database_itself_refuses_what_was_not_migrated(self):
        """Should the question not have been asked."""
        self.use_before()
        with self.assertRaises((db_exception.DBError, sa.exc.SQLAlchemyError)):
            migrate.contract(self.database.engine)
        online_migrations.run(self.database)
        migrate.contract(self.database.engine)
        self.assertEqual(migrate.expected(), migrate.version(self.database.engine))
        self.assertEqual([], self.hindrances())
