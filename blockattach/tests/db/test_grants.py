"""Grants: one credential per (volume, initiator) as long as the pair has an attachment."""
import hashlib
import pathlib
import uuid

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.storage.db import models
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import grants
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import connection
from blockattach.tests.db import base
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import make

S = lifecycle.State
E = lifecycle.Event
RW, RO = connection.AccessMode.RW, connection.AccessMode.RO


class Case(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.volume = make.volume(self.database, multiattach=True)

    def attach(self, initiator, mode=None, state=S.ATTACHED, volume=None):
        return make.attachment(self.database, volume or self.volume, state, mode=mode,
                               with_connector=make.connector(initiator))

    def move(self, row, event, **facts):
        return make.move(self.database, row, event, **facts)

    def wanted(self, initiator=None):
        return {grant.initiator: grant.mode
                for grant in grants.wanted(self.database, [self.volume.id])
                if initiator in (None, grant.initiator)}

    def credential(self, initiator):
        return make.credential(self.database, self.volume.id, initiator)

    def aliases(self):
        return {grant.initiator: grant.alias
                for grant in grants.wanted(self.database, [self.volume.id])}


@base.on_chosen_databases
class CredentialTest(Case):

    def test_attachments_of_one_initiator_share_credential(self):
        self.attach('iqn.a')
        first = self.credential('iqn.a')
        self.attach('iqn.a')
        self.assertEqual(first, self.credential('iqn.a'))

    def test_credential_differs_per_pair(self):
        other = make.volume(self.database, multiattach=True)
        self.attach('iqn.a')
        self.attach('iqn.b')
        self.attach('iqn.a', volume=other)
        found = {self.credential('iqn.a'), self.credential('iqn.b'),
                 make.credential(self.database, other.id, 'iqn.a')}
        self.assertEqual(3, len(found))
        self.assertNotIn(None, found)

    def test_credential_deleted_with_last_attachment_of_pair(self):
        rows = [self.attach('iqn.a'), self.attach('iqn.a'),
                self.attach('iqn.a', state=S.CONNECTING)]
        kept = self.credential('iqn.a')
        for row in rows:
            self.assertEqual(kept, self.credential('iqn.a'))
            self.move(self.move(row, E.DISCONNECT), E.DISCONNECTED)
        self.assertIsNone(self.credential('iqn.a'))

    def test_credential_of_other_initiator_kept(self):
        row = self.attach('iqn.a')
        self.attach('iqn.b')
        kept = self.credential('iqn.b')
        self.move(self.move(row, E.DISCONNECT), E.DISCONNECTED)
        self.assertEqual((None, kept), (self.credential('iqn.a'), self.credential('iqn.b')))

    def test_credential_new_after_last_attachment_deleted(self):
        row = self.attach('iqn.a')
        first = self.credential('iqn.a')
        self.move(self.move(row, E.DISCONNECT), E.DISCONNECTED)
        self.attach('iqn.a')
        self.assertNotIn(self.credential('iqn.a'), (None, first))

    def test_credential_kept_until_disconnected(self):
        row = self.attach('iqn.a')
        kept = self.credential('iqn.a')
        self.move(row, E.DISCONNECT)
        self.assertEqual((kept, {}), (self.credential('iqn.a'), self.wanted()))

    def test_move_to_other_host_keeps_both_grants_until_connected(self):
        row = self.attach('iqn.a')
        kept = self.credential('iqn.a')
        moving = self.move(row, E.CONNECT, with_connector=make.connector('iqn.b'))
        self.assertEqual({'iqn.a': RW, 'iqn.b': RW}, self.wanted())
        self.assertEqual(kept, self.credential('iqn.a'))
        self.move(moving, E.CONNECTED)
        self.assertEqual({'iqn.b': RW}, self.wanted())
        self.assertIsNone(self.credential('iqn.a'))

    def test_abandoned_move_leaves_no_credential(self):
        row = self.attach('iqn.a')
        moving = self.move(row, E.CONNECT, with_connector=make.connector('iqn.b'))
        failed = self.move(moving, E.FAILED)
        again = self.move(failed, E.CONNECT, with_connector=make.connector('iqn.b'))
        self.move(self.move(again, E.DISCONNECT), E.DISCONNECTED)
        self.assertEqual((None, None), (self.credential('iqn.a'), self.credential('iqn.b')))
        with self.database.reader() as reader:
            self.assertEqual([], reader.execute(models.grants.select()).all())

    def test_credentials_read_with_attachments(self):
        rows = [self.attach('iqn.a'), self.attach('iqn.b')]
        for found in (attachment_queries.of_volume(self.database, self.volume.id),
                      [attachment_queries.get_even_deleted(self.database, row.id)
                       for row in rows]):
            self.assertEqual(
                [self.credential('iqn.a'), self.credential('iqn.b')],
                [grants.opened(self.database, one.sealed) for one in found])


@base.on_chosen_databases
class ModeTest(Case):

    def test_grant_has_widest_mode_of_attachments(self):
        self.attach('iqn.a', RO)
        self.assertEqual({'iqn.a': RO}, self.wanted())
        writer = self.attach('iqn.a', RW)
        self.assertEqual({'iqn.a': RW}, self.wanted())
        self.attach('iqn.b', RO)
        self.assertEqual({'iqn.a': RW, 'iqn.b': RO}, self.wanted())
        # The grant is narrowed as soon as the detach of the writer begins.
        self.move(writer, E.DISCONNECT)
        self.assertEqual({'iqn.a': RO, 'iqn.b': RO}, self.wanted())

    def test_refused_disconnect_restores_rw_grant(self):
        self.attach('iqn.a', RO)
        writer = self.attach('iqn.a', RW)
        self.move(self.move(writer, E.DISCONNECT), E.REFUSED)
        self.assertEqual({'iqn.a': RW}, self.wanted())

    def test_grant_wanted_by_state(self):
        for state in lifecycle.LIVE:
            initiator = f'iqn.{state}'
            self.attach(initiator, state=state)
            expected = state in lifecycle.GRANTED
            self.assertEqual(expected, initiator in self.wanted())
            self.assertEqual({initiator: RW} if expected else {}, self.wanted(initiator))

    def test_grants_of_several_volumes_listed(self):
        others = [make.volume(self.database, multiattach=True) for _ in range(3)]
        for volume in (self.volume, *others):
            self.attach('iqn.a', volume=volume)
        found = grants.wanted(self.database, [self.volume.id, others[0].id, 'nowhere'])
        self.assertEqual({(self.volume.id, 'iqn.a'), (others[0].id, 'iqn.a')},
                         {(grant.volume_id, grant.initiator) for grant in found})
        self.assertEqual((), grants.wanted(self.database, []))


@base.on_sqlite_and_servers_in_turn
class AliasTest(Case):

    def test_first_alias_empty_and_later_aliases_hashed(self):
        for initiator in ('iqn.a', 'iqn.b', 'iqn.c'):
            self.attach(initiator)
        found = self.aliases()
        self.assertEqual('', found['iqn.a'])
        digest = hashlib.sha256(b'iqn.b').hexdigest()
        self.assertEqual(f'-{digest[:8]}', found['iqn.b'])
        self.assertEqual(3, len(set(found.values())))

    def test_alias_kept_as_long_as_grant(self):
        first = self.attach('iqn.a')
        self.attach('iqn.b')
        before = self.aliases()['iqn.b']
        self.move(self.move(first, E.DISCONNECT), E.DISCONNECTED)
        self.attach('iqn.b')
        self.assertEqual({'iqn.b': before}, self.aliases())

    def test_alias_extended_on_hash_collision(self):
        """The two initiators share the first 8 digits of SHA-256 and were found by search."""
        one, two = self._twins()
        for initiator in ('iqn.a', one, two):
            self.attach(initiator)
        found = self.aliases()
        self.assertEqual(3, len(set(found.values())))
        self.assertTrue(found[two].startswith(found[one]))

    def test_unique_index_rejects_duplicate_alias(self):
        self.attach('iqn.a')
        with self.database.reader() as reader:
            row = reader.execute(models.grants.select()).one()._asdict()
        with self.assertRaises(db_exception.DBDuplicateEntry), \
                self.database.writer() as connection:
            connection.execute(models.grants.insert().values(**{**row, 'initiator': 'iqn.b'}))

    def _twins(self):
        seen = {}
        for number in range(10 ** 6):
            name = f'iqn.2016-04.com.example:host-{number}'
            digest = hashlib.sha256(name.encode()).hexdigest()[:8]
            if digest in seen:
                return seen[digest], name
            seen[digest] = name
        raise AssertionError('no collision among a million names')


@base.on_chosen_databases
class SealedTest(Case):

    def test_chap_password_sealed_in_database(self):
        self.attach('iqn.a')
        password = self.credential('iqn.a').password
        with self.database.reader() as reader:
            row = reader.execute(models.grants.select()).one()
        self.assertNotIn(password, str(tuple(row)))
        self.assertEqual(password, self.database.sealer.unseal(row.sealed_password))
        with self.database.reader() as reader:
            for table in models.attachments.metadata.tables.values():
                for found in reader.execute(sa.select(table)):
                    self.assertNotIn(password, str(tuple(found)), table.name)

    def test_chap_password_absent_from_sqlite_file(self):
        if self.KIND != database.SQLITE:
            self.skipTest('the test reads the files of SQLite')
        rows = [self.attach(f'iqn.{number}') for number in range(3)]
        passwords = [self.credential(row.initiator).password.encode() for row in rows]
        self.assertEqual(3, len(set(passwords)))
        written = b''.join(file.read_bytes() for file in
                           sorted(pathlib.Path(self.fixture.path).parent.iterdir()))
        self.assertIn(rows[0].initiator.encode(), written)
        for password in passwords:
            self.assertNotIn(password, written)

    def test_repr_hides_chap_password(self):
        row = self.attach('iqn.a')
        password = self.credential('iqn.a').password
        for shown in (row, grants.wanted(self.database, [self.volume.id])):
            self.assertNotIn(password, repr(shown))

    def test_repeated_refused_reserves_leave_no_grant(self):
        for _ in range(3):
            made = attachments.reserve(self.database, attachments.Wish(
                self.volume.id, self.volume.project_id, str(uuid.uuid4()), None,
                make.connector('iqn.a')), 60)
            self.move(made, E.REFUSED)
        with self.database.reader() as reader:
            self.assertEqual([], reader.execute(models.grants.select()).all())
