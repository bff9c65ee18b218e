"""Facts of a placement: hints, the volumes they name, counts and QoS specs."""
from blockattach.storage import errors
from blockattach.storage.db.types import qos_specs
from blockattach.storage.db.volumes import placing_facts
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.tests.db import base
from blockattach.tests.fixtures import make


@base.on_sqlite_and_servers_in_turn
class PlacingFactsTest(base.DatabaseTestCase):

    def test_placing_facts_of_volume(self):
        near = make.volume(self.database).id
        kind = make.volume_type(self.database)
        qos_specs.associate(self.database, make.qos(self.database).id, kind.id)
        hints = {'same_host': near, 'query': '["=", 1, 1]'}
        made = volumes.create(self.database, volumes.Draft(
            make.PROJECT, make.USER, 'web', None, 3, kind, make.ZONE, {}, hints), 60)
        pool = volume_queries.get(self.database, near).pool
        found = placing_facts.read(self.database, made.id, count=True)
        self.assertEqual(hints, found.hints)
        self.assertEqual({near: pool}, found.placed)
        self.assertEqual({pool: 1}, found.volumes)
        self.assertEqual({'total_iops_sec': '500'}, found.qos)
        self.assertEqual(('web', kind.id, 'creating'), tuple(
            found.volume[name] for name in ('display_name', 'volume_type_id', 'status')))
        self.assertEqual({}, placing_facts.read(self.database, made.id, count=False).volumes)

    def test_placing_facts_of_absent_volume_not_found(self):
        with self.assertRaises(errors.VolumeNotFound):
            placing_facts.read(self.database, 'nobody', count=False)
