"""Connections lost during COMMIT, after which the outcome of the transaction is determined.

The connection is lost before the COMMIT reaches the server, after it, and with a COMMIT that
arrives while the verb already checks the outcome. Tested is each verb that would do harm if it was
done twice, or if it reported a failure although it was done.
"""
import uuid
from concurrent import futures

import sqlalchemy as sa

from blockattach.platform import clock as clocks
from blockattach.platform import idempotency
from blockattach.platform.db import paging
from blockattach.storage import errors
from blockattach.storage.conf import quota as quota_conf
from blockattach.storage.control import repeats
from blockattach.storage.db import messages
from blockattach.storage.db import models
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import detaches
from blockattach.storage.db.services import pools
from blockattach.storage.db.types import type_access
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import messages as domain_messages
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import breaking
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling

S = lifecycle.State
E = lifecycle.Event
Own = volume_lifecycle.OwnStatus
Where = breaking.Where

SECONDS = polling.LIMIT


class Case(base.DatabaseTestCase):
    """Test case with a direct connection ``database`` and a proxied connection ``broken``."""

    def setUp(self):
        super().setUp()
        self.proxy = breaking.BreakingProxy(self.fixture.url)
        self.addCleanup(self.proxy.close)
        self.broken = self.fixture.open(url=self.proxy.url)

    def cut(self, where, act, times=1):
        """Run a function whose COMMIT is cut off."""
        before = self.proxy.broken
        self.proxy.arm(where, times)
        try:
            return act()
        finally:
            self.assertEqual(times, self.proxy.broken - before)

    def count(self, table):
        with self.database.reader() as connection:
            return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()

    def both_ways(self, check):
        for where in (Where.BEFORE, Where.AFTER):
            with self.subTest(where=where):
                check(where)


@base.on_every_server
class AttachmentTest(Case):

    def test_reserve_happens_once_after_lost_commit(self):
        self.both_ways(self.check_reserve)

    def check_reserve(self, where):
        volume = make.volume(self.database)
        wish = attachments.Wish(volume.id, volume.project_id, 'i', None, make.connector('iqn.a'))
        made = self.cut(where, lambda: attachments.reserve(self.broken, wish, 60))
        self.assertEqual([made], attachment_queries.of_volume(self.database, volume.id))
        self.assertEqual((S.CONNECTING, 1), (made.state, made.generation))

    def test_lost_reserve_found_after_row_moved_on(self):
        volume = make.volume(self.database, multiattach=True)
        wish = attachments.Wish(volume.id, volume.project_id)
        found = []

        def move_on(connection):
            """Release the attachment before the verb checks the outcome."""
            if found:
                attachments.move(self.database, volume.id, found.pop(), E.RELEASE)

        sa.event.listen(self.broken.engine, 'engine_connect', move_on)
        made = self.cut(Where.AFTER, lambda: attachments.reserve(
            self.broken, wish, 60, lambda connection, made_id: found.append(made_id)))
        self.assertRaises(errors.AttachmentNotFound, attachment_queries.get, self.database,
                          made.id)
        self.assertEqual(1, self.count(models.attachments))

    def test_quota_counted_once_after_lost_commit(self):
        volume = make.volume(self.database, multiattach=True)
        self.broken.quota = self.database.quota = quota_conf.QuotaSettings(quota_attachments=3)
        wish = attachments.Wish(volume.id, volume.project_id)
        for where in (Where.BEFORE, Where.AFTER, Where.AFTER):
            self.cut(where, lambda: attachments.reserve(self.broken, wish, 60))
        with self.assertRaises(errors.QuotaExceeded):
            attachments.reserve(self.broken, wish, 60)
        self.assertEqual(3, len(attachment_queries.of_volume(self.database, volume.id)))

    def test_transitions_happen_once_after_lost_commit(self):
        """Every step of the lifecycle is interrupted and then repeated."""
        self.both_ways(self.check_moves)

    def check_moves(self, where):
        row = make.attachment(self.database, make.volume(self.database), S.RESERVED)
        events = (E.CONNECT, E.CONNECTED, E.COMPLETE, E.DISCONNECT, E.REFUSED, E.DISCONNECT,
                  E.FAILED, E.DISCONNECT, E.DISCONNECTED)
        for event in events:
            moved = self.cut(where, lambda row=row, event=event: make.move(
                self.broken, row, event))
            self.assertEqual((row.generation + 1, lifecycle.next_state(
                row.state, event, row.previous_state)), (moved.generation, moved.state))
            if moved.state is not S.GONE:
                self.assertEqual(moved, attachment_queries.get(self.database, row.id))
            row = moved
        self.assertEqual('available', volume_queries.get(self.database, row.volume_id).status)

    def test_overtaken_transition_stale_after_lost_commit(self):
        self.both_ways(self.check_overtaken)

    def check_overtaken(self, where):
        row = make.attachment(self.database, state=S.CONNECTING)
        before, overtaken = self.proxy.broken, []

        def overtake(connection):
            if self.proxy.broken > before and not overtaken:
                overtaken.append(make.move(self.database, row, E.DISCONNECT))

        sa.event.listen(self.broken.engine, 'engine_connect', overtake)
        with self.assertRaises(errors.StaleGeneration):
            self.cut(where, lambda: attachments.move(
                self.broken, row.volume_id, row.id, E.CONNECTED,
                attachments.Facts(connection={}), row.generation))
        self.assertEqual(overtaken, [attachment_queries.get(self.database, row.id)])

    def test_detach_announced_once_after_lost_commit(self):
        self.both_ways(self.check_announce)

    def check_announce(self, where):
        volume = make.volume(self.database, multiattach=True)
        for _ in range(2):
            make.attachment(self.database, volume)
        for act, announced in ((detaches.announce, 1), (detaches.announce, 2),
                               (detaches.cancel, 1)):
            self.cut(where, lambda act=act: act(self.broken, volume))
            self.assertEqual(announced, detaches.announced(self.database, volume.id))
            self.assertEqual('detaching', volume_queries.get(self.database, volume.id).status)


