"""Verbs of the volume lifecycle, each in one transaction and with stale calls rejected."""
import uuid

from blockattach.storage import errors
from blockattach.storage.db import work
from blockattach.storage.db import work_ends
from blockattach.storage.db.services import pools
from blockattach.storage.db.volumes import placing_facts
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import attachment_lifecycle as lifecycle
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

OWN = volume_lifecycle.OwnStatus
OTHER_POOL = 'storage-2@file#pool'


class Case(base.DatabaseTestCase):

    def volume(self, own_status=OWN.CREATING, **facts):
        return make.volume(self.database, own_status=own_status, **facts)

    def again(self, volume):
        return volume_queries.get(self.database, volume.id)

    def allocated(self, name=make.POOL):
        return pools.get(self.database, name, 60).allocated_gb

    def claim(self, volume, name=make.POOL, generation=None):
        return volumes.claim(self.database, volume.id, generation or volume.generation, name,
                             'a-service')


@base.on_sqlite_and_servers_in_turn
class CreateTest(Case):

    def test_created_volume_has_requested_values(self):
        kind = make.volume_type(self.database, 'gold', multiattach=True)
        made = self.volume(multiattach=True, size_gb=7, name='data', kind=kind,
                         metadata={'Key': 'a', 'key': 'b'})
        self.assertEqual(
            ('creating', 'creating', 'detached', 7, 'data', True, False, 'gold', kind.id, None,
             1, {'Key': 'a', 'key': 'b'}),
            (made.own_status, made.status, made.attach_status, made.size_gb, made.name,
             made.multiattach, made.bootable, made.volume_type_name, made.volume_type_id,
             made.pool, made.generation, made.metadata))
        self.assertEqual(made, self.again(made))

    def test_volume_name_in_unicode(self):
        name = 'päckchen \N{ROCKET} %s \'"\\'
        self.assertEqual(name, self.again(self.volume(name=name)).name)

    def test_absent_or_deleted_volume_not_found(self):
        gone = self.volume(OWN.GONE)
        for volume_id in (str(uuid.uuid4()), gone.id):
            self.assertRaises(errors.VolumeNotFound, volume_queries.get, self.database, volume_id)


@base.on_sqlite_and_servers_in_turn
class PlacementTest(Case):

    def setUp(self):
        super().setUp()
        make.pool(self.database, total_gb=10)
        make.pool(self.database, OTHER_POOL, total_gb=10)

    def test_claim_places_volume_and_allocates_space(self):
        volume = self.volume(size_gb=4)
        self.assertEqual(2, self.claim(volume))
        placed = self.again(volume)
        self.assertEqual((make.POOL, 'a-service', 'creating', 2),
                         (placed.pool, placed.service_uuid, placed.own_status, placed.generation))
        self.assertEqual((4, 1), (self.allocated(), self.attempts(volume)))

    def attempts(self, volume):
        return placing_facts.read(self.database, volume.id, False).attempts

    def test_claims_fill_pool_up_to_limit(self):
        self.assertEqual(2, self.claim(self.volume(size_gb=6)))
        self.assertIsNone(self.claim(self.volume(size_gb=5)))
        self.assertEqual(2, self.claim(self.volume(size_gb=4)))
        self.assertEqual(10, self.allocated())

    def test_claim_without_space_changes_nothing(self):
        volume = self.volume(size_gb=11)
        self.assertIsNone(self.claim(volume))
        self.assertIsNone(self.claim(volume, 'no-such@pool#here'))
        self.assertEqual((volume, 0), (self.again(volume), self.allocated()))

    def test_second_claim_of_placed_volume_rejected(self):
        volume = self.volume(size_gb=4)
        self.claim(volume)
        for generation in (1, 2, 3):
            self.assertRaises(errors.StaleGeneration, self.claim, volume, OTHER_POOL, generation)
        self.assertEqual((4, 0), (self.allocated(), self.allocated(OTHER_POOL)))

    def test_unclaimed_volume_waits_and_remembers_tried_pool(self):
        volume = self.volume(size_gb=4)
        self.claim(volume)
        self.assertRaises(errors.StaleGeneration, volumes.unclaim, self.database, volume.id, 1, 60)
        self.assertEqual(3, volumes.unclaim(self.database, volume.id, 2, 60))
        waiting = self.again(volume)
        self.assertEqual((None, None, 'creating', 3), (
            waiting.pool, waiting.service_uuid, waiting.own_status, waiting.generation))
        self.assertEqual((make.POOL,), placing_facts.request(self.database, volume.id).tried)
        self.assertEqual(0, self.allocated())
        self.assertEqual(4, self.claim(waiting, OTHER_POOL))
        self.assertEqual((4, 2), (self.allocated(OTHER_POOL),
                                  self.attempts(volume)))

    def test_created_sets_available(self):
        volume = self.volume()
        self.claim(volume)
        self.assertRaises(errors.StaleGeneration, volumes.created, self.database, volume.id, 1,
                          False)
        volumes.created(self.database, volume.id, 2, shared_targets=False)
        after = self.again(volume)
        self.assertEqual(('available', 'available', False, 3), (
            after.own_status, after.status, after.shared_targets, after.generation))
        self.assertIsNone(work.of_resource(self.database, 'volume', volume.id))
        for generation in (2, 3):
            self.assertRaises(errors.StaleGeneration, volumes.created, self.database, volume.id,
                              generation, False)

    def test_created_without_claim_rejected(self):
        volume = self.volume()
        self.assertRaises(errors.StaleGeneration, volumes.created, self.database, volume.id,
                          volume.generation, False)

    def test_refused_create_sets_error_and_frees_space(self):
        volume = self.volume(size_gb=4)
        self.claim(volume)
        work_ends.refuse(self.database, 'create', volume.id, 2)
        self.assertEqual(('error', None, 0),
                         (self.again(volume).status, self.again(volume).pool, self.allocated()))
        self.assertRaises(errors.StaleGeneration, self.claim, volume, make.POOL, 3)


