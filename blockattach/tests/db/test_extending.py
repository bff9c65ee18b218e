"""Extend in the database: pool space, the manager that claims it, and concurrent writers."""

from blockattach.platform import errors
from blockattach.storage.db import models
from blockattach.storage.db import quotas
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.services import pools
from blockattach.storage.db.volumes import extending
from blockattach.storage.db.volumes import placing_facts
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.scheduler import waiting
from blockattach.tests.db import base
from blockattach.tests.db import managers
from blockattach.tests.db import test_lost_commits
from blockattach.tests.db import test_placement
from blockattach.tests.fixtures import make

_Own = volume_lifecycle.OwnStatus
HOST = make.POOL.partition('#')[0]
OWNER = f'{HOST}/1'
ROUNDS = 12


def accept(database, host, volume_id, generation):
    """Claim the extension as a volume manager does."""
    return work.claim(database, extending.extension(volume_id, generation, OWNER), host, 60)


class ExtendingCase(test_placement.PlacementCase):

    def setUp(self):
        super().setUp()
        make.pool(self.database, total_gb=10)

    def extending(self, new_size=3, seconds=60):
        """Create a volume whose extension has been requested."""
        volume = make.volume(self.database)
        extending.start(self.database, volume, new_size, 'available', seconds,
                        'req-extend')
        return self.now(volume.id)

    def claimed(self, volume):
        """Return the pool and the GiB that the volume has claimed."""
        with self.database.reader() as connection:
            row = connection.execute(models.volumes.select().where(
                models.volumes.c.id == volume.id)).one()
        return row.claimed_pool, row.claimed_gb

    def outcome(self, volume):
        now = self.now(volume.id)
        return now.own_status, now.size_gb, self.claimed(volume), self.given_away()[make.POOL]


@base.on_chosen_databases
class PlacedTest(ExtendingCase):

    def test_manager_claims_extend_with_pool_space(self):
        volume = self.extending()
        clients = managers.Managers(self.database, accept)
        self.place(volume.id, clients)
        now = self.now(volume.id)
        self.assertEqual([(HOST, volume.id, now.generation)], clients.asked)
        self.assertEqual(('extending', 1, (make.POOL, 2), 3), self.outcome(volume))
        held = extending.extension(volume.id, now.generation, OWNER)
        self.assertEqual(3, volume_queries.claimed(self.database, held).progress['new_size'])
        self.assertIsNone(extending.extended(self.database, held, 60))
        self.assertEqual(('available', 3, (None, None), 3), self.outcome(volume))
        self.assertIsNone(work.of_resource(self.database, 'volume', volume.id))

    def test_extend_counts_for_quota_before_placement(self):
        volume = self.extending()
        self.assertEqual((1, 2), quotas.show(self.database, make.PROJECT).used['gigabytes'])
        self.place(volume.id, managers.Managers(self.database, accept))
        self.assertEqual((1, 2), quotas.show(self.database, make.PROJECT).used['gigabytes'])
        refused = self.extending()
        work_ends.refuse(self.database, 'extend', refused.id, refused.generation)
        self.assertEqual((2, 2), quotas.show(self.database, make.PROJECT).used['gigabytes'])

    def test_extend_without_pool_space_refused(self):
        volume = self.extending(12)
        clients = managers.Managers(self.database, accept)
        self.place(volume.id, clients)
        self.assertEqual(([], ('available', 1, (None, None), 1)),
                         (clients.asked, self.outcome(volume)))
        [text] = self.reasons(volume.id)
        self.assertIn('9 GiB left, 11 GiB required', text)

    def test_extend_refused_if_space_taken_after_choice(self):
        volume, other = self.extending(9), make.volume(self.database)
        taken = []

        def somebody_is_faster(request, pool):
            if not taken:
                taken.append(extending.start(self.database, other, 4,
                                             'available', 60))
                extending.claim(self.database, other.id, taken[0], make.POOL, 3)
        self.place(volume.id, managers.Managers(self.database, accept), faster=somebody_is_faster)
        self.assertEqual(('available', 1, (None, None), 5), self.outcome(volume))

    def test_silent_manager_keeps_claimed_space_until_retry(self):
        for behavior in (managers.be_silent, managers.refuse):
            volume = self.extending()
            before = self.given_away()[make.POOL]
            self.place(volume.id, managers.Managers(self.database, behavior))
            self.assertEqual(('extending', 1, (make.POOL, 2), before + 2), self.outcome(volume))
            self.let_pass(volume.id, 1)
            clients = managers.Managers(self.database, accept)
            self.looking(clients).look()
            self.assertEqual(([HOST], ('extending', 1, (make.POOL, 2), before + 2)),
                             (clients.hosts, self.outcome(volume)))

    def test_extend_refused_if_manager_stays_down(self):
        volume = self.extending()
        self.place(volume.id, managers.Managers(self.database, managers.be_silent))
        self.dead_service(HOST)
        self.let_pass(volume.id, 1)
        looking = self.looking(managers.Managers(self.database, accept))
        # A scheduler that has just started waits for the heartbeats of the managers.
        self.clock.advance(test_placement.DOWN_AFTER + 1)
        looking.look()
        self.assertEqual(('available', 1, (None, None), 1), self.outcome(volume))
        self.assertIn('the service is down', self.reasons(volume.id)[0])

    def test_extend_claimed_by_manager_stays_with_it(self):
        volume = self.extending()
        clients = managers.Managers(self.database, accept)
        self.place(volume.id, clients)
        before = self.outcome(volume)
        self.dead_service(HOST)
        self.let_pass(volume.id, 1)
        self.looking(clients).look()
        with self.assertRaises(errors.StaleGeneration):
            work_ends.refuse(self.database, 'extend', volume.id, self.now(volume.id).generation)
        self.assertEqual((1, before), (len(clients.asked), self.outcome(volume)))
        self.assertEqual(OWNER, work.of_resource(self.database, 'volume', volume.id).owner)

    def test_late_extend_requests_change_nothing(self):
        volume = self.extending()
        late = placing_facts.request(self.database, volume.id)
        clients = managers.Managers(self.database, accept)
        self.place(volume.id, clients)
        now = self.now(volume.id)
        scheduler = self.placement(clients)
        scheduler.place(test_placement.CALLER, late)
        self.assertEqual((1, now), (len(clients.asked), self.now(volume.id)))
        held = extending.extension(volume.id, now.generation, OWNER)
        extending.extended(self.database, held, 60)
        after = self.outcome(volume)
        self.assertFalse(accept(self.database, HOST, volume.id, now.generation))
        for end in (lambda: extending.extended(self.database, held, 60),
                    lambda: work_ends.fail(self.database, held),
                    lambda: work_ends.refuse(self.database, 'extend', volume.id, now.generation),
                    lambda: volume_queries.claimed(self.database, held)):
            with self.assertRaises(errors.StaleGeneration):
                end()
        self.assertEqual(after, self.outcome(volume))

    def test_extend_ignores_hints_and_attempts(self):
        volume = self.extending()
        with self.database.writer() as connection:
            connection.execute(models.volumes.update().values(
                scheduler_hints='{"different_host": ["x"]}'))
        found = placing_facts.read(self.database, volume.id, False)
        self.assertEqual(({}, 0), (found.hints, found.attempts))

    def looking(self, clients):
        return waiting.WaitingVolumes(self.database, self.placement(clients),
                                      test_placement.DOWN_AFTER, 60, 'here/1')


