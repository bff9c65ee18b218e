"""Creation of volumes from other volumes and snapshots under faults and process deaths.

The database and the backend agree in the end, and the source is unchanged.
"""
from blockattach.platform import failpoints
from blockattach.storage import errors
from blockattach.storage.db import work_ends
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import sources as source_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import sources
from blockattach.storage.drivers import base
from blockattach.storage.drivers import faults
from blockattach.tests.fixtures import stored_snapshots
from blockattach.tests.functional import instances
from blockattach.tests.functional import test_volume_faults

POINTS = ('control.volumes.after_create', 'scheduler.flows.after_claim',
          'work.volume.create.before', 'volume.volumes.before_create',
          'volume.volumes.after_create', 'work.volume.create.after')


class CopyCase(test_volume_faults.VolumeCase):

    def setUp(self):
        super().setUp()
        self.origin = self.world.volume()
        self.kind = volume_types.get(self.world.database, self.origin.volume_type_id)
        self.snapshot_id = stored_snapshots.insert(self.world.database, self.origin)
        stored_snapshots.keep(self.world.store, self.origin, self.snapshot_id)

    def of_volume(self):
        return sources.of_volume(self.world.shown(self.origin))

    def of_snapshot(self):
        return source_queries.snapshot(self.world.database, self.snapshot_id)

    def each(self):
        """Yield the method of the store, the source, and the name of its origin."""
        yield 'clone', self.of_volume(), f'volume-{self.origin.id}'
        yield 'clone_snapshot', self.of_snapshot(), f'snapshot-{self.snapshot_id}'

    def ask(self, source):
        return self.world.volume_control.create(
            self.world.caller, None, None, 1, self.kind, None, {}, source=source)

    def assert_only(self, *statuses):
        """Check the statuses of all volumes but the source."""
        self.assertEqual(sorted(('available', *statuses)), sorted(self.statuses()))
        self.assertEqual([], self.world.disagreements())

    def assert_copies(self, origin, count):
        self.assertEqual([origin] * count, [
            found for found in self.world.store.origins().values() if found == origin])


class ExtendedSourceTest(CopyCase):

    def test_clone_of_a_source_extended_before_the_copy_succeeds(self):
        stored = base.StoredVolume(self.origin.id, f'volume-{self.origin.id}', 1, 'pool')

        def extend():
            failpoints.disarm('volume.volumes.before_create')
            self.world.store.extend(stored, 3)

        self.arm('volume.volumes.before_create', extend)
        made = self.ask(self.of_volume())
        self.world.settle()
        self.world.placement_control.extend(
            self.world.caller, self.world.shown(self.origin), 3, False)
        self.world.settle()
        self.assertEqual([('available', 1), ('available', 3)], [
            (now.status, now.size_gb) for now in map(self.world.shown, (made, self.origin))])
        self.assertEqual(1, self.world.store.sizes()[f'volume-{made.id}'])
        self.assertEqual([], self.world.disagreements())


class DeathTest(CopyCase):

    def test_clone_resumed_after_death_at_each_point(self):
        made = 0
        for verb, source, origin in self.each():
            points = (*POINTS, f'backend.store.{verb}.before', f'backend.store.{verb}.after')
            for number, point in enumerate(points, 1):
                with self.subTest(point, verb=verb):
                    self.dies_at(point, lambda source=source: self.ask(source))
                    self.world.start_instance()
                    self.look_everywhere()
                    made += 1
                    self.assert_only(*['available'] * made)
                    self.assert_copies(origin, number)

    def test_source_not_deletable_until_clone_ends(self):
        for point in POINTS:
            with self.subTest(point):
                self.dies_at(point, lambda: self.ask(self.of_volume()))
                unfinished = 'creating' in self.statuses()
                if unfinished:
                    self.assertRaises(errors.InvalidVolume, self.world.volume_control.delete,
                                      self.world.caller, self.origin)
                self.world.start_instance()
                self.look_everywhere()
                self.assertEqual('available', self.world.shown(self.origin).status)


