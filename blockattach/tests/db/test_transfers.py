"""Transfers in the database: concurrent writers, lost commits and quotas."""

import sqlalchemy as sa

from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import quotas
from blockattach.storage.db import transfers
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import quotas as domain_quotas
from blockattach.storage.domain import transfers as domain
from blockattach.tests.db import base
from blockattach.tests.db import test_lost_commits
from blockattach.tests.db import test_quotas
from blockattach.tests.fixtures import breaking
from blockattach.tests.fixtures import make

ROUNDS = 12
OTHERS = ('b' * 32, 'c' * 32)


@base.on_every_server
class RaceTest(base.DatabaseTestCase):

    def offer(self, volume):
        return transfers.create(self.database, volume, None, False, domain.seal('key'))

    def test_concurrent_accepts_succeed_once(self):
        for _ in range(ROUNDS):
            volume = make.volume(self.database)
            made = self.offer(volume)
            outcomes = base.at_once(*[
                lambda made=made, project=project: transfers.accept(
                    self.database, made, project, 'u')
                for project in OTHERS])
            self.assertEqual(['TransferNotFound', 'str'],
                             sorted(type(one).__name__ for one in outcomes))
            self.assertEqual(OTHERS[outcomes.index('done')],
                             volume_queries.get(self.database, volume.id).project_id)

    def test_concurrent_offer_and_reserve_exclude_each_other(self):
        for _ in range(ROUNDS):
            volume = make.volume(self.database)
            outcomes = base.at_once(
                lambda volume=volume: self.offer(volume),
                lambda volume=volume: attachments.reserve(self.database, attachments.Wish(
                    volume.id, make.PROJECT, 'a-server'), 0))
            refused = [one for one in outcomes if isinstance(one, errors.InvalidVolume)]
            self.assertEqual(1, len(refused), outcomes)

    def test_concurrent_accept_and_withdraw_exclude_each_other(self):
        for _ in range(ROUNDS):
            volume = make.volume(self.database)
            made = self.offer(volume)
            accepted, withdrawn = base.at_once(
                lambda made=made: transfers.accept(self.database, made, OTHERS[0], 'u'),
                lambda made=made: transfers.withdraw(self.database, made))
            self.assertEqual(1, [accepted, withdrawn].count('done'))
            now = volume_queries.get(self.database, volume.id)
            self.assertEqual('available', now.status)
            self.assertEqual(OTHERS[0] if accepted == 'done' else make.PROJECT, now.project_id)


@base.on_every_server
class LostCommitTest(test_lost_commits.Case):

    def setUp(self):
        super().setUp()
        self.volume = make.volume(self.database)
        self.made = transfers.create(self.database, self.volume, None, False,
                                     domain.seal('key'))

    def test_withdraw_happens_once_after_lost_commit(self):
        self.cut(breaking.Where.AFTER, lambda: transfers.withdraw(self.broken, self.made))
        now = volume_queries.get(self.database, self.volume.id)
        self.assertEqual(('available', make.PROJECT), (now.status, now.project_id))

    def test_withdraw_fails_if_accepted_after_lost_commit(self):
        connections = []

        def accept(connection):
            """Accept the transfer before the verb checks the outcome."""
            connections.append(connection)
            if len(connections) == 2:
                transfers.accept(self.database, self.made, OTHERS[0], 'u')

        sa.event.listen(self.broken.engine, 'engine_connect', accept)
        with self.assertRaises(errors.TransferNotFound):
            self.cut(breaking.Where.BEFORE, lambda: transfers.withdraw(self.broken, self.made))
        self.assertEqual(OTHERS[0],
                         volume_queries.get(self.database, self.volume.id).project_id)


