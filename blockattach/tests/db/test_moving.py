"""Migrate and retype in the database: claimed space, outcomes, and concurrent writers."""
import threading

from blockattach.storage import errors
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.services import pools
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import claims
from blockattach.storage.db.volumes import moving
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.tests.db import base
from blockattach.tests.db import recording
from blockattach.tests.db import test_lost_commits
from blockattach.tests.fixtures import make

HERE = make.POOL
THERE = f"{HERE.partition('@')[0]}@other#pool"
HOST = THERE.partition('#')[0]
OWNER = f'{HOST}/1'
ROUNDS = 12


def accept(database, volume_id, verb, generation):
    """Claim the work as a volume manager does, and return the claim or None."""
    held = moving.act(volume_id, verb, generation, OWNER)
    return held if work.claim(database, held, HOST, 60) else None


class MovingCase(base.DatabaseTestCase):

    def setUp(self):
        super().setUp()
        make.pool(self.database, HERE)
        make.pool(self.database, THERE, 10)
        self.kind = volume_types.create(self.database, 'shared', None, True,
                                        {'multiattach': '<is> True'})

    def begin(self, verb='migrate', **fields):
        """Start the move of a new volume, and return the volume with its generation."""
        volume = make.volume(self.database, **fields)
        return volume, self.start(verb, volume)

    def start(self, verb, volume):
        if verb == 'migrate':
            return moving.migrate(self.database, volume, HOST, False, 60, 'req-1')
        return moving.retype(self.database, volume,
                             moving.Retyping(self.kind, True), 60, 'req-1')

    def claim(self, volume, generation):
        return moving.claim(self.database, volume.id, generation, THERE, 'uuid-there')

    def outcome(self, volume):
        """Return status, pool, claimed pool and multiattach of a volume, and the GiB of both
        pools.
        """
        now = volume_queries.get(self.database, volume.id)
        return (now.own_status, now.pool, claims.pool_of(self.database, volume.id),
                now.multiattach, *(pools.get(self.database, name, 60).allocated_gb
                                   for name in (HERE, THERE)))

    def cleanups(self):
        return sorted(found.resource_id.partition('@')[2]
                      for found in work.list_all(self.database)
                      if found.claim.name == 'volume.cleanup')


@base.on_chosen_databases
class StepsTest(MovingCase):

    def test_migrate_and_retype_to_other_pool(self):
        for verb, status in (('migrate', 'migrating'), ('retype', 'retyping')):
            with self.subTest(verb):
                before = self.cleanups()
                volume, generation = self.begin(verb)
                room = pools.get(self.database, HERE, 60).allocated_gb
                ahead = pools.get(self.database, THERE, 60).allocated_gb
                generation = self.claim(volume, generation)
                self.assertEqual((status, HERE, THERE, False, room, ahead + 1),
                                 self.outcome(volume))
                held = accept(self.database, volume.id, verb, generation)
                found = volume_queries.claimed(self.database, held)
                self.assertEqual((HERE, THERE), (found.volume.pool, found.there.pool))
                moving.moved(self.database, held)
                self.assertEqual(('available', THERE, None, verb == 'retype', room - 1,
                                  ahead + 1), self.outcome(volume))
                self.assertEqual(sorted((*before, HERE)), self.cleanups())
                for late in ((moving.moved, held), (volume_queries.claimed, held),
                             (moving.unclaim, volume.id, generation, 60, held)):
                    with self.assertRaises(errors.StaleGeneration):
                        late[0](self.database, *late[1:])

    def test_failed_migrate_and_retype_restore_volume(self):
        for verb in ('migrate', 'retype'):
            for taken in (False, True):
                volume, generation = self.begin(verb)
                before = (HERE, None, False, *self.outcome(volume)[4:])
                generation = self.claim(volume, generation)
                if taken:
                    accept(self.database, volume.id, verb, generation)
                    self.assertRaises(errors.StaleGeneration, work_ends.refuse, self.database,
                                      verb, volume.id, generation)
                generation = moving.unclaim(self.database, volume.id, generation, 60)
                self.assertEqual(before, self.outcome(volume)[1:])
                found = work.of_resource(self.database, 'volume', volume.id)
                self.assertEqual((generation, None, [THERE]), (
                    found.generation, found.host, found.progress['tried']))
                work_ends.refuse(self.database, verb, volume.id, generation)
                self.assertEqual(('available', *before), self.outcome(volume))
        self.assertEqual([THERE] * 4, self.cleanups())

    def test_migrate_without_pool_space_not_claimed(self):
        volume, generation = self.begin(size_gb=11)
        self.assertIsNone(self.claim(volume, generation))
        self.assertEqual(generation,
                         volume_queries.get(self.database, volume.id).generation)

    def test_retype_in_place(self):
        volume, generation = self.begin('retype')
        moving.retyped(self.database, volume.id, generation)
        self.assertEqual(('available', HERE, None, True), self.outcome(volume)[:4])
        self.assertRaises(errors.StaleGeneration, moving.retyped, self.database, volume.id,
                          generation)
        self.assertEqual([], self.cleanups())

    def test_force_delete_cleans_up_retype_destination(self):
        volume, generation = self.begin('retype')
        with self.database.writer() as connection:
            connection.exec_driver_sql('UPDATE volumes SET migration_status = NULL')
        generation = self.claim(volume, generation)
        accept(self.database, volume.id, 'retype', generation)
        self.assertRaises(errors.InvalidVolume, volumes.start_delete, self.database, volume,
                          60, force=True)
        with self.database.writer() as connection:
            connection.exec_driver_sql('UPDATE volumes SET migration_status = NULL')
        volumes.start_delete(self.database, volume, 60, force=True)
        self.assertEqual(('deleting', HERE, None), self.outcome(volume)[:3])
        self.assertEqual([THERE], self.cleanups())


