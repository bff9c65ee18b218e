"""Row, notifications and user messages of an attachment operation that another process ends."""

from blockattach.platform import failpoints
from blockattach.platform.db import paging
from blockattach.storage import errors
from blockattach.storage.db import messages
from blockattach.storage.db.attachments import attachments
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import messages as texts
from blockattach.storage.drivers import faults
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import notifications
from blockattach.tests.functional import instances

S = lifecycle.State
RW = instances.RW
REFUSED = faults.Fault.REFUSED
UNCERTAIN = (faults.Fault.UNCERTAIN_BEFORE, faults.Fault.UNCERTAIN_AFTER)
ATTACHED = ['attach.start', 'attach.end']
DETACHED = ['detach.start', 'detach.end']
STEPS = 150


class OutcomeCase(instances.WorldTestCase):

    def a_world(self):
        self.heard = notifications.Heard()
        return super().a_world(self.heard)

    def notified(self, row):
        return self.heard.of(row.id)

    def messages(self, volume):
        """Return the event, the user message and the detail of each message about a volume."""
        return [(one.event_id, one.user_message, one.detail) for one in messages.list_page(
            self.world.database, make.PROJECT, {'resource_uuid': volume.id}, paging.Page())]

    def plan(self, method, *planned):
        for fault in planned:
            self.world.target.faults.plan(method, fault)

    def the_message(self, volume, text, reason):
        self.assertEqual([(text.event_id, text.user_message, reason)], self.messages(volume))


class ReconcileEndsItTest(OutcomeCase):
    """Operations that one process starts and another one finishes and notifies."""

    def test_uncertain_detach_finished_by_recovery_notifies_end(self):
        for fault in UNCERTAIN:
            row = self.world.attached(self.world.volume(), 'a')
            self.plan('revoke', fault)
            instances.outcome(self.world.delete, row)
            self.assertEqual([*ATTACHED, 'detach.start'], self.notified(row))
            self.world.look()
            self.assertEqual(ATTACHED + DETACHED, self.notified(row))

    def test_uncertain_attach_finished_by_recovery_notifies_end(self):
        for fault in UNCERTAIN:
            row = self.world.reserve(self.world.volume())
            self.plan('grant', fault)
            instances.outcome(self.world.update, row, 'a')
            self.world.look()
            self.assertEqual((S.CONNECTED, ['attach.start']),
                             (self.world.again(row).state, self.notified(row)))
            self.world.control.complete(self.world.caller, row)
            self.assertEqual(ATTACHED, self.notified(row))

    def test_unanswered_create_withdrawn_by_recovery_notifies_error(self):
        for fault in UNCERTAIN:
            volume = self.world.volume()
            self.plan('grant', fault)
            instances.outcome(self.world.create, volume, 'a')
            [row] = self.world.rows(volume)
            self.world.look()
            self.assertEqual(['attach.start', 'attach.error', *DETACHED], self.notified(row))

    def test_operation_recovered_after_death_notifies_end(self):
        for point, begin, expected in (
                ('control.attachments.after_reserve', self.create,
                 ['attach.start', 'attach.error', *DETACHED]),
                ('volume.attachments.before_grant', self.create,
                 ['attach.start', 'attach.error', *DETACHED]),
                ('volume.attachments.after_grant', self.create,
                 ['attach.start', 'attach.error', *DETACHED]),
                ('control.attachments.after_connect_intent', self.update, ['attach.start']),
                ('volume.attachments.after_grant', self.update, ['attach.start']),
                ('control.attachments.after_disconnect_intent', self.delete, ATTACHED + DETACHED),
                ('volume.attachments.before_revoke', self.delete, ATTACHED + DETACHED),
                ('volume.attachments.after_revoke', self.delete, ATTACHED + DETACHED)):
            with self.subTest(point=point, begin=begin):
                act = begin(self.world.volume())
                failpoints.arm(point, instances.die)
                try:
                    self.assertRaises(instances.Death, act)
                finally:
                    failpoints.disarm(point)
                known = {payload['attachment']['id'] for _, payload in self.heard.events}
                self.world.start_instance()
                self.world.instance.look()
                [notified] = [self.heard.of(one) for one in known]
                self.assertEqual(expected, notified)
                self.heard.events.clear()

    def create(self, volume):
        return lambda: self.world.create(volume, 'a')

    def update(self, volume):
        row = self.world.reserve(volume)
        return lambda: self.world.update(row, 'a')

    def delete(self, volume):
        row = self.world.attached(volume, 'a')
        return lambda: self.world.delete(row)


