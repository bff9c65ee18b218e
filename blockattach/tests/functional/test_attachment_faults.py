"""Answers and remaining state when the backend fails at each step of an attachment."""
import functools
import threading

from blockattach.platform import failpoints
from blockattach.storage import errors
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.drivers import faults
from blockattach.tests.functional import instances

S = lifecycle.State
RW, RO = instances.RW, instances.RO
REFUSED = faults.Fault.REFUSED
UNCERTAIN = (faults.Fault.UNCERTAIN_BEFORE, faults.Fault.UNCERTAIN_AFTER)
FAULTS = (REFUSED, *UNCERTAIN)


class FaultCase(instances.WorldTestCase):
    """Test case whose cases each start with a volume that another host has attached."""

    def each(self, case, *steps):
        """Run a case for each fault at each step, on a volume whose first host has a session.

        :param case: called with a function that plans the fault, and with the fault
        """
        for driver, method in steps:
            for fault in FAULTS:
                with self.subTest(method=method, fault=fault):
                    self.volume = self.world.volume(multiattach=True)
                    self.first = self.world.attached(self.volume, 'first', RW)
                    faulty = getattr(self.world, driver).faults
                    case(functools.partial(faulty.plan, method, fault), fault)
                    faulty.clear()
                    self.assert_first_untouched()

    def assert_first_untouched(self):
        self.assertEqual((RW, 1), self.world.granted(self.volume)[self.first.initiator])
        self.assertEqual(self.first, self.world.again(self.first))

    def assert_answered(self, fault, answer):
        """Check that a refused call is answered as final, and another fault as uncertain."""
        self.assertIsInstance(answer, errors.BackendError)
        self.assertEqual(fault is REFUSED, answer.final, answer)

    def hosts(self):
        return {name.rpartition(':')[2] for name in self.world.granted(self.volume)}


class CreateTest(FaultCase):

    def test_create_that_fails_leaves_no_grant(self):
        def case(plan, fault):
            plan()
            answer = instances.outcome(self.world.create, self.volume, 'second')
            self.assert_answered(fault, answer)
            if fault is REFUSED:
                self.assertEqual([self.first], self.world.rows(self.volume))
            else:
                # The caller has not learned the id, so the attachment is deleted at once, whatever
                # was done.
                [remaining] = [row for row in self.world.rows(self.volume) if row != self.first]
                self.assertEqual(S.DISCONNECTING, remaining.state)
                self.world.look()
                self.assertEqual([self.first], self.world.rows(self.volume))
            self.assertEqual({'first'}, self.hosts())
            self.assert_agree()
        self.each(case, ('store', 'device'), ('target', 'grant'))

    def test_withdrawn_attachment_not_revocable_ends_in_error(self):
        volume = self.world.volume()
        self.world.target.faults.plan('grant', faults.Fault.UNCERTAIN_AFTER)
        answer = instances.outcome(self.world.create, volume, 'a')
        self.assertFalse(answer.final)
        self.world.target.faults.plan('revoke', REFUSED)
        self.world.look()
        [row] = self.world.rows(volume)
        self.assertEqual(S.ERROR_DETACHING, row.state)
        self.world.target.faults.clear()
        self.world.look()
        self.assertEqual({}, self.world.granted(volume))

    def test_unanswered_create_keeps_attachment_updated_since(self):
        """The attachment has another host when the call times out.

        Found by simulation seed 1273074104.
        """
        volume = self.world.volume()

        def use(*arguments):
            self.world.instance.manager.connect(*arguments)
            self.world.managers.add(instances.HOST, self.world.instance.manager)
            [row] = self.world.rows(volume)
            self.world.update(row, 'b')
        self.world.managers.add(instances.HOST, Unanswered(use))
        self.assertFalse(instances.outcome(self.world.create, volume, 'a').final)
        [row] = self.world.rows(volume)
        self.assertEqual((S.CONNECTED, 'b'), (row.state, row.host))
        self.assert_agree()

    def test_unanswered_create_returns_attachment_connected_since(self):
        """A duplicate of the call connects right before the withdrawal.

        Found by simulation seed 1423838723.
        """
        volume = self.world.volume()

        def come_later(*arguments):
            def come():
                failpoints.disarm('db.attachments.move.before')
                self.world.instance.manager.connect(*arguments)
            self.arm('db.attachments.move.before', come)
        self.world.managers.add(instances.HOST, Unanswered(come_later))
        made = self.world.create(volume, 'a')
        self.assertEqual((S.CONNECTED, self.world.again(made)), (made.state, made))
        self.assert_agree()

    def test_call_unsupported_by_manager_changes_nothing(self):
        """The client raises a final error before it sends the message."""
        volume = self.world.volume()
        self.world.managers.add(instances.HOST, TooOld(self.world.instance.manager))
        with self.assertRaises(errors.BackendRefused):
            self.world.create(volume, 'a')
        self.assertEqual([], self.world.rows(volume))
        row = self.world.reserve(volume)
        with self.assertRaises(errors.BackendRefused):
            self.world.update(row, 'a')
        self.assertEqual(S.RESERVED, self.world.again(row).state)
        self.world.managers.add(instances.HOST, self.world.instance.manager)
        self.world.update(row, 'a')
        self.world.managers.add(instances.HOST, TooOld(self.world.instance.manager))
        with self.assertRaises(errors.BackendRefused):
            self.world.delete(row)
        self.assertEqual(S.CONNECTED, self.world.again(row).state)
        self.assert_agree()

    def test_unforeseen_error_of_manager_is_uncertain(self):
        volume = self.world.volume()
        self.world.managers.add(instances.HOST, object())
        with self.assertRaises(errors.BackendUncertain):
            self.world.create(volume, 'a')
        self.world.look()
        self.assertEqual([], self.world.rows(volume))
        self.assert_agree()


