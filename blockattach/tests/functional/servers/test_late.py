"""Compute API process that hangs longer than its lease and resumes after another took over.

Each action takes effect once or not at all.
"""
import contextlib
import functools
import re

import sqlalchemy as sa

from blockattach.compute import interface
from blockattach.platform import context
from blockattach.platform.rpc import contract
from blockattach.tests.fixtures import bus
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.functional.servers import cloud
from blockattach.tests.functional.servers import test_interruptions

VERSION = contract.version(interface.AgentInterface)
WRITES = re.compile('(UPDATE|INSERT INTO|DELETE FROM) (servers|block_devices|acts) ')


class TwoApis(cloud.ComputeTestCase):
    """Cloud with a second compute API that does not hang and queues its work in ``others``."""

    def setUp(self):
        super().setUp()
        self.others = bus.Work()
        self.other_api = self.cloud.build_api(self.cloud.configuration(), self.others,
                                              'compute-api.other', cloud.Cutting())


class LateTest(TwoApis, test_interruptions.InterruptionTest):
    """Process that hangs after each request."""

    PART = exhaustive.Part(0, 42)
    SHIFT = 0.0

    def hang(self):
        """Expire the lease, so that the other process takes the action over and finishes."""
        for _ in range(2):
            self.cloud.clock.advance(120)
            self.report(self.other_api)
            self.other_api.conductor.look()
            self.others.settle()

    def settle(self):
        self.cloud.settle()

    def report(self, api):
        """Send reports of the agents to the process that does not hang."""
        for name in self.cloud.agents:
            api.conductor.report(context.admin_context(), name, 'fake', VERSION, {})

    def cut_off(self, prepare, begin, place):
        made = prepare()
        self.cloud.cutting.begin(None if place is None else place + self.SHIFT, self.hang)
        made = begin(made) or made
        self.settle()
        asked = self.cloud.cutting.asked
        self.cloud.cutting.begin()
        for _ in range(2):
            self.cloud.later()
        for made in [one['id'] for one in self.asked(200, 'GET', '/servers')['servers']]:
            self.assert_consistent(made)
            self.clean(made)
        return asked

    def test_attach(self):
        def begin(made):
            self.ask('POST', f'/servers/{made}/os-volume_attachments', {
                'volumeAttachment': {'volumeId': self.other}})
        self.cut_everywhere(self.boot, begin)


class LaterTest(LateTest):
    """Process that hangs before each request and sends the request when it resumes."""

    PART = exhaustive.Part(14, 42)
    SHIFT = -0.5

    def test_unshelve(self):
        # The gate plays all places, too, because a late connect once gave an offloaded server a
        # host.
        self.PART = None
        super().test_unshelve()


class AheadOfWritesTest(test_interruptions.InterruptionTest):
    """Process that also ends before each write to its database."""

    PART = exhaustive.Part(28, 42)

    def setUp(self):
        super().setUp()
        for name, listener in (('before_cursor_execute', self.note), ('commit', self.ahead),
                               ('rollback', self.forget)):
            sa.event.listen(sa.Engine, name, listener)
            self.addCleanup(sa.event.remove, sa.Engine, name, listener)

    def evacuate(self, made):
        try:
            super().evacuate(made)
        except cloud.Death:
            # The evacuation has not begun, so the server is still on its host.
            self.cloud.agents[self.host], self.dead = self.dead, None
            raise

    @staticmethod
    def note(connected, _cursor, statement, *_more):
        if WRITES.match(statement):
            connected.info['writes'] = statement

    def ahead(self, connected):
        written = connected.info.pop('writes', None)
        if written is not None:
            try:
                self.cloud.cutting.behind(written)
            except cloud.Death:
                # The database rolls a transaction back when the process of its client ends.
                connected.connection.rollback()
                raise

    @staticmethod
    def forget(connected):
        connected.info.pop('writes', None)