class RefusedTest(OutcomeCase):
    """Final refusals of the backend, with and without a caller that still waits."""

    def test_attach_refused_to_waiting_caller_is_reserved_again(self):
        volume = self.world.volume()
        row = self.world.reserve(volume)
        self.plan('grant', REFUSED)
        self.assertTrue(instances.outcome(self.world.update, row, 'a').final)
        now = self.world.again(row)
        self.assertEqual((S.RESERVED, 'grant refused as planned'), (now.state, now.last_error))
        self.the_message(volume, texts.ATTACH_FAILED, 'grant refused as planned')

    def test_earlier_refusal_not_answered_to_later_update(self):
        """Another request deletes the attachment meanwhile (simulation seed 400)."""
        row = self.world.reserve(self.world.volume())
        self.plan('grant', faults.Fault.REFUSED)
        refused = instances.outcome(self.world.update, row, 'a')
        self.assertIsInstance(refused, errors.BackendRefused)
        self.arm('control.attachments.after_connect_intent', lambda: make.move(
            self.world.database, self.world.again(row), lifecycle.Event.DISCONNECT))
        refused = instances.outcome(self.world.update, row, 'a')
        self.assertIsInstance(refused, errors.AttachmentBusy)

    def test_attach_refused_without_caller_ends_in_error_attaching(self):
        for fault in UNCERTAIN:
            volume = self.world.volume()
            row = self.world.reserve(volume)
            self.plan('grant', fault, REFUSED)
            instances.outcome(self.world.update, row, 'a')
            self.world.look()
            now = self.world.again(row)
            self.assertEqual((S.ERROR_ATTACHING, 'grant refused as planned'),
                             (now.state, now.last_error))
            self.assertEqual(('reserved', {}),
                             (self.world.shown(volume).status, self.world.granted(volume)))
            self.the_message(volume, texts.ATTACH_FAILED, 'grant refused as planned')
            self.assertEqual(['attach.start', 'attach.error'], self.notified(row))
            self.assert_agree()
            # Later passes do not change the attachment until the next request.
            self.world.look()
            self.assertEqual(now, self.world.again(row))
            if fault is UNCERTAIN[0]:
                self.assertEqual(S.CONNECTED, self.world.update(row, 'a').state)
            self.world.delete(row)
            self.assertEqual([], self.world.rows(volume))
            self.assert_agree()

    def test_host_change_refused_without_caller_keeps_old_host(self):
        """The previous host never lost its session."""
        volume = self.world.volume()
        row = self.world.attached(volume, 'old')
        self.plan('grant', UNCERTAIN[1], REFUSED)
        instances.outcome(self.world.update, row, 'new')
        self.world.look()
        now = self.world.again(row)
        self.assertEqual((S.ATTACHED, row.initiator), (now.state, now.initiator))
        self.assertEqual({row.initiator: (RW, 1)}, self.world.granted(volume))
        self.the_message(volume, texts.ATTACH_FAILED, 'grant refused as planned')
        self.assertEqual([*ATTACHED, 'attach.start', 'attach.error'], self.notified(row))
        self.assert_agree()

    def test_legacy_reservation_refused_without_caller_stays_reserved(self):
        """No client sees the row of a legacy action, so nobody could repair an error state."""
        volume = self.world.volume()
        reserved = self.world.control.backend.reserve(self.world.caller, attachments.Wish(
            volume.id, volume.project_id, legacy_reservation=True))
        self.plan('grant', UNCERTAIN[1], REFUSED)
        instances.outcome(self.world.control.connect, self.world.caller, reserved,
                          instances.connector('a'))
        self.world.look()
        now = self.world.again(reserved)
        self.assertEqual((S.RESERVED, None), (now.state, now.initiator))
        self.assertEqual([], self.heard.events)
        self.assert_agree()

    def test_detach_refused_to_waiting_caller_stays_attached(self):
        volume = self.world.volume()
        row = self.world.attached(volume, 'a')
        self.plan('revoke', REFUSED)
        self.assertTrue(instances.outcome(self.world.delete, row).final)
        now = self.world.again(row)
        self.assertEqual((S.ATTACHED, 'revoke refused as planned'), (now.state, now.last_error))
        self.assertEqual({row.initiator: (RW, 1)}, self.world.granted(volume))
        self.the_message(volume, texts.DETACH_FAILED, 'revoke refused as planned')

    def test_detach_refused_without_caller_ends_in_error_detaching(self):
        for fault in UNCERTAIN:
            volume = self.world.volume(multiattach=True)
            other = self.world.attached(volume, 'other')
            row = self.world.attached(volume, 'a')
            self.plan('revoke', fault, REFUSED, REFUSED, REFUSED)
            instances.outcome(self.world.delete, row)
            self.world.look()
            now = self.world.again(row)
            self.assertEqual((S.ERROR_DETACHING, 'revoke refused as planned'),
                             (now.state, now.last_error))
            self.the_message(volume, texts.DETACH_FAILED, 'revoke refused as planned')
            self.assertEqual([*ATTACHED, 'detach.start', 'detach.error'], self.notified(row))
            self.assertEqual(('in-use', other), (self.world.shown(volume).status,
                                                 self.world.again(other)))
            # A delete that is refused again changes nothing, and one that succeeds ends the
            # attachment.
            self.world.target.faults.clear()
            self.plan('revoke', REFUSED)
            instances.outcome(self.world.delete, row)
            self.assertEqual(S.ERROR_DETACHING, self.world.again(row).state)
            self.world.delete(row)
            self.assertEqual([other], self.world.rows(volume))
            self.assertEqual([*ATTACHED, *['detach.start', 'detach.error'] * 2, *DETACHED],
                             self.notified(row))
            self.assert_agree()


