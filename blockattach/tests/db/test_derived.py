"""Repair of derived columns by an operator."""
from blockattach.storage.db import derived
from blockattach.storage.db import work
from blockattach.storage.db.volumes import moving
from blockattach.storage.db.volumes import unmanaging
from blockattach.storage.db.volumes import volume_images
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import images
from blockattach.tests.db import base
from blockattach.tests.fixtures import make

IMAGE = images.Image('an-image', 'active')
THERE = f"{make.POOL.partition('@')[0]}@other"
BEGINNINGS = {
    'upload': lambda database, volume_id: volume_images.start_upload(
        database, make.judged(volume_id), IMAGE, False, 60, None),
    'reimage': lambda database, volume_id: volume_images.start_reimage(
        database, make.judged(volume_id), IMAGE, False, 60, None),
    'unmanage': lambda database, volume_id: unmanaging.start(database, make.judged(volume_id), 60),
    'migrate': lambda database, volume_id: moving.migrate(
        database, make.judged(volume_id), THERE, False, 60),
}
"""Progress by verb of work that is the only record of some facts."""


@base.on_chosen_databases
class RepairTest(base.DatabaseTestCase):

    def test_repair_keeps_work_in_progress(self):
        for verb, begin in BEGINNINGS.items():
            with self.subTest(verb):
                volume = make.volume(self.database)
                begin(self.database, volume.id)
                before = (work.of_resource(self.database, 'volume', volume.id).claim,
                          volume_queries.get(self.database, volume.id).own_status)
                self.assertEqual(verb, before[0].verb)
                derived.volume_status(self.database, volume.id)
                self.assertEqual(before, (
                    work.of_resource(self.database, 'volume', volume.id).claim,
                    volume_queries.get(self.database, volume.id).own_status))
