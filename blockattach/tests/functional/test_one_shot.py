"""One-shot reconcile of a backend beside the running volume service."""
from concurrent import futures

from blockattach.platform import failpoints
from blockattach.storage.db import models
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.drivers import faults
from blockattach.storage.volume import repair
from blockattach.storage.work import recover
from blockattach.tests.functional import barriers
from blockattach.tests.functional import instances

S = lifecycle.State
RW = instances.RW
A_MOMENT = 0.3
STRANGER = 'iqn.2026-01.org.example:stranger'


class OneShotTestCase(instances.WorldTestCase):

    def setUp(self):
        super().setUp()
        other = instances.Instance(self.world, instances.HOST, 'blockattach-manage.1@fake')
        self.addCleanup(other.repairer.stop)
        self.other = other
        self.target = self.world.target
        self.volume = self.world.volume(multiattach=True)
        self.steady = self.world.attached(self.volume, 'steady')

    def reconcile(self, dry_run=False):
        """Run a one-shot reconcile as a new process of the command."""
        self.other.recovery.remember(shared=True)
        return self.other.one_shot.run(dry_run)

    def strange(self, volume, initiator=STRANGER):
        self.target.grant(self.world.backend.export_of(volume), connection.Grant(
            volume.id, initiator, RW, connection.Credential('u', 'secret-of-twelve'),
            '-stranger'))

    def kinds(self, found):
        return [(one.drift, one.outcome) for one in found]

    def rows(self):
        """Return all rows of the database by table."""
        with self.world.database.reader() as reader:
            return {table.name: reader.execute(table.select()).all()
                    for table in models.metadata.sorted_tables}

    def assert_undisturbed(self):
        self.assertEqual((RW, 1), self.world.granted(self.volume)[self.steady.initiator])
        self.assert_agree()


class FindingsTest(OneShotTestCase):
    """Findings of a one-shot reconcile and their repair."""

    def setUp(self):
        super().setUp()
        self.overdue = self.world.reserve(self.volume)
        self.arm('volume.attachments.after_grant')
        with self.assertRaises(instances.Death):
            self.world.update(self.overdue, 'late')
        failpoints.disarm('volume.attachments.after_grant')
        lost = self.world.attached(self.volume, 'lost')
        self.target.revoke(self.volume.id, lost.initiator)
        self.strange(self.volume)
        self.target.export(connection.Export('no-such-volume', 'n', '/dev/null', 1))
        self.unused = self.world.volume()
        self.target.export(self.world.backend.export_of(self.unused))
        self.world.expire()

    def test_dry_run_reports_and_changes_nothing(self):
        rows, exports = self.rows(), self.target.exports()
        found = self.reconcile(dry_run=True)
        self.assertEqual(
            [('attachment', repair.WOULD), ('grant', repair.WOULD),
             ('grant', repair.WOULD), ('stray_export', repair.WOULD),
             ('unused_export', repair.WOULD)], self.kinds(found))
        self.assertEqual(self.overdue.id, found[0].attachment_id)
        self.assertTrue(all(one.remains for one in found))
        self.assertEqual((rows, exports), (self.rows(), self.target.exports()))

    def test_reconcile_repairs_each_finding(self):
        found = self.reconcile()
        self.assertEqual(
            ['attachment', 'grant', 'grant', 'stray_export', 'unused_export'],
            [one.drift for one in found])
        self.assertEqual({recover.REPAIRED}, {one.outcome for one in found})
        self.assertEqual(S.CONNECTED, self.world.again(self.overdue).state)
        self.assertEqual({self.volume.id},
                         {export.volume_id for export in self.target.exports()})
        self.assertEqual([], self.reconcile())
        self.assert_undisturbed()

    def test_reconcile_reports_failed_repair(self):
        self.target.faults.plan('revoke', faults.Fault.UNCERTAIN_BEFORE)
        found = self.reconcile()
        remaining = [one for one in found if one.remains]
        self.assertEqual([STRANGER], [one.initiator for one in remaining])
        self.assertTrue(remaining[0].outcome.startswith('cannot: '), remaining)
        self.reconcile()
        self.assert_undisturbed()

    def test_reconcile_removes_attachments_of_deleted_volume(self):
        self.reconcile()
        rows = self.world.rows(self.volume)
        with self.world.database.writer() as writer:
            writer.execute(models.volumes.update().where(
                models.volumes.c.id == self.volume.id).values(
                deleted=True, own_status='gone'))
        found = self.reconcile()
        self.assertLessEqual({row.id for row in rows}, {one.attachment_id for one in found})
        self.assertEqual({recover.REPAIRED}, {one.outcome for one in found})
        self.assertEqual((), self.target.exports())
        self.assertEqual([], self.world.rows(self.volume))