class WalkTest(OutcomeCase):
    """Random walk after which each start notification has one end or error."""

    HOSTS = ('a', 'b', 'c')

    def test_random_walk_notifies_each_end_once(self):
        chance = self.random()
        volumes = [self.world.volume(multiattach=True) for _ in range(2)]
        for _ in range(STEPS):
            self.step(chance, chance.choice(volumes))
        self.world.target.faults.clear()
        self.world.look()
        for volume in volumes:
            for row in self.world.rows(volume):
                self.world.delete(row)
        self.assert_agree()
        ids = {payload['attachment']['id'] for _, payload in self.heard.events}
        self.assertGreater(len(ids), 5)
        for attachment_id in ids:
            under_way = set()
            for word in self.heard.of(attachment_id):
                what, how = word.split('.')
                if how == 'force':
                    continue
                self.assertEqual(how == 'start', what not in under_way,
                                 self.heard.of(attachment_id))
                under_way ^= {what}
            self.assertEqual(set(), under_way, self.heard.of(attachment_id))

    def step(self, chance, volume):
        if chance.random() < 0.4:
            self.plan(chance.choice(('grant', 'revoke')), chance.choice((REFUSED, *UNCERTAIN)))
        rows = self.world.rows(volume)
        acts = [lambda: self.world.create(volume, chance.choice(self.HOSTS)),
                lambda: self.world.reserve(volume), self.world.look]
        if rows:
            row = chance.choice(rows)
            acts += [lambda: self.world.update(row, chance.choice(self.HOSTS)),
                     lambda: self.world.control.complete(self.world.caller, row),
                     lambda: self.world.delete(row),
                     lambda: self.world.control.delete(self.world.caller, row, force=True)] * 2
        instances.outcome(chance.choice(acts))
