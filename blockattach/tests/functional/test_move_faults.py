"""Migration and retype of volumes between two backends under faults and process deaths.

The data is complete at each moment, and in one place in the end.
"""
from blockattach.platform import failpoints
from blockattach.platform.db import paging
from blockattach.storage.db import messages
from blockattach.storage.db import models
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.db.services import pools
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import moving
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import volume_type
from blockattach.testing import backend
from blockattach.tests.fixtures import make
from blockattach.tests.functional import instances
from blockattach.tests.functional import test_volume_faults

OTHER = 'storage-1@other'
OTHER_POOL = f'{OTHER}#pool'
BYTES = {0: b'first', 2 ** 20: b'last'}
# Failpoints that a moving volume passes, in their order.
PLACING = ('control.moving.after_{verb}', 'db.moving.claim.before', 'db.moving.claim.after',
           'scheduler.flows.after_claim')
COPYING = ('work.volume.{verb}.before', 'backend.target.unexport.before',
           'volume.moving.before_create', 'backend.store.delete.before',
           'backend.store.delete.after', 'backend.store.create.before',
           'backend.store.create.after', 'volume.moving.before_copy', 'backend.store.disk.before',
           'backend.store.disk.after', 'volume.moving.before_verify', 'volume.moving.after_copy',
           'db.moving.moved.before', 'db.moving.moved.after', 'volume.moving.after_move')
CLEANING = ('work.volume.cleanup.before', 'work.volume.cleanup.after')


class MoveCase(test_volume_faults.VolumeCase):

    def setUp(self):
        super().setUp()
        self.loaded = backend.FakeBackend('other').loaded
        self.store, self.other_store = self.world.store, self.loaded.store
        self.other = None
        self.start()
        self.kind = volume_types.create(self.world.database, 'other', None, True, {
            'volume_backend_name': 'other', 'multiattach': '<is> True'})

    def start(self):
        """Restart the process with both backends."""
        if self.other is not None:
            self.other.repairer.stop()
            self.world.start_instance()
        self.other = instances.Instance(self.world, OTHER, loaded=self.loaded)
        self.addCleanup(self.other.repairer.stop)
        self.other.service.start()

    def settle(self):
        for _ in range(5):
            self.world.settle()
            self.other.work.settle()

    def look(self):
        self.world.expire()
        self.world.waiting.look()
        self.settle()
        for _ in range(2):
            self.world.instance.look()
            self.other.look()
        self.settle()

    def written(self):
        """Create a volume with data on the first backend."""
        self.disable(1)
        volume = self.world.volume()
        self.disable(0)
        self.store.contents(f'volume-{volume.id}').update(BYTES)
        return volume

    def disable(self, disabled):
        with self.world.database.writer() as writer:
            writer.execute(models.services.update().where(
                models.services.c.host == OTHER).values(disabled=bool(disabled)))

    def move(self, verb, volume):
        """Request a migration or a retype, and run the work that follows."""
        now = self.world.shown(volume)
        if verb == 'migrate':
            self.world.placement_control.migrate(self.world.caller, now, OTHER, False)
        else:
            self.world.placement_control.retype(self.world.caller, now, moving.Retyping(
                self.kind, True))
        self.settle()

    def assert_whole(self, volume):
        """Check that the data is complete on the backend that the row names."""
        store = self.store if self.world.shown(volume).pool == instances.POOL \
            else self.other_store
        self.assertEqual(BYTES, store.contents(f'volume-{volume.id}'))
        self.assertIn(f'volume-{volume.id}', store.sizes())

    def assert_moved(self, verb, volume, moved=True):
        """Check that the volume has moved, or has stayed, and that no work remains."""
        now = self.world.shown(volume)
        self.assertEqual(('available', OTHER_POOL if moved else instances.POOL),
                         (now.own_status, now.pool))
        self.assertEqual(moved and verb == 'retype', now.multiattach)
        self.assert_whole(volume)
        there, elsewhere = (self.other_store, self.store) if moved else (
            self.store, self.other_store)
        self.assertEqual((1, None), tuple(
            store.sizes().get(f'volume-{volume.id}') for store in (there, elsewhere)))
        self.assertEqual([], work.list_all(self.world.database))
        for pool, store in ((instances.POOL, self.store), (OTHER_POOL, self.other_store)):
            self.assertEqual(sum(store.sizes().values()), pools.get(
                self.world.database, pool, instances.LEASE_SECONDS).allocated_gb)

    def events(self, volume):
        return {one.event_id for one in messages.list_page(
            self.world.database, make.PROJECT, {'resource_uuid': volume.id}, paging.Page())}