class UpdateTest(FaultCase):

    def test_update_of_reserved_attachment_with_fault(self):
        def case(plan, fault):
            row = self.world.reserve(self.volume, RO)
            plan()
            answer = instances.outcome(self.world.update, row, 'second')
            self.assert_answered(fault, answer)
            now = self.world.again(row)
            if fault is REFUSED:
                self.assertEqual((S.RESERVED, None, RO), (now.state, now.initiator, now.mode))
                self.assertEqual({'first'}, self.hosts())
                self.assert_agree()
            else:
                self.assertEqual((S.CONNECTING, instances.HOST), (now.state, now.owner))
            self.assertEqual(S.CONNECTED, self.world.update(row, 'second').state)
            self.assertEqual({'first', 'second'}, self.hosts())
            self.assert_agree()
        self.each(case, ('store', 'device'), ('target', 'grant'))

    def test_update_to_new_host_with_fault_keeps_old_grant(self):
        def case(plan, fault):
            row = self.world.attached(self.volume, 'old')
            plan()
            answer = instances.outcome(self.world.update, row, 'new')
            self.assert_answered(fault, answer)
            now = self.world.again(row)
            # The old host keeps its session until the new host is granted.
            self.assertEqual((RW, 1), self.world.granted(self.volume)[row.initiator])
            if fault is REFUSED:
                self.assertEqual((S.ATTACHED, row.connector, row.initiator, row.connection),
                                 (now.state, now.connector, now.initiator, now.connection))
                self.assert_agree()
            else:
                self.assertEqual(S.CONNECTING, now.state)
            self.world.update(row, 'new')
            self.assertEqual({'first', 'new'}, self.hosts())
            self.assert_agree()
        self.each(case, ('store', 'device'), ('target', 'grant'))

    def test_update_with_old_host_not_revocable_succeeds(self):
        """The new host is granted and recorded; the repair pass revokes the old one."""
        def case(plan, fault):
            row = self.world.attached(self.volume, 'old')
            plan()
            self.assertEqual(S.CONNECTED, self.world.update(row, 'new').state)
            self.world.look()
            self.assertEqual({'first', 'new'}, self.hosts())
            self.assert_agree()
        self.each(case, ('target', 'revoke'))

    def test_uncertain_update_finished_by_recovery(self):
        for fault in UNCERTAIN:
            with self.subTest(fault=fault):
                volume = self.world.volume()
                row = self.world.reserve(volume)
                self.world.target.faults.plan('grant', fault)
                self.assert_answered(fault, instances.outcome(self.world.update, row, 'a'))
                self.world.instance.recovery.look()
                self.assertEqual(S.CONNECTING, self.world.again(row).state)
                self.world.expire()
                self.world.look()
                self.assertEqual(S.CONNECTED, self.world.again(row).state)
                self.assert_agree()


