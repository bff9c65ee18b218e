"""Creation and deletion of snapshots, and reverts, under faults and process deaths."""
from blockattach.platform import failpoints
from blockattach.storage import errors
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.db.snapshots import snapshot_queries
from blockattach.storage.db.snapshots import snapshots
from blockattach.storage.drivers import faults
from blockattach.tests.fixtures import make
from blockattach.tests.functional import instances


class SnapshotCase(instances.WorldTestCase):

    def setUp(self):
        super().setUp()
        self.volume = self.world.volume()

    def ask(self, volume=None):
        """Create the row of a snapshot that the manager has not created yet."""
        return self.world.snapshot_control.create(self.world.caller, snapshots.Draft(
            volume or self.volume, make.PROJECT, make.USER, None, None, {}, True))

    def made(self):
        """Create a snapshot and wait until it is available."""
        found = self.ask()
        self.world.settle()
        self.assertEqual('available', self.status(found))
        return found

    def status(self, snapshot):
        found = snapshot_queries.find(self.world.database, snapshot.id)
        return 'gone' if found is None else found.status

    def delete(self, snapshot, force=False):
        self.world.snapshot_control.delete(
            self.world.caller, snapshot_queries.get(self.world.database, snapshot.id), force)

    def dies_at(self, point, act):
        """Run an operation that dies at a point, and let the next process resume it."""
        super().dies_at(point, act)
        self.world.start_instance()
        for _ in range(2):
            self.world.look()
            self.world.settle()


class CreateTest(SnapshotCase):

    def test_create_snapshot_resumed_after_death_at_each_point(self):
        for number, point in enumerate((
                'control.snapshots.after_create', 'work.snapshot.create.before',
                'volume.snapshots.before_create', 'backend.store.create_snapshot.before',
                'backend.store.create_snapshot.after', 'volume.snapshots.after_create',
                'db.snapshot.create.done.before', 'db.snapshot.create.done.after',
                'work.snapshot.create.after'), 1):
            with self.subTest(point):
                self.dies_at(point, self.ask)
                found = snapshot_queries.of_volume(self.world.database, self.volume.id)
                self.assertEqual(['available'] * number, [one.status for one in found])
                self.assert_agree()

    def test_uncertain_create_snapshot_finished_later(self):
        found = self.ask()
        self.world.store.faults.plan('create_snapshot', faults.Fault.UNCERTAIN_AFTER)
        self.world.store.faults.plan('delete_snapshot', faults.Fault.UNCERTAIN_BEFORE)
        self.world.settle()
        self.assertEqual('creating', self.status(found))
        self.assertIn(f'snapshot-{found.id}', self.world.store.sizes())
        self.world.look()
        self.assertEqual('available', self.status(found))
        self.assert_agree()

    def test_create_snapshot_of_attached_volume(self):
        row = self.world.attached(self.volume, 'one')
        found = self.made()
        self.assertEqual(['available', 'in-use'], [
            self.status(found), self.world.shown(self.volume).status])
        self.world.delete(row)
        self.assert_agree()

    def test_force_delete_during_create_snapshot(self):
        found = self.ask()
        self.world.instance.work.settle()
        self.arm('volume.snapshots.after_create', lambda: self.delete(found, force=True))
        self.world.settle()
        failpoints.disarm('volume.snapshots.after_create')
        self.world.settle()
        self.assertEqual('gone', self.status(found))
        self.assert_agree()

    def test_cancelled_create_snapshot_removes_copy(self):
        """The manager removes the snapshot that it has created since."""
        found = self.ask()

        def cancel():
            failpoints.disarm('volume.snapshots.before_create')
            work_ends.cancel(self.world.database, work.of_resource(
                self.world.database, 'snapshot', found.id))
        self.arm('volume.snapshots.before_create', cancel)
        self.world.settle()
        self.assertEqual('error', self.status(found))
        self.assertNotIn(f'snapshot-{found.id}', self.world.store.sizes())
        self.delete(found)
        self.world.settle()
        self.assert_agree()


    def test_create_snapshot_stopped_with_process_resumed_by_next(self):
        found = self.ask()
        self.arm('volume.snapshots.before_create', self.world.instance.runner.stop)
        self.world.settle()
        failpoints.disarm('volume.snapshots.before_create')
        self.assertEqual('creating', self.status(found))
        self.assertNotIn(f'snapshot-{found.id}', self.world.store.sizes())
        self.world.start_instance()
        self.world.look()
        self.world.settle()
        self.assertEqual('available', self.status(found))
        self.assert_agree()

    def test_create_snapshot_taken_over_leaves_copy_to_other_process(self):
        """The copy that exists by then is left to the process that took the work."""
        found = self.ask()

        def lose():
            failpoints.disarm('volume.snapshots.before_create')
            waiting = work.of_resource(self.world.database, 'snapshot', found.id)
            work.take(self.world.database, waiting, 'another', 60)
            self.world.store.faults.plan('create_snapshot', faults.Fault.UNCERTAIN_AFTER)
        self.arm('volume.snapshots.before_create', lose)
        self.world.settle()
        self.assertEqual('creating', self.status(found))
        self.assertIn(f'snapshot-{found.id}', self.world.store.sizes())

    def test_cancelled_create_snapshot_not_removable_removed_later(self):
        found = self.ask()

        def take_away():
            failpoints.disarm('volume.snapshots.after_create')
            work_ends.cancel(self.world.database, work.of_resource(
                self.world.database, 'snapshot', found.id))
            self.world.store.faults.plan('delete_snapshot', faults.Fault.UNCERTAIN_BEFORE)
        self.arm('volume.snapshots.after_create', take_away)
        self.world.settle()
        self.assertIn(f'snapshot-{found.id}', self.world.store.sizes())
        self.world.look()
        self.assertNotIn(f'snapshot-{found.id}', self.world.store.sizes())
        self.assert_agree()


