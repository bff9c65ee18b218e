"""Leases of acts on servers and reports of agents, which follow the database clock."""
import datetime
import uuid

from blockattach.compute import lifecycle
from blockattach.compute import records
from blockattach.compute.store import models
from blockattach.compute.store import store
from blockattach.tests.db import base
from blockattach.tests.fixtures import clock

PAST, FUTURE = datetime.datetime(1999, 1, 1), datetime.datetime(2099, 1, 1)
CALLER = dict.fromkeys(('request_id', 'project_id', 'user_id'), 'x')
FLAVOR = records.Flavor('1', 'm1.tiny', 1, 256, 0)
LEASE_SECONDS = DOWN_SECONDS = 3600.0
OVER = 0.0


@base.on_sqlite_and_servers_in_turn
class ServerLeasesTest(base.DatabaseTestCase):

    MIGRATED = False

    def setUp(self):
        super().setUp()
        models.MIGRATIONS.upgrade(self.database.engine)
        self.past, self.future = (
            store.Store(self.database.engine, clock.ManualClock(when), DOWN_SECONDS)
            for when in (PAST, FUTURE))

    @staticmethod
    def draft(verb):
        return records.Act('', '', verb, {}, CALLER, lifecycle.VERBS[verb].finishes)

    def build(self, rows, lease_seconds):
        """Create a server and return the act that builds it."""
        server = records.Server(
            str(uuid.uuid4()), 'project', 'user', 'web', FLAVOR, '', None,
            lifecycle.VmState.BUILDING, 'spawning', PAST, PAST)
        [act] = rows.create([(server, ())], self.draft('build'), 'one', lease_seconds)
        return act

    def test_act_lease_expires_by_database_clock(self):
        for mine, other in ((self.past, self.future), (self.future, self.past)):
            act = self.build(mine, LEASE_SECONDS)
            self.assertEqual([], other.take_over('two', LEASE_SECONDS))
            mine.renew([act.lease], OVER)
            [taken] = other.take_over('two', LEASE_SECONDS)
            self.assertEqual((act.id, taken.generation), (taken.id, other.generation(taken)))
            self.assertIsNone(mine.generation(act))
            other.leave(taken)
            [again] = mine.take_over('three', LEASE_SECONDS)
            self.assertEqual(act.id, again.id)
            mine.end([again], None)

    def test_reporting_agent_up_by_database_clock(self):
        for rows in (self.past, self.future):
            for _ in range(2):
                rows.report('host', 'fake', '1.2')
            for reader in (self.past, self.future):
                self.assertEqual([('host', True)], [
                    (agent.host, agent.up) for agent in reader.agents()])

    def test_silent_agent_down(self):
        self.past.report('host', 'fake', '1.2')
        late = store.Store(self.database.engine, clock.ManualClock(PAST), -LEASE_SECONDS)
        self.assertEqual([False], [agent.up for agent in late.agents()])

    def test_take_over_increments_lease_generation(self):
        made = self.build(self.past, OVER)
        self.assertEqual((1, 1), (made.generation, self.past.generation(made)))
        [taken] = self.past.take_over('two', OVER)
        self.assertEqual((2, 2), (taken.generation, self.past.generation(taken)))
        self.assertIsNone(self.past.generation(made))
        self.past.end([taken], None, vm_state='active')
        begun = self.past.begin(made.server_id, self.draft('stop'), 'one', LEASE_SECONDS)
        self.assertEqual(3, begun.generation)

    def test_acts_of_one_server_share_lease(self):
        made = self.build(self.past, LEASE_SECONDS)
        self.past.end([made], None, vm_state='active')
        one, two = (self.past.begin(made.server_id, self.draft('attach'), owner, LEASE_SECONDS)
                    for owner in ('one', 'two'))
        self.assertEqual(one.generation, two.generation)
        self.past.renew([one.lease], OVER)
        [taken] = self.past.take_over('three', LEASE_SECONDS)
        self.assertEqual((one.id, one.generation + 1), (taken.id, taken.generation))
        self.assertEqual([None, taken.generation], [
            self.past.generation(act) for act in (one, two)])