@base.on_every_server
class RaceTest(MovingCase):

    def test_concurrent_migrate_and_reserve_exclude_each_other(self):
        for _ in range(ROUNDS):
            volume = make.volume(self.database)
            barrier, outcomes = threading.Barrier(3), []

            def run(act, barrier=barrier, outcomes=outcomes):
                barrier.wait()
                try:
                    act()
                    outcomes.append('done')
                except errors.InvalidVolume:
                    outcomes.append('refused')

            threads = [threading.Thread(target=run, args=(act,)) for act in (
                lambda volume=volume: self.start('migrate', volume),
                lambda volume=volume: self.start('retype', volume),
                lambda volume=volume: attachments.reserve(self.database, attachments.Wish(
                    volume.id, make.PROJECT, 'a-server'), 0))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(['done', 'refused', 'refused'], sorted(outcomes))


@base.on_every_server
class ChangedTypeTest(MovingCase):

    def test_retype_to_type_changed_before_lock_rejected(self):
        """This holds also on MariaDB, where a transaction reads from its first snapshot."""
        volume, generation = self.begin('retype')
        other = self.fixture.open()

        def change(connection, cursor, statement, *rest):
            if 'FROM volume_types' in statement and 'FOR UPDATE' in statement and waiting:
                waiting.pop()
                volume_types.set_extra_specs(other, self.kind.id, {'multiattach': '<is> False'})

        waiting = [change]
        with recording.listening(self.database, before_cursor_execute=change):
            self.assertRaises(errors.VolumeTypeChanged, moving.retyped, self.database, volume.id,
                              generation)
        self.assertEqual([], waiting)


@base.on_every_server
class LostCommitTest(test_lost_commits.Case):

    def test_migrate_steps_happen_once_after_lost_commit(self):
        self.both_ways(self.check)

    def check(self, where):
        for pool in (HERE, THERE):
            make.pool(self.database, pool)
        kind = volume_types.create(self.database, f'kind {where}', None, True, {})
        volume = make.volume(self.database)

        def step(verb, *arguments):
            return self.cut(where, lambda: verb(self.broken, *arguments))

        def now():
            found = volume_queries.get(self.database, volume.id)
            return found.own_status, found.pool, claims.pool_of(self.database, volume.id)

        generation = step(moving.migrate, volume, HOST, False, 60)
        generation = step(moving.claim, volume.id, generation, THERE, None)
        self.assertEqual(('migrating', HERE, THERE), now())
        generation = step(moving.unclaim, volume.id, generation, 60)
        self.assertEqual(('migrating', HERE, None), now())
        step(work_ends.refuse, 'migrate', volume.id, generation)
        self.assertEqual(('available', HERE, None), now())
        generation = step(moving.retype, volume, moving.Retyping(kind, True), 60)
        step(moving.retyped, volume.id, generation)
        self.assertEqual(('available', HERE, None), now())
        generation = moving.migrate(self.database, volume, HOST, True, 60)
        generation = moving.claim(self.database, volume.id, generation, THERE, None)
        step(moving.moved, accept(self.database, volume.id, 'migrate', generation))
        self.assertEqual(('available', THERE, None), now())
