"""QoS specs: their rows, the limits read with a volume, and concurrent requests."""
import contextlib

import sqlalchemy as sa

from blockattach.storage import errors
from blockattach.storage.db.types import qos_specs
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import volume_queries
from blockattach.tests.db import base
from blockattach.tests.db import recording
from blockattach.tests.db import test_races
from blockattach.tests.fixtures import make

SPECS = {'total_iops_sec': '500', 'mine': None}
ROUNDS = 10
MANY = 8


@base.on_chosen_databases
class LifecycleTest(base.DatabaseTestCase):

    def test_qos_specs_read_as_written(self):
        made = make.qos(self.database, 'both', SPECS)
        self.assertEqual(('both', SPECS, None), (made.consumer, made.specs, made.updated_at))
        self.assertEqual(made, qos_specs.get(self.database, made.id))

    def test_update_keeps_omitted_specs(self):
        made = make.qos(self.database, 'both', SPECS)
        qos_specs.update(self.database, made.id, None, {'mine': 'x'})
        found = qos_specs.get(self.database, made.id)
        self.assertEqual(('both', {**SPECS, 'mine': 'x'}), (found.consumer, found.specs))
        self.assertIsNotNone(found.updated_at)

    def test_qos_specs_name_reusable_after_delete(self):
        made = make.qos(self.database)
        with self.assertRaises(errors.QosSpecsExist):
            qos_specs.create(self.database, made.name, 'both', {})
        qos_specs.delete(self.database, made.id)
        again = qos_specs.create(self.database, made.name, 'both', {})
        self.assertNotEqual(made.id, again.id)
        with self.database.reader() as connection:
            self.assertEqual(2, connection.execute(sa.text(
                'SELECT count(*) FROM qos_specs')).scalar_one())

    def test_volume_read_with_qos_limits_in_one_statement(self):
        kind = make.volume_type(self.database)
        plain = make.volume(self.database, kind=kind)
        with self.statements() as before:
            self.assertIsNone(volume_queries.get(self.database, plain.id).limits)
        made = make.qos(self.database, 'both', {'total_iops_sec_per_gb': '10'})
        qos_specs.associate(self.database, made.id, kind.id)
        large = make.volume(self.database, kind=kind, size_gb=4)
        with self.statements() as after:
            self.assertEqual({'total_iops_sec': 10},
                             volume_queries.get(self.database, plain.id).limits)
        self.assertEqual(len(before), len(after))
        self.assertEqual({'total_iops_sec': 40},
                         volume_queries.get(self.database, large.id).limits)
        qos_specs.update(self.database, made.id, 'back-end', {})
        self.assertIsNone(volume_queries.get(self.database, large.id).limits)

    @contextlib.contextmanager
    def statements(self):
        """Yield a list that collects the statements sent within the context."""
        sent = []

        def remember(connection, cursor, statement, values, context, many):
            sent.append(statement)

        with recording.listening(self.database, before_cursor_execute=remember):
            yield sent


@base.on_sqlite_and_servers_in_turn
class RaceTest(test_races.Case):
    """Concurrent requests, of which one succeeds and none leaves a partial change."""

    def test_concurrent_associations_of_type_succeed_once(self):
        for _ in range(ROUNDS):
            kind = make.volume_type(self.database)
            made = [make.qos(self.database) for _ in range(MANY)]
            _, refused = self.split(self.at_once(
                [self.associate(specs, kind) for specs in made]))
            self.assertEqual([errors.QosSpecsTaken] * (MANY - 1), refused)
            self.assertIn(volume_types.get(self.database, kind.id).qos_specs_id,
                          [specs.id for specs in made])

    def test_concurrent_delete_leaves_no_association(self):
        for _ in range(ROUNDS):
            made = make.qos(self.database)
            kinds = [make.volume_type(self.database) for _ in range(MANY - 1)]
            self.at_once([
                *(self.associate(made, kind) for kind in kinds),
                lambda database, made=made: qos_specs.delete(database, made.id, force=True)])
            self.assertEqual({None}, {volume_types.get(self.database, kind.id).qos_specs_id
                                      for kind in kinds})

    def test_concurrent_updates_keep_each_key(self):
        made = make.qos(self.database, specs={})
        outcomes = self.at_once([
            lambda database, key=f'key{number}': qos_specs.update(
                database, made.id, None, {key: key}) for number in range(MANY)])
        self.assertEqual([None] * MANY, outcomes)
        self.assertEqual(MANY, len(qos_specs.get(self.database, made.id).specs))

    def associate(self, specs, kind):
        return lambda database: qos_specs.associate(database, specs.id, kind.id)
