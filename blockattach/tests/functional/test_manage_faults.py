"""Manage and unmanage of volumes under faults and process deaths, which lose no data."""
from blockattach.platform import failpoints
from blockattach.platform.db import paging
from blockattach.storage import errors
from blockattach.storage.control import managing
from blockattach.storage.control import places
from blockattach.storage.db import work_ends
from blockattach.storage.db.snapshots import snapshots
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import unmanaging
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.drivers import base
from blockattach.storage.drivers import faults
from blockattach.tests.fixtures import make
from blockattach.tests.functional import instances
from blockattach.tests.functional import test_volume_faults

Fault = faults.Fault
POINTS = (
    'control.managing.after_manage', 'db.managing.claim.before', 'db.managing.claim.after',
    'scheduler.flows.after_claim', 'work.volume.manage.before', 'db.managing.found.before',
    'db.managing.found.after', 'volume.managing.before_manage', 'backend.store.manage.before',
    'backend.store.manage.after', 'volume.managing.after_manage', 'db.volume.manage.done.before',
    'db.volume.manage.done.after')
LEAVING = (
    'control.managing.after_unmanage', 'work.volume.unmanage.before',
    'volume.managing.before_unexport', 'volume.managing.after_unexport',
    'db.volume.unmanage.done.before', 'db.volume.unmanage.done.after')
OF_SNAPSHOTS = (
    'control.snapshots.after_create', 'work.snapshot.manage.before',
    'volume.managing.before_manage_snapshot', 'backend.store.manage_snapshot.after',
    'volume.managing.after_manage_snapshot')


class ManageTest(test_volume_faults.VolumeCase):

    def setUp(self):
        super().setUp()
        self.control = self.world.managing_control

    def manage(self, name='disk'):
        kind = volume_types.get(self.world.database, make.volume_type(self.world.database).id)
        self.made = self.control.manage(
            self.world.caller, places.Place('Host', instances.POOL),
            managing.Wish(kind, name, None, None, {}, False, None))

    def lies_there(self, name='disk', size_gb=2):
        self.world.store.create(base.StoredVolume(name, name, size_gb, 'pool'))

    def clear(self, name):
        """Delete foreign storage, which the checks for agreement do not expect."""
        self.world.store.delete(base.StoredVolume(name, name, 0, 'pool'))

    def give_up(self):
        """Delete the volumes in error_managing, and check that the storage stays."""
        before = self.only()
        for row in volume_queries.list_page(self.world.database, volume_queries.Filters(
                None, {'status': 'error_managing'}), paging.Page()):
            self.world.volume_control.delete(self.world.caller, row)
        self.world.settle()
        self.assertEqual(before, self.only())

    def only(self):
        """Return the sizes of all volumes on the store."""
        return self.world.store.sizes()

    def test_manage_resumed_after_death_at_each_point(self):
        for point in POINTS:
            with self.subTest(point):
                before = self.only()
                self.lies_there()
                self.dies_at(point, self.manage)
                self.world.start_instance()
                self.look_everywhere()
                [new] = self.only().keys() - before.keys()
                volume = volume_queries.get(self.world.database, new.removeprefix('volume-'))
                self.assertEqual((2, 'available'), (volume.size_gb, volume.status))
                self.assert_agree()

    def test_manage_refused_after_death_keeps_storage(self):
        for point in POINTS[:-4]:
            with self.subTest(point):
                self.lies_there('taken')
                before = self.only()
                self.dies_at(point, lambda: self.manage('taken'))
                self.world.store.faults.plan('manage', Fault.REFUSED)
                self.world.start_instance()
                self.look_everywhere()
                self.assertEqual(before, self.only())
                self.assertIn('error_managing', self.statuses())
                self.give_up()
                self.clear('taken')
                self.assert_agree()

    def test_manage_with_fault_keeps_storage(self):
        for fault in Fault:
            with self.subTest(fault):
                before = sum(self.only().values())
                self.lies_there(f'disk-{fault}')
                self.world.store.faults.plan('manage', fault)
                self.manage(f'disk-{fault}')
                self.world.settle()
                self.world.start_instance()
                self.look_everywhere()
                self.assertEqual(before + 2, sum(self.only().values()))
                self.give_up()
                self.clear(f'disk-{fault}')
                self.assert_agree()

    def test_unmanage_resumed_after_death_at_each_point(self):
        for point in LEAVING:
            with self.subTest(point):
                volume, before = self.world.volume(), self.only()
                self.dies_at(point, lambda volume=volume: self.control.unmanage(
                    self.world.caller, self.world.shown(volume)))
                self.world.start_instance()
                self.look_everywhere()
                with self.assertRaises(errors.VolumeNotFound):
                    self.world.shown(volume)
                self.assertEqual(1, self.only()[f'volume-{volume.id}'])
                self.assertLessEqual(before.keys(), self.only().keys())
                self.clear(f'volume-{volume.id}')
                self.assert_agree()

    def test_late_create_keeps_unmanaged_volume(self):
        made = self.world.ask_volume()
        self.world.work.settle()

        def leave():
            failpoints.disarm('volume.volumes.after_create')
            rows = self.world.database
            volumes.created(rows, made.id, self.world.shown(made).generation, False)
            work_ends.finish(rows, unmanaging.start(rows, made, 60))

        self.arm('volume.volumes.after_create', leave)
        self.world.settle()
        self.look_everywhere()
        self.assertEqual({f'volume-{made.id}': 1}, self.only())

    def test_manage_snapshot_resumed_after_death_at_each_point(self):
        volume = self.world.volume()
        stored = base.StoredVolume(volume.id, f'volume-{volume.id}', 1, 'pool')
        for point in OF_SNAPSHOTS:
            with self.subTest(point):
                before = self.only()
                self.world.store.create_snapshot(
                    base.StoredSnapshot('old', 'snapshot-old', stored))
                self.dies_at(point, lambda: self.world.snapshot_control.create(
                    self.world.caller, snapshots.Draft(
                        volume, make.PROJECT, make.USER, None, None, {},
                        reference='snapshot-old')))
                self.world.start_instance()
                self.look_everywhere()
                self.assertNotIn('snapshot-old', self.only())
                self.assertEqual(len(before) + 1, len(self.only()))
                self.assert_agree()