@base.on_chosen_databases
class EndsTest(ExtendingCase):

    def held(self):
        volume = self.extending()
        self.place(volume.id, managers.Managers(self.database, accept))
        return volume, extending.extension(volume.id, self.now(volume.id).generation, OWNER)

    def test_failed_and_deleted_extends_free_claimed_space(self):
        volume, held = self.held()
        work_ends.fail(self.database, held)
        self.assertEqual(('error_extending', 1, (None, None), 1), self.outcome(volume))
        volumes.start_delete(self.database, volume, 60)
        volume, held = self.held()
        volumes.start_delete(self.database, volume, 60, force=True)
        self.assertEqual(('deleting', 1, (None, None), 2), self.outcome(volume))
        with self.assertRaises(errors.StaleGeneration):
            extending.extended(self.database, held, 60)

    def test_cancelled_force_delete_leaves_error_extending(self):
        volume, _ = self.held()
        volumes.start_delete(self.database, volume, 60, force=True)
        work_ends.cancel(self.database, work.of_resource(
            self.database, 'volume', volume.id))
        self.assertEqual(('error_extending', 1, (None, None), 1), self.outcome(volume))

    def test_cancel_of_extend_owned_by_manager_rejected(self):
        volume, _ = self.held()
        with self.assertRaisesRegex(errors.Conflict, 'has started'):
            work_ends.cancel(self.database, work.of_resource(
                self.database, 'volume', volume.id))
        waits = self.extending()
        work_ends.cancel(self.database, work.of_resource(self.database, 'volume', waits.id))
        self.assertEqual(('available', 1), self.outcome(waits)[:2])

    def test_recreated_pool_counts_claimed_space(self):
        volume, _ = self.held()
        pools.forget(self.database, HOST)
        with self.database.writer() as connection:
            connection.execute(models.pools.delete())
        make.pool(self.database, total_gb=10)
        self.assertEqual(('extending', 1, (make.POOL, 2), 3), self.outcome(volume))

    def test_extend_notification_is_separate_work(self):
        volume, held = self.held()
        using = make.attachment(self.database, make.volume(self.database))
        with self.database.writer() as connection:
            connection.execute(models.attachments.update().values(volume_id=volume.id))
        begun = extending.extended(self.database, held, 60)
        self.assertEqual(extending.notification(volume.id, OWNER), begun)
        found = work.of_resource(self.database, 'volume', begun.resource_id)
        self.assertEqual((HOST, OWNER, 'req-extend', make.PROJECT),
                         (found.host, found.owner, found.request_id, found.project_id))
        self.assertEqual([using.instance_uuid], extending.servers(self.database, volume.id))


