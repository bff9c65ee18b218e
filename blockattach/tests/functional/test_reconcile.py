"""Repair of attachments after a process death, and of foreign changes at the target."""
import functools
import random
import threading
from concurrent import futures

from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.storage.db.attachments import grants
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.drivers import faults
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.functional import instances

S = lifecycle.State
RW, RO = instances.RW, instances.RO

CONNECTING = ('volume.attachments.before_grant', 'volume.attachments.after_grant')
LEAVING = ('control.attachments.after_disconnect_intent', 'volume.attachments.before_revoke',
           'volume.attachments.after_revoke')
UPDATING = ('control.attachments.after_connect_intent', *CONNECTING)
A_MOMENT = 0.3


class DeathTest(instances.WorldTestCase):
    """Death of an instance at each point of an operation, and recovery by the next one."""

    def each(self, points, begin):
        """Kill an operation at each point, run one pass, and yield the remaining attachments.

        :param begin: prepares a volume and returns the operation
        :returns: each point with the attachments other than that of the first host
        """
        for point in points:
            volume = self.world.volume(multiattach=True)
            first = self.world.attached(volume, 'first')
            act = begin(volume)
            failpoints.arm(point, instances.die)
            try:
                with self.assertRaises(instances.Death, msg=point):
                    act()
            finally:
                failpoints.disarm(point)
            self.world.start_instance()
            self.world.instance.look()
            self.assertEqual([], self.world.disagreements(), point)
            rows = self.world.rows(volume)
            self.assertIn(first, rows)
            self.assertEqual((RW, 1), self.world.granted(volume)[first.initiator], point)
            yield point, [row for row in rows if row != first]

    def test_create_withdrawn_after_death(self):
        """No caller has learned the id of the attachment, so it is removed."""
        for point, remaining in self.each(('control.attachments.after_reserve', *CONNECTING),
                                          lambda volume: lambda: self.world.create(volume, 'a')):
            self.assertEqual([], remaining, point)

    def test_update_finished_after_death(self):
        def begin(volume):
            row = self.world.reserve(volume)
            return lambda: self.world.update(row, 'a')
        for point, remaining in self.each(UPDATING, begin):
            self.assertEqual(
                [(S.CONNECTED, 'a')], [(row.state, row.host) for row in remaining], point)

    def test_update_to_other_host_finished_after_death(self):
        def begin(volume):
            row = self.world.attached(volume, 'old')
            return lambda: self.world.update(row, 'new')
        for point, remaining in self.each(UPDATING, begin):
            self.assertEqual([(S.CONNECTED, 'new')],
                             [(row.state, row.host) for row in remaining], point)

    def test_delete_finished_after_death(self):
        def begin(volume):
            row = self.world.attached(volume, 'a')
            return lambda: self.world.delete(row)
        for point, remaining in self.each(LEAVING, begin):
            self.assertEqual([], remaining, point)

    def test_delete_during_host_change_finished_after_death(self):
        def begin(volume):
            row = self.world.attached(volume, 'old')
            self.world.target.faults.plan('grant', faults.Fault.UNCERTAIN_AFTER)
            instances.outcome(self.world.update, row, 'new')
            return lambda: self.world.delete(row)
        for point, remaining in self.each(LEAVING, begin):
            self.assertEqual([], remaining, point)

    def test_delete_of_writer_beside_reader_finished_after_death(self):
        def begin(volume):
            self.world.create(volume, 'a', RO)
            row = self.world.create(volume, 'a', RW)
            return lambda: self.world.delete(row)
        for point, remaining in self.each(LEAVING, begin):
            self.assertEqual([RO], [row.mode for row in remaining], point)

    def test_death_during_recovery_recovered(self):
        row = self.world.reserve(self.world.volume())
        for _ in range(3):
            self.arm('volume.attachments.after_grant')
            with self.assertRaises(instances.Death):
                self.world.update(row, 'a')
            self.world.start_instance()
            # The repair dies at the same point, too.
            with self.assertRaises(instances.Death):
                self.world.instance.look()
            failpoints.disarm('volume.attachments.after_grant')
        self.world.start_instance()
        self.world.instance.look()
        self.assertEqual(S.CONNECTED, self.world.again(row).state)
        self.assert_agree()


