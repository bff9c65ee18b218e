"""Work items: claim, renewal, resumption and end, and the declaration of a new verb."""
import dataclasses
import uuid
from concurrent import futures

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform import context
from blockattach.platform.db import clock
from blockattach.platform.db import paging
from blockattach.storage import errors
from blockattach.storage.db import messages
from blockattach.storage.db import models
from blockattach.storage.db import work
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import messages as texts
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.volume import volume_work
from blockattach.storage.work import recover
from blockattach.storage.work import runner
from blockattach.storage.work import verbs
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

HOST = 'storage-1@disks'
ONE, ONE_AGAIN, TWO = 'one@disks/1', 'one@disks/2', 'two@disks/1'
SECONDS = 60
OWN = volume_lifecycle.OwnStatus


class Case(base.DatabaseTestCase):

    def let_pass(self):
        """Set all deadlines to a second ago."""
        with self.database.writer() as connection:
            connection.execute(models.work.update().values(deadline=clock.now(-1)))

    def due(self, owner=None, shared=False, host=HOST):
        return [one.resource_id for one in work.due(self.database, host, owner, shared)]

    def messages(self, resource_id):
        return [(message.user_message, message.detail) for message in messages.list_page(
            self.database, make.PROJECT, {'resource_uuid': resource_id}, paging.Page())]


@base.on_sqlite_and_servers_in_turn
class ClaimTest(Case):

    def begun(self, generation=1, seconds=SECONDS, host=HOST):
        """Create a work item that nobody has claimed, and return a claim for it."""
        asked = records.Claim('thing', str(uuid.uuid4()), 'melt', generation, None)
        with self.database.writer() as connection:
            work.begin(connection, self.database, asked, seconds, host, project_id=make.PROJECT,
                       request_id='req-1', progress={'a': 1})
        return asked._replace(owner=ONE)

    def claim(self, claim, owner=ONE):
        return work.claim(self.database, claim._replace(owner=owner), HOST, SECONDS)

    def found(self, claim):
        return work.of_resource(self.database, claim.noun, claim.resource_id)

    def test_work_read_as_written(self):
        found = self.found(self.begun())
        self.assertEqual(
            ('thing', 'melt', 1, HOST, None, 0, {'a': 1}, None, 'req-1', make.PROJECT, 'waiting'),
            (found.noun, found.verb, found.generation, found.host, found.owner, found.attempts,
             found.progress, found.error, found.request_id, found.project_id, found.state))
        self.assertEqual(found, work.get(self.database, found.id))
        with self.assertRaises(errors.WorkNotFound):
            work.get(self.database, str(uuid.uuid4()))

    def test_work_claimed_by_one_owner(self):
        mine = self.begun()
        self.assertEqual([True, False, True],
                         [self.claim(mine, owner) for owner in (ONE, TWO, ONE)])
        self.assertEqual((ONE, 2, 'running'), (
            self.found(mine).owner, self.found(mine).attempts, self.found(mine).state))

    def test_claim_by_older_generation_rejected(self):
        mine = self.begun(generation=3)
        before = self.found(mine)
        self.assertFalse(self.claim(mine._replace(generation=2)))
        self.assertFalse(self.claim(mine._replace(verb='freeze')))
        self.assertFalse(self.claim(mine._replace(resource_id='none')))
        self.assertEqual(before.attempts, self.found(mine).attempts)
        self.assertTrue(self.claim(mine._replace(generation=4)))
        self.assertFalse(self.claim(mine._replace(generation=3)))

    def test_overdue_work_taken_over_once(self):
        mine = self.begun()
        self.claim(mine)
        self.assertEqual([], self.due())
        self.let_pass()
        self.assertEqual([mine.resource_id], self.due())
        found = self.found(mine)
        self.assertEqual('overdue', found.state)
        self.assertEqual([mine._replace(owner=TWO), None], [
            work.take(self.database, found, owner, SECONDS) for owner in (TWO, ONE)])
        self.assertFalse(work.renew(self.database, mine, SECONDS))
        with self.database.writer() as connection, self.assertRaises(errors.StaleGeneration):
            work.end(connection, mine)
        work.forget(self.database, mine)
        self.assertIsNotNone(self.found(mine))

    def test_renewed_work_not_taken_over(self):
        mine = self.begun()
        self.claim(mine)
        self.let_pass()
        found = self.found(mine)
        self.assertTrue(work.renew(self.database, mine, SECONDS))
        self.assertEqual([], self.due())
        self.assertIsNone(work.take(self.database, found, TWO, SECONDS))

    def test_work_due_at_start_by_owner(self):
        unbegun, begun = self.begun(), self.begun()
        self.claim(begun)
        both = sorted([unbegun.resource_id, begun.resource_id])
        self.assertEqual((both, both, [unbegun.resource_id]), (
            sorted(self.due(TWO)), sorted(self.due(ONE_AGAIN, shared=True)),
            self.due(TWO, shared=True)))
        self.assertEqual([unbegun.resource_id], self.due(ONE))
        self.assertEqual([], self.due(ONE, host='storage-2@disks'))

    def test_handed_over_work_due_at_once(self):
        mine, other = self.begun(), self.begun()
        self.claim(mine)
        self.claim(other, TWO)
        self.assertEqual(1, work.hand_over(self.database, ONE))
        self.assertEqual([mine.resource_id], self.due())
        self.assertTrue(self.claim(mine, TWO))

    def test_interrupted_work_released_with_error(self):
        mine = self.begun()
        self.claim(mine)
        work.interrupt(self.database, mine._replace(owner=TWO), 'not mine')
        self.assertEqual((ONE, None), (self.found(mine).owner, self.found(mine).error))
        work.interrupt(self.database, mine, 'no answer')
        self.assertEqual((None, 'no answer', []), (
            self.found(mine).owner, self.found(mine).error, self.due()))

    def test_hastened_unclaimed_work_due_at_once(self):
        mine, claimed = self.begun(), self.begun()
        self.claim(claimed)
        for one in (mine, claimed):
            work.hasten(self.database, one)
        self.assertEqual([mine.resource_id], self.due())

    def test_work_listed_with_attachments(self):
        mine = self.begun()
        row = make.attachment(self.database, state=make.attachment_lifecycle.State.CONNECTING)
        done = make.attachment(self.database)
        found = {one.resource_id: one for one in work.list_all(self.database)}
        self.assertEqual('attachment.connect', found[row.id].claim.name)
        self.assertEqual('storage-1@file', found[row.id].host)
        self.assertNotIn(done.id, found)
        self.assertEqual([mine.resource_id], [
            one.resource_id for one in work.list_all(self.database, HOST)])


