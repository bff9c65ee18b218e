"""Concurrent requests on one attachment or one volume."""
import collections
import uuid

from blockattach.storage import errors
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.drivers import faults
from blockattach.tests.functional import instances

S = lifecycle.State
RW, RO = instances.RW, instances.RO
MANY = 100


def busy(answers):
    return isinstance(answers, errors.AttachmentBusy)


class MeetingTest(instances.WorldTestCase):

    def setUp(self):
        super().setUp()
        self.volume = self.world.volume()
        self.target = self.world.target

    def held(self, method, act, *arguments):
        """Start an operation that blocks in a target method.

        :returns: its future, and the event that releases it
        """
        before = self.target.faults.calls.get(method, 0)
        free = self.target.faults.hold(method)
        running = self.begin(act, *arguments)
        self.until_held(self.target, method, before + 1)
        return running, free

    def test_repeated_update_during_first_connects(self):
        row = self.world.reserve(self.volume)
        first, free = self.held('grant', self.world.update, row, 'a')
        second = self.begin(self.world.update, row, 'a')
        self.wait_for(lambda: self.world.again(row).generation == 3)
        self.target.faults.clear()
        free.set()
        answers = first.result(instances.WAIT_SECONDS)
        self.assertTrue(busy(answers) or answers.state is S.CONNECTED, answers)
        self.assertEqual(S.CONNECTED, second.result(instances.WAIT_SECONDS).state)
        self.assert_agree()

    def test_repeated_update_refused_keeps_old_host(self):
        row = self.world.attached(self.volume, 'old')
        first, free = self.held('grant', self.world.update, row, 'a')
        second = self.begin(self.world.update, row, 'b')
        # Each update calls the target once. The repeated update, whose outcome counts, is refused.
        self.until_held(self.target, 'grant', 3)
        self.target.faults.plan('grant', faults.Fault.REFUSED, 2)
        free.set()
        self.assertIsInstance(first.result(instances.WAIT_SECONDS), errors.BlockattachError)
        self.assertIsInstance(second.result(instances.WAIT_SECONDS), errors.BackendRefused)
        self.target.faults.clear()
        now = self.world.again(row)
        self.assertEqual((S.ATTACHED, row.connector, row.mode),
                         (now.state, now.connector, now.mode))
        self.assertEqual({row.initiator: (RW, 1)}, self.world.granted(self.volume))
        self.assert_agree()

    def test_concurrent_updates_leave_one_host_granted(self):
        for _ in range(5):
            volume = self.world.volume()
            row = self.world.attached(volume, 'old')
            answers = self.at_once(lambda row=row: self.world.update(row, 'a'),
                                   lambda row=row: self.world.update(row, 'b'))
            now = self.world.again(row)
            self.assertEqual(S.CONNECTED, now.state)
            for host, answer in zip('ab', answers, strict=True):
                # An update that succeeded without a lasting effect was followed by the other one.
                self.assertTrue(busy(answer) or answer.host == host or now.host != host, answers)
            self.assertEqual({now.initiator}, set(self.world.granted(volume)))
            self.assert_agree()

    def test_update_replacing_repeated_update_leaves_one_grant(self):
        """The grant that the first copy made for the second one is obsolete by then."""
        row = self.world.reserve(self.volume)
        first, free = self.held('grant', self.world.update, row, 'a')
        second = self.begin(self.world.update, row, 'a')
        self.wait_for(lambda: self.world.again(row).generation == 3)
        # The lock of the first update is missing, so it converges to the row and grants 'a' for
        # the second one.
        again = self.target.faults.hold('grant')
        free.set()
        self.until_held(self.target, 'grant', 2)
        third = self.begin(self.world.update, row, 'b')
        self.wait_for(lambda: self.world.again(row).generation == 4)
        self.target.faults.clear()
        again.set()
        for call in (first, second):
            answer = call.result(instances.WAIT_SECONDS)
            self.assertTrue(busy(answer), answer)
        now = third.result(instances.WAIT_SECONDS)
        self.assertEqual(S.CONNECTED, now.state)
        self.assertEqual({now.initiator}, set(self.world.granted(self.volume)))
        self.assert_agree()

    def test_delete_during_update_removes_attachment(self):
        row = self.world.reserve(self.volume)
        update, free = self.held('grant', self.world.update, row, 'a')
        delete = self.begin(self.world.delete, row)
        self.wait_for(lambda: self.world.again(row).state is S.DISCONNECTING)
        with self.assertRaises(errors.InvalidTransition):
            self.world.control.complete(self.world.caller, self.world.again(row))
        self.target.faults.clear()
        free.set()
        self.assertIsInstance(update.result(instances.WAIT_SECONDS),
                              errors.AttachmentBusy | errors.AttachmentNotFound)
        self.assertEqual([], delete.result(instances.WAIT_SECONDS))
        self.assert_agree()

    def test_delete_during_refused_update_removes_attachment(self):
        """The state that the refused update leaves does not matter to the delete."""
        row = self.world.reserve(self.volume)
        update, free = self.held('grant', self.world.update, row, 'a')
        connecting = self.world.again(row)
        self.target.faults.plan('grant', faults.Fault.REFUSED)
        free.set()
        self.assertIsInstance(update.result(instances.WAIT_SECONDS), errors.BackendRefused)
        self.target.faults.clear()
        # The row was read while it was connecting.
        self.assertEqual([], self.world.control.delete(self.world.caller, connecting))
        self.assert_agree()

    def test_complete_during_delete_rejected(self):
        row = self.world.create(self.volume, 'a')
        delete, free = self.held('revoke', self.world.delete, row)
        with self.assertRaises(errors.InvalidTransition):
            self.world.control.complete(self.world.caller, row)
        with self.assertRaises(errors.InvalidTransition):
            self.world.update(row, 'a')
        free.set()
        self.assertEqual([], delete.result(instances.WAIT_SECONDS))
        self.assert_agree()

    def test_concurrent_deletes_succeed_or_not_found(self):
        for host in 'abcdef':
            volume = self.world.volume()
            row = self.world.attached(volume, host)
            answers = self.at_once(*[lambda row=row: self.world.delete(row)] * 4)
            self.assertIn([], answers)
            self.assertEqual([], [answer for answer in answers if answer != []
                                  and not isinstance(answer, errors.AttachmentNotFound)])
            self.assert_agree()

    def test_repeated_deletes_during_first_succeed(self):
        row = self.world.attached(self.volume, 'a')
        first, free = self.held('revoke', self.world.delete, row)
        others = [self.begin(self.world.delete, row) for _ in range(3)]
        self.wait_for(lambda: self.world.again(row).generation == 7)
        self.target.faults.clear()
        free.set()
        for running in (first, *others):
            self.assertEqual([], running.result(instances.WAIT_SECONDS))
        self.assert_agree()

    def test_create_while_old_host_of_other_attachment_revoked(self):
        """The initiator name of the old host stays in use until its grant is revoked."""
        volume = self.world.volume(multiattach=True)
        row = self.world.create(volume, 'old')
        update, free = self.held('revoke', self.world.update, row, 'new')
        self.assertEqual(S.CONNECTED, self.world.create(volume, 'another').state)
        free.set()
        self.assertEqual(S.CONNECTED, update.result(instances.WAIT_SECONDS).state)
        self.assert_agree()


