"""History of attachments: one event per transition, and the order in which events are read."""
import datetime
import threading

from blockattach.platform import context
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import purging
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import history
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling

E, S = lifecycle.Event, lifecycle.State
CALLER = context.RequestContext(overwrite=False, user_id='alice', request_id='req-1')
CONNECTOR = {'initiator': 'iqn.2026-01.example:host-1', 'host': 'host-1'}
MOVES = [('create', None, S.RESERVED), (E.CONNECT, S.RESERVED, S.CONNECTING),
         (E.CONNECTED, S.CONNECTING, S.CONNECTED), (E.COMPLETE, S.CONNECTED, S.ATTACHED),
         (E.DISCONNECT, S.ATTACHED, S.DISCONNECTING), (E.DISCONNECTED, S.DISCONNECTING, S.GONE)]


class Case(base.DatabaseTestCase):

    def reserve(self, volume_id=None, **more):
        return attachments.reserve(self.database, attachments.Wish(
            volume_id or make.volume(self.database).id, make.PROJECT), 3600, **more)

    def move(self, row, event, facts=None, **more):
        return attachments.move(self.database, row.volume_id, row.id, event,
                                facts or attachments.Facts(), **more).new

    def whole(self):
        """Create an attachment and take it through its lifecycle to the delete."""
        row = self.reserve(caller=CALLER)
        self.move(row, E.CONNECT, attachments.Facts(connector=CONNECTOR, lease_seconds=3600),
                  caller=CALLER)
        self.move(row, E.CONNECTED, attachments.Facts(connection={}))
        self.move(row, E.COMPLETE)
        self.move(row, E.DISCONNECT, attachments.Facts(lease_seconds=3600))
        self.move(row, E.DISCONNECTED)
        return row

    def numbered(self):
        """Give each event its position, and return the events in that order."""
        while history.number(self.database):
            pass
        return history.after(self.database, 0)


@base.on_sqlite_and_servers_in_turn
class HistoryTest(Case):

    def test_history_keeps_each_transition_in_order(self):
        row = self.whole()
        found = history.of_attachment(self.database, row.id)
        self.assertEqual(MOVES, [(one.event, one.old_state, one.new_state) for one in found])
        self.assertEqual([1, 2, 3, 4, 5, 6], [one.generation for one in found])
        self.assertEqual({(row.id, row.volume_id, make.PROJECT)},
                         {(one.attachment_id, one.volume_id, one.project_id) for one in found})
        self.assertEqual([None, 'host-1'], [one.host for one in found[:2]])

    def test_history_of_volume_paginated_and_scoped(self):
        first = self.whole()
        other = self.reserve(first.volume_id)
        self.whole()
        found = history.of_volume(self.database, first.volume_id, make.PROJECT, 0, 10)
        self.assertEqual([first.id] * 6 + [other.id], [one.attachment_id for one in found])
        self.assertEqual(found[5:], history.of_volume(
            self.database, first.volume_id, None, found[4].id, 10))
        self.assertEqual(found[:2], history.of_volume(
            self.database, first.volume_id, None, 0, 2))
        self.assertEqual([], history.of_volume(
            self.database, first.volume_id, 'another', 0, 10))

    def test_history_stores_user_and_request_id(self):
        found = history.of_attachment(self.database, self.whole().id)
        self.assertEqual([('alice', 'req-1')] * 2 + [(None, None)] * 4,
                         [(one.user_id, one.request_id) for one in found])

    def test_history_stores_reason_of_refusal(self):
        row = self.reserve()
        self.move(row, E.CONNECT, attachments.Facts(connector=CONNECTOR, lease_seconds=3600))
        self.move(row, E.REFUSED, attachments.Facts(error='cannot grant: full'))
        self.assertEqual([None, None, 'cannot grant: full'],
                         [one.reason for one in history.of_attachment(self.database, row.id)])

    def test_rejected_transitions_leave_no_event(self):
        row = self.reserve()
        with self.assertRaises(errors.InvalidTransition):
            self.move(row, E.CONNECTED)
        with self.assertRaises(errors.InvalidVolume):
            self.reserve(row.volume_id)
        self.assertEqual(1, len(self.numbered()))

    def test_history_after_generation(self):
        row = self.whole()
        self.assertEqual([5, 6], [one.generation for one in history.of_attachment(
            self.database, row.id, after=4)])

    def test_history_disabled_by_option(self):
        self.database.history_days = 0
        row = self.whole()
        self.assertEqual([], history.of_attachment(self.database, row.id))

    def test_expired_events_purged(self):
        old, new = self.whole(), self.whole()
        with self.database.writer() as connection:
            connection.execute(models.attachment_events.update().where(
                models.attachment_events.c.attachment_id == old.id).values(
                    created_at=self.database.clock.utcnow() - datetime.timedelta(days=31)))
        purging.purge_expired(self.database)
        self.assertEqual([0, 6], [len(history.of_attachment(self.database, one.id))
                                  for one in (old, new)])


@base.on_sqlite_and_servers_in_turn
class OrderTest(Case):

    def test_positions_continue_after_purge(self):
        self.whole()
        self.numbered()
        with self.database.writer() as connection:
            connection.execute(models.attachment_events.update().values(
                created_at=self.database.clock.utcnow() - datetime.timedelta(days=31)))
        purging.purge_expired(self.database)
        self.assertEqual((6, 6), history.positions(self.database))
        self.whole()
        self.assertEqual(list(range(6, 13)), [one.position for one in self.numbered()])

    def test_positions_consecutive(self):
        self.whole()
        self.assertEqual([1, 2, 3, 4, 5, 6], [one.position for one in self.numbered()])
        self.whole()
        self.assertEqual(list(range(1, 13)), [one.position for one in self.numbered()])
        self.assertEqual((1, 12), history.positions(self.database))
        self.assertEqual([12], [one.position for one in history.after(self.database, 11)])

    def test_positions_absent_until_numbered(self):
        row = self.whole()
        self.assertEqual((0, 0), history.positions(self.database))
        self.assertEqual([], history.after(self.database, 0))
        self.assertEqual({None}, {one.position for one in history.of_attachment(
            self.database, row.id)})

    def test_concurrent_numbering_numbers_each_event_once(self):
        for _ in range(4):
            self.whole()
        outcomes = base.at_once(*[lambda: history.number(self.database)] * 4)
        self.assertEqual([], [one for one in outcomes if isinstance(one, Exception)])
        self.assertEqual(list(range(1, 25)), [one.position for one in self.numbered()])


@base.on_every_server
class LateTest(Case):
    """Transaction that begins before another one and commits after it."""

    def test_late_commit_numbered_after_read_events(self):
        first, second = self.reserve(), self.reserve()
        seen = [one.attachment_id for one in self.numbered()]
        wrote, others_are_read = threading.Event(), threading.Event()

        def hold(connection):
            wrote.set()
            others_are_read.wait(polling.LIMIT)
        late = threading.Thread(target=self.move, args=(first, E.COMPLETE), kwargs={
            'within': hold})
        late.start()
        self.assertTrue(wrote.wait(polling.LIMIT))
        self.move(second, E.COMPLETE)
        before = self.numbered()
        others_are_read.set()
        late.join()
        after = self.numbered()
        self.assertEqual([*seen, second.id], [one.attachment_id for one in before])
        self.assertEqual([*seen, second.id, first.id], [one.attachment_id for one in after])
        self.assertEqual([1, 2, 3, 4], [one.position for one in after])