@base.on_every_server
class VolumeTest(Case):

    def draft(self):
        kind = volume_types.get_by_name(self.database, make.DEFAULT_TYPE)
        return volumes.Draft(make.PROJECT, make.USER, 'one', None, 7, kind, make.ZONE,
                             {'key': 'value'})

    def test_volume_lifecycle_happens_once_after_lost_commit(self):
        self.both_ways(self.check_lifecycle)

    def check_lifecycle(self, where):
        make.pool(self.database)
        before = self.count(models.volumes)
        made = self.cut(where, lambda: volumes.create(self.broken, self.draft(), 60))
        self.assertEqual(made, volume_queries.get(self.database, made.id))
        self.assertEqual(before + 1, self.count(models.volumes))

        def step(verb, *arguments):
            return self.cut(where, lambda: verb(self.broken, made.id, *arguments))

        def start_delete():
            return self.cut(where, lambda: volumes.start_delete(self.broken, made, 60))

        self.assertEqual(2, step(volumes.claim, 1, make.POOL, 'uuid'))
        self.assertEqual(7, pools.get(self.database, make.POOL, 60).allocated_gb)
        self.assertEqual(3, step(volumes.unclaim, 2, 60))
        self.assertEqual(0, pools.get(self.database, make.POOL, 60).allocated_gb)
        self.assertEqual(4, step(volumes.claim, 3, make.POOL, 'uuid'))
        mine = volumes.creation(made.id, 4, 'storage-1@file/1')
        self.assertTrue(self.cut(where, lambda: work.claim(
            self.broken, mine, 'storage-1@file', 60)))
        self.assertTrue(self.cut(where, lambda: work.renew(self.broken, mine, 60)))
        self.cut(where, lambda: work.hand_over(self.broken, mine.owner))
        found = work.of_resource(self.database, 'volume', made.id)
        self.assertEqual(mine._replace(owner='two'), self.cut(
            where, lambda: work.take(self.broken, found, 'two', 60)))
        step(volumes.created, 4, False)
        self.assertEqual(7, pools.get(self.database, make.POOL, 60).allocated_gb)
        deleting = start_delete()
        self.assertEqual((Own.DELETING, 6), (deleting.own_status, deleting.generation))
        self.cut(where, lambda: work_ends.fail(self.broken, volumes.deletion(made.id, 6)))
        deleting = start_delete()
        self.cut(where, lambda: work_ends.finish(
            self.broken, volumes.deletion(made.id, deleting.generation)))
        self.assertEqual(0, pools.get(self.database, make.POOL, 60).allocated_gb)

    def test_failed_create_recorded_once_after_lost_commit(self):
        def check(where):
            volume = make.volume(self.database, own_status=Own.CREATING)
            self.cut(where, lambda: work_ends.refuse(
                self.broken, 'create', volume.id, volume.generation))
            found = volume_queries.get(self.database, volume.id)
            self.assertEqual((Own.ERROR, 2), (found.own_status, found.generation))
        self.both_ways(check)

    def test_message_created_once_after_lost_commit(self):
        def check(where):
            self.cut(where, lambda: messages.create(
                self.broken, where.name, None, domain_messages.DELETE_FAILED, 'volume'))
            self.assertEqual(1, len(messages.list_page(
                self.database, where.name, {}, paging.Page())))
        self.both_ways(check)

    def test_type_created_once_without_conflict(self):
        def check(where):
            made = self.cut(where, lambda: volume_types.create(
                self.broken, where.name, None, True, {'key': 'value'}))
            self.assertEqual(made, volume_types.get_by_name(self.database, where.name))
        self.both_ways(check)

    def test_type_access_added_once_without_conflict(self):
        def check(where):
            kind = make.volume_type(self.database, is_public=False)
            self.cut(where, lambda: type_access.add(self.broken, kind.id, make.PROJECT))
            self.assertEqual([make.PROJECT], type_access.projects(self.database, kind.id))
        self.both_ways(check)

    def test_type_encryption_created_once_without_conflict(self):
        def check(where):
            kind = make.volume_type(self.database)
            made = self.cut(where, lambda: volume_types.create_encryption(
                self.broken, kind.id, 'luks', 'back-end'))
            self.assertEqual(made, volume_types.get(self.database, kind.id).encryption)
        self.both_ways(check)


