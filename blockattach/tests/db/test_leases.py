"""Leases, by which one process at a time works on a pair or on a whole volume."""
import threading
import uuid
from concurrent import futures

from blockattach.platform import errors
from blockattach.storage.db import models
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.attachments import leases
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling

ONE, TWO = leases.owner_of('one@b', 'instance'), leases.owner_of('two@b', 'instance')
ONE_AGAIN = leases.owner_of('one@b', 'next instance')
NAME = 'iqn.2026-01.org.example:host-1'
SECONDS = 60
WAIT = polling.LIMIT
E = lifecycle.Event
Own = volume_lifecycle.OwnStatus


class Case(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        self.volume = make.volume(self.database, multiattach=True)

    def pair(self, owner, initiator=NAME):
        return leases.Lease(self.volume.id, initiator, owner)

    def take(self, owner, initiator=NAME, seconds=SECONDS):
        return leases.take(self.database, self.pair(owner, initiator), seconds)

    def rows(self):
        with self.database.reader() as connection:
            return [(row.initiator, row.owner) for row in
                    connection.execute(models.leases.select().order_by(models.leases.c.initiator))]


@base.on_sqlite_and_servers_in_turn
class PairTest(Case):

    def test_pair_lease_has_one_owner(self):
        self.assertTrue(self.take(ONE))
        self.assertFalse(self.take(TWO))
        self.assertTrue(self.take(ONE))
        leases.give_back(self.database, self.pair(TWO))
        self.assertFalse(self.take(TWO))
        leases.give_back(self.database, self.pair(ONE))
        self.assertTrue(self.take(TWO))

    def test_pair_leases_of_one_volume_independent(self):
        self.assertTrue(self.take(ONE))
        self.assertTrue(self.take(TWO, 'iqn.2026-01.org.example:host-2'))

    def test_expired_pair_lease_claimed_by_other(self):
        self.assertTrue(self.take(ONE, seconds=-1))
        self.assertTrue(self.take(TWO))
        self.assertFalse(self.take(ONE))
        self.assertEqual([(NAME, TWO)], self.rows())

    def test_next_instance_of_service_keeps_pair_lease(self):
        self.assertTrue(self.take(ONE))
        self.assertTrue(self.take(ONE_AGAIN))
        self.assertFalse(self.take(TWO))

    def test_service_with_similar_name_does_not_share_lease(self):
        self.assertTrue(self.take(leases.owner_of('one@bb', 'instance')))
        self.assertFalse(self.take(ONE))
        self.assertTrue(self.take(leases.owner_of('a_e@b', 'instance'), 'iqn.x'))
        self.assertFalse(self.take(leases.owner_of('abe@b', 'instance'), 'iqn.x'))
        self.assertFalse(self.take(leases.owner_of('a%@b', 'instance'), 'iqn.x'))

    def test_forget_deletes_old_leases(self):
        self.take(ONE, 'iqn.old', -100000)
        self.take(ONE, 'iqn.overdue', -1)
        self.take(ONE, 'iqn.valid')
        self.assertEqual(1, leases.forget(self.database))
        self.assertEqual(['iqn.overdue', 'iqn.valid'], [name for name, _ in self.rows()])

    def test_transition_releases_lease_or_fails(self):
        row = attachments.reserve(self.database, attachments.Wish(
            self.volume.id, make.PROJECT, connector=make.connector(NAME)), SECONDS)
        ending = leases.giving_back(self.pair(ONE))

        def record():
            return attachments.move(
                self.database, row.volume_id, row.id, E.CONNECTED,
                attachments.Facts(connection={}), row.generation, ending)

        self.take(ONE, seconds=-1)
        self.take(TWO)
        with self.assertRaises(errors.BackendUncertain):
            record()
        self.assertEqual(row, attachment_queries.get(self.database, row.id))
        self.assertEqual([(NAME, TWO)], self.rows())
        leases.give_back(self.database, self.pair(TWO))
        self.take(ONE)
        self.assertEqual(lifecycle.State.CONNECTED, record().new.state)
        self.assertEqual([], self.rows())


@base.on_sqlite_and_servers_in_turn
class VolumeTest(Case):

    def whole(self, owner, seconds=SECONDS):
        return self.take(owner, leases.WHOLE, seconds)

    def excluded(self, owner, initiator=NAME):
        return leases.is_excluded(self.database, self.pair(owner, initiator))

    def test_volume_lease_excludes_other_owners(self):
        self.assertFalse(self.excluded(TWO))
        self.assertTrue(self.whole(ONE))
        self.assertFalse(self.whole(TWO))
        self.assertEqual((False, False, True),
                         (self.excluded(ONE), self.excluded(ONE_AGAIN), self.excluded(TWO)))
        leases.give_back(self.database, self.pair(TWO, leases.WHOLE))
        self.assertTrue(self.excluded(TWO))
        leases.give_back(self.database, self.pair(ONE, leases.WHOLE))
        self.assertFalse(self.excluded(TWO))
        self.assertTrue(self.whole(TWO))

    def test_expired_volume_lease_claimed_by_other(self):
        self.assertTrue(self.whole(ONE, -1))
        self.assertFalse(self.excluded(TWO))
        self.assertTrue(self.whole(TWO))
        self.assertFalse(self.whole(ONE))

    def test_pair_lease_excludes_volume_lease_of_others(self):
        self.assertFalse(self.excluded(TWO, leases.WHOLE))
        self.take(ONE, seconds=-1)
        self.assertFalse(self.excluded(TWO, leases.WHOLE))
        self.take(ONE)
        self.assertEqual((False, True), tuple(
            self.excluded(owner, leases.WHOLE) for owner in (ONE, TWO)))

    def test_pair_leases_do_not_exclude_each_other(self):
        self.take(ONE, 'iqn.2026-01.org.example:host-2')
        self.assertFalse(self.excluded(TWO))

    def test_lease_visible_to_process_without_lease(self):
        self.assertEqual((False, None), self.seen())
        self.whole(ONE)
        self.assertEqual((True, ONE), self.seen())
        self.take(TWO)
        self.assertEqual((True, TWO), self.seen())
        self.take(TWO, seconds=-1)
        self.whole(ONE, -1)
        self.assertEqual((False, None), self.seen())

    def seen(self):
        return (leases.is_taken(self.database, self.volume.id, NAME),
                grants.desired_state(self.database, self.volume.id, NAME).leased_by)


@base.on_sqlite_and_servers_in_turn
class OwnerTest(Case):
    """Process instance that resumes an attachment."""

    def test_attachment_of_earlier_instance_interrupted(self):
        make.pool(self.database)
        held = make.volume(self.database, on_pool=make.POOL)
        row = attachments.reserve(self.database, attachments.Wish(
            held.id, make.PROJECT, connector=make.connector(NAME)), SECONDS)

        def found(owner):
            return [one.id for one in attachment_queries.interrupted(
                self.database, held.host, owner, shared=True)]

        self.assertEqual([], found(ONE_AGAIN))
        leases.take(self.database, leases.Lease(held.id, NAME, ONE), SECONDS)
        self.assertEqual(([], [row.id], []), (found(ONE), found(ONE_AGAIN), found(TWO)))


@base.on_every_server
class RaceTest(Case):
    """Concurrent claims of leases."""

    ROUNDS = 12
    MANY = 8

    def at_once(self, act):
        barrier = threading.Barrier(self.MANY)

        def run(number):
            barrier.wait(WAIT)
            return act(number)

        with futures.ThreadPoolExecutor(self.MANY) as threads:
            return list(threads.map(run, range(self.MANY)))

    def test_concurrent_claims_of_pair_have_one_winner(self):
        for number in range(self.ROUNDS):
            name = f'iqn.{number}'
            if number % 2:
                self.take(leases.owner_of('dead@b', 'instance'), name, -1)
            won = self.at_once(lambda who, name=name: self.take(
                leases.owner_of(f'{who}@b', uuid.uuid4().hex), name))
            self.assertEqual(1, sum(won), f'round {number}')

    def test_concurrent_pair_and_volume_leases_exclude_each_other(self):
        """Each process writes its own lease first and checks for the other kind then."""
        for number in range(self.ROUNDS):
            def act(who, number=number):
                pair = self.pair(leases.owner_of(f'{who}@b', 'instance'),
                                 f'iqn.{number}.{who}' if who else leases.WHOLE)
                leases.take(self.database, pair, SECONDS)
                return not leases.is_excluded(self.database, pair)

            whole, *pairs = self.at_once(act)
            self.assertFalse(whole and any(pairs), f'round {number}')
            with self.database.writer() as connection:
                connection.execute(models.leases.delete())
