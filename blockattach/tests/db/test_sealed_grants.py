"""Sealed credentials and their keys: rotation beside writers, lost keys, and renewal."""
from concurrent import futures

from blockattach.platform import errors
from blockattach.platform import secrets
from blockattach.storage.db import models
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.attachments import key_rotation
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.tests.db import base
from blockattach.tests.db import recording
from blockattach.tests.fixtures import make

_grants = models.grants
MANY = 7


class Case(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.old, self.new = secrets.new_key(), secrets.new_key()
        self.use(self.old)
        self.volume = make.volume(self.database, multiattach=True)

    def use(self, *keys):
        self.database.sealer = secrets.Sealer(keys)
        return [key.id for key in self.database.sealer.ring()]

    def join(self, initiator):
        return make.attachment(self.database, self.volume,
                               with_connector=make.connector(initiator))

    def passwords(self):
        return {grant.initiator: grant.credential.password
                for grant in grants.wanted(self.database, [self.volume.id])}


@base.on_sqlite_and_servers_in_turn
class RotationTest(Case):

    def test_credentials_counted_by_key(self):
        self.join('iqn.a')
        [old] = self.use(self.old)
        new, _ = self.use(self.new, self.old)
        self.join('iqn.b')
        self.assertEqual({old: 1, new: 1}, key_rotation.counts(self.database))

    def test_credentials_resealed_in_batches(self):
        for number in range(MANY):
            self.join(f'iqn.{number}')
        before = self.passwords()
        new, old = self.use(self.new, self.old)
        self.assertEqual([3, 3, 1], list(key_rotation.resealed(self.database, 3)))
        self.assertEqual({new: MANY}, key_rotation.counts(self.database))
        self.use(self.new)
        self.assertEqual(before, self.passwords())
        key_rotation.check(self.database)

    def test_reseal_beside_concurrent_attachments(self):
        rows = [self.join(f'iqn.{number}') for number in range(MANY)]
        self.use(self.new, self.old)
        other = self.fixture.open()
        other.sealer = secrets.Sealer([self.old, self.new])

        def live():
            """Attach and detach in a process that has not read the new key yet."""
            for number, row in enumerate(rows):
                make.move(other, row, lifecycle.Event.DISCONNECT)
                make.move(other, row, lifecycle.Event.DISCONNECTED)
                attachments.reserve(other, attachments.Wish(
                    self.volume.id, make.PROJECT, connector=make.connector(f'iqn.{number}')), 60)

        with futures.ThreadPoolExecutor(1) as one:
            living = one.submit(live)
            while not living.done():
                list(key_rotation.resealed(self.database, 2))
            living.result()
        list(key_rotation.resealed(self.database))
        self.use(self.new)
        self.assertEqual({f'iqn.{number}' for number in range(MANY)}, set(self.passwords()))

    def test_reseal_skips_row_changed_meanwhile(self):
        """Another process reseals the row between the read and the write."""
        self.join('iqn.a')
        new, _ = self.use(self.new, self.old)
        other = self.fixture.open()
        other.sealer = self.database.sealer

        looks = []

        def overtake(connection):
            looks.append(connection)
            if len(looks) == 2:
                self.assertEqual([1], list(key_rotation.resealed(other)))

        with recording.listening(self.database, engine_connect=overtake):
            self.assertEqual([0], list(key_rotation.resealed(self.database)))
        self.assertEqual({new: 1}, key_rotation.counts(self.database))

@base.on_sqlite_and_servers_in_turn
class LostKeyTest(Case):

    def test_missing_key_reported(self):
        [old] = self.use(self.old)
        key_rotation.check(self.database)
        self.join('iqn.a')
        key_rotation.check(self.database)
        self.use(self.new)
        with self.assertRaisesRegex(errors.ConfigurationError, old):
            key_rotation.check(self.database)

    def test_lost_credentials_listed_with_attachments(self):
        lost = self.join('iqn.a')
        self.use(self.new)
        self.join('iqn.b')
        self.assertEqual(
            [key_rotation.Lost(self.volume.id, 'iqn.a', (lost.id,))],
            list(key_rotation.lost(self.database)))

    def test_lost_credential_renewed(self):
        self.join('iqn.a')
        self.use(self.new)
        kept = self.join('iqn.b')
        before = make.credential(self.database, self.volume.id, kept.initiator)
        for pair in key_rotation.lost(self.database):
            key_rotation.renew(self.database, pair)
            key_rotation.renew(self.database, pair)
        self.assertEqual([], list(key_rotation.lost(self.database)))
        self.assertEqual({'iqn.a', 'iqn.b'}, set(self.passwords()))
        self.assertEqual(before, make.credential(self.database, self.volume.id, 'iqn.b'))
        key_rotation.check(self.database)

    def test_readable_credential_not_renewed(self):
        self.join('iqn.a')
        before = self.passwords()
        key_rotation.renew(self.database, key_rotation.Lost(self.volume.id, 'iqn.a', ()))
        self.assertEqual(before, self.passwords())

    def test_reseal_keeps_lost_credentials(self):
        self.join('iqn.a')
        self.use(self.new, secrets.new_key())
        self.assertEqual([], list(key_rotation.resealed(self.database)))
        self.assertEqual(1, len(list(key_rotation.lost(self.database))))

    def test_lost_credentials_found_on_every_page(self):
        for number in range(MANY):
            self.join(f'iqn.{number}')
        with self.database.writer() as connection:
            connection.execute(_grants.update().values(sealed_password='nothing'))
        found = list(key_rotation.lost(self.database, page=2))
        self.assertEqual([f'iqn.{number}' for number in range(MANY)],
                         [one.initiator for one in found])