class TamperedTest(instances.WorldTestCase):

    def setUp(self):
        super().setUp()
        self.volume = self.world.volume(multiattach=True)
        self.steady = self.world.attached(self.volume, 'steady')
        self.row = self.world.create(self.volume, 'a', RO)
        self.grants = {one.initiator: one for one in grants.wanted(
            self.world.database, [self.volume.id])}
        self.export = self.world.backend.export_of(self.volume)

    def assert_repaired(self):
        """Check that one pass repairs the target and touches no other session."""
        self.world.instance.look()
        self.assert_agree()
        self.assertEqual((RW, 1), self.world.granted(self.volume)[self.steady.initiator])
        self.assertEqual(0, self.world.instance.truth.repair())

    def grant(self, initiator, mode, alias):
        self.world.target.grant(self.export, connection.Grant(
            self.volume.id, initiator, mode, connection.Credential('u', 'p'), alias))

    def test_revoked_grant_restored(self):
        self.world.target.revoke(self.volume.id, self.row.initiator)
        self.assert_repaired()

    def test_foreign_grant_revoked(self):
        self.grant('iqn.2026-01.org.example:stranger', RW, '-stranger')
        self.assert_repaired()

    def test_changed_grant_mode_restored(self):
        known = self.grants[self.row.initiator]
        self.world.target.grant(self.export, connection.Grant(
            known.volume_id, known.initiator, RW, known.credential, known.alias))
        self.assert_repaired()

    def test_changed_credential_restored(self):
        known = self.grants[self.row.initiator]
        self.grant(known.initiator, known.mode, known.alias)
        self.assert_repaired()
        self.assertEqual(RO, self.world.target.log_in(known.volume_id, known.initiator,
                                                      known.credential))

    def test_export_of_unknown_volume_removed(self):
        self.world.target.export(connection.Export('no-such-volume', 'n', '/dev/null', 1))
        self.assert_repaired()
        self.assertEqual({self.volume.id},
                         {export.volume_id for export in self.world.target.exports()})

    def test_exports_of_other_backend_on_target_kept(self):
        """Each backend takes the exports of the other one neither as its own nor as unknown."""
        other = instances.Instance(self.world, 'storage-1@other')
        self.addCleanup(other.repairer.stop)
        self.world.target.export(self.world.backend.export_of(self.world.volume()))
        offered = self.world.target.exports()
        for _ in range(3):
            other.truth.repair()
        self.assertEqual(offered, self.world.target.exports())
        self.world.target.export(connection.Export('no-such-volume', 'n', '/dev/null', 1))
        other.truth.repair()
        self.assertEqual(offered, self.world.target.exports())

    def test_lost_target_state_restored(self):
        self.world.target.lose_everything()
        self.world.instance.look()
        self.assert_agree()

    def test_unused_export_removed_by_second_pass(self):
        volume = self.world.volume()
        self.world.target.export(self.world.backend.export_of(volume))
        for _ in range(2):
            self.assertIn(volume.id, [one.volume_id for one in self.world.target.exports()])
            self.world.instance.look()
        self.assertNotIn(volume.id, [one.volume_id for one in self.world.target.exports()])

    def test_unused_export_removed_while_host_attaches(self):
        """The export is being removed when a host attaches the volume."""
        volume = self.world.volume()
        self.world.target.export(self.world.backend.export_of(volume))
        self.world.instance.look()
        free = self.world.target.faults.hold('unexport')
        looking = self.begin(self.world.instance.look)
        self.until_held(self.world.target, 'unexport')
        coming = self.begin(self.world.attached, volume, 'a')
        # The host may attach now or has to wait. In both cases it is attached afterwards.
        futures.wait([coming], A_MOMENT)
        free.set()
        looking.result(instances.WAIT_SECONDS)
        row = coming.result(instances.WAIT_SECONDS)
        self.assertEqual({row.initiator: (RW, 1)}, self.world.granted(volume))
        self.assert_agree()

    def test_export_used_since_pass_kept(self):
        volume = self.world.volume()
        row = self.world.attached(volume, 'a')
        self.world.instance.truth.unexport_unused(volume.id)
        self.assertEqual({row.initiator: (RW, 1)}, self.world.granted(volume))
        self.assert_agree()

    def test_unused_export_kept_without_lease(self):
        """Another cluster member may have granted a host since the export was found unused."""
        volume = self.world.volume()
        self.world.target.export(self.world.backend.export_of(volume))
        instance = instances.Instance(self.world, instances.HOST, 'one@fake')
        self.addCleanup(instance.repairer.stop)
        instance.manager.leases._seconds = 0
        with self.assertRaises(errors.BackendUncertain):
            instance.truth.unexport_unused(volume.id)
        self.assertIn(volume.id, self.offered())
        instance.manager.leases._seconds = instances.LEASE_SECONDS
        self.assertTrue(instance.truth.unexport_unused(volume.id))
        self.assertNotIn(volume.id, self.offered())

    def offered(self):
        return {export.volume_id for export in self.world.target.exports()}

    def test_slow_target_call_delays_no_other_repair(self):
        volume = self.world.volume()
        before = self.world.target.faults.calls['grant']
        free = self.world.target.faults.hold('grant')
        coming = self.begin(self.world.create, volume, 'slow')
        self.until_held(self.world.target, 'grant', before + 1)
        extra = 'iqn.2026-01.org.example:stranger'
        other = self.world.volume()
        self.world.target.export(self.world.backend.export_of(other))
        with_extra = faults.Faults()
        held, self.world.target.faults = self.world.target.faults, with_extra
        self.grant(extra, RW, '-stranger')
        self.world.target.faults = held
        self.begin(self.world.instance.look).result(instances.WAIT_SECONDS)
        self.assertNotIn(extra, self.world.granted(self.volume))
        self.assertFalse(coming.done())
        free.set()
        self.assertEqual(S.CONNECTED, coming.result(instances.WAIT_SECONDS).state)
        self.assert_agree()