class OverlapTest(TwoApis):
    """Late process that resumes when its server is in another action."""

    def take_over(self):
        """Expire the lease, so that the other process takes the action over and finishes."""
        self.cloud.clock.advance(120)
        for name in self.cloud.agents:
            self.report(name, {})
        self.other_api.conductor.look()
        self.others.settle()

    def report(self, host, servers):
        self.other_api.conductor.report(context.admin_context(), host, 'fake', VERSION, servers)

    @contextlib.contextmanager
    def by_the_other(self):
        """Send client requests to the other process."""
        kept, self.cloud.api = self.cloud.api, self.other_api
        yield
        self.cloud.api = kept

    def move(self, made):
        """Start a live migration by the other process."""
        with self.by_the_other():
            self.act(made, 'os-migrateLive', test_interruptions.MIGRATE, settle=False)

    def assert_runs_on(self, made, host):
        self.assertIsNone(self.cloud.cutting.at)
        self.cloud.later()
        shown = self.server(made)
        self.assertEqual(('ACTIVE', host), (shown['status'], shown['OS-EXT-SRV-ATTR:host']))
        self.assertEqual([host], [
            name for name in self.cloud.agents if made in self.hosts[name].servers()])

    def test_late_migration_leaves_next_migration_alone(self):
        shared = self.volume(multiattach=True)
        made = self.create(shared, host='host-a')

        def hang():
            self.take_over()
            self.assertEqual('ACTIVE', self.server(made)['status'])
            self.move(made)
            self.others.step()

        self.cloud.cutting.begin(1, hang)
        self.act(made, 'os-migrateLive', test_interruptions.MIGRATE)
        self.others.settle()
        self.cloud.later()
        self.assertEqual([(made, self.server(made)['OS-EXT-SRV-ATTR:host'], 'rw', 'attached')],
                         self.attachments(shared))

    def test_late_rebuild_keeps_server_that_moved_back(self):
        """Another process finished the rebuild and moved the server away and back."""
        made = self.create(self.volume(multiattach=True), host='host-a')

        def hang():
            self.take_over()
            for _ in range(2):
                self.move(made)
                self.others.settle()

        self.cloud.cutting.begin(-0.5, hang)
        self.act(made, 'rebuild', {'imageRef': ''})
        self.assert_runs_on(made, 'host-a')

    def test_late_build_of_several_leaves_no_guest(self):
        """Another process undoes the build before the host is asked to spawn the servers."""
        self.cloud.cutting.begin(-0.5, self.take_over)
        self.create(host='host-a', max_count=3)
        self.assertIsNone(self.cloud.cutting.at)
        self.assertEqual(['ERROR'] * 3, [
            one['status'] for one in self.asked(200, 'GET', '/servers/detail')['servers']])
        self.assertEqual({}, self.hosts['host-a'].servers())

    def test_late_report_keeps_server_that_moved_to_host(self):
        made = self.create(host='host-a')
        self.report('host-b', {made: 'running'})
        self.act(made, 'os-migrateLive', {'host': 'host-b', 'block_migration': 'auto'})
        self.others.settle()
        self.assert_runs_on(made, 'host-b')

    def test_late_report_keeps_server_that_moves_to_host(self):
        """The server arrives after the report was compared with the database."""
        made = self.create(host='host-a')

        def hang():
            self.act(made, 'os-migrateLive', {'host': 'host-b', 'block_migration': 'auto'})

        self.cloud.cutting.begin(-0.5, hang)
        self.report('host-b', {made: 'running'})
        self.others.settle()
        self.assert_runs_on(made, 'host-b')

    def test_action_of_live_process_not_taken_over(self):
        def look():
            self.assertEqual(0, self.other_api.conductor.look())

        self.cloud.cutting.begin(2, look)
        made = self.create(self.volume())
        self.assertIsNone(self.cloud.cutting.at)
        self.assertEqual('ACTIVE', self.server(made)['status'])

    def test_delete_during_attach_leaves_no_attachment(self):
        """The places start at 1 because the first request only reads the volume."""
        for place in range(1, 5):
            with self.subTest(place):
                volume = self.volume()
                made = self.create(host='host-a')

                def delete(made=made):
                    with self.by_the_other():
                        self.asked(204, 'DELETE', f'/servers/{made}')
                    self.others.settle()

                self.cloud.cutting.begin(place - 0.5, delete)
                self.attach(made, volume)
                self.assertIsNone(self.cloud.cutting.at)
                self.cloud.later()
                self.asked(404, 'GET', f'/servers/{made}')
                self.assertEqual([], self.attachments(volume))
                self.assertEqual({}, self.hosts['host-a'].servers())

    def test_concurrent_attachments_of_one_server_succeed(self):
        """The second attach runs completely before one of the requests of the first."""
        for place in range(5):
            with self.subTest(place):
                one, two = self.volume(), self.volume()
                made = self.create(host='host-a')
                self.cloud.cutting.begin(place - 0.5, functools.partial(self.attach, made, two))
                self.attach(made, one)
                self.assertIsNone(self.cloud.cutting.at)
                self.assertEqual({one: 'rw', two: 'rw'}, self.volumes(made))
                self.assertEqual({one, two}, set(self.hosts['host-a'].disks(made)))

    def test_attach_continues_while_other_attach_taken_over(self):
        """This attach waits before each of its requests while the other one is undone."""
        for place in range(1, 5):
            with self.subTest(place):
                one, two = self.volume(), self.volume()
                made = self.create(host='host-a')

                def hang(made=made, two=two):
                    with self.by_the_other():
                        self.attach(made, two, settle=False)
                    self.cloud.clock.advance(120)
                    self.cloud.conductor.renew()
                    for name in self.cloud.agents:
                        self.cloud.conductor.report(
                            context.admin_context(), name, 'fake', VERSION, {})
                    self.assertEqual(1, self.cloud.conductor.look())
                    self.cloud.settle()

                self.cloud.cutting.begin(place - 0.5, hang)
                self.attach(made, one)
                self.assertIsNone(self.cloud.cutting.at)
                self.assertEqual({one: 'rw'}, self.volumes(made))
                self.assertEqual([one], list(self.hosts['host-a'].disks(made)))
                self.assertEqual([], self.attachments(two))
                self.others.settle()

    def test_agent_without_leases_gets_plain_calls(self):
        """An agent before 1.2 receives calls without the server lease."""
        reporter = self.cloud.agents['host-a'].reporter
        reporter._version = '1.1'
        reporter.report()
        self.cloud.settle()
        made, volume = self.create(host='host-a'), self.volume()
        self.cloud.bus.sent.clear()
        self.attach(made, volume)
        self.act(made, 'reboot', {'type': 'SOFT'})
        self.asked(204, 'DELETE', f'/servers/{made}')
        self.cloud.settle()
        self.asked(404, 'GET', f'/servers/{made}')
        self.assertEqual(['compute connector', 'compute plug', 'compute reboot',
                          'compute destroy'], self.cloud.bus.sent)