class Things:
    """Manager of an invented noun with the verb ``melt``."""

    def __init__(self, database):
        self.database = database
        self.melt_next = lambda thing_id: None
        self.table = sa.Table('things', sa.MetaData(), sa.Column('id', sa.String(36)),
                              sa.Column('status', sa.String(32)))
        self.table.create(database.engine)

    def ask(self, seconds=SECONDS):
        """Create a thing with the work to melt it, and return its id."""
        thing_id = str(uuid.uuid4())
        with self.database.writer() as connection:
            connection.execute(self.table.insert().values(id=thing_id, status='melting'))
            work.begin(connection, self.database, records.Claim(
                'thing', thing_id, 'melt', 1, None), seconds, HOST, project_id=make.PROJECT,
                request_id='req-1')
        return thing_id

    def end(self, claim, status, say=work.silent):
        with self.database.writer() as connection:
            connection.execute(self.table.update().where(
                self.table.c.id == claim.resource_id).values(status=status))
            work.end(connection, claim)
            say(connection)

    def status(self, thing_id):
        with self.database.reader() as connection:
            return connection.execute(sa.select(self.table.c.status).where(
                self.table.c.id == thing_id)).scalar_one()

    @verbs.work('thing.melt', deadline='melt_deadline',
                done=lambda self, claim, made: self.end(claim, 'molten'),
                failed=lambda self, claim, say: self.end(claim, 'error_melting', say),
                message=texts.DELETE_FAILED, cancel_message=texts.CREATE_CANCELLED,
                cancel=lambda database, found, say: work.forget(
                    database, found.claim, say))
    def melt(self, caller, claim):
        """Melt the thing."""
        self.melt_next(claim.resource_id)