@base.on_every_server
class RaceTest(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        make.pool(self.database, total_gb=1000)

    def at_once(self, *acts):
        """Run the functions at once and return the result or the error class of each."""
        return base.names(base.at_once(*acts))

    def test_concurrent_extends_and_reserve_exclude_each_other(self):
        for _ in range(ROUNDS):
            volume = make.volume(self.database)
            outcomes = self.at_once(
                lambda volume=volume: extending.start(
                    self.database, volume, 2, 'available', 60),
                lambda volume=volume: extending.start(
                    self.database, volume, 3, 'available', 60),
                lambda volume=volume: attachments.reserve(self.database, attachments.Wish(
                    volume.id, make.PROJECT, 'a-server'), 0))
            self.assertEqual(2, outcomes.count('InvalidVolume'), outcomes)

    def test_concurrent_claim_and_refusal_exclude_each_other(self):
        for _ in range(ROUNDS):
            volume = make.volume(self.database)
            generation = extending.claim(
                self.database, volume.id, extending.start(
                    self.database, volume, 2, 'available', 60), make.POOL, 1)
            refused, taken = self.at_once(
                lambda volume=volume, generation=generation: work_ends.refuse(
                    self.database, 'extend', volume.id, generation),
                lambda volume=volume, generation=generation: accept(
                    self.database, HOST, volume.id, generation) or 'late')
            self.assertIn((refused, taken), (('done', 'late'), ('StaleGeneration', True)))
            self.assertEqual('available' if refused == 'done' else 'extending',
                             volume_queries.get(self.database, volume.id).status)

    def test_concurrent_claims_take_last_space_once(self):
        for number in range(ROUNDS):
            pool = make.pool(self.database, f'storage-{number}@x#p', 3)
            ready = []
            for _ in range(2):
                volume = make.volume(self.database, on_pool=pool)
                ready.append((volume.id, extending.start(
                    self.database, volume, 2, 'available', 60)))
            outcomes = self.at_once(*[
                lambda one=one, pool=pool: extending.claim(self.database, *one, pool, 1) or 'none'
                for one in ready])
            self.assertEqual(1, outcomes.count('none'), outcomes)
            self.assertEqual(3, pools.get(self.database, pool, 60).allocated_gb)


@base.on_every_server
class LostCommitTest(test_lost_commits.Case):

    def test_extend_steps_happen_once_after_lost_commit(self):
        self.both_ways(self.check)

    def check(self, where):
        make.pool(self.database)
        volume = make.volume(self.database)
        before = pools.get(self.database, make.POOL, 60).allocated_gb

        def step(verb, *arguments):
            return self.cut(where, lambda: verb(self.broken, *arguments))

        def taken():
            now = volume_queries.get(self.database, volume.id)
            return (now.own_status, now.size_gb,
                    pools.get(self.database, make.POOL, 60).allocated_gb - before)

        generation = step(extending.start, volume, 3, 'available', 60)
        generation = step(extending.claim, volume.id, generation, make.POOL, 2)
        self.assertEqual(('extending', 1, 2), taken())
        step(work_ends.refuse, 'extend', volume.id, generation)
        self.assertEqual(('available', 1, 0), taken())
        for end, outcome in ((work_ends.fail, ('error_extending', 1, 0)),
                             (lambda database, held: extending.extended(database, held, 60),
                              ('available', 3, 2))):
            generation = extending.start(self.database, volume, 3,
                                         'available', 60)
            generation = extending.claim(self.database, volume.id, generation, make.POOL, 2)
            self.assertTrue(accept(self.database, HOST, volume.id, generation))
            step(end, extending.extension(volume.id, generation, OWNER))
            self.assertEqual(outcome, taken())
            with self.database.writer() as connection:
                connection.execute(models.volumes.update().values(
                    own_status='available', status='available'))

