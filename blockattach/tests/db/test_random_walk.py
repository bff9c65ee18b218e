"""Random walks, after each step of which derived columns match the rows."""
import sqlalchemy as sa

from blockattach.storage import errors
from blockattach.storage.db import models
from blockattach.storage.db import work_ends
from blockattach.storage.db.attachments import attachments
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

ATTACHMENT_STEPS = 300
VOLUME_STEPS = 200
OWN = volume_lifecycle.OwnStatus

_rows = models.attachments
_grants = models.grants
_volumes = models.volumes
_pools = models.pools


class Invariants(base.DatabaseTestCase):
    """Checks of invariants after every step, which use queries of their own."""

    def rows(self, query):
        with self.database.reader() as reader:
            return reader.execute(query).all()

    def check_attachments(self):
        live = [row for row in self.rows(_rows.select()) if row.state != 'gone']
        for row in self.rows(_rows.select()):
            self.assertEqual(row.state == 'gone', row.deleted)
            self.assertEqual(lifecycle.RANKS.get(row.state), row.rank)
            self.assertEqual(row.state in lifecycle.TRANSITIONAL, row.deadline is not None)
            if row.deleted:
                self.assertIsNone(row.slot)
        for volume in self.rows(_volumes.select()):
            mine = [row for row in live if row.volume_id == volume.id]
            lowest = min((row.rank for row in mine), default=None)
            derived = volume_lifecycle.derive_status(volume.own_status, lowest)
            self.assertEqual((lowest, *derived),
                             (volume.lowest_rank, volume.status, volume.attach_status))
            slots = [row.slot for row in mine]
            if volume.multiattach:
                self.assertEqual([None] * len(mine), slots)
            else:
                self.assertEqual(len(mine), len(set(slots) & {0, 1}))
                self.assertGreaterEqual(1, len({row.instance_uuid for row in mine}))
            self.check_grants(volume, mine)

    def check_grants(self, volume, mine):
        needed = {name for row in mine for name in (row.initiator, row.previous_initiator) if name}
        found = self.rows(_grants.select().where(_grants.c.volume_id == volume.id))
        self.assertEqual(needed, {grant.initiator for grant in found})
        self.assertEqual(len(found), len({grant.alias for grant in found}))
        modes = {}
        for row in mine:
            if row.state in lifecycle.GRANTED:
                for name in {row.initiator, row.previous_initiator} - {None}:
                    modes.setdefault(name, set()).add(connection.AccessMode(row.mode))
        self.assertEqual(
            {name: connection.widest(asked) for name, asked in modes.items()},
            {grant.initiator: grant.mode for grant in grants.wanted(self.database, [volume.id])})

    def check_pools(self):
        for pool in self.rows(_pools.select()):
            placed = self.rows(sa.select(_volumes.c.size_gb).where(
                _volumes.c.pool == pool.name, _volumes.c.deleted == sa.false()))
            self.assertEqual(sum(size for size, in placed), pool.allocated_gb, pool.name)
            self.assertLessEqual(pool.allocated_gb, pool.limit_gb)


@base.on_chosen_databases
class AttachmentWalkTest(Invariants):

    def test_volume_status_matches_attachments_after_random_steps(self):
        chance = self.random()
        chosen = [make.volume(self.database, multiattach=shared) for shared in (True, True, False)]
        alive, refused = [], 0
        for _ in range(ATTACHMENT_STEPS):
            try:
                if not alive or chance.random() < 0.2:
                    alive.append(self._reserve(chance, chance.choice(chosen)))
                else:
                    number = chance.randrange(len(alive))
                    alive[number] = self._move(chance, alive[number])
                    if alive[number].state is lifecycle.State.GONE:
                        del alive[number]
            except (errors.InvalidVolume, errors.InvalidTransition):
                refused += 1
            self.check_attachments()
        self.assertLess(refused, ATTACHMENT_STEPS / 2, 'too many steps were refused')

    def _reserve(self, chance, volume):
        return attachments.reserve(self.database, attachments.Wish(
            volume.id, volume.project_id, chance.choice(('instance-a', 'instance-b')),
            chance.choice((None, *connection.AccessMode)),
            chance.choice((None, self._connector(chance)))), 60)

    def _move(self, chance, row):
        event = chance.choice(lifecycle.allowed_events(row.state) if chance.random() < 0.9
                              else tuple(lifecycle.Event))
        if event is lifecycle.Event.RELEASE and row.initiator is not None:
            # The API never releases an attachment that the backend may know.
            event = lifecycle.Event.DISCONNECT
        return make.move(self.database, row, event, with_connector=self._connector(chance))

    def _connector(self, chance):
        return make.connector(f'iqn.{chance.randrange(4)}', mode=chance.choice(('rw', 'ro')))


@base.on_chosen_databases
class VolumeWalkTest(Invariants):

    def test_allocated_space_matches_volumes_after_random_steps(self):
        chance = self.random()
        names = [make.pool(self.database, f'storage-{number}@file#pool', total_gb=40)
                 for number in range(2)]
        known, late = [], 0
        for _ in range(VOLUME_STEPS):
            if not known or chance.random() < 0.2:
                known.append(make.volume(self.database, own_status=OWN.CREATING,
                                         size_gb=chance.randrange(1, 15)).id)
            else:
                late += self._step(chance, chance.choice(known), chance.choice(names))
            self.check_pools()
            self.check_attachments()
        self.assertLess(late, VOLUME_STEPS * 0.9, 'too many steps were refused')

    def _step(self, chance, volume_id, name):
        """Run a random verb, sometimes an invalid or stale one. Return 1 if it was refused."""
        [row] = self.rows(_volumes.select().where(_volumes.c.id == volume_id))
        generation = row.generation - (chance.random() < 0.1)
        act = chance.choice((
            lambda: volumes.claim(self.database, volume_id, generation, name, None),
            lambda: volumes.unclaim(self.database, volume_id, generation, 60),
            lambda: volumes.created(self.database, volume_id, generation, False),
            lambda: work_ends.refuse(self.database, 'create', volume_id, generation),
            lambda: volumes.start_delete(self.database, make.judged(volume_id), 60),
            lambda: work_ends.finish(self.database, volumes.deletion(volume_id, generation)),
            lambda: work_ends.fail(self.database, volumes.deletion(volume_id, generation))))
        try:
            act()
            return 0
        except (errors.StaleGeneration, errors.InvalidVolume, errors.VolumeNotFound):
            return 1