class DeleteTest(FaultCase):

    def test_delete_of_one_of_two_hosts_with_fault(self):
        def case(plan, fault):
            row = self.world.attached(self.volume, 'second')
            plan()
            self.assert_answered(fault, instances.outcome(self.world.delete, row))
            now = self.world.again(row)
            if fault is REFUSED:
                self.assertEqual(S.ATTACHED, now.state)
                self.assertEqual((RW, 1), self.world.granted(self.volume)[row.initiator])
                self.assert_agree()
            else:
                self.assertEqual((S.DISCONNECTING, instances.HOST), (now.state, now.owner))
            self.assertEqual([self.first], self.world.delete(row))
            self.assertEqual({'first'}, self.hosts())
            self.assert_agree()
        self.each(case, ('target', 'revoke'))

    def test_uncertain_delete_finished_by_recovery(self):
        for fault in UNCERTAIN:
            volume = self.world.volume()
            row = self.world.attached(volume, 'a')
            self.world.target.faults.plan('revoke', fault)
            self.assert_answered(fault, instances.outcome(self.world.delete, row))
            self.world.expire()
            self.world.look()
            self.assertEqual([], self.world.rows(volume))
            self.assert_agree()

    def test_delete_without_manager_finished_later(self):
        volume = self.world.volume()
        row = self.world.attached(volume, 'a')
        self.world.managers.remove(instances.HOST)
        self.assertFalse(instances.outcome(self.world.delete, row).final)
        self.assertFalse(instances.outcome(
            self.world.create, self.world.shown(volume), 'b', None, row.instance_uuid).final)
        self.world.start_instance()
        self.world.look()
        self.assertEqual([], self.world.rows(volume))
        self.assert_agree()


class SharedGrantTest(FaultCase):
    """Grant shared by two attachments of one host on one volume."""

    def test_shared_grant_has_widest_mode_and_one_credential(self):
        volume = self.world.volume(multiattach=True)
        reader = self.world.attached(volume, 'a', RO)
        self.assertEqual({reader.initiator: (RO, 1)}, self.world.granted(volume))
        writer = self.world.create(volume, 'a', RW)
        self.assertEqual({reader.initiator: (RW, 1)}, self.world.granted(volume))
        self.assertEqual(reader.connection, writer.connection)
        self.assertEqual(RW, self.world.log_in(reader))
        self.world.delete(writer)
        # The access is narrowed without ending a session.
        self.assertEqual({reader.initiator: (RO, 2)}, self.world.granted(volume))
        self.assert_agree()
        self.world.delete(reader)
        self.assertEqual({}, self.world.granted(volume))
        self.assert_agree()

    def test_create_of_writer_with_fault_keeps_read_only_grant(self):
        def case(plan, fault):
            reader = self.world.attached(self.volume, 'a', RO)
            plan()
            self.assert_answered(fault, instances.outcome(self.world.create, self.volume, 'a', RW))
            self.world.look()
            self.assertEqual((RO, 1), self.world.granted(self.volume)[reader.initiator])
            self.assertEqual(reader, self.world.again(reader))
            self.assert_agree()
        self.each(case, ('store', 'device'), ('target', 'grant'))

    def test_delete_of_writer_with_fault_narrows_grant_on_retry(self):
        def case(plan, fault):
            reader = self.world.attached(self.volume, 'a', RO)
            writer = self.world.create(self.volume, 'a', RW)
            plan()
            self.assert_answered(fault, instances.outcome(self.world.delete, writer))
            if fault is REFUSED:
                self.assertEqual((RW, 1), self.world.granted(self.volume)[reader.initiator])
                self.assert_agree()
            self.world.delete(writer)
            self.assertEqual((RO, 1), self.world.granted(self.volume)[reader.initiator])
            self.assert_agree()
        self.each(case, ('store', 'device'), ('target', 'grant'))

    def test_refused_writer_leaves_no_wider_grant(self):
        """A repair pass widens the grant for the writer before the writer has the lock."""
        volume = self.world.volume(multiattach=True)
        self.world.attached(volume, 'a', RO)
        other = instances.Instance(self.world)
        self.addCleanup(other.repairer.stop)

        def look():
            # The repair pass runs in another process of the backend, which has its own locks.
            failpoints.disarm('volume.attachments.before_grant')
            other.truth.repair()
            self.world.target.faults.plan('grant', REFUSED)
        self.arm('volume.attachments.before_grant', look)
        self.assertTrue(instances.outcome(self.world.create, volume, 'a', RW).final)
        self.assert_agree()

    def second_of_two_that_go(self, volume):
        """Delete two attachments of one host, and hold the second one before its revoke."""
        first, second = (self.world.create(volume, 'a') for _ in range(2))
        here, free = threading.Event(), threading.Event()

        def wait():
            failpoints.disarm('volume.attachments.before_revoke')
            here.set()
            assert free.wait(instances.WAIT_SECONDS)
        self.arm('volume.attachments.before_revoke', wait)
        going = self.begin(self.world.delete, second)
        self.assertTrue(here.wait(instances.WAIT_SECONDS))
        self.world.delete(first)
        self.assertEqual({}, self.world.granted(volume))
        return second, going, free

    def test_refused_delete_grants_again_before_state_change(self):
        volume, target = self.world.volume(multiattach=True), self.world.target
        second, going, free = self.second_of_two_that_go(volume)
        target.faults.plan('revoke', REFUSED)
        granted = target.faults.hold('grant')
        calls = target.faults.calls.get('grant', 0)
        free.set()
        self.until_held(target, 'grant', calls + 1)
        self.assertIs(S.DISCONNECTING, self.world.again(second).state)
        target.faults.clear()
        granted.set()
        self.assertIsInstance(going.result(instances.WAIT_SECONDS), errors.BackendRefused)
        self.assertEqual({second.initiator}, set(self.world.granted(volume)))
        self.assert_agree()

    def test_refused_delete_without_new_grant_stays_disconnecting(self):
        for fault in FAULTS:
            with self.subTest(fault=fault):
                volume, target = self.world.volume(multiattach=True), self.world.target
                second, going, free = self.second_of_two_that_go(volume)
                target.faults.plan('revoke', REFUSED)
                target.faults.plan('grant', fault)
                free.set()
                # The error is not final, since no caller gets a response that it is connected.
                self.assert_answered(faults.Fault.UNCERTAIN_BEFORE, instances.outcome(
                    going.result, instances.WAIT_SECONDS))
                self.assertIs(S.DISCONNECTING, self.world.again(second).state)
                self.world.look()
                self.assertEqual([], self.world.rows(volume))
                self.assert_agree()

    def test_delete_refused_repeatedly_ends_in_error_detaching(self):
        """No caller waits any more, so the state records the failure."""
        volume, target = self.world.volume(multiattach=True), self.world.target
        second, going, free = self.second_of_two_that_go(volume)
        target.faults.plan('revoke', REFUSED, times=3)
        target.faults.plan('grant', REFUSED)
        free.set()
        going.exception(instances.WAIT_SECONDS)
        self.world.look()
        self.assertIs(S.ERROR_DETACHING, self.world.again(second).state)
        self.assertEqual([], self.world.delete(second))
        self.assert_agree()


