"""Creation and deletion of volumes under faults and process deaths."""
from concurrent import futures

from blockattach.platform import failpoints
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import work_ends
from blockattach.storage.db.services import pools
from blockattach.storage.db.volumes import volumes
from blockattach.storage.drivers import faults
from blockattach.tests.functional import instances

A_MOMENT = 0.3


class VolumeCase(instances.WorldTestCase):

    def statuses(self):
        with self.world.database.reader() as reader:
            return [row.status for row in reader.execute(
                models.volumes.select().where(
                    models.volumes.c.deleted.is_(False)))]

    def assert_only(self, *statuses):
        """Check that exactly volumes of these statuses exist and that all parts agree."""
        self.assertEqual(sorted(statuses), sorted(self.statuses()))
        self.assert_agree()

    def allocated(self):
        return pools.get(self.world.database, instances.POOL, instances.LEASE_SECONDS).allocated_gb

    def look_everywhere(self):
        """Run the passes of the manager and of a scheduler after every deadline."""
        self.world.expire()
        self.world.waiting.look()
        self.world.settle()
        # The first pass of an instance removes what the last one has left.
        self.world.instance.look()
        self.world.instance.look()
        self.world.settle()


class CreateTest(VolumeCase):

    def test_create_resumed_after_death_at_each_point(self):
        for point in ('control.volumes.after_create', 'scheduler.flows.after_claim',
                      'volume.volumes.before_create', 'volume.volumes.after_create'):
            with self.subTest(point):
                before = len(self.statuses())
                self.dies_at(point, self.world.ask_volume)
                self.world.start_instance()
                self.look_everywhere()
                self.assert_only(*['available'] * (before + 1))

    def test_create_fault_on_only_pool_ends_in_error(self):
        for fault in faults.Fault:
            with self.subTest(fault=fault):
                made = self.world.ask_volume()
                self.world.store.faults.plan('create', fault)
                self.world.settle()
                now = self.world.shown(made)
                self.assertEqual(('error', None), (now.status, now.pool))
                self.assertEqual({}, self.world.store.sizes())
                self.assert_agree()
                self.world.volume_control.delete(self.world.caller, now)
                self.assert_only()

    def test_concurrent_create_failing_once_keeps_other_copy(self):
        """A duplicate message must not remove the volume that the other one created."""
        made = self.world.ask_volume()
        self.world.work.settle()
        generation = self.world.shown(made).generation
        begun = []

        def come_twice():
            failpoints.disarm('volume.volumes.before_create')
            begun.append(self.begin(self.world.instance.manager.accept_work, self.world.caller,
                                    'volume', 'create', made.id, generation))
            # The repeated message may create the volume now or has to wait. The first one fails
            # afterwards.
            futures.wait(begun, A_MOMENT)
            self.world.store.faults.plan('create', faults.Fault.UNCERTAIN_BEFORE)

        self.arm('volume.volumes.before_create', come_twice)
        self.world.settle()
        begun[0].result(instances.WAIT_SECONDS)
        self.world.settle()
        self.assertIn(self.world.shown(made).status, ('available', 'error'))
        self.assert_agree()

    def test_create_given_up_during_create_removes_volume(self):
        made = self.world.ask_volume()
        self.world.work.settle()

        def take_away():
            failpoints.disarm('volume.volumes.before_create')
            now = self.world.shown(made)
            generation = volumes.unclaim(self.world.database, made.id, now.generation, 60)
            work_ends.refuse(self.world.database, 'create', made.id, generation)

        self.arm('volume.volumes.before_create', take_away)
        self.world.settle()
        self.assert_only('error')

    def take_away(self, made):
        now = self.world.shown(made)
        generation = volumes.unclaim(self.world.database, made.id, now.generation, 60)
        work_ends.refuse(self.world.database, 'create', made.id, generation)

    def test_create_given_up_not_removable_removed_later(self):
        """A later pass removes the volume from the store (simulation seed 100)."""
        made = self.world.ask_volume()
        self.world.work.settle()
        self.arm('volume.volumes.before_create', lambda: self.take_away(made))
        self.world.store.faults.plan('delete', faults.Fault.UNCERTAIN_BEFORE)
        self.world.settle()
        self.assertEqual([f'volume-{made.id}'], list(self.world.store.sizes()))
        self.world.store.faults.plan('delete', faults.Fault.REFUSED)
        for left in (1, 0):
            self.world.look()
            self.assertEqual(left, len(self.world.store.sizes()))
        self.assert_only('error')

    def test_create_given_up_removed_after_manager_death(self):
        """The next instance removes the volume from the store (simulation seed 100)."""
        for force in (False, True):
            made = self.world.ask_volume()
            self.world.work.settle()
            self.arm('volume.volumes.before_create', lambda made=made: self.take_away(made))
            self.arm('volume.volumes.after_create')
            self.assertRaises(instances.Death, self.world.settle)
            self.assertEqual([f'volume-{made.id}'], list(self.world.store.sizes()))
            self.world.volume_control.delete(self.world.caller, self.world.shown(made), force)
            self.world.start_instance()
            self.world.look()
            self.assert_only()

    def is_refused(self, made):
        """Plan a refusal of the next attempt of a create by the backend."""
        self.world.store.faults.plan('create', faults.Fault.REFUSED)
        self.world.look()
        self.world.settle()
        now = self.world.shown(made)
        self.assertEqual(('error', None), (now.status, now.pool))

    def test_create_refused_after_death_removes_earlier_copy(self):
        """A refusal does not tell about an earlier attempt (simulation seed 7000022)."""
        made = self.world.ask_volume()
        self.world.work.settle()
        self.dies_at('volume.volumes.after_create', lambda: None)
        self.world.start_instance()
        self.is_refused(made)
        self.assert_only('error')

    def test_create_refused_after_uncertain_attempt_removes_copy(self):
        """The instance cannot remove the earlier copy at once (simulation seed 1000004)."""
        made = self.world.ask_volume()
        self.world.store.faults.plan('create', faults.Fault.UNCERTAIN_AFTER)
        self.world.store.faults.plan('delete', faults.Fault.UNCERTAIN_BEFORE)
        self.world.settle()
        self.assertEqual('creating', self.world.shown(made).status)
        self.world.store.faults.plan('delete', faults.Fault.REFUSED)
        self.is_refused(made)
        self.assertEqual([f'volume-{made.id}'], list(self.world.store.sizes()))
        self.world.volume_control.delete(self.world.caller, self.world.shown(made))
        self.world.look()
        self.assert_only()

    def test_create_given_up_after_uncertain_attempt_removes_copy(self):
        """Passes in between do not forget the earlier copy (simulation seed 1272074101)."""
        made = self.world.ask_volume()
        self.world.store.faults.plan('create', faults.Fault.UNCERTAIN_AFTER)
        self.world.store.faults.plan('delete', faults.Fault.UNCERTAIN_BEFORE)
        self.world.settle()
        self.world.instance.look()
        self.assertEqual('creating', self.world.shown(made).status)
        self.assertEqual([f'volume-{made.id}'], list(self.world.store.sizes()))
        self.take_away(made)
        self.world.instance.look()
        self.assertEqual({}, self.world.store.sizes())
        self.assert_only('error')

    def test_create_refused_without_scheduler_removes_copy(self):
        """The copy of the earlier attempt is removed although no scheduler hears the refusal."""
        made = self.world.ask_volume()
        self.world.work.settle()
        self.dies_at('volume.volumes.after_create', lambda: None)
        self.world.start_instance()
        self.world.scheduler.stop()
        self.world.store.faults.plan('create', faults.Fault.REFUSED)
        self.world.look()
        self.assertIsNone(self.world.shown(made).pool)
        self.world.look()
        self.assertEqual({}, self.world.store.sizes())
        self.world.scheduler.start()
        self.look_everywhere()
        self.assert_only('error')

    def test_force_delete_during_create(self):
        made = self.world.ask_volume()
        self.world.work.settle()

        def start_delete():
            failpoints.disarm('volume.volumes.before_create')
            self.world.volume_control.delete(self.world.caller, self.world.shown(made), True)

        self.arm('volume.volumes.before_create', start_delete)
        self.world.settle()
        self.assert_only()

    def test_create_by_unanswering_manager_removed(self):
        """The manager accepted the work without an answer, so its volume is removed."""
        made = self.world.ask_volume()
        self.world.managers.add(instances.HOST, Silent(self.world.instance.manager))
        self.world.settle()
        self.assertEqual('error', self.world.shown(made).status)
        self.assert_only('error')
        self.assertEqual(0, self.allocated())

    def test_create_finished_before_timeout_is_available(self):
        made = self.world.ask_volume()
        self.world.managers.add(instances.HOST, Silent(self.world.instance.manager,
                                                       self.world.instance.work.settle))
        self.world.settle()
        self.assertEqual('available', self.world.shown(made).status)
        self.assert_only('available')

    def test_lost_create_request_resumed_at_deadline(self):
        """The create was accepted, so a scheduler resumes it at its deadline."""
        self.world.scheduler.stop()
        made = self.world.ask_volume()
        self.assertEqual('creating', made.status)
        self.world.scheduler.start()
        self.look_everywhere()
        self.assert_only('available')