class ExclusionTest(OneShotTestCase):
    """One-shot reconcile, which takes leases, beside a service that takes none."""

    def stopped_at(self, point):
        barrier = barriers.Barrier()
        self.arm(point, barrier)
        self.addCleanup(barrier.open)
        return barrier

    def test_reconcile_skips_pair_under_work_of_service(self):
        barrier = self.stopped_at('volume.attachments.after_grant')
        coming = self.begin(self.world.create, self.volume, 'a')
        self.assertTrue(barrier.reached.wait(instances.WAIT_SECONDS))
        self.target.revoke(self.volume.id, instances.initiator_of('a'))
        self.assertEqual([], self.reconcile())
        # The pair is also skipped if the difference was found just before the service began.
        self.assertFalse(self.other.truth.repair_pair(self.volume.id, instances.initiator_of('a')))
        self.assertNotIn(instances.initiator_of('a'), self.world.granted(self.volume))
        barrier.open()
        coming.result(instances.WAIT_SECONDS)
        self.world.instance.look()
        self.assert_undisturbed()

    def test_service_waits_for_reconcile_of_pair(self):
        self.strange(self.volume, instances.initiator_of('a'))
        held = self.target.faults.hold('revoke', once=True)
        repairing = self.begin(self.reconcile)
        self.until_held(self.target, 'revoke')
        calls = self.target.faults.calls.get('grant', 0)
        coming = self.begin(self.world.create, self.volume, 'a')
        futures.wait([coming], A_MOMENT)
        self.assertFalse(coming.done())
        self.assertEqual(calls, self.target.faults.calls.get('grant', 0))
        held.set()
        repairing.result(instances.WAIT_SECONDS)
        self.assertEqual(S.CONNECTED, coming.result(instances.WAIT_SECONDS).state)
        self.assert_undisturbed()

    def test_repair_pass_of_service_skips_pair_under_reconcile(self):
        self.strange(self.volume)
        held = self.target.faults.hold('revoke', once=True)
        repairing = self.begin(self.reconcile)
        self.until_held(self.target, 'revoke')
        calls = self.target.faults.calls['revoke']
        with self.assertNoLogs('blockattach.storage.volume.repair', 'ERROR'):
            self.assertEqual(0, self.world.instance.truth.repair())
        self.assertEqual(calls, self.target.faults.calls['revoke'])
        held.set()
        repairing.result(instances.WAIT_SECONDS)
        self.assert_undisturbed()

    def test_service_waits_for_reconcile_of_volume(self):
        unused = self.world.volume()
        self.target.export(self.world.backend.export_of(unused))
        held = self.target.faults.hold('unexport', once=True)
        repairing = self.begin(self.reconcile)
        self.until_held(self.target, 'unexport')
        coming = self.begin(self.world.create, unused, 'a')
        futures.wait([coming], A_MOMENT)
        self.assertFalse(coming.done())
        held.set()
        repairing.result(instances.WAIT_SECONDS)
        self.assertEqual(S.CONNECTED, coming.result(instances.WAIT_SECONDS).state)
        self.assert_undisturbed()

    def test_reconcile_beside_live_work_disturbs_no_host(self):
        chance = self.random()
        hosts = [f'host-{number}' for number in range(4)]

        def work(host):
            for _ in range(6):
                row = self.world.create(self.volume, host, chance.choice((RW, instances.RO)))
                self.assertIsNotNone(self.world.log_in(row))
                self.world.delete(row)

        def reconcile_once():
            for _ in range(6):
                self.reconcile()

        answers = self.at_once(
            *[lambda host=host: work(host) for host in hosts], reconcile_once, reconcile_once)
        self.assertEqual([None] * (len(hosts) + 2), answers)
        self.assert_undisturbed()
