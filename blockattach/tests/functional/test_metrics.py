"""Metrics of the work of a volume manager."""
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform.telemetry import counting
from blockattach.storage.drivers import faults
from blockattach.tests.functional import instances


class BackendFaultTest(instances.WorldTestCase):

    def test_backend_faults_counted_by_outcome(self):
        telemetry = self.world.telemetry
        telemetry.counts = counting.Counts(telemetry.readings)
        volume = self.world.volume(multiattach=True)
        for fault, outcome in ((faults.Fault.REFUSED, 'refused'),
                               (faults.Fault.UNCERTAIN_AFTER, 'uncertain')):
            self.world.target.faults.plan('grant', fault)
            with self.assertRaises(errors.BackendError):
                self.world.create(volume, 'one')
            for name, labels in (
                    ('backend_call', {'backend': 'fake', 'part': 'target', 'verb': 'grant'}),
                    ('attachment_step', {'way': 'attach', 'step': 'grant'})):
                with self.subTest(name, fault=fault):
                    self.assertEqual(1, telemetry.counts.registry.get_sample_value(
                        f'blockattach_{name}_seconds_count', {**labels, 'outcome': outcome}))


class DriftTest(instances.WorldTestCase):

    def test_attachment_under_work_not_counted_as_drift(self):
        """A drift that is counted as found but never as repaired would alert for ever."""
        telemetry = self.world.telemetry
        telemetry.counts = counting.Counts(telemetry.readings)
        row = self.world.attached(self.world.volume(), 'one')
        free = self.world.target.faults.hold('revoke')
        leaving = self.begin(self.world.delete, row)
        self.until_held(self.world.target, 'revoke')
        for _ in range(2):
            self.world.look()
        self.assertEqual((0, 0), self.counted(telemetry))
        free.set()
        leaving.result(instances.WAIT_SECONDS)
        left = self.world.attached(self.world.volume(), 'one')
        self.arm('volume.attachments.before_revoke')
        with self.assertRaises(instances.Death):
            self.world.delete(left)
        failpoints.disarm('volume.attachments.before_revoke')
        self.world.start_instance()
        self.world.look()
        self.assertEqual((1, 1), self.counted(telemetry))

    def counted(self, telemetry):
        """Return the counts of interrupted attachments that were found and repaired."""
        return tuple(telemetry.counts.registry.get_sample_value(
            f'blockattach_drift_{which}_total', {'drift': 'attachment'})
            for which in ('found', 'repaired'))