class LostAnswersTest(instances.WorldTestCase):
    """Calls whose answer is lost, and whose outcome the caller reads from the row."""

    def setUp(self):
        super().setUp()
        self.volume = self.world.volume()

    def lose(self, error=None):
        self.world.managers.add(instances.HOST, LosesAnswers(self.world.instance.manager, error))

    def test_caller_with_lost_answer_reads_outcome_from_row(self):
        self.lose()
        row = self.world.create(self.volume, 'a')
        self.assertEqual(S.CONNECTED, row.state)
        self.assertEqual([row], self.world.rows(self.volume))
        self.assertEqual('a', self.world.update(row, 'a').host)
        self.assertEqual([], self.world.delete(row))
        self.assert_agree()

    def test_stale_caller_reads_outcome_from_row(self):
        """Another process advanced and finished the row before the message was read."""
        row = self.world.reserve(self.volume)
        self.lose(errors.StaleGeneration(noun='attachment', id=row.id, generation=2))
        self.assertEqual(S.CONNECTED, self.world.update(row, 'a').state)

    def test_stale_caller_beside_running_work_gets_retry_after(self):
        row = self.world.reserve(self.volume)
        self.world.managers.add(instances.HOST, IsLate())
        answer = instances.outcome(self.world.update, row, 'a')
        self.assertEqual((errors.AttachmentBusy, '1'), (type(answer), answer.retry_after))


class IsLate:
    """Manager whose calls are stale because another process advanced the row."""

    def connect(self, ctxt, volume_id, initiator, attachment_id, generation):
        raise errors.StaleGeneration(noun='attachment', id=attachment_id, generation=generation)


class LosesAnswers:
    """Manager whose calls are carried out while their answers are lost."""

    def __init__(self, endpoint, error=None):
        self._endpoint = endpoint
        self._error = error or errors.ServiceUnreachable(topic='volume', seconds=60)

    def __getattr__(self, name):
        def ask(*arguments):
            getattr(self._endpoint, name)(*arguments)
            raise self._error
        return ask


class Unanswered:
    """Manager that runs a function in place of the call and never answers."""

    def __init__(self, asked):
        self._asked = asked

    def connect(self, *arguments):
        self._asked(*arguments)
        raise errors.ServiceUnreachable(topic='volume', seconds=15)


class TooOld:
    """Manager too old for the message, so that nothing is sent."""

    def __init__(self, endpoint):
        self._endpoint = endpoint

    def __getattr__(self, name):
        def ask(*arguments):
            raise errors.ConfigurationError(reason='the other side is older')
        return ask
