"""Expiry of attachments that wait for their consumers, by database time and by one process."""
import datetime
import threading
from concurrent import futures

from blockattach.platform.db import clock
from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import waits
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import expiry_rule
from blockattach.tests.db import base
from blockattach.tests.fixtures import clock as testing_clock
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling

HOST = 'storage-1@file'
ELSEWHERE = 'storage-2@file'
E, S = lifecycle.Event, lifecycle.State
LIMITS = {S.RESERVED: 60.0, S.CONNECTED: 600.0}
# The clock of the database is real, so the limits leave hours for the run of the test.
HOURS = {S.RESERVED: 3600.0, S.CONNECTED: 36000.0}
YEARS = (datetime.datetime(1999, 1, 1), datetime.datetime(2099, 1, 1))
ROUNDS = 30
JOIN_SECONDS = polling.LIMIT


class Case(base.DatabaseTestCase):

    def note(self, seen=None, host=HOST, limits=LIMITS):
        return waits.note(seen or self.database, host, limits, 100)

    def overdue(self, seen=None, host=HOST, limits=LIMITS):
        return waits.overdue(seen or self.database, host, limits, 100)

    def named(self, seen=None, **more):
        return {waiting.id for waiting in self.overdue(seen, **more)}

    def forget(self, limits=LIMITS):
        return waits.forget(self.database, limits, 100)

    def pass_by(self, seconds):
        """Set the start of all waits to a number of seconds ago."""
        with self.database.writer() as writer:
            writer.execute(models.waits.update().values(since=clock.now(-seconds)))

    def noted(self):
        with self.database.reader() as reader:
            return {row.attachment_id: row.generation
                    for row in reader.execute(models.waits.select())}


@base.on_sqlite_and_servers_in_turn
class WaitsTest(Case):

    def test_only_waiting_states_noted(self):
        made = {state: make.attachment(self.database, state=state) for state in lifecycle.LIVE}
        self.assertEqual(2, self.note())
        self.assertEqual({made[state].id: made[state].generation for state in LIMITS},
                         self.noted())
        self.assertEqual(0, self.note())

    def test_state_without_timeout_never_expires(self):
        rows = [make.attachment(self.database, state=state) for state in LIMITS]
        limits = {S.CONNECTED: 600.0}
        self.assertEqual(1, self.note(limits=limits))
        self.pass_by(3600)
        self.assertEqual({rows[1].id}, self.named(limits=limits))

    def test_waits_noted_per_backend(self):
        here = make.attachment(self.database, state=S.RESERVED)
        there = make.attachment(self.database, make.volume(
            self.database, on_pool=f'{ELSEWHERE}#pool'), S.RESERVED)
        self.assertEqual(1, self.note())
        self.assertEqual(1, self.note(host=ELSEWHERE))
        self.pass_by(3600)
        self.assertEqual({here.id}, self.named())
        self.assertEqual({there.id}, self.named(host=ELSEWHERE))

    def test_waits_expire_by_timeout_of_state(self):
        reserved, connected = (make.attachment(self.database, state=state) for state in HOURS)
        self.note(limits=HOURS)
        for seconds, expected in ((3000, set()), (3601, {reserved.id}), (35400, {reserved.id}),
                                  (36001, {reserved.id, connected.id})):
            self.pass_by(seconds)
            self.assertEqual(expected, self.named(limits=HOURS), seconds)
        self.assertEqual({reserved.id: 3600, connected.id: 36000}, {
            waiting.id: HOURS[waiting.state] for waiting in self.overdue(limits=HOURS)})

    def test_waits_expire_by_database_clock(self):
        """A node whose clock is years off computes the same age."""
        for year in YEARS:
            seen = self.fixture.open(testing_clock.ManualClock(year))
            row = make.attachment(seen, state=S.RESERVED)
            self.assertEqual(year.year, row.created_at.year)
            self.note(seen)
            self.assertNotIn(row.id, self.named(seen))
            self.pass_by(61)
            self.assertIn(row.id, self.named(seen))
            [waiting] = [one for one in self.overdue(seen) if one.id == row.id]
            self.assertTrue(waits.take(seen, waiting, LIMITS))
            self.assertNotIn(row.id, self.named(seen))

    def test_transition_ends_wait(self):
        row = make.attachment(self.database, state=S.RESERVED)
        self.note()
        self.pass_by(3600)
        [old] = self.overdue()
        row = make.move(self.database, row, E.CONNECT)
        self.assertEqual(set(), self.named())
        row = make.move(self.database, row, E.CONNECTED)
        self.assertEqual(set(), self.named())
        # The attachment waits again, for another step, and its wait begins now.
        self.assertEqual(1, self.note())
        self.assertEqual({row.id: row.generation}, self.noted())
        self.pass_by(601)
        self.assertEqual({row.id}, self.named())
        self.assertFalse(waits.take(self.database, old, LIMITS))

    def test_ended_wait_deleted(self):
        kept, ended = (make.attachment(self.database, state=S.RESERVED) for _ in range(2))
        self.note()
        make.move(self.database, ended, E.RELEASE)
        self.assertEqual(0, self.forget())
        self.pass_by(61)
        self.assertEqual(1, self.forget())
        self.assertEqual({kept.id}, self.noted().keys())

    def test_overdue_wait_claimed_once(self):
        make.attachment(self.database, state=S.RESERVED)
        self.note()
        self.pass_by(61)
        [waiting] = self.overdue()
        other = self.fixture.open()
        self.assertEqual([True, False], [waits.take(seen, waiting, LIMITS)
                                         for seen in (self.database, other)])

    def test_undecided_wait_retried_after_delay(self):
        make.attachment(self.database, state=S.RESERVED)
        self.note()
        self.pass_by(3600)
        [waiting] = self.overdue()
        for seconds, expected in ((600, 0), (0, 1), (6000, 0)):
            waits.put_off(self.database, waiting, LIMITS, seconds)
            self.assertEqual(expected, len(self.overdue()), seconds)
        self.pass_by(61)
        self.assertEqual(1, len(self.overdue()))

    def test_waits_noted_and_listed_up_to_limit(self):
        for _ in range(3):
            make.attachment(self.database, state=S.RESERVED)
        self.assertEqual([2, 1, 0], [waits.note(self.database, HOST, LIMITS, 2)
                                     for _ in range(3)])
        self.pass_by(61)
        self.assertEqual(2, len(waits.overdue(self.database, HOST, LIMITS, 2)))


