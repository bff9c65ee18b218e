"""Quotas, which are checked in the transaction that inserts the rows."""
import dataclasses
import threading
import uuid

import sqlalchemy as sa

from blockattach.storage import errors
from blockattach.storage.conf import quota as quota_conf
from blockattach.storage.db import models
from blockattach.storage.db import quotas
from blockattach.storage.db import work_ends
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import moving
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import quotas as domain
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.db import base
from blockattach.tests.db import recording
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling

E = lifecycle.Event
JOIN_SECONDS = polling.LIMIT
OTHER = 'b' * 32
CREATING = volume_lifecycle.OwnStatus.CREATING


class Case(base.DatabaseTestCase):

    def limit(self, **values):
        self.database.quota = dataclasses.replace(quota_conf.NONE, **values)

    def at_once(self, number, act):
        """Run a function in a number of threads and return how many were not refused."""
        start, outcomes = threading.Barrier(number), []

        def run(mine):
            start.wait(JOIN_SECONDS)
            try:
                act(mine)
                outcomes.append(True)
            except errors.QuotaExceeded:
                outcomes.append(False)
        threads = [threading.Thread(target=run, args=(mine,)) for mine in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(JOIN_SECONDS)
        self.assertEqual(number, len(outcomes))
        return outcomes.count(True)

    def volume(self, size_gb=1, kind=None, project_id=make.PROJECT):
        return make.volume(self.database, size_gb=size_gb, kind=kind, own_status=CREATING,
                           project_id=project_id)

    def snapshot(self, of, status='available'):
        snapshot_id = str(uuid.uuid4())
        with self.database.writer() as connection:
            connection.execute(models.snapshots.insert().values(
                id=snapshot_id, volume_id=of.id, project_id=of.project_id, user_id=of.user_id,
                size_gb=of.size_gb, status=status, volume_type_id=of.volume_type_id,
                availability_zone=make.ZONE, created_at=self.database.clock.utcnow()))
        return snapshot_id

    def used(self, project_id=make.PROJECT):
        return {name: one for name, one in quotas.show(self.database, project_id).used.items()
                if any(one)}

    def refused(self, sentence, act, *arguments, **more):
        with self.assertRaises(errors.QuotaExceeded) as caught:
            act(*arguments, **more)
        self.assertEqual(sentence, str(caught.exception))


@base.on_every_database
class AttachmentQuotaTest(Case):

    def setUp(self):
        super().setUp()
        self.counts = []

        def look(connection, cursor, statement, *rest):
            if 'count(' in statement and 'attachments' in statement:
                self.counts.append(statement)
        self.enterContext(recording.listening(self.database, before_cursor_execute=look))

    def reserve(self, volume):
        return attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id), 0)

    def test_attachment_beyond_quota_rejected(self):
        volume = make.volume(self.database, multiattach=True)
        before = self.reserve(volume)
        self.limit(quota_attachments=3)
        rows = [self.reserve(volume) for _ in range(2)]
        self.refused("AttachmentLimitExceeded: Maximum number of attachments allowed (3) exceeded "
                     "for quota 'attachments'.", self.reserve, volume)
        for row in (before, *rows):
            make.move(self.database, row, E.RELEASE)
            self.reserve(volume)
            self.assertRaises(errors.QuotaExceeded, self.reserve, volume)

    def test_attachments_rarely_counted_far_from_quota(self):
        volume = make.volume(self.database, multiattach=True)
        for limit, most in ((quotas.MARGIN + 100, 1 + 20 // quotas.UNCOUNTED),
                            (quotas.MARGIN, 20)):
            self.limit(quota_attachments=limit)
            before = len(self.counts)
            for _ in range(20):
                self.reserve(volume)
            self.assertEqual(most, len(self.counts) - before)

    def test_project_attachment_quota_overrides_default(self):
        volume = make.volume(self.database, multiattach=True)
        self.limit(quota_attachments=3)
        for limit, refused in ((0, True), (1, False), (1, True), (domain.UNLIMITED, False),
                               (2, True), (None, False), (None, True)):
            if limit is None:
                quotas.reset(self.database, volume.project_id)
            else:
                quotas.change(self.database, volume.project_id, {domain.ATTACHMENTS: limit})
            with self.subTest(limit=limit, refused=refused):
                if refused:
                    self.assertRaises(errors.QuotaExceeded, self.reserve, volume)
                else:
                    self.reserve(volume)
        for project_id, in_use in ((volume.project_id, 3), ('another', 0)):
            shown = quotas.show(self.database, project_id)
            self.assertEqual((3, (in_use, 0)), (shown.limits[domain.ATTACHMENTS],
                                                shown.used[domain.ATTACHMENTS]))

    def test_default_class_attachment_quota_enforced(self):
        volume = make.volume(self.database, multiattach=True)
        quotas.change_class(self.database, quotas.DEFAULT_CLASS, {domain.ATTACHMENTS: 1})
        self.reserve(volume)
        self.assertRaises(errors.QuotaExceeded, self.reserve, volume)
        self.limit(use_default_quota_class=False)
        self.reserve(volume)

    def test_concurrent_reserves_stay_within_quota(self):
        held = [make.volume(self.database, multiattach=True) for _ in range(3)]
        self.limit(quota_attachments=5)
        self.assertEqual(5, self.at_once(12, lambda mine: self.reserve(held[mine % 3])))


@base.on_every_database
class VolumeQuotaTest(Case):

    def test_concurrent_creates_stay_within_volumes_quota(self):
        kinds = [make.volume_type(self.database) for _ in range(2)]
        self.limit(quota_volumes=5)
        self.assertEqual(5, self.at_once(16, lambda mine: self.volume(kind=kinds[mine % 2])))
        self.assertEqual((5, 0), self.used()['volumes'])

    def test_concurrent_creates_stay_within_gigabytes_quota(self):
        kind = make.volume_type(self.database)
        quotas.change(self.database, make.PROJECT,
                      {domain.key_of(domain.GIGABYTES, kind.id): 12})
        self.assertEqual(4, self.at_once(16, lambda mine: self.volume(3, kind)))
        self.assertEqual((12, 0), self.used()['gigabytes'])

    def test_concurrent_retypes_and_creates_stay_within_type_quota(self):
        for resource, limit in ((domain.VOLUMES, 3), (domain.GIGABYTES, 6)):
            kind = make.volume_type(self.database)
            held = [make.volume(self.database, size_gb=2) for _ in range(8)]
            quotas.change(self.database, make.PROJECT, {domain.key_of(resource, kind.id): limit})

            def act(mine, kind=kind, held=held):
                if mine < len(held):
                    moving.retype(self.database, held[mine], moving.Retyping(kind, False), 60)
                else:
                    self.volume(2, kind)
            with self.subTest(resource):
                self.assertEqual(3, self.at_once(len(held) + 4, act))
                shown = quotas.show(self.database, make.PROJECT).used
                self.assertEqual((3, 6), (sum(shown[f'volumes_{kind.name}']),
                                          sum(shown[f'gigabytes_{kind.name}'])))

    def test_deleted_volume_frees_quota(self):
        self.limit(quota_volumes=1)
        made = make.volume(self.database)
        self.refused("VolumeLimitExceeded: Maximum number of volumes allowed (1) exceeded for "
                     "quota 'volumes'.", self.volume)
        deleting = volumes.start_delete(self.database, made, 60)
        self.assertRaises(errors.QuotaExceeded, self.volume)
        work_ends.finish(self.database, volumes.deletion(made.id, deleting.generation))
        self.volume()
        self.volume(project_id=OTHER)

    def test_rejected_create_leaves_nothing(self):
        self.limit(quota_gigabytes=10)
        self.volume(size_gb=6)
        self.refused('VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds '
                     'allowed gigabytes quota. Requested 5G, quota is 10G and 6G has been '
                     'consumed.', self.volume, size_gb=5)
        with self.database.reader() as connection:
            for table in (models.volumes, models.work):
                self.assertEqual(1, len(connection.execute(table.select()).all()))
        self.volume(size_gb=4)

    def test_create_beyond_per_volume_size_rejected(self):
        self.limit(per_volume_size_limit=5)
        self.volume(size_gb=5)
        self.refused('VolumeSizeExceedsLimit: Requested volume size 6G is larger than maximum '
                     'allowed limit 5G.', self.volume, size_gb=6)

    def test_type_quota_follows_rename_and_ends_with_type(self):
        kind, other = (make.volume_type(self.database, name) for name in ('slow', 'fast'))
        key = domain.key_of(domain.VOLUMES, kind.id)
        quotas.change(self.database, make.PROJECT, {key: 1})
        quotas.change_class(self.database, quotas.DEFAULT_CLASS,
                            {domain.key_of(domain.GIGABYTES, kind.id): 2})
        volume_types.update(self.database, kind.id, name='slower')
        self.assertRaises(errors.QuotaExceeded, self.volume, 3, kind)
        made = self.volume(2, kind)
        self.refused('VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds '
                     'allowed gigabytes_slower quota. Requested 1G, quota is 2G and 2G has been '
                     'consumed.', self.volume, 1, kind)
        quotas.change_class(self.database, quotas.DEFAULT_CLASS,
                            {domain.key_of(domain.GIGABYTES, kind.id): -1})
        self.refused("VolumeLimitExceeded: Maximum number of volumes allowed (1) exceeded for "
                     "quota 'volumes_slower'.", self.volume, 1, kind)
        self.volume(1, other)
        shown = quotas.show(self.database, make.PROJECT)
        self.assertEqual((1, (1, 0), (1, 0)), (
            shown.limits['volumes_slower'], shown.used['volumes_slower'],
            shown.used['volumes_fast']))
        work_ends.refuse(self.database, 'create', made.id, made.generation)
        volumes.start_delete(self.database, made, 60)
        volume_types.delete(self.database, kind.id)
        with self.database.reader() as connection:
            for table in (models.quotas, models.quota_classes):
                self.assertEqual([], connection.execute(
                    sa.select(table.c.resource).where(table.c.resource != quotas.LOCK)).all())
        self.assertNotIn('volumes_slower', quotas.show(self.database, make.PROJECT).limits)

    def test_volumes_rarely_counted_far_from_quota(self):
        counts = []

        def look(connection, cursor, statement, *rest):
            if 'count(' in statement and 'volume_type_id' in statement:
                counts.append(statement)
        self.enterContext(recording.listening(self.database, before_cursor_execute=look))
        for gigabytes, most in ((64 * quotas.MARGIN + 100, 2), (64 * quotas.MARGIN, 20)):
            self.limit(quota_volumes=quotas.MARGIN + 100, quota_gigabytes=gigabytes)
            self.database.counted.clear()
            counts.clear()
            for _ in range(20):
                self.volume()
            self.assertEqual(most, len(counts))

    def test_quota_update_effective_at_once(self):
        """The update is effective however far from its quota the project was counted."""
        self.limit(quota_volumes=quotas.MARGIN + 100)
        self.volume()
        other = self.fixture.open()
        other.quota = self.database.quota
        quotas.change(other, make.PROJECT, {domain.VOLUMES: 1})
        self.assertRaises(errors.QuotaExceeded, self.volume)

    def test_concurrent_class_updates_succeed(self):
        def change(mine):
            quotas.change_class(self.database, 'gold', {domain.VOLUMES: mine})
        self.assertEqual(4, self.at_once(4, change))
        self.assertIn(quotas.show_class(self.database, 'gold')['volumes'], range(4))


@base.on_every_database
class CountTest(Case):

    def check(self, asked, project_id=make.PROJECT):
        limits = quotas.limits(self.database, project_id)
        with self.database.writer() as connection:
            quotas.check(connection, self.database, limits, asked)

    def test_snapshots_count_for_gigabytes_quota(self):
        made = self.volume(size_gb=2)
        self.limit(quota_snapshots=2, quota_gigabytes=6)
        asked = domain.snapshot(made.volume_type_id, 2)
        self.check(asked)
        self.snapshot(made)
        self.assertEqual((4, 0), self.used()['gigabytes'])
        self.check(asked)
        self.snapshot(made)
        self.refused('VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds '
                     'allowed gigabytes quota. Requested 2G, quota is 6G and 6G has been '
                     'consumed.', self.check, asked)
        self.limit(quota_snapshots=2, quota_gigabytes=6, no_snapshot_gb_quota=True)
        self.assertEqual((2, 0), self.used()['gigabytes'])
        self.refused('SnapshotLimitExceeded: Maximum number of snapshots allowed (2) exceeded',
                     self.check, domain.snapshot(made.volume_type_id, 2, count_gigabytes=False))

    def test_extend_counts_difference_and_claimed_space(self):
        made = make.volume(self.database, size_gb=2)
        self.limit(quota_gigabytes=6, per_volume_size_limit=5)
        self.check(domain.growth(made.volume_type_id, 5, 3))
        with self.database.writer() as connection:
            connection.execute(models.volumes.update().values(
                claimed_pool=made.pool, claimed_gb=3))
        self.assertEqual((2, 3), self.used()['gigabytes'])
        self.refused('VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds '
                     'allowed gigabytes quota. Requested 2G, quota is 6G and 5G has been '
                     'consumed.', self.check, domain.growth(made.volume_type_id, 4, 2))
        self.assertRaises(errors.VolumeSizeExceedsLimit, self.check,
                          domain.growth(made.volume_type_id, 6, 1))
        with self.database.writer() as connection:
            # Space that is claimed for a move to another pool does not count against the quota.
            connection.execute(models.volumes.update().values(claimed_pool='other@pool#x'))
        self.assertEqual((2, 0), self.used()['gigabytes'])

    def test_retype_counts_for_new_type_only(self):
        made, kind = self.volume(size_gb=2), make.volume_type(self.database)
        quotas.change(self.database, make.PROJECT, {
            domain.VOLUMES: 1, domain.GIGABYTES: 2, domain.key_of(domain.VOLUMES, kind.id): 1})
        asked = domain.retype(kind.id, made.size_gb)
        self.check(asked)
        quotas.change(self.database, make.PROJECT, {domain.key_of(domain.GIGABYTES, kind.id): 1})
        self.assertRaises(errors.VolumeSizeExceedsAvailableQuota, self.check, asked)

    def test_quota_row_without_limit_ignored(self):
        self.limit(quota_attachments=5)
        with self.database.writer() as connection:
            connection.execute(models.quotas.insert().values(
                project_id=make.PROJECT, resource='attachments', hard_limit=None))
        shown = quotas.show(self.database, make.PROJECT)
        self.assertEqual(5, shown.limits['attachments'])
        self.assertNotIn('attachments', shown.own)

    def test_retype_in_progress_reserved_for_new_type_only(self):
        made, kind = make.volume(self.database, size_gb=2), make.volume_type(self.database)
        before = self.used()
        generation = moving.retype(self.database, made, moving.Retyping(kind, False), 60)
        self.assertEqual({**before, f'volumes_{kind.name}': (0, 1),
                          f'gigabytes_{kind.name}': (0, 2)}, self.used())
        work_ends.refuse(self.database, 'retype', made.id, generation)
        self.assertEqual(before, self.used())
