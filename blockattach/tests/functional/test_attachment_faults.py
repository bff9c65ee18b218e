"""The backend fails at each step of an attachment: what is answered, and what remains."""
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
    """One world for all cases of a test; each begins with a volume that another host uses."""

    def each(self, case, *steps):
        """Each fault at each step, on a volume whose first host has a session.

        :param case: called with what plans the fault, and with the fault
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
        """Final or uncertain, as it was."""
        self.assertIsInstance(answer, errors.BackendError)
        self.assertEqual(fault is REFUSED, answer.final, answer)

    def hosts(self):
        return {name.rpartition(':')[2] for name in self.world.granted(self.volume)}


class CreateTest(FaultCase):

    def test_what_is_answered_and_what_remains(self):
        def case(plan, fault):
            plan()
            answer = instances.outcome(self.world.create, self.volume, 'second')
            self.assert_answered(fault, answer)
            if fault is REFUSED:
                self.assertEqual([self.first], self.world.rows(self.volume))
            else:
                # The caller never learned its id: it goes at once, whatever was done.
                [remaining] = [row for row in self.world.rows(self.volume) if row != self.first]
                self.assertEqual(S.DISCONNECTING, remaining.state)
                self.world.look()
                self.assertEqual([self.first], self.world.rows(self.volume))
            self.assertEqual({'first'}, self.hosts())
            self.assert_agree()
        self.each(case, ('store', 'device'), ('target', 'grant'))

    def test_a_withdrawn_one_that_cannot_be_revoked_is_not_used_again(self):
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

    def test_one_that_somebody_has_found_and_uses_is_not_withdrawn(self):
        """Its host is another one when the call ends without an answer (simulation seed
        1273074104).
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

    def test_one_that_a_copy_of_the_call_connects_is_not_withdrawn(self):
        """Right before it would be, and so it is made (simulation seed 1423838723)."""
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

    def test_nobody_keeps_what_was_not_even_asked(self):
        """A manager too old for the message: final, and known only to the caller's side."""
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

    def test_an_error_that_nobody_foresaw_is_uncertain(self):
        volume = self.world.volume()
        self.world.managers.add(instances.HOST, object())
        with self.assertRaises(errors.BackendUncertain):
            self.world.create(volume, 'a')
        self.world.look()
        self.assertEqual([], self.world.rows(volume))
        self.assert_agree()