class NewNounTest(Case):
    """New verb that is only declared, since all else follows from the declaration."""

    KIND = 'sqlite'

    def setUp(self):
        super().setUp()
        self.things = Things(self.database)
        self.one, self.two = self.runner(ONE), self.runner(TWO)

    def runner(self, owner):
        threads = futures.ThreadPoolExecutor(1)
        made = runner.Runner(self.database, [self.things], HOST, owner,
                             {'melt_deadline': SECONDS}.__getitem__, threads)
        self.addCleanup(threads.shutdown)
        return made

    def melt(self, thing_id):
        self.assertTrue(self.one.accept(context.admin_context(), 'thing', 'melt', thing_id, 1))
        self.one.stop()
        return self.things.status(thing_id)

    def found(self, thing_id):
        return work.of_resource(self.database, 'thing', thing_id)

    def meet(self, error):
        def meet(thing_id):
            raise error
        self.things.melt_next = meet

    def test_declared_verb_runs(self):
        asked = self.things.ask()
        self.assertEqual('molten', self.melt(asked))
        self.assertIsNone(self.found(asked))

    def test_refused_work_sets_error_and_message(self):
        self.meet(errors.BackendRefused(reason='too hot'))
        asked = self.things.ask()
        self.assertEqual('error_melting', self.melt(asked))
        self.assertIsNone(self.found(asked))
        self.assertEqual([(texts.DELETE_FAILED.user_message, 'too hot')], self.messages(asked))

    def test_refusal_message_for_user(self):
        failed = verbs.Failed('Pool p: it is full')
        failed.__cause__ = errors.BackendFull(size_gb=5, reason='it has 1 GiB')
        self.meet(failed)
        asked = self.things.ask()
        self.melt(asked)
        self.assertEqual([(f'{texts.DELETE_FAILED.user_message} The backend does not have enough '
                           'free space.',
                           'Pool p: it is full')], self.messages(asked))

    def test_running_work_renewed_and_repeat_ignored(self):
        calls = []

        def look(thing_id):
            calls.append(thing_id)
            self.let_pass()
            self.assertEqual([thing_id], self.due())
            self.one.renew()
            self.assertEqual([], self.due())
            self.assertTrue(self.one.accept(context.admin_context(), 'thing', 'melt', thing_id, 1))
            self.assertEqual(['thing.melt'], [claim.name for claim in self.one.held()])
        self.things.melt_next = look
        asked = self.things.ask()
        self.assertEqual(('molten', [asked]), (self.melt(asked), calls))

    def test_interrupted_work_resumed_by_other_instance(self):
        self.meet(errors.BackendUncertain(reason='no answer'))
        asked = self.things.ask()
        self.assertEqual('melting', self.melt(asked))
        self.assertEqual(('no answer', [], None), (
            self.found(asked).error, self.due(), self.found(asked).owner))
        self.things.melt_next = lambda thing_id: None
        looking = recover.Recovery([recover.of_work(self.database, self.two)], TWO)
        self.assertEqual(0, looking.look())
        self.let_pass()
        self.assertEqual((1, 'molten', None),
                         (looking.look(), self.things.status(asked), self.found(asked)))

    def test_owner_that_lost_work_changes_nothing(self):
        def lose(thing_id):
            self.let_pass()
            self.assertIsNotNone(work.take(self.database, self.found(thing_id), TWO, SECONDS))
        self.things.melt_next = lose
        asked = self.things.ask()
        self.assertEqual(('melting', TWO), (self.melt(asked), self.found(asked).owner))

    def test_work_of_former_instance_resumed_at_start(self):
        asked = self.things.ask()
        work.claim(self.database, self.found(asked).claim._replace(owner=ONE), HOST, SECONDS)
        looking = recover.Recovery(
            [recover.of_work(self.database, self.runner(ONE_AGAIN))], ONE_AGAIN)
        self.assertEqual(0, looking.look())
        looking.remember()
        self.assertEqual((1, 'molten'), (looking.look(), self.things.status(asked)))

    def test_waiting_work_listed_and_cancelled(self):
        asked, begun = self.things.ask(), self.things.ask()
        work.claim(self.database, self.found(begun).claim._replace(owner=ONE), HOST, SECONDS)
        listed = {one.resource_id: one for one in work.list_all(self.database, HOST)}
        self.assertEqual({asked: 'waiting', begun: 'running'},
                         {name: one.state for name, one in listed.items()})
        known = verbs.declared(Things)
        recover.cancel(self.database, known, listed[asked].id)
        self.assertIsNone(self.found(asked))
        self.assertEqual([(texts.CREATE_CANCELLED.user_message, None)], self.messages(asked))
        with self.assertRaisesRegex(errors.Conflict, f'{ONE} is running the work'):
            recover.cancel(self.database, known, listed[begun].id)
        with self.assertRaises(errors.Conflict):
            recover.cancel(self.database, {}, listed[begun].id)