class BesideTest(instances.WorldTestCase):
    """Repair passes beside live attachments."""

    HOSTS = 6
    ROUNDS = 12

    def setUp(self):
        super().setUp()
        self.own, self.guard = {}, threading.Lock()

    @exhaustive.only
    def test_repair_passes_disturb_no_live_attachment(self):
        seed = self.random()
        volumes = [self.world.volume(multiattach=True) for _ in range(3)]
        steady = [self.world.attached(volume, 'steady') for volume in volumes]
        ended = threading.Event()

        def look():
            while not ended.is_set():
                self.world.instance.look()

        looking = [self.begin(look) for _ in range(2)]
        try:
            answers = self.at_once(*[
                functools.partial(self.work, f'host-{number}', random.Random(seed.random()),
                                  volumes) for number in range(self.HOSTS)])
        finally:
            ended.set()
        self.assertEqual([None] * self.HOSTS, answers)
        self.assertEqual([None] * 2, [one.result(instances.WAIT_SECONDS) for one in looking])
        for volume, row in zip(volumes, steady, strict=True):
            self.assertEqual({row.initiator: (RW, 1)}, self.world.granted(volume))
            self.assertEqual([row], self.world.rows(volume))
        self.assert_agree()

    def work(self, host, chance, volumes):
        """Attach and detach volumes on one host, which can log in once it is connected."""
        for _ in range(self.ROUNDS):
            volume = chance.choice(volumes)
            # The export of a volume that nobody else uses is created and removed with each
            # attachment.
            if chance.random() < 0.4:
                volume = self.own_volume(host)
            mode = chance.choice((RW, RO))
            row = self.world.create(volume, host, mode)
            self.assertEqual(mode, self.world.log_in(row))
            if chance.random() < 0.3:
                second = self.world.create(volume, host, RW)
                self.world.delete(second)
            if chance.random() < 0.3:
                row = self.world.update(row, f'{host}-moved')
                self.assertEqual(mode, self.world.log_in(row))
            self.world.control.complete(self.world.caller, row)
            self.assertEqual((mode, 1), self.world.granted(volume)[row.initiator])
            self.world.delete(row)
            self.assertNotIn(row.initiator, self.world.granted(volume))

    def own_volume(self, host):
        with self.guard:
            if host not in self.own:
                self.own[host] = self.world.volume(multiattach=True)
        return self.own[host]
