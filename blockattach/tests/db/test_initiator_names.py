"""Case-insensitive initiator names, also in rows of an earlier release."""
import sqlalchemy as sa

from blockattach.storage.db import models
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.attachments import initiator_names
from blockattach.storage.db.schema import online_migrations
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import connection
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

S = lifecycle.State
SENT, NAME = 'iqn.2026-01.org.example:Host-A', 'iqn.2026-01.org.example:host-a'


class Case(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.volume = make.volume(self.database, multiattach=True)

    def attach(self, initiator=SENT, state=S.ATTACHED):
        return make.attachment(self.database, self.volume, state,
                               with_connector=make.connector(initiator))

    def stored(self):
        """Return the initiator names of the attachments and grants of the volume."""
        with self.database.reader() as connection:
            return [sorted(connection.scalars(sa.select(table.c.initiator).where(
                table.c.volume_id == self.volume.id)))
                for table in (models.attachments, models.grants)]

    def write_as_before(self, row, name=SENT):
        """Store a name in the form of an earlier release."""
        with self.database.writer() as connection:
            for table, which in ((models.attachments, models.attachments.c.id == row.id),
                                 (models.grants, models.grants.c.initiator == NAME)):
                connection.execute(table.update().where(which).values(initiator=name))
        return attachment_queries.get(self.database, row.id)

    def migrate(self):
        return [(result.found, result.done, result.remaining)
                for result in online_migrations.run(self.database)
                if result.name == 'initiator_names']


@base.on_sqlite_and_servers_in_turn
class NameTest(Case):

    def test_initiators_differing_in_case_share_grant(self):
        for name in (SENT, NAME, NAME.upper()):
            self.attach(name)
        self.assertEqual([[NAME] * 3, [NAME]], self.stored())
        [wanted] = grants.wanted(self.database, [self.volume.id])
        state = grants.desired_state(self.database, self.volume.id, NAME)
        self.assertEqual(wanted, state.grant)
        self.assertEqual((NAME, {SENT, NAME.upper()}), (wanted.initiator, wanted.spellings))
        self.assertEqual(3, len(state.rows))

    def test_connector_stored_as_sent(self):
        self.assertEqual(SENT, self.attach().connector['initiator'])


@base.on_sqlite_and_servers_in_turn
class MigrationTest(Case):

    def test_initiators_of_earlier_release_lowercased(self):
        row = self.write_as_before(self.attach())
        credential = make.credential(self.database, self.volume.id, SENT)
        self.assertEqual([[SENT], [SENT]], self.stored())
        self.assertEqual([(2, 2, 0)], self.migrate())
        self.assertEqual([[NAME], [NAME]], self.stored())
        self.assertEqual(credential, make.credential(self.database, self.volume.id, NAME))
        self.assertEqual([(0, 0, 0)], self.migrate())
        self.assertGreater(attachment_queries.get(self.database, row.id).generation,
                           row.generation)

    def test_transitional_row_migrated_by_next_run(self):
        row = self.write_as_before(self.attach(state=S.CONNECTING))
        self.assertEqual([(2, 0, 2)], self.migrate())
        self.assertEqual(row, attachment_queries.get(self.database, row.id))

    def test_initiator_in_two_spellings_left_and_logged(self):
        self.write_as_before(self.attach())
        self.attach(NAME)
        with self.assertLogs('blockattach', 'WARNING') as logs:
            self.assertEqual([(2, 0, 2)], self.migrate())
        self.assertIn(SENT, logs.output[0])
        self.assertIn(self.volume.id, logs.output[0])

    def test_unmigrated_row_is_no_difference(self):
        self.write_as_before(self.attach())
        [wanted] = grants.wanted(self.database, [self.volume.id])
        self.assertEqual((SENT, {SENT}), (wanted.initiator, wanted.spellings))
        actual = connection.ActualGrant(self.volume.id, NAME, wanted.mode, 1,
                                        spellings=frozenset({SENT}))
        self.assertEqual((set(), set()), connection.difference([wanted], [actual]))

    def test_former_spelling_finds_migrated_rows(self):
        self.attach()
        found = grants.desired_state(self.database, self.volume.id, SENT)
        self.assertEqual(NAME, found.grant.initiator)
        self.assertEqual(0, initiator_names.remaining(self.database))