class FaultTest(CopyCase):

    def test_clone_fault_ends_in_error_without_remains(self):
        before = self.world.store.sizes()
        for verb, source, _ in self.each():
            for fault in faults.Fault:
                with self.subTest(verb=verb, fault=fault):
                    made = self.ask(source)
                    self.world.store.faults.plan(verb, fault)
                    self.world.settle()
                    now = self.world.shown(made)
                    self.assertEqual(('error', None), (now.status, now.pool))
                    self.assertEqual(before, self.world.store.sizes())
                    self.world.volume_control.delete(self.world.caller, now)
                    self.assert_only()

    def test_clone_uncertain_and_not_removable_finished_later(self):
        for verb, source, _ in self.each():
            with self.subTest(verb=verb):
                made = self.ask(source)
                self.world.store.faults.plan(verb, faults.Fault.UNCERTAIN_AFTER)
                self.world.store.faults.plan('delete', faults.Fault.UNCERTAIN_BEFORE)
                self.world.settle()
                self.assertEqual('creating', self.world.shown(made).status)
                self.look_everywhere()
                self.assertEqual('available', self.world.shown(made).status)

    def test_clone_given_up_during_copy_removed(self):
        for verb, source, _ in self.each():
            with self.subTest(verb=verb):
                made = self.ask(source)
                self.world.work.settle()

                def take_away(made=made, verb=verb):
                    failpoints.disarm(f'backend.store.{verb}.after')
                    now = self.world.shown(made)
                    generation = volumes.unclaim(self.world.database, made.id, now.generation, 60)
                    work_ends.refuse(self.world.database, 'create', made.id, generation)

                self.arm(f'backend.store.{verb}.after', take_away)
                self.world.settle()
                self.assertNotIn(f'volume-{made.id}', self.world.store.sizes())
                self.world.volume_control.delete(self.world.caller, self.world.shown(made))
        self.assert_only()

    def test_clone_of_vanished_snapshot_ends_in_error(self):
        """The row of the snapshot is removed as by a manual statement."""
        made = self.ask(self.of_snapshot())
        self.world.work.settle()
        stored_snapshots.forget(self.world.database, self.snapshot_id)
        self.world.settle()
        self.assertEqual('error', self.world.shown(made).status)

    def test_force_delete_during_clone(self):
        made = self.ask(self.of_volume())
        self.world.work.settle()

        def start_delete():
            failpoints.disarm('backend.store.clone.before')
            self.world.volume_control.delete(self.world.caller, self.world.shown(made), True)

        self.arm('backend.store.clone.before', start_delete)
        self.world.settle()
        self.assert_only()


class BesideTest(CopyCase):
    """Clone that is held in the store."""

    def setUp(self):
        super().setUp()
        self.held = self.world.store.faults.hold('clone', once=True)
        self.made = self.ask(self.of_volume())
        self.world.work.settle()
        self.copying = self.begin(self.world.instance.work.settle)
        self.addCleanup(self.held.set)
        self.until_held(self.world.store, 'clone')

    def end(self):
        self.held.set()
        self.copying.result(instances.WAIT_SECONDS)
        self.world.settle()
        self.assertEqual('available', self.world.shown(self.made).status)

    def test_source_attached_and_detached_during_clone(self):
        row = self.world.attached(self.origin, 'a')
        self.assertEqual('in-use', self.world.shown(self.origin).status)
        self.world.delete(row)
        self.assertEqual('available', self.world.shown(self.origin).status)
        self.assertEqual('creating', self.world.shown(self.made).status)
        self.end()

    def test_clone_given_up_ends_in_error(self):
        volume = self.world.shown(self.made)
        generation = volumes.unclaim(self.world.database, volume.id, volume.generation, 60)
        work_ends.refuse(self.world.database, 'create', volume.id, generation)
        self.held.set()
        self.copying.result(instances.WAIT_SECONDS)
        self.world.settle()
        self.assert_only('error')