class MoveTest(MoveCase):

    def test_move_resumed_after_death_at_each_point(self):
        for verb in ('migrate', 'retype'):
            for point in (*PLACING, *COPYING):
                point = point.format(verb=verb)
                with self.subTest(point, verb=verb):
                    volume = self.written()
                    self.dies_at(point, lambda volume=volume, verb=verb: self.move(verb, volume))
                    self.assert_whole(volume)
                    self.start()
                    self.look()
                    self.look()
                    self.assert_moved(verb, volume)

    def test_source_cleanup_resumed_after_death(self):
        for point in CLEANING:
            volume = self.written()
            self.move('migrate', volume)
            self.dies_at(point, self.look)
            self.assert_whole(volume)
            self.start()
            self.look()
            self.assert_moved('migrate', volume)

    def test_move_with_differing_copy_refused(self):
        for verb in ('migrate', 'retype'):
            volume = self.written()

            def spoil(volume=volume):
                self.other_store.contents(f'volume-{volume.id}')[0] = b'wrong'
            self.arm('volume.moving.before_verify', spoil)
            self.move(verb, volume)
            failpoints.disarm('volume.moving.before_verify')
            self.look()
            self.assert_moved(verb, volume, moved=False)
            self.assertIn('VOLUME_VOLUME_05{}_056'.format(6 if verb == 'migrate' else 7),
                          self.events(volume))

    def test_retype_to_changed_type_refused(self):
        volume = self.written()
        self.arm('volume.moving.after_copy', lambda: volume_types.set_extra_specs(
            self.world.database, self.kind.id, {volume_type.MODE: volume_type.ONE_WRITER}))
        self.move('retype', volume)
        self.look()
        self.assert_moved('retype', volume, moved=False)

    def test_migrate_given_up_removes_copy(self):
        for point in ('volume.moving.before_create', 'volume.moving.before_copy',
                      'volume.moving.after_copy'):
            with self.subTest(point):
                volume = self.written()

                def take_away(volume=volume, point=point):
                    failpoints.disarm(point)
                    now = self.world.shown(volume)
                    work_ends.refuse(self.world.database, 'migrate', volume.id, moving.unclaim(
                        self.world.database, volume.id, now.generation, 60))
                self.arm(point, take_away)
                self.move('migrate', volume)
                self.look()
                self.assert_moved('migrate', volume, moved=False)

    def test_force_delete_before_retype_is_placed(self):
        volume = self.written()
        moving.retype(self.world.database, volume, moving.Retyping(
            self.kind, True), 60)
        self.world.volume_control.delete(self.world.caller, self.world.shown(volume), force=True)
        self.settle()
        self.look()
        self.assertEqual({}, self.store.sizes())
        self.assertEqual([], work.list_all(self.world.database))

    def test_migrate_without_source_backend_refused(self):
        volume = self.written()
        base = self.world.deployment.base
        kept = base.backends.pop(instances.HOST)
        self.move('migrate', volume)
        base.backends[instances.HOST] = kept
        self.look()
        self.assert_moved('migrate', volume, moved=False)

    def test_cancelled_migrate_keeps_volume(self):
        volume = self.written()
        moving.migrate(self.world.database, volume, OTHER, True, 60)
        work_ends.cancel(self.world.database, work.of_resource(
            self.world.database, 'volume', volume.id))
        self.assert_moved('migrate', volume, moved=False)

    def test_delete_right_after_migrate_removes_both_copies(self):
        volume = self.written()
        self.move('migrate', volume)
        volumes.start_delete(self.world.database, volume, 60)
        self.look()
        self.look()
        self.assertEqual(({}, {}), (self.store.sizes(), self.other_store.sizes()))
        self.assertEqual([], work.list_all(self.world.database))