class DeleteTest(VolumeCase):

    def delete(self, volume):
        self.world.volume_control.delete(self.world.caller, self.world.shown(volume))

    def test_delete_resumed_after_death_at_each_point(self):
        for point in ('control.volumes.after_delete', 'volume.volumes.after_unexport',
                      'volume.volumes.after_delete'):
            with self.subTest(point):
                volume = self.world.volume()
                self.world.target.export(self.world.backend.export_of(volume))
                self.dies_at(point, lambda volume=volume: self.delete(volume))
                self.world.start_instance()
                self.world.instance.look()
                self.assert_only()
                self.assertEqual((), self.world.target.exports())

    def test_delete_fault_at_each_step(self):
        for driver, method in (('target', 'unexport'), ('store', 'delete')):
            for fault in (faults.Fault.REFUSED, faults.Fault.UNCERTAIN_BEFORE,
                          faults.Fault.UNCERTAIN_AFTER):
                with self.subTest(method=method, fault=fault):
                    volume = self.world.volume()
                    getattr(self.world, driver).faults.plan(method, fault)
                    self.delete(volume)
                    self.world.settle()
                    if fault is faults.Fault.REFUSED:
                        self.assert_only('error_deleting')
                        self.assertEqual(1, self.allocated())
                        self.delete(volume)
                        self.world.settle()
                    else:
                        self.assertEqual(['deleting'], self.statuses())
                        self.look_everywhere()
                    self.assert_only()
                    self.assertEqual(0, self.allocated())

    def test_delete_without_manager_resumed_by_pass(self):
        volume = self.world.volume()
        self.world.managers.remove(instances.HOST)
        self.delete(volume)
        self.assertEqual(['deleting'], self.statuses())
        self.world.managers.add(instances.HOST, self.world.instance.manager)
        # The work is resumed by the next look, without waiting for its deadline.
        self.wait_for(lambda: self.world.instance.look() > 0)
        self.assert_only()

    def test_concurrent_delete_and_attach_reject_one(self):
        for _ in range(10):
            volume = self.world.volume()
            answers = self.at_once(lambda volume=volume: self.delete(volume),
                                   lambda volume=volume: self.world.create(volume, 'a'))
            self.world.settle()
            refused = [isinstance(answer, errors.InvalidVolume | errors.VolumeNotFound)
                       for answer in answers]
            self.assertEqual(1, sum(refused), answers)
            self.assert_agree()

    def test_random_creates_and_deletes_agree(self):
        seed = self.random()
        kept = [self.world.volume() for _ in range(3)]
        for _ in range(20):
            chance = seed.random()
            if chance < 0.3:
                self.world.store.faults.plan(
                    seed.choice(('create', 'delete')), seed.choice(list(faults.Fault)))
            if chance < 0.6 or not kept:
                kept.append(self.world.ask_volume())
            else:
                volume = kept.pop(seed.randrange(len(kept)))
                instances.outcome(self.delete, volume)
            self.world.settle()
        self.world.store.faults.clear()
        self.look_everywhere()
        self.assert_agree()


class Silent:
    """Manager that accepts work while its answer is lost."""

    def __init__(self, endpoint, meanwhile=lambda: None):
        self._endpoint = endpoint
        self._meanwhile = meanwhile

    def accept_work(self, *arguments):
        assert self._endpoint.accept_work(*arguments)
        self._meanwhile()
        raise errors.ServiceUnreachable(topic='volume', seconds=15)