class DeleteTest(SnapshotCase):

    def test_delete_snapshot_resumed_after_death_at_each_point(self):
        for point in ('control.snapshots.after_delete', 'work.snapshot.delete.before',
                      'backend.store.delete_snapshot.before',
                      'backend.store.delete_snapshot.after', 'volume.snapshots.after_delete',
                      'db.snapshot.delete.done.before', 'db.snapshot.delete.done.after'):
            with self.subTest(point):
                found = self.made()
                self.dies_at(point, lambda found=found: self.delete(found))
                self.assertEqual('gone', self.status(found))
                self.assert_agree()

    def test_cascade_delete_resumed_after_death_at_each_point(self):
        for point in ('control.volumes.after_delete', 'volume.volumes.after_unexport',
                      'volume.snapshots.after_delete_of', 'db.snapshots.deleted_with.after',
                      'volume.volumes.after_delete'):
            with self.subTest(point):
                self.volume = self.world.volume()
                found = [self.made(), self.made()]
                self.dies_at(point, lambda: self.world.volume_control.delete(
                    self.world.caller, self.volume, cascade=True))
                self.assertEqual(['gone'] * 2, [self.status(one) for one in found])
                self.assertRaises(errors.VolumeNotFound, self.world.shown, self.volume)
                self.assert_agree()

    def test_cancelled_delete_snapshot_available_again(self):
        found = self.made()
        self.delete(found)
        waiting = work.of_resource(self.world.database, 'snapshot', found.id)
        work_ends.cancel(self.world.database, waiting)
        self.world.settle()
        self.assertEqual('available', self.status(found))
        self.assert_agree()

    def test_cancelled_cascade_delete_keeps_snapshot(self):
        found = self.made()
        self.world.volume_control.delete(self.world.caller, self.volume, cascade=True)
        waiting = work.of_resource(self.world.database, 'volume', self.volume.id)
        self.assertEqual('deleting', self.status(found))
        work_ends.cancel(self.world.database, waiting)
        self.world.settle()
        self.assertEqual(['available', 'available'],
                         [self.status(found), self.world.shown(self.volume).status])
        self.assert_agree()


class RevertTest(SnapshotCase):

    def revert(self, snapshot):
        self.world.snapshot_control.revert(self.world.caller, self.volume, snapshot.id)

    def test_revert_resumed_after_death_at_each_point(self):
        found = self.made()
        for point in ('control.snapshots.after_revert', 'work.volume.revert.before',
                      'volume.reverts.before_revert', 'backend.store.revert.before',
                      'backend.store.revert.after', 'volume.reverts.after_revert',
                      'db.volume.revert.done.before', 'db.volume.revert.done.after'):
            with self.subTest(point):
                self.dies_at(point, lambda: self.revert(found))
                self.assertEqual('available', self.world.shown(self.volume).status)
                self.assert_agree()

    def test_revert_stopped_with_process_resumed_by_next(self):
        self.revert(self.made())
        self.arm('volume.reverts.before_revert', self.world.instance.runner.stop)
        self.world.settle()
        failpoints.disarm('volume.reverts.before_revert')
        self.assertEqual('reverting', self.world.shown(self.volume).status)
        self.world.start_instance()
        self.world.look()
        self.world.settle()
        self.assertEqual('available', self.world.shown(self.volume).status)
        self.assert_agree()

    def test_uncertain_revert_repeated(self):
        found = self.made()
        self.revert(found)
        self.world.store.faults.plan('revert', faults.Fault.UNCERTAIN_AFTER)
        self.world.settle()
        self.assertEqual('reverting', self.world.shown(self.volume).status)
        self.world.look()
        self.assertEqual('available', self.world.shown(self.volume).status)
        self.assertEqual(2, self.world.store.faults.calls['revert'])

    def test_cancelled_revert_leaves_volume_available(self):
        self.revert(self.made())
        work_ends.cancel(self.world.database, work.of_resource(
            self.world.database, 'volume', self.volume.id))
        self.world.settle()
        self.assertEqual('available', self.world.shown(self.volume).status)
        self.assertNotIn('revert', self.world.store.faults.calls)
        self.assert_agree()