@base.on_every_server
class NamedRequestTest(Case):
    """``Idempotency-Key`` on a breaking connection, where a request creates one resource."""

    def test_idempotent_request_happens_once_after_lost_commit(self):
        self.both_ways(self.check_named)

    def check_named(self, where):
        volume = make.volume(self.database, multiattach=True)
        request = idempotency.named('p', 'u', 'POST', '/attachments', str(uuid.uuid4()), 'digest')
        once = repeats.Repeats(self.broken, 60, 60)

        def create():
            return once.once(request, lambda within: attachments.reserve(
                self.broken, attachments.Wish(volume.id, volume.project_id), 60, within),
                once.attachment)

        made = self.cut(where, create)
        self.assertEqual(made.id, create().id)
        self.assertEqual([made.id], [row.id for row in attachment_queries.of_volume(
            self.database, volume.id)])


class Arriving(clocks.Clock):
    """Clock whose sleep lets the late COMMIT arrive."""

    def __init__(self, proxy, arrived):
        super().__init__()
        self.proxy = proxy
        self.arrived = arrived

    def wait(self, event, seconds):
        self.proxy.release()
        polling.until(self.arrived, 'what was late arrives')
        return super().wait(event, seconds)


@base.on_every_server
class LateTest(Case):
    """COMMIT still under way, for which the check waits by the lock that it holds."""

    def late(self, act):
        """Run a function whose COMMIT reaches the server when the function already waits for its
        lock.
        """
        with futures.ThreadPoolExecutor(1) as one:
            answer = one.submit(self.cut, Where.LATE, act)
            polling.until(lambda: answer.done() or self.waits_for_a_lock(),
                          tick=base.BETWEEN_LOOKS)
            if answer.done():
                self.fail(f'the function did not wait: {answer.result()}')
            self.proxy.release()
            return answer.result(SECONDS)

    def test_late_commit_of_reserve_found(self):
        volume = make.volume(self.database)
        wish = attachments.Wish(volume.id, volume.project_id)
        made = self.late(lambda: attachments.reserve(self.broken, wish, 60))
        self.assertEqual([made], attachment_queries.of_volume(self.database, volume.id))

    def test_late_commit_of_volume_found(self):
        before = self.count(models.volumes)
        kind = volume_types.get_by_name(self.database, make.DEFAULT_TYPE)
        draft = volumes.Draft(make.PROJECT, make.USER, None, None, 1, kind, make.ZONE, {})
        made = self.late(lambda: volumes.create(self.broken, draft, 60))
        self.assertEqual(made, volume_queries.get(self.database, made.id))
        self.assertEqual(before + 1, self.count(models.volumes))

    def test_late_commit_of_transition_found_by_repeat(self):
        """The late COMMIT holds no lock, and the repeat finds the transition done."""
        row = make.attachment(self.database, state=S.CONNECTED)
        late = self.fixture.open(url=self.proxy.url, clock=Arriving(self.proxy, lambda: (
            attachment_queries.get(self.database, row.id).generation > row.generation)))
        self.assertIsNone(late.wrong())
        if not late.takes_as_one:
            self.skipTest('MySQL has no compound statements, so a move has a COMMIT')
        moved = self.cut(Where.LATE, lambda: make.move(late, row, E.COMPLETE))
        self.assertEqual(row.generation + 1, moved.generation)
        self.assertEqual(moved, attachment_queries.get(self.database, row.id))

    @exhaustive.only
    def test_missing_commit_outcome_unknown(self):
        """The server keeps the session of the lost client, so the outcome is unknown."""
        volume = make.volume(self.database)
        wish = attachments.Wish(volume.id, volume.project_id)
        with self.assertRaises(errors.OutcomeUnknown) as caught:
            self.cut(Where.LATE, lambda: attachments.reserve(self.broken, wish, 60))
        self.assertFalse(caught.exception.final)
        self.assertEqual([], attachment_queries.of_volume(self.database, volume.id))


@base.on_every_server
class GoneTest(Case):
    """Database that does not come back."""

    def test_unstarted_request_reports_database_unavailable(self):
        volume = make.volume(self.database)
        self.broken.close()
        self.proxy.close()
        for act in (lambda: volume_queries.get(self.broken, volume.id),
                    lambda: attachments.reserve(self.broken, attachments.Wish(
                        volume.id, volume.project_id), 60)):
            with self.assertRaises(errors.DatabaseUnavailable):
                act()
        self.assertEqual('cannot reach the database', self.broken.wrong())
        self.assertIsNone(self.database.wrong())

    def test_repeated_connection_loss_reports_database_unavailable(self):
        volume = make.volume(self.database)
        with self.assertRaises(errors.DatabaseUnavailable):
            self.cut(Where.BEFORE, lambda: attachments.reserve(
                self.broken, attachments.Wish(volume.id, volume.project_id), 60), times=6)
        self.assertEqual([], attachment_queries.of_volume(self.database, volume.id))