@base.on_sqlite_and_servers_in_turn
class CancelTest(Case):
    """Cancellation of work on volumes."""

    def cancel(self, resource_id):
        found = work.of_resource(self.database, 'volume', resource_id)
        return recover.cancel(self.database, verbs.declared(volume_work.VolumeWork), found.id)

    def status(self, volume):
        return volume_queries.get(self.database, volume.id).own_status

    def test_cancelled_create_sets_error(self):
        volume = make.volume(self.database, own_status=OWN.CREATING)
        self.cancel(volume.id)
        self.assertEqual(([(texts.CREATE_CANCELLED.user_message, None)], 'error'),
                         (self.messages(volume.id), self.status(volume)))

    def test_cancel_without_message_rolled_back(self):
        volume = make.volume(self.database, own_status=OWN.CREATING)
        verb = verbs.declared(volume_work.VolumeWork)['volume.create']
        unwritable = dataclasses.replace(
            verb, cancel_message=verb.cancel_message._replace(resource_type=None))
        found = work.of_resource(self.database, 'volume', volume.id)
        with self.assertRaises(db_exception.DBError):
            recover.cancel(self.database, {'volume.create': unwritable}, found.id)
        self.assertEqual(([], 'creating'), (self.messages(volume.id), self.status(volume)))
        self.assertIsNotNone(work.of_resource(self.database, 'volume', volume.id))

    def test_cancel_of_create_begun_by_backend_rejected(self):
        make.pool(self.database)
        volume = make.volume(self.database, own_status=OWN.CREATING)
        generation = volumes.claim(self.database, volume.id, volume.generation, make.POOL, None)
        mine = volumes.creation(volume.id, generation, ONE)
        self.assertTrue(work.claim(self.database, mine, HOST, SECONDS))
        work.hand_over(self.database, ONE)
        with self.assertRaisesRegex(errors.Conflict, f'has started on {HOST}'):
            self.cancel(volume.id)
        self.assertEqual('creating', self.status(volume))

    def test_cancelled_delete_restores_status(self):
        for own_status in (OWN.AVAILABLE, OWN.ERROR_DELETING):
            volume = make.volume(self.database, own_status=own_status)
            begun = volumes.start_delete(self.database, volume, SECONDS)
            self.cancel(volume.id)
            self.assertEqual(own_status, self.status(volume))
            mine = volumes.deletion(volume.id, begun.generation, ONE)
            self.assertFalse(work.claim(self.database, mine, HOST, SECONDS))

    def test_cancel_of_delete_begun_rejected(self):
        volume = make.volume(self.database)
        begun = volumes.start_delete(self.database, volume, SECONDS)
        mine = volumes.deletion(volume.id, begun.generation, ONE)
        work.claim(self.database, mine, HOST, SECONDS)
        work.hand_over(self.database, ONE)
        with self.assertRaisesRegex(errors.Conflict, 'has started'):
            self.cancel(volume.id)

    def test_cancelled_cleanup_leaves_remains_on_pool(self):
        volume = make.volume(self.database)
        volumes.leave_remains(self.database, volume, SECONDS)
        self.cancel(f'{volume.id}@{volume.pool}')
        self.assertEqual([], work.list_all(self.database))