class UpdateTest(FaultCase):

    def test_a_reserved_one(self):
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

    def test_one_that_changes_its_host(self):
        def case(plan, fault):
            row = self.world.attached(self.volume, 'old')
            plan()
            answer = instances.outcome(self.world.update, row, 'new')
            self.assert_answered(fault, answer)
            now = self.world.again(row)
            # The old host keeps its session until the new one is in.
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

    def test_the_old_host_cannot_be_revoked(self):
        """The new one is granted and the row says so: that is answered; the rest is repaired."""
        def case(plan, fault):
            row = self.world.attached(self.volume, 'old')
            plan()
            self.assertEqual(S.CONNECTED, self.world.update(row, 'new').state)
            self.world.look()
            self.assertEqual({'first', 'new'}, self.hosts())
            self.assert_agree()
        self.each(case, ('target', 'revoke'))

    def test_an_uncertain_one_goes_on_by_itself(self):
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

    def test_one_of_two_hosts(self):
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

    def test_an_uncertain_one_goes_by_itself(self):
        for fault in UNCERTAIN:
            volume = self.world.volume()
            row = self.world.attached(volume, 'a')
            self.world.target.faults.plan('revoke', fault)
            self.assert_answered(fault, instances.outcome(self.world.delete, row))
            self.world.expire()
            self.world.look()
            self.assertEqual([], self.world.rows(volume))
            self.assert_agree()

    def test_nobody_answers(self):
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
    """Two attachments of one host on one volume share a grant."""

    def test_the_widest_mode_and_one_credential(self):
        volume = self.world.volume(multiattach=True)
        reader = self.world.attached(volume, 'a', RO)
        self.assertEqual({reader.initiator: (RO, 1)}, self.world.granted(volume))
        writer = self.world.create(volume, 'a', RW)
        self.assertEqual({reader.initiator: (RW, 1)}, self.world.granted(volume))
        self.assertEqual(reader.connection, writer.connection)
        self.assertEqual(RW, self.world.log_in(reader))
        self.world.delete(writer)
        # Live: nobody was thrown out.
        self.assertEqual({reader.initiator: (RO, 2)}, self.world.granted(volume))
        self.assert_agree()
        self.world.delete(reader)
        self.assertEqual({}, self.world.granted(volume))
        self.assert_agree()

    def test_every_fault_while_a_writer_comes(self):
        def case(plan, fault):
            reader = self.world.attached(self.volume, 'a', RO)
            plan()
            self.assert_answered(fault, instances.outcome(self.world.create, self.volume, 'a', RW))
            self.world.look()
            self.assertEqual((RO, 1), self.world.granted(self.volume)[reader.initiator])
            self.assertEqual(reader, self.world.again(reader))
            self.assert_agree()
        self.each(case, ('store', 'device'), ('target', 'grant'))

    def test_every_fault_while_a_writer_goes(self):
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

    def test_a_refused_writer_leaves_no_wider_grant(self):
        """A writer comes; before it has its lock the grant is widened, on its account."""
        volume = self.world.volume(multiattach=True)
        self.world.attached(volume, 'a', RO)
        other = instances.Instance(self.world)
        self.addCleanup(other.repairer.stop)

        def look():
            # Another process of the same backend, with locks of its own.
            failpoints.disarm('volume.attachments.before_grant')
            other.truth.repair()
            self.world.target.faults.plan('grant', REFUSED)
        self.arm('volume.attachments.before_grant', look)
        self.assertTrue(instances.outcome(self.world.create, volume, 'a', RW).final)
        self.assert_agree()

    def second_of_two_that_go(self, volume):
        """The first has revoked both; the second goes on when the event is set."""
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

    def test_one_that_stays_is_granted_before_it_says_so(self):
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

    def test_one_that_cannot_be_granted_again_goes_on_leaving(self):
        for fault in FAULTS:
            with self.subTest(fault=fault):
                volume, target = self.world.volume(multiattach=True), self.world.target
                second, going, free = self.second_of_two_that_go(volume)
                target.faults.plan('revoke', REFUSED)
                target.faults.plan('grant', fault)
                free.set()
                # Not final: no caller is answered that it is connected.
                self.assert_answered(faults.Fault.UNCERTAIN_BEFORE, instances.outcome(
                    going.result, instances.WAIT_SECONDS))
                self.assertIs(S.DISCONNECTING, self.world.again(second).state)
                self.world.look()
                self.assertEqual([], self.world.rows(volume))
                self.assert_agree()

    def test_one_that_is_refused_for_good_ends_there(self):
        """Nobody waits for it any more: it says that it failed, whatever becomes of its host."""
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
    """The row says what was not answered."""

    def setUp(self):
        super().setUp()
        self.volume = self.world.volume()

    def lose(self, error=None):
        self.world.managers.add(instances.HOST, LosesAnswers(self.world.instance.manager, error))

    def test_a_caller_that_is_granted_gets_its_answer(self):
        self.lose()
        row = self.world.create(self.volume, 'a')
        self.assertEqual(S.CONNECTED, row.state)
        self.assertEqual([row], self.world.rows(self.volume))
        self.assertEqual('a', self.world.update(row, 'a').host)
        self.assertEqual([], self.world.delete(row))
        self.assert_agree()

    def test_a_late_caller_gets_its_answer_too(self):
        """Another process went on with the row, and was done before the message was read."""
        row = self.world.reserve(self.volume)
        self.lose(errors.StaleGeneration(noun='attachment', id=row.id, generation=2))
        self.assertEqual(S.CONNECTED, self.world.update(row, 'a').state)

    def test_a_late_caller_beside_another_at_work_repeats(self):
        row = self.world.reserve(self.volume)
        self.world.managers.add(instances.HOST, IsLate())
        answer = instances.outcome(self.world.update, row, 'a')
        self.assertEqual((errors.AttachmentBusy, '1'), (type(answer), answer.retry_after))


class IsLate:
    """Stands before a manager: somebody else goes on with the row."""

    def connect(self, ctxt, volume_id, initiator, attachment_id, generation):
        raise errors.StaleGeneration(noun='attachment', id=attachment_id, generation=generation)


class LosesAnswers:
    """Stands before a manager: what is asked is done, and nobody hears of it."""

    def __init__(self, endpoint, error=None):
        self._endpoint = endpoint
        self._error = error or errors.ServiceUnreachable(topic='volume', seconds=60)

    def __getattr__(self, name):
        def ask(*arguments):
            getattr(self._endpoint, name)(*arguments)
            raise self._error
        return ask


class Unanswered:
    """Stands before a manager: something comes of what is asked, but no answer."""

    def __init__(self, asked):
        self._asked = asked

    def connect(self, *arguments):
        self._asked(*arguments)
        raise errors.ServiceUnreachable(topic='volume', seconds=15)


class TooOld:
    """Stands before a manager: nothing is asked."""

    def __init__(self, endpoint):
        self._endpoint = endpoint

    def __getattr__(self, name):
        def ask(*arguments):
            raise errors.ConfigurationError(reason='the other side is older')
        return ask