class ManyTest(instances.WorldTestCase):

    def create_many(self, volume, mode=None):
        return self.at_once(*[
            lambda host=f'host-{number}': self.world.create(volume, host, mode)
            for number in range(MANY)])

    def test_concurrent_creates_on_multiattach_volume_all_succeed(self):
        volume = self.world.volume(multiattach=True)
        answers = self.create_many(volume)
        self.assertEqual({S.CONNECTED: MANY}, collections.Counter(
            getattr(answer, 'state', answer) for answer in answers))
        self.assertEqual(MANY, len(self.world.granted(volume)))
        self.assert_agree()
        gone = self.at_once(*[lambda row=row: self.world.delete(row) for row in answers])
        self.assertEqual([], [answer for answer in gone if not isinstance(answer, list)])
        self.assertEqual('available', self.world.shown(volume).status)
        self.assert_agree()

    def test_concurrent_creates_on_plain_volume_succeed_once(self):
        volume = self.world.volume()
        answers = self.create_many(volume)
        refused = [answer for answer in answers if isinstance(answer, errors.InvalidVolume)]
        self.assertEqual(MANY - 1, len(refused))
        [row] = self.world.rows(volume)
        self.assertEqual({row.initiator: (RW, 0)}, self.world.granted(volume))
        self.assert_agree()
        self.world.delete(row)
        self.assert_agree()

    def test_concurrent_creates_on_one_host_share_grant(self):
        volume = self.world.volume(multiattach=True)
        modes = [RO, RW] * 10
        answers = self.at_once(*[lambda mode=mode: self.world.create(volume, 'a', mode)
                                 for mode in modes])
        self.assertEqual({instances.initiator_of('a'): (RW, 0)}, self.world.granted(volume))
        self.assert_agree()
        self.at_once(*[lambda row=row: self.world.delete(row)
                       for row, mode in zip(answers, modes, strict=True) if mode is RW])
        self.assertEqual({instances.initiator_of('a'): (RO, 0)}, self.world.granted(volume))
        self.assert_agree()

    def test_plain_volume_accepts_server_on_two_hosts(self):
        volume, server = self.world.volume(), str(uuid.uuid4())
        answers = self.at_once(*[
            lambda host=f'host-{number}': self.world.create(volume, host, None, server)
            for number in range(8)])
        self.assertEqual(2, sum(not isinstance(answer, Exception) for answer in answers))
        self.assert_agree()
