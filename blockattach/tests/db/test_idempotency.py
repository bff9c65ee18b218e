"""Idempotency keys, which are written in the transaction that creates the resource."""
import functools
import threading

from blockattach.platform import errors
from blockattach.platform import idempotency
from blockattach.storage.db import idempotency as idempotency_keys
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.tests.db import base
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling

KEPT_SECONDS = 60
JOIN_SECONDS = polling.LIMIT


@base.on_every_database
class IdempotencyTest(base.DatabaseTestCase):

    def named(self, key='one', digest='a', project='p'):
        return idempotency.named(project, 'u', 'POST', '/attachments', key, digest * 64)

    def reserve(self, volume, request, seconds=KEPT_SECONDS, instead_of=None):
        within = functools.partial(_remember, self.database, request, seconds, instead_of)
        return attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id), 0, within)

    def test_key_finds_created_resource(self):
        volume = make.volume(self.database, multiattach=True)
        self.assertIsNone(idempotency_keys.find(self.database, self.named()))
        made = self.reserve(volume, self.named())
        self.assertEqual(made.id, idempotency_keys.find(self.database, self.named()))
        for other in (self.named(key='two'), self.named(project='q')):
            self.assertIsNone(idempotency_keys.find(self.database, other))
        self.assertRaises(errors.IdempotencyKeyReused, idempotency_keys.find, self.database,
                          self.named(digest='b'))

    def test_second_reserve_with_key_rejected(self):
        volume = make.volume(self.database, multiattach=True)
        made = self.reserve(volume, self.named())
        self.assertRaises(errors.IdempotencyKeyTaken, self.reserve, volume, self.named())
        self.assertEqual([made], attachment_queries.of_volume(self.database, volume.id))

    def test_concurrent_reserves_with_one_key_create_one(self):
        volume = make.volume(self.database, multiattach=True)
        start = threading.Barrier(8)
        outcomes = []

        def run():
            start.wait(JOIN_SECONDS)
            try:
                outcomes.append(self.reserve(volume, self.named()).id)
            except errors.IdempotencyKeyTaken:
                outcomes.append(None)
        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(JOIN_SECONDS)
        self.assertEqual(8, len(outcomes))
        [made] = [outcome for outcome in outcomes if outcome is not None]
        self.assertEqual([made], [row.id for row in attachment_queries.of_volume(
            self.database, volume.id)])

    def test_expired_key_reusable(self):
        volume = make.volume(self.database, multiattach=True)
        first = self.reserve(volume, self.named(), seconds=-1)
        self.assertIsNone(idempotency_keys.find(self.database, self.named()))
        second = self.reserve(volume, self.named(digest='b'))
        self.assertNotEqual(first.id, second.id)

    def test_purge_deletes_expired_keys(self):
        volume = make.volume(self.database, multiattach=True)
        self.reserve(volume, self.named(key='old'), seconds=-1)
        self.reserve(volume, self.named(key='new'))
        self.assertEqual(1, idempotency_keys.purge(self.database))
        self.assertIsNotNone(idempotency_keys.find(self.database, self.named(key='new')))

    def test_key_of_failed_attachment_passed_to_retry(self):
        volume = make.volume(self.database, multiattach=True)
        first = self.reserve(volume, self.named())
        self.assertRaises(errors.IdempotencyKeyTaken, self.reserve, volume, self.named(),
                          instead_of='another')
        second = self.reserve(volume, self.named(), instead_of=first.id)
        self.assertEqual(second.id, idempotency_keys.find(self.database, self.named()))


def _remember(database, request, seconds, instead_of, connection, resource_id):
    idempotency_keys.remember(connection, database, request, resource_id, seconds, instead_of)