@base.on_sqlite_and_servers_in_turn
class RaceTest(Case):

    def at_once(self, *acts):
        barrier = threading.Barrier(len(acts))

        def run(act):
            barrier.wait(JOIN_SECONDS)
            try:
                return act()
            except errors.BlockattachError as exc:
                return exc

        with futures.ThreadPoolExecutor(len(acts)) as pool:
            return [running.result(JOIN_SECONDS)
                    for running in [pool.submit(run, act) for act in acts]]

    def test_concurrent_connect_and_expiry_exclude_each_other(self):
        """Either the connect succeeds and the attachment stays, or the attachment is deleted."""
        other, ended = self.fixture.open(), set()
        for _ in range(ROUNDS):
            row = make.attachment(self.database, state=S.RESERVED)
            self.note()
            self.pass_by(61)
            [waiting] = self.overdue()
            released, connected = self.at_once(
                lambda waiting=waiting: attachments.move(
                    other, waiting.volume_id, waiting.id,
                    expiry_rule.ENDINGS[waiting.state].event,
                    generation=waiting.generation),
                lambda row=row: make.move(self.database, row, E.CONNECT))
            is_up = not isinstance(connected, Exception)
            ended.add(is_up)
            if is_up:
                self.assertIsInstance(released, (errors.StaleGeneration, errors.InvalidTransition))
                now = attachment_queries.get(self.database, row.id)
                self.assertEqual((S.CONNECTING, row.generation + 1), (now.state, now.generation))
                make.move(self.database, now, E.CONNECTED)
            else:
                self.assertIsInstance(connected, errors.AttachmentNotFound)
                self.assertIs(S.GONE, released.new.state)
        self.assertTrue(ended)

    def test_connect_before_expiry_makes_release_stale(self):
        row = make.attachment(self.database, state=S.RESERVED)
        self.note()
        self.pass_by(61)
        [waiting] = self.overdue()
        make.move(self.database, row, E.CONNECT)
        with self.assertRaises(errors.StaleGeneration):
            attachments.move(self.database, row.volume_id, row.id, E.RELEASE,
                             generation=waiting.generation)
        self.assertIs(S.CONNECTING, attachment_queries.get(self.database, row.id).state)

    def test_concurrent_managers_claim_each_wait_once(self):
        seen = [self.database, *(self.fixture.open() for _ in range(3))]
        rows = {make.attachment(self.database, state=S.RESERVED).id for _ in range(10)}
        self.at_once(*(lambda one=one: self.note(one) for one in seen))
        self.assertEqual(rows, self.noted().keys())
        self.pass_by(61)
        found = {one: waits.overdue(one, HOST, LIMITS, 100) for one in seen}
        taken = self.at_once(*(lambda one=one: [
            waiting.id for waiting in found[one] if waits.take(one, waiting, LIMITS)]
            for one in seen))
        self.assertEqual(sorted(rows), sorted(sum(taken, [])))