@base.on_sqlite_and_servers_in_turn
class QuotaTest(test_quotas.Case):

    def offer(self, volume, no_snapshots=False):
        return transfers.create(self.database, volume, None, no_snapshots,
                                domain.seal('key'))

    def accept(self, offered, project_id=OTHERS[0]):
        transfers.accept(self.database, offered, project_id, 'u')

    def owner(self, snapshot_id):
        with self.database.reader() as connection:
            return connection.execute(sa.select(models.snapshots.c.project_id).where(
                models.snapshots.c.id == snapshot_id)).scalar_one()

    def test_accept_counts_snapshots_for_quota(self):
        made = make.volume(self.database, size_gb=2)
        mine = self.snapshot(made)
        offered = self.offer(made)
        self.limit(quota_gigabytes=3)
        self.refused('VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds '
                     'allowed gigabytes quota. Requested 4G, quota is 3G and 0G has been '
                     'consumed.', self.accept, offered)
        self.assertEqual(make.PROJECT, self.owner(mine))
        self.limit(quota_gigabytes=4, quota_snapshots=1, quota_volumes=1)
        self.accept(offered)
        self.assertEqual(OTHERS[0], self.owner(mine))
        self.assertEqual({}, self.used())
        self.assertEqual((4, 0), self.used(OTHERS[0])['gigabytes'])

    def test_accept_counts_snapshot_for_its_own_type(self):
        made, former = make.volume(self.database, size_gb=2), make.volume_type(self.database)
        mine = self.snapshot(made)
        with self.database.writer() as connection:
            connection.execute(models.snapshots.update().values(volume_type_id=former.id))
        quotas.change(self.database, OTHERS[0], {
            domain_quotas.key_of(domain_quotas.SNAPSHOTS, former.id): 0})
        offered = self.offer(made)
        self.refused('SnapshotLimitExceeded: Maximum number of snapshots allowed (0) exceeded',
                     self.accept, offered)
        self.assertEqual(make.PROJECT, self.owner(mine))

    def test_accept_of_attached_volume_rejected(self):
        made = make.volume(self.database)
        offered = self.offer(made)
        with self.database.writer() as connection:
            connection.execute(models.volumes.update().values(lowest_rank=0))
        self.assertRaises(errors.InvalidVolume, self.accept, offered)
        self.assertEqual(make.PROJECT, volume_queries.get(self.database, made.id).project_id)

    def test_accept_keeps_and_logs_foreign_snapshots(self):
        made = make.volume(self.database)
        mine = self.snapshot(made)
        offered = self.offer(made, no_snapshots=True)
        with self.assertLogs(transfers.LOG, 'WARNING') as logged:
            self.accept(offered)
        self.assertIn('rows=1', logged.output[0])
        again = transfers.create(self.database, make.judged(made.id, OTHERS[0]), None, False,
                                 domain.seal('key'))
        with self.assertLogs(transfers.LOG, 'WARNING'):
            self.accept(again, OTHERS[1])
        self.assertEqual(make.PROJECT, self.owner(mine))

    def test_accept_without_snapshots_keeps_their_project(self):
        made = make.volume(self.database, size_gb=2)
        mine = self.snapshot(made, status='creating')
        self.limit(quota_gigabytes=2, quota_snapshots=0)
        self.accept(self.offer(made, no_snapshots=True))
        self.assertEqual(make.PROJECT, self.owner(mine))
        self.assertEqual(OTHERS[0], volume_queries.get(self.database, made.id).project_id)

    def test_transfer_with_busy_snapshot_rejected(self):
        made = make.volume(self.database)
        mine = self.snapshot(made, status='creating')
        self.assertRaises(errors.InvalidSnapshot, self.offer, made)
        with self.database.writer() as connection:
            connection.execute(models.snapshots.update().values(status='available'))
        offered = self.offer(made)
        with self.database.writer() as connection:
            connection.execute(models.snapshots.update().values(status='deleting'))
        self.assertRaises(errors.InvalidSnapshot, self.accept, offered)
        self.assertEqual(make.PROJECT, self.owner(mine))

    def test_accept_by_same_project_needs_no_quota(self):
        made = make.volume(self.database)
        offered = self.offer(made)
        self.limit(quota_volumes=1)
        self.accept(offered, make.PROJECT)

    def test_concurrent_accepts_stay_within_quota(self):
        offers = [self.offer(make.volume(self.database)) for _ in range(8)]
        self.limit(quota_volumes=3)
        self.assertEqual(3, self.at_once(8, lambda mine: self.accept(offers[mine])))
        self.assertEqual((3, 0), self.used(OTHERS[0])['volumes'])

    def test_concurrent_accepts_and_creates_stay_within_quota(self):
        offers = [self.offer(make.volume(self.database)) for _ in range(6)]
        kind = make.volume_type(self.database)
        self.limit(quota_volumes=4)

        def act(mine):
            if mine < len(offers):
                self.accept(offers[mine])
            else:
                self.volume(kind=kind, project_id=OTHERS[0])
        self.assertEqual(4, self.at_once(12, act))
        self.assertEqual((4, 0), self.used(OTHERS[0])['volumes'])
