"""Two volume managers of one cluster on one backend: each act is had by one of them at a time.

In one process, so that each can be stopped at any point; `test_clusters` has them as processes.
"""
from blockattach import clock as clocks
from blockattach import context
from blockattach import errors
from blockattach import failpoints
from blockattach.db import attachment_queries
from blockattach.db import attachments as attachment_verbs
from blockattach.db import volume_queries
from blockattach.db import volumes as volume_verbs
from blockattach.domain import attachment_lifecycle as lifecycle
from blockattach.domain import connection
from blockattach.drivers import faults
from blockattach.tests.functional import gates
from blockattach.tests.functional import lives

E, S = lifecycle.Event, lifecycle.State


class Clock(clocks.Clock):
    """Of one who was paused: more has passed than he has seen.

    With ``calls`` counted, each of these calls takes longer than a turn.
    """

    passed = 0.0
    calls = None

    def monotonic(self):
        slow = sum(self.calls.values()) if self.calls else 0
        return super().monotonic() + self.passed + slow * lives.LEASE_SECONDS


class TurnsTest(lives.WorldTestCase):

    def setUp(self):
        super().setUp()
        self.clock = Clock()
        self.one, self.two = self.member('one@fake', self.clock), self.member('two@fake')
        self.volume = self.world.volume(multiattach=True)

    def member(self, name, clock=None):
        made = lives.Life(self.world, lives.HOST, name, clock)
        self.addCleanup(made.menders.stop)
        return made

    def intent(self, host, volume=None):
        """A row that says what shall be done; no manager has heard of it."""
        volume = volume or self.volume
        return attachment_verbs.reserve(self.world.database, attachment_verbs.Wish(
            volume.id, volume.project_id, connector=lives.connector(host)), lives.LEASE_SECONDS)

    def told_to_go(self, row):
        return attachment_verbs.move(
            self.world.database, row.volume_id, row.id, E.DISCONNECT, attachment_verbs.Facts(
                lease=attachment_verbs.Lease(lives.HOST, lives.LEASE_SECONDS))).new

    def connect(self, member, row):
        member.attachments.connect(context.admin_context(), row.id, row.generation)

    def disconnect(self, member, row):
        member.attachments.disconnect(context.admin_context(), row.id, row.generation)

    def stopped_at(self, point):
        gate = gates.Gate()
        self.arm(point, gate)
        self.addCleanup(gate.open)
        return gate

    def connected(self, host, member=None):
        row = self.intent(host)
        self.connect(member or self.one, row)
        return self.world.again(row)

    def test_one_message_that_comes_to_both_is_acted_on_once_at_a_time(self):
        row = self.intent('host-1')
        gate = self.stopped_at('volume.attachments.before_grant')
        first = self.begin(self.connect, self.one, row)
        self.assertTrue(gate.reached.wait(lives.WAIT_SECONDS))
        calls = self.world.target.faults.calls.get('grant', 0)
        second = self.begin(self.connect, self.two, row)
        self.wait_for(lambda: self.two.turns.locks.names())
        self.assertFalse(second.done())
        gate.open()
        self.assertIsNone(first.result(lives.WAIT_SECONDS))
        self.assertIsInstance(second.result(lives.WAIT_SECONDS), errors.StaleGeneration)
        self.assertEqual(calls + 1, self.world.target.faults.calls['grant'])
        self.assert_agree()

    def test_two_rows_of_one_pair_wait_for_each_other(self):
        """One leaves, another of the same host joins: nobody is shut out by what came before."""
        leaving = self.told_to_go(self.connected('host-1'))
        held = self.world.target.faults.hold('revoke')
        first = self.begin(self.disconnect, self.one, leaving)
        self.until_held(self.world.target, 'revoke')
        joining = self.intent('host-1')
        second = self.begin(self.connect, self.two, joining)
        self.wait_for(lambda: self.two.turns.locks.names())
        self.assertFalse(second.done())
        held.set()
        self.assertIsNone(first.result(lives.WAIT_SECONDS))
        self.assertIsNone(second.result(lives.WAIT_SECONDS))
        self.assert_agree()

    def test_hosts_join_side_by_side(self):
        gate = self.stopped_at('volume.attachments.before_grant')
        first = self.begin(self.connect, self.one, self.intent('host-1'))
        self.assertTrue(gate.reached.wait(lives.WAIT_SECONDS))
        self.connect(self.two, self.intent('host-2'))
        self.assertFalse(first.done())
        gate.open()
        self.assertIsNone(first.result(lives.WAIT_SECONDS))
        self.assert_agree()

    def test_many_at_once_through_both(self):
        random = self.random()

        def live(host):
            for _ in range(3):
                row = self.intent(host)
                self.connect(random.choice((self.one, self.two)), row)
                self.disconnect(random.choice((self.one, self.two)), self.told_to_go(row))

        found = self.at_once(*[lambda host=f'host-{number % 4}': live(host)
                               for number in range(8)])
        self.assertEqual([None] * 8, found)
        self.assert_agree()
        self.assertEqual({}, self.world.let_in(self.volume))

    def test_what_a_dead_one_had_begun_is_taken_once(self):
        for point in ('before_grant', 'after_grant'):
            with self.subTest(point=point):
                row = self.intent(f'host-{point}')
                self.arm(f'volume.attachments.{point}')
                with self.assertRaises(lives.Death):
                    self.connect(self.one, row)
                failpoints.disarm(f'volume.attachments.{point}')
                three = self.member('three@fake')
                for member in (self.two, three):
                    self.assertEqual(0, member.reconciler.mend())
                self.world.expire()
                found = self.at_once(self.two.reconciler.mend, three.reconciler.mend)
                self.assertEqual(1, sum(found), found)
                # Nobody knows an attachment that never answered: it goes.
                self.assertEqual([], [one for one in self.world.rows(self.volume)
                                      if one.id == row.id])
                self.assert_agree()

    def test_its_own_next_life_needs_no_deadline(self):
        row = self.told_to_go(self.connected('host-1'))
        # A dead process gives nothing back.
        self.one.turns._give_back = lambda *what: None
        self.arm('volume.attachments.after_revoke')
        with self.assertRaises(lives.Death):
            self.disconnect(self.one, row)
        failpoints.disarm('volume.attachments.after_revoke')
        self.two.reconciler.remember_orphans(others_live=True)
        self.assertEqual(0, self.two.reconciler.mend())
        again = self.member('one@fake')
        again.reconciler.remember_orphans(others_live=True)
        self.assertEqual(1, again.reconciler.mend())
        self.assert_agree()

    def test_who_leaves_needs_no_deadline(self):
        """What it had taken on and not begun, or was cut off in, is another's at once."""
        row = self.told_to_go(self.connected('host-1'))
        # A process that is cut off gives nothing back.
        self.one.turns._give_back = lambda *what: None
        self.arm('volume.attachments.after_revoke')
        with self.assertRaises(lives.Death):
            self.disconnect(self.one, row)
        failpoints.disarm('volume.attachments.after_revoke')
        told = volume_verbs.start_delete(self.world.database, self.world.volume().id, 60)
        self.assertTrue(self.one.turns.own(told.id, told.generation))
        other = volume_verbs.start_delete(self.world.database, self.world.volume().id, 60)
        self.assertTrue(self.two.turns.own(other.id, other.generation))
        self.assertEqual(0, self.two.reconciler.mend())
        self.one.turns.leave()
        self.assertEqual(2, self.two.reconciler.mend())
        self.assertEqual([], self.world.rows(self.volume))
        # What another one is at stays his.
        self.assertEqual('deleting', volume_queries.get(self.world.database, other.id).own_status)
        with self.assertRaises(errors.VolumeNotFound):
            volume_queries.get(self.world.database, told.id)

    def test_who_was_paused_while_it_shut_out_puts_right_what_it_hit(self):
        row = self.told_to_go(self.connected('host-1'))
        held = self.world.target.faults.hold('revoke', once=True)
        paused = self.begin(self.disconnect, self.one, row)
        self.until_held(self.world.target, 'revoke')
        self.world.expire()
        self.assertEqual(1, self.two.reconciler.mend())
        self.connect(self.two, self.intent('host-1'))
        self.assertEqual({lives.initiator_of('host-1')}, set(self.world.let_in(self.volume)))
        held.set()
        # Its revoke has hit the new one, which it finds out and puts right by itself.
        self.assertIsInstance(paused.result(lives.WAIT_SECONDS), errors.AttachmentNotFound)
        self.assert_agree()

    def test_who_was_paused_and_then_fails_puts_right_what_it_hit(self):
        leaving = self.told_to_go(self.connected('host-1'))
        held = self.world.target.faults.hold('revoke', once=True)
        paused = self.begin(self.disconnect, self.one, leaving)
        self.until_held(self.world.target, 'revoke')
        self.world.expire()
        self.clock.passed = lives.LEASE_SECONDS
        self.assertEqual(1, self.two.reconciler.mend())
        row = self.connected('host-1', self.two)
        self.world.target.faults.plan('revoke', faults.Fault.UNCERTAIN_AFTER)
        held.set()
        self.assertIsInstance(paused.result(lives.WAIT_SECONDS), errors.BackendUncertain)
        self.assertEqual({row.initiator}, set(self.world.let_in(self.volume)))

    def test_who_fails_too_late_each_time_leaves_it_to_the_next_comparison(self):
        leaving = self.told_to_go(self.connected('host-1'))
        before = dict(self.world.target.faults.calls)
        self.world.target.faults.plan('revoke', faults.Fault.UNCERTAIN_BEFORE, 1000)
        self.clock.calls = self.world.target.faults.calls
        self.assertRaises(errors.BackendUncertain, self.disconnect, self.one, leaving)
        calls = self.world.target.faults.calls['revoke'] - before.get('revoke', 0)
        self.assertIn(calls, range(2, 10))
        self.world.target.faults.clear()
        self.world.expire()
        self.assertEqual(1, self.two.reconciler.mend())
        self.assert_agree()

    def test_a_comparison_that_was_paused_puts_right_what_it_hit(self):
        """It records nothing by which it would find out that it was overtaken."""
        gone = self.told_to_go(self.connected('host-1'))
        attachment_verbs.move(self.world.database, gone.volume_id, gone.id, E.DISCONNECTED)
        held = self.world.target.faults.hold('revoke', once=True)
        paused = self.begin(self.one.truth.mend)
        self.until_held(self.world.target, 'revoke')
        self.world.expire()
        self.clock.passed = lives.LEASE_SECONDS
        row = self.connected('host-1', self.two)
        held.set()
        self.assertEqual(1, paused.result(lives.WAIT_SECONDS))
        self.assertEqual({row.initiator}, set(self.world.let_in(self.volume)))
        self.assert_agree()

    def test_who_was_paused_while_it_let_in_takes_it_back(self):
        row = self.intent('host-1')
        gate = self.stopped_at('volume.attachments.after_grant')
        paused = self.begin(self.connect, self.one, row)
        self.assertTrue(gate.reached.wait(lives.WAIT_SECONDS))
        self.world.expire()
        self.assertEqual(1, self.two.reconciler.mend())
        self.assertEqual([], self.world.rows(self.volume))
        self.world.target.grant(*self.lingering(row))
        gate.open()
        self.assertIsInstance(paused.result(lives.WAIT_SECONDS), errors.AttachmentNotFound)
        self.assert_agree()

    def lingering(self, row):
        """What a grant that was under way leaves behind: let in after all."""
        export = self.world.backend.export_of(self.volume)
        return export, connection.Grant(row.volume_id, row.initiator, lives.RW,
                                        connection.Credential('late', 'secret-of-twelve'))

    def test_whose_turn_is_over_touches_nothing(self):
        row = self.intent('host-1')
        self.one.turns._seconds = 0
        with self.assertRaises(errors.BackendUncertain):
            self.connect(self.one, row)
        self.assertEqual(S.CONNECTING, self.world.again(row).state)
        self.assertEqual({}, self.world.let_in(self.volume))

    def test_whose_turn_is_over_leaves_a_volume_offered(self):
        """Somebody may have been let in since he saw that nobody wants it."""
        gone = self.told_to_go(self.connected('host-1'))
        self.disconnect(self.one, gone)
        self.world.target.grant(*self.lingering(gone))
        self.world.target.revoke(self.volume.id, gone.initiator)
        self.one.turns._seconds = 0
        self.assertRaises(errors.BackendUncertain, self.one.keeper.exports.unexport_unused,
                          self.volume.id)
        self.assertIn(self.volume.id, self.offered())
        self.one.turns._seconds = lives.LEASE_SECONDS
        self.assertTrue(self.one.keeper.exports.unexport_unused(self.volume.id))
        self.assertNotIn(self.volume.id, self.offered())

    def offered(self):
        return {export.volume_id for export in self.world.target.exports()}

    def test_the_comparison_leaves_alone_what_another_is_at(self):
        row = self.intent('host-1')
        gate = self.stopped_at('volume.attachments.after_grant')
        first = self.begin(self.connect, self.one, row)
        self.assertTrue(gate.reached.wait(lives.WAIT_SECONDS))
        steady = self.connected('host-2', self.two)
        self.world.log_in(steady)
        calls = dict(self.world.target.faults.calls)
        # By force, so that the target lets in what no row wants while one is at work there.
        self.told_to_go(row)
        for _ in range(2):
            self.two.truth.mend()
        self.assertEqual([calls.get(name) for name in ('grant', 'revoke', 'unexport')],
                         [self.world.target.faults.calls.get(name)
                          for name in ('grant', 'revoke', 'unexport')])
        gate.open()
        first.result(lives.WAIT_SECONDS)
        self.assertEqual((lives.RW, 1), self.world.let_in(self.volume)[steady.initiator])

    def test_both_compare_and_mend_at_once(self):
        rows = [self.connected(f'host-{number}') for number in range(6)]
        for row in rows[:3]:
            self.world.target.revoke(row.volume_id, row.initiator)
        self.at_once(self.one.look, self.two.look)
        self.one.look()
        self.assert_agree()

    def test_a_volume_is_removed_by_one_of_them(self):
        row = self.intent('host-1')
        gate = self.stopped_at('volume.attachments.after_grant')
        first = self.begin(self.connect, self.one, row)
        self.assertTrue(gate.reached.wait(lives.WAIT_SECONDS))
        # By force the row goes while its host is being let in.
        self.told_to_go(row)
        attachment_verbs.move(self.world.database, row.volume_id, row.id, E.DISCONNECTED)
        told = volume_verbs.start_delete(self.world.database, self.volume.id, 60)
        self.assertTrue(self.two.turns.own(told.id, told.generation))
        self.assertFalse(self.one.turns.own(told.id, told.generation))
        second = self.begin(self.two.keeper.delete, context.admin_context(), told.id,
                            told.generation)
        self.wait_for(lambda: volume_queries.get(
            self.world.database, told.id).lease_owner is not None)
        self.assertFalse(second.done())
        gate.open()
        first.result(lives.WAIT_SECONDS)
        self.assertIsNone(second.result(lives.WAIT_SECONDS))
        self.one.look()
        self.one.look()
        self.assert_agree()
        with self.assertRaises(errors.AttachmentNotFound):
            attachment_queries.get(self.world.database, row.id)
