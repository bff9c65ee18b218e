"""A process of the compute API hangs longer than its lease; another one takes its act up, and then
the first one wakes up. Whatever it goes on with, the act has happened once or not at all.
"""
import re

import sqlalchemy as sa

from blockattach import context
from blockattach.tests.fixtures import bus
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.functional.servers import cloud
from blockattach.tests.functional.servers import test_interruptions

WRITES = re.compile('(UPDATE|INSERT INTO|DELETE FROM) (servers|block_devices|acts) ')


class LateTest(test_interruptions.InterruptionTest):
    """It hangs behind each request."""

    PART = exhaustive.Part(0, 3)
    SHIFT = 0.0

    def setUp(self):
        super().setUp()
        self.others = bus.Work()
        self.other_api = self.cloud.build_api(self.cloud.configuration(), self.others,
                                              'compute-api.other', cloud.Cutting())

    def hang(self):
        """Another process does what there is to do."""
        for _ in range(2):
            self.cloud.clock.advance(120)
            self.report(self.other_api)
            self.other_api.conductor.look()
            self.others.settle()

    def report(self, api):
        """Agents report to a process that does not hang."""
        for name in self.cloud.agents:
            api.conductor.report(context.admin_context(), name, 'fake', '1.1', {})

    def cut_off(self, prepare, begin, place):
        made = prepare()
        self.cloud.cutting.begin(None if place is None else place + self.SHIFT, self.hang)
        made = begin(made) or made
        self.cloud.settle()
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
    """It hangs ahead of each request, which it sends then all the same."""

    PART = exhaustive.Part(1, 3)
    SHIFT = -0.5


class AheadOfWritesTest(test_interruptions.InterruptionTest):
    """The process ends ahead of each thing that it writes down, too."""

    PART = exhaustive.Part(2, 3)

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
            # It has not begun, so the server is where it was.
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
                # What the end of its process does to a transaction.
                connected.connection.rollback()
                raise

    @staticmethod
    def forget(connected):
        connected.info.pop('writes', None)


class OverlapTest(cloud.ComputeTestCase):
    """The server has gone on to another act when the late process wakes up."""

    def test_a_late_migration_spares_the_next_one(self):
        shared = self.volume(multiattach=True)
        made = self.create(shared, host='host-a')
        others = bus.Work()
        other = self.cloud.build_api(self.cloud.configuration(), others, 'compute-api.other',
                                     cloud.Cutting())

        def hang():
            self.cloud.clock.advance(120)
            for name in self.cloud.agents:
                other.conductor.report(context.admin_context(), name, 'fake', '1.1', {})
            other.conductor.look()
            others.settle()
            self.assertEqual('ACTIVE', self.server(made)['status'])
            self.moved(other, made)
            others.step()

        self.cloud.cutting.begin(1, hang)
        self.act(made, 'os-migrateLive', {'host': None, 'block_migration': 'auto'})
        others.settle()
        self.cloud.later()
        self.assertEqual([(made, self.server(made)['OS-EXT-SRV-ATTR:host'], 'rw', 'attached')],
                         self.attachments(shared))

    def moved(self, other, made):
        kept, self.cloud.api = self.cloud.api, other
        self.asked(202, 'POST', f'/servers/{made}/action', {
            'os-migrateLive': {'host': None, 'block_migration': 'auto'}})
        self.cloud.api = kept

    def test_a_report_that_is_late_ends_no_server_that_came_back(self):
        made = self.create(host='host-a')
        others = bus.Work()
        other = self.cloud.build_api(self.cloud.configuration(), others, 'compute-api.other',
                                     cloud.Cutting())
        other.conductor.report(context.admin_context(), 'host-b', 'fake', '1.1',
                               {made: 'running'})
        self.act(made, 'os-migrateLive', {'host': 'host-b', 'block_migration': 'auto'})
        others.settle()
        self.assertEqual('host-b', self.server(made)['OS-EXT-SRV-ATTR:host'])
        self.assertIn(made, self.hosts['host-b'].servers())
