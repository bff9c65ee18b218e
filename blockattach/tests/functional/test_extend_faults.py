"""Extension of volumes under faults and process deaths."""
from concurrent import futures

from blockattach.platform import failpoints
from blockattach.platform.db import paging
from blockattach.storage.db import messages
from blockattach.storage.db import work
from blockattach.storage.db.volumes import volumes
from blockattach.storage.drivers import faults
from blockattach.tests.fixtures import make
from blockattach.tests.functional import instances
from blockattach.tests.functional import test_volume_faults

Fault = faults.Fault
# Failpoints that an extension passes, in their order.
POINTS = (
    'control.extending.after_extend', 'db.extending.claim.before', 'db.extending.claim.after',
    'scheduler.flows.after_claim', 'work.volume.extend.before', 'volume.extending.before_extend',
    'backend.store.extend.before', 'backend.store.extend.after', 'volume.extending.after_extend',
    'backend.target.resize.before', 'backend.target.resize.after',
    'db.extending.extended.before', 'db.extending.extended.after')
NOTICES = ('volume.notices.before_notify', 'volume.notices.after_notify',
           'db.messages.create.before', 'db.messages.create.after')


class ExtendCase(test_volume_faults.VolumeCase):

    def extend(self, volume, new_size=3):
        now = self.world.shown(volume)
        self.world.placement_control.extend(self.world.caller, now, new_size,
                                            now.status == 'in-use')

    def volume(self, in_use):
        volume = self.world.volume()
        if in_use:
            self.world.attached(volume, 'one')
        return volume

    def assert_extended(self, volume, in_use, size_gb=3):
        now = self.world.shown(volume)
        self.assertEqual(('in-use' if in_use else 'available', size_gb),
                         (now.status, now.size_gb))
        if in_use:
            self.assertEqual(size_gb, self.world.target.seen_gb(volume.id))
        self.assert_agree()

    def events(self, volume):
        return [one.event_id for one in messages.list_page(
            self.world.database, make.PROJECT, {'resource_uuid': volume.id}, paging.Page())]


class ExtendTest(ExtendCase):

    def test_extend_resumed_after_death_at_each_point(self):
        for in_use in (False, True):
            for point in POINTS:
                with self.subTest(point, in_use=in_use):
                    volume = self.volume(in_use)
                    self.dies_at(point, lambda volume=volume: self.extend(volume))
                    self.world.start_instance()
                    self.look_everywhere()
                    self.assert_extended(volume, in_use)

    def test_extend_notice_sent_by_next_process_after_death(self):
        for point in NOTICES:
            with self.subTest(point):
                volume = self.volume(in_use=True)
                self.dies_at(point, lambda volume=volume: self.extend(volume))
                self.assert_extended(volume, in_use=True)
                self.world.start_instance()
                self.look_everywhere()
                self.assertEqual(['VOLUME_VOLUME_007_009'], self.events(volume))
                self.assertEqual([], work.list_all(self.world.database))

    def test_extend_refused_by_store_ends_in_error_extending(self):
        for in_use in (False, True):
            for fault in (Fault.REFUSED, Fault.FULL):
                with self.subTest(fault, in_use=in_use):
                    volume, before = self.volume(in_use), self.allocated()
                    self.world.store.faults.plan('extend', fault)
                    self.extend(volume)
                    self.world.settle()
                    self.assertEqual(('error_extending', before),
                                     (self.world.shown(volume).status, self.allocated()))
                    self.assertEqual(['VOLUME_VOLUME_007_010'], self.events(volume))
                    self.assert_agree()

    def test_extend_refusal_recorded_with_message_despite_death(self):
        for point in ('db.volume.extend.failed.before', 'db.volume.extend.failed.after'):
            with self.subTest(point):
                volume = self.volume(in_use=False)
                self.world.store.faults.plan('extend', Fault.REFUSED)
                self.dies_at(point, lambda volume=volume: self.extend(volume))
                said = self.events(volume)
                self.assertEqual(['VOLUME_VOLUME_007_010'] * (
                    self.world.shown(volume).status == 'error_extending'), said)
                self.world.start_instance()
                self.look_everywhere()
                if not said:
                    self.assert_extended(volume, in_use=False)

    def test_uncertain_extend_finished_at_deadline(self):
        for in_use in (False, True):
            for method in ('extend', 'resize'):
                for fault in (Fault.UNCERTAIN_BEFORE, Fault.UNCERTAIN_AFTER):
                    with self.subTest(method, fault=fault, in_use=in_use):
                        volume = self.volume(in_use)
                        driver = self.world.store if method == 'extend' else self.world.target
                        driver.faults.plan(method, fault)
                        self.extend(volume)
                        self.world.settle()
                        self.assertEqual(('extending', 1), (
                            self.world.shown(volume).status, self.world.shown(volume).size_gb))
                        self.look_everywhere()
                        self.assert_extended(volume, in_use)

    def test_force_delete_before_store_extend(self):
        volume = self.world.volume()

        def delete():
            failpoints.disarm('volume.extending.before_extend')
            self.world.volume_control.delete(
                self.world.caller, self.world.shown(volume), force=True)
        self.arm('volume.extending.before_extend', delete)
        self.extend(volume)
        self.world.settle()
        self.assert_only()
        self.assertEqual(0, self.allocated())

    def test_force_delete_after_store_extend(self):
        volume = self.world.volume()

        def delete():
            failpoints.disarm('volume.extending.after_extend')
            volumes.start_delete(self.world.database, volume, 60, force=True)
        self.arm('volume.extending.after_extend', delete)
        self.extend(volume)
        self.world.settle()
        self.assertEqual('deleting', self.world.shown(volume).status)
        self.look_everywhere()
        self.assert_only()

    def test_detach_during_extend_waits_for_backend(self):
        """The detach waits while the backend works on the volume."""
        volume = self.world.volume()
        row = self.world.attached(volume, 'one')
        begun = []

        def detach():
            failpoints.disarm('volume.extending.after_extend')
            begun.append(self.begin(self.world.delete, row))
            futures.wait(begun, test_volume_faults.A_MOMENT)
        self.arm('volume.extending.after_extend', detach)
        self.extend(volume)
        self.world.settle()
        begun[0].result(instances.WAIT_SECONDS)
        self.assert_extended(volume, in_use=False)
