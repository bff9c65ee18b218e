"""Concurrent requests on real databases, which the lock of the volume serializes."""
import threading
import uuid
from concurrent import futures

from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.services import pools
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling

S = lifecycle.State
E = lifecycle.Event

THREADS = 100 if exhaustive.wanted() else 20
PROCESSES = 2
JOIN_SECONDS = polling.LIMIT


class Case(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        # Each process has its own connections and its own locks.
        self.databases = [self.database, *(self.fixture.open() for _ in range(PROCESSES - 1))]

    def at_once(self, acts):
        """Run the functions at once and return the result or the error of each."""
        barrier = threading.Barrier(len(acts))

        def run(number):
            barrier.wait(JOIN_SECONDS)
            try:
                return acts[number](self.databases[number % PROCESSES])
            except errors.BlockattachError as exc:
                return exc

        with futures.ThreadPoolExecutor(len(acts)) as pool:
            return list(pool.map(run, range(len(acts)), timeout=JOIN_SECONDS))

    def reserve(self, volume, connector=None, instance=None):
        wish = attachments.Wish(volume.id, volume.project_id, instance or str(uuid.uuid4()), None,
                                connector)
        return lambda database: attachments.reserve(database, wish, 60)

    def split(self, answers):
        """Return the results of the successes and the classes of the errors."""
        return ([answer for answer in answers if not isinstance(answer, Exception)],
                [type(answer) for answer in answers if isinstance(answer, Exception)])

    def live(self, volume):
        return attachment_queries.of_volume(self.database, volume.id)


@base.on_every_database
class ReserveRaceTest(Case):

    def test_concurrent_reserves_of_plain_volume_succeed_once(self):
        volume = make.volume(self.database)
        made, refused = self.split(self.at_once([self.reserve(volume) for _ in range(THREADS)]))
        self.assertEqual([errors.InvalidVolume] * (THREADS - 1), refused)
        self.assertEqual(made, self.live(volume))
        self.assertEqual('reserved', volume_queries.get(self.database, volume.id).status)

    def test_concurrent_reserves_of_plain_volume_get_one_pair(self):
        volume = make.volume(self.database)
        first = make.attachment(self.database, volume, instance_uuid='an-instance')
        answers = self.at_once([self.reserve(volume, instance='an-instance')
                                for _ in range(THREADS)])
        made, refused = self.split(answers)
        self.assertEqual([errors.InvalidVolume] * (THREADS - 1), refused)
        self.assertEqual([first.id, made[0].id], [row.id for row in self.live(volume)])

    def test_concurrent_reserves_of_multiattach_volume_succeed(self):
        volume = make.volume(self.database, multiattach=True)
        made, refused = self.split(self.at_once([
            self.reserve(volume, make.connector(f'iqn.{number}')) for number in range(THREADS)]))
        self.assertEqual([], refused)
        self.assertEqual({row.id for row in made}, {row.id for row in self.live(volume)})
        wanted = grants.wanted(self.database, [volume.id])
        self.assertEqual({f'iqn.{number}' for number in range(THREADS)},
                         {grant.initiator for grant in wanted})
        self.assertEqual(THREADS, len({grant.alias for grant in wanted}))
        self.assertEqual('attaching', volume_queries.get(self.database, volume.id).status)

    def test_concurrent_reserves_of_many_volumes_succeed(self):
        chosen = [make.volume(self.database, multiattach=True) for _ in range(THREADS)]
        made, refused = self.split(self.at_once([
            self.reserve(volume, make.connector('iqn.a')) for volume in chosen]))
        self.assertEqual([], refused)
        self.assertEqual({volume.id for volume in chosen}, {row.volume_id for row in made})

    def test_concurrent_reserve_and_delete_exclude_each_other(self):
        for _ in range(5):
            volume = make.volume(self.database, multiattach=True)
            *reserved, deleting = self.at_once([
                *(self.reserve(volume) for _ in range(4)),
                lambda database, volume=volume: volumes.start_delete(database, volume, 60)])
            made, refused = self.split(reserved)
            self.assertEqual(4 - len(made), len(refused))
            self.assertEqual(isinstance(deleting, errors.InvalidVolume), bool(made))
            self.assertEqual(len(made), len(self.live(volume)))


@base.on_every_database
class BootableRaceTest(Case):
    """Requests without the right to share a bootable volume, of which one succeeds."""

    def setUp(self):
        super().setUp()
        self.volume = make.volume(self.database, multiattach=True)
        with self.database.writer() as connection:
            connection.execute(models.volumes.update().values(bootable=True))

    def reserve_as(self, number, forbidden_by):
        """Return a reservation in one of four forms.

        The forms are an attachment without and with a connector, os-reserve, and os-attach.
        """
        way = ({}, {'connector': make.connector()}, {'legacy_reservation': True},
               {'attached': attachments.Attached(str(uuid.uuid4()), None, '/dev/vdb',
                                                 connection.AccessMode.RW)})[number % 4]
        wish = attachments.Wish(self.volume.id, self.volume.project_id, str(uuid.uuid4()),
                                forbidden_by=forbidden_by, **way)
        return lambda database: attachments.reserve(database, wish, 60)

    def rows(self):
        return attachment_queries.of_volume(self.database, self.volume.id, with_legacy=True)

    def test_concurrent_unpermitted_reserves_succeed_once(self):
        made, refused = self.split(self.at_once([
            self.reserve_as(number, 'a:rule') for number in range(THREADS)]))
        self.assertEqual([errors.NotAuthorized] * (THREADS - 1), refused)
        self.assertEqual(made, self.rows())

    def test_unpermitted_reserves_beside_permitted_ones_rejected(self):
        made, refused = self.split(self.at_once([
            self.reserve_as(number // 2, 'a:rule' if number % 2 else None)
            for number in range(THREADS)]))
        self.assertEqual({errors.NotAuthorized}, set(refused))
        # At most one request without the right succeeded, as the very first.
        self.assertIn(len(refused), (THREADS // 2, THREADS // 2 - 1))
        self.assertEqual(len(made), len(self.rows()))

    def test_unpermitted_reserve_succeeds_after_release(self):
        row = self.reserve_as(0, 'a:rule')(self.database)
        self.assertRaises(errors.NotAuthorized, self.reserve_as(1, 'a:rule'), self.database)
        make.move(self.database, row, E.RELEASE)
        self.reserve_as(1, 'a:rule')(self.database)


@base.on_every_database
class MoveRaceTest(Case):

    def test_concurrent_moves_of_one_generation_succeed_once(self):
        row = make.attachment(self.database, state=S.CONNECTING)
        facts = attachments.Facts(connection={'lun': 1})
        made, refused = self.split(self.at_once([
            lambda database: attachments.move(database, row.volume_id, row.id, E.CONNECTED, facts,
                                              row.generation)
            for _ in range(THREADS)]))
        self.assertEqual([errors.StaleGeneration] * (THREADS - 1), refused)
        self.assertEqual(row.generation + 1, made[0].new.generation)

    def test_concurrent_disconnects_of_all_hosts_succeed(self):
        volume = make.volume(self.database, multiattach=True)
        rows = [make.attachment(self.database, volume, S.DISCONNECTING) for _ in range(THREADS)]
        made, refused = self.split(self.at_once([
            lambda database, row=row: attachments.move(
                database, row.volume_id, row.id, E.DISCONNECTED, generation=row.generation)
            for row in rows]))
        self.assertEqual((THREADS, []), (len(made), refused))
        self.assertEqual([], self.live(volume))
        after = volume_queries.get(self.database, volume.id)
        self.assertEqual(('available', 'detached'), (after.status, after.attach_status))

    def test_concurrent_connects_and_disconnects_keep_grant(self):
        volume = make.volume(self.database, multiattach=True)
        rows = [make.attachment(self.database, volume, S.DISCONNECTING,
                                with_connector=make.connector('iqn.shared'))
                for _ in range(THREADS // 2)]
        made, refused = self.split(self.at_once([
            *(lambda database, row=row: attachments.move(
                database, row.volume_id, row.id, E.DISCONNECTED) for row in rows),
            *(self.reserve(volume, make.connector('iqn.shared')) for _ in rows)]))
        self.assertEqual((2 * len(rows), []), (len(made), refused))
        [grant] = grants.wanted(self.database, [volume.id])
        self.assertEqual('iqn.shared', grant.initiator)
        self.assertEqual({S.CONNECTING}, {row.state for row in self.live(volume)})


@base.on_every_database
class ClaimRaceTest(Case):

    def test_concurrent_claims_allocate_space_once(self):
        make.pool(self.database, total_gb=10)
        waiting = [make.volume(self.database, own_status=volume_lifecycle.OwnStatus.CREATING,
                               size_gb=3) for _ in range(8)]
        answers = self.at_once([
            lambda database, volume=volume: volumes.claim(
                database, volume.id, volume.generation, make.POOL, None)
            for volume in waiting])
        self.assertEqual([2, 2, 2], [answer for answer in answers if answer is not None])
        self.assertEqual(9, pools.get(self.database, make.POOL, 60).allocated_gb)

    def test_concurrent_claims_of_volume_succeed_once(self):
        names = [make.pool(self.database, f'storage-{number}@file#pool') for number in range(8)]
        volume = make.volume(self.database, own_status=volume_lifecycle.OwnStatus.CREATING)
        made, refused = self.split(self.at_once([
            lambda database, name=name: volumes.claim(
                database, volume.id, volume.generation, name, None) for name in names]))
        self.assertEqual(([2], [errors.StaleGeneration] * 7), (made, refused))
        self.assertEqual(1, sum(pools.get(self.database, name, 60).allocated_gb
                                for name in names))
