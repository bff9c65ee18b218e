"""Calls that were sent again because their answer was lost.

A restarted volume manager leaves an attachment whose caller may still wait to the repeated call.
"""
import uuid

from blockattach.platform import context
from blockattach.storage import errors
from blockattach.storage.db.attachments import attachments as attachment_verbs
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.drivers import faults
from blockattach.storage.work import recover
from blockattach.tests.fixtures import clock
from blockattach.tests.functional import instances

S = lifecycle.State
SETTLE_SECONDS = 10


class Unheard:
    """Manager that receives each call twice because the first answer is lost."""

    def __init__(self, manager):
        self._manager = manager

    def __getattr__(self, name):
        return getattr(self._manager, name)

    def _twice(self, act, *arguments):
        instances.outcome(act, *arguments)
        return act(*arguments)

    def connect(self, *arguments):
        return self._twice(self._manager.connect, *arguments)

    def disconnect(self, *arguments):
        return self._twice(self._manager.disconnect, *arguments)


class UnheardTest(instances.WorldTestCase):

    def setUp(self):
        super().setUp()
        self.volume = self.world.volume()
        self.world.managers.add(instances.HOST, Unheard(self.world.instance.manager))

    def test_repeated_calls_attach_update_and_delete(self):
        row = self.world.attached(self.volume, 'one')
        self.assertEqual(S.ATTACHED, self.world.again(row).state)
        self.world.update(row, 'two')
        self.assertEqual((S.CONNECTED, 'two'), (self.world.again(row).state,
                                                self.world.again(row).host))
        self.world.delete(row)
        self.assertEqual([], self.world.rows(self.volume))
        self.assertEqual([], self.world.disagreements())

    def test_late_connect_with_refused_revoke_is_stale(self):
        """The host of the call was replaced since, and its grant cannot be revoked."""
        row = self.world.attached(self.volume, 'one')
        self.world.update(row, 'two')
        self.world.target.faults.plan('revoke', faults.Fault.REFUSED)
        with self.assertRaises(errors.StaleGeneration):
            self.world.instance.manager.connect(
                context.admin_context(), self.volume.id, row.initiator, row.id, row.generation)
        self.assertEqual((S.CONNECTED, 'two'), (self.world.again(row).state,
                                                self.world.again(row).host))

    def test_refusal_answered_to_repeated_call(self):
        row = self.world.attached(self.volume, 'one')
        self.world.target.faults.plan('grant', faults.Fault.REFUSED)
        answer = instances.outcome(self.world.update, row, 'two')
        self.assertIsInstance(answer, errors.BackendRefused)
        self.assertTrue(answer.final)
        self.assertEqual('one', self.world.again(row).host)


class BeginningTest(instances.WorldTestCase):
    """Attachment in connecting whose manager was restarted."""

    def setUp(self):
        super().setUp()
        volume = self.world.volume()
        self.row = attachment_verbs.reserve(self.world.database, attachment_verbs.Wish(
            volume.id, volume.project_id, str(uuid.uuid4()), None, instances.connector('one')),
            instances.LEASE_SECONDS)
        self.world.start_instance()
        instance, self.clock = self.world.instance, clock.ManualClock()
        self.recovery = recover.Recovery(
            instance.manager.sources(SETTLE_SECONDS), instance.runner.owner,
            instance.repairer.each, self.clock.monotonic)
        self.recovery.remember()
        self.assertEqual(0, self.recovery.look())

    def test_repeated_connect_after_restart_succeeds(self):
        self.world.instance.manager.connect(
            context.admin_context(), self.row.volume_id, self.row.initiator, self.row.id,
            self.row.generation)
        self.clock.advance(SETTLE_SECONDS)
        self.assertEqual(0, self.recovery.look())
        self.assertEqual(S.CONNECTED, self.world.again(self.row).state)

    def test_connect_without_repeated_call_withdrawn(self):
        self.assertEqual(S.CONNECTING, self.world.again(self.row).state)
        self.clock.advance(SETTLE_SECONDS)
        self.assertEqual(1, self.recovery.look())
        with self.assertRaises(errors.AttachmentNotFound):
            self.world.again(self.row)

    def test_recovery_skips_running_connect(self):
        def repair():
            self.clock.advance(SETTLE_SECONDS)
            self.recovery.look()
        self.arm('volume.attachments.before_grant', repair)
        self.world.instance.manager.connect(
            context.admin_context(), self.row.volume_id, self.row.initiator, self.row.id,
            self.row.generation)
        self.assertEqual(S.CONNECTED, self.world.again(self.row).state)