@base.on_sqlite_and_servers_in_turn
class DeleteTest(Case):

    def test_delete_of_placed_volume_waits_for_backend(self):
        volume = self.volume(OWN.AVAILABLE, size_gb=4)
        started = volumes.start_delete(self.database, volume, 60)
        self.assertEqual(('deleting', 'storage-1@file', volume.generation + 1, 4),
                         (started.own_status, started.host, started.generation, self.allocated()))
        again = self.again(volume)
        self.assertEqual(('deleting', started.generation), (again.status, again.generation))
        asked = work.of_resource(self.database, 'volume', volume.id)
        self.assertEqual(volumes.deletion(volume.id, started.generation), asked.claim)
        self.assertEqual((started.host, 'waiting'), (asked.host, asked.state))
        work_ends.finish(self.database, volumes.deletion(volume.id, started.generation))
        self.assertEqual(0, self.allocated())
        self.assertRaises(errors.VolumeNotFound, self.again, volume)

    def test_delete_of_unplaced_volume_immediate(self):
        volume = self.volume(OWN.ERROR)
        started = volumes.start_delete(self.database, volume, 60)
        self.assertEqual(('deleted', None), (started.own_status, started.host))
        self.assertRaises(errors.VolumeNotFound, self.again, volume)

    def test_finished_delete_frees_space_once(self):
        volume = self.volume(OWN.AVAILABLE, size_gb=4)
        self.volume(OWN.AVAILABLE, size_gb=3)
        started = volumes.start_delete(self.database, volume, 60)
        work_ends.finish(self.database, volumes.deletion(volume.id, started.generation))
        self.assertRaises(errors.VolumeNotFound, work_ends.finish, self.database,
                          volumes.deletion(volume.id, started.generation))
        self.assertEqual(3, self.allocated())

    def test_error_deleting_volume_deleted_again(self):
        volume = self.volume(OWN.ERROR_DELETING, size_gb=4)
        self.assertEqual(('error_deleting', 4), (volume.status, self.allocated()))
        started = volumes.start_delete(self.database, volume, 60)
        work_ends.finish(self.database, volumes.deletion(volume.id, started.generation))
        self.assertEqual(0, self.allocated())

    def test_stale_calls_after_delete_rejected(self):
        volume = self.volume(OWN.AVAILABLE)
        for end in (work_ends.finish, work_ends.fail):
            for generation in (volume.generation, volume.generation - 1):
                self.assertRaises(errors.StaleGeneration, end, self.database,
                                  volumes.deletion(volume.id, generation))
        self.assertRaises(errors.StaleGeneration, work_ends.refuse, self.database, 'create',
                          volume.id, volume.generation)
        self.assertRaises(errors.StaleGeneration, volumes.unclaim, self.database, volume.id,
                          volume.generation, 60)
        self.assertEqual(volume, self.again(volume))
        # Results of the first delete are stale, although a second delete is in progress.
        started = volumes.start_delete(self.database, volume, 60)
        for end in (work_ends.finish, work_ends.fail):
            self.assertRaises(errors.StaleGeneration, end, self.database,
                              volumes.deletion(volume.id, started.generation - 1))
        self.assertEqual(OWN.DELETING, self.again(volume).own_status)

    def test_delete_of_creating_or_deleting_volume_rejected(self):
        deleting = self.volume(OWN.AVAILABLE)
        volumes.start_delete(self.database, deleting, 60)
        for volume in (self.volume(), deleting):
            before = self.again(volume)
            self.assertRaises(errors.InvalidVolume, volumes.start_delete, self.database,
                              volume, 60)
            self.assertEqual(before, self.again(volume))

    def test_delete_with_attachment_in_any_state_rejected(self):
        for state in lifecycle.LIVE:
            row = make.attachment(self.database, state=state)
            self.assertRaises(errors.InvalidVolume, volumes.start_delete, self.database,
                              make.judged(row.volume_id), 60)
        gone = make.attachment(self.database, state=lifecycle.State.GONE)
        volumes.start_delete(self.database, make.judged(gone.volume_id), 60)

    def test_delete_removes_credentials(self):
        row = make.attachment(self.database, state=lifecycle.State.GONE)
        started = volumes.start_delete(self.database, make.judged(row.volume_id), 60)
        work_ends.finish(self.database, volumes.deletion(row.volume_id, started.generation))
        self.assertIsNone(make.credential(self.database, row.volume_id, row.initiator))
