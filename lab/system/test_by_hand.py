"""Manual changes of a real target are reverted, without an effect on other hosts.

The documented limit of 10 seconds follows from the configuration (``unit/conf/test_volume.py``).
The tests do not measure durations, as the machine may be busy.
"""
import os
import signal

from blockattach.storage.drivers.targets import tgtd
from blockattach.tests.functional import base
from lab.system import by_hand

SECONDS = 120
STEADY = ('steady-1', 'steady-2')


class ByHandTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.outside_program(tgtd.program(), 'tgtd')
        self.site = by_hand.Site(self, self.a_stack('file'))
        self.steady = [self.site.session(host) for host in STEADY]
        self.volume_id, _ = self.site.attach('moved')
        self.before, self.sessions = self.site.granted(), self.site.sessions()

    def until(self, condition, message=''):
        self.assertTrue(base.wait_for(condition, SECONDS), message)

    def repaired(self, kind):
        """Return the number of repairs of a kind that the service reports."""
        reported = self.site.reconciled()
        return 0 if reported is None else reported['repaired'][kind]

    def assert_undisturbed(self):
        self.assertEqual(self.sessions, self.site.sessions())
        for session in filter(None, self.steady):
            self.assertTrue(session.read(0, 4096, 1))

    def test_a_grant_that_was_added(self):
        with self.site.unseen():
            self.site.grant_by_hand(self.volume_id)
            self.assertNotEqual(self.before, self.site.granted())
        self.until(lambda: self.site.granted() == self.before)
        self.until(lambda: self.repaired('grant') == 1)
        self.assertEqual('grant', self.site.reconciled()['last'])
        self.assertIsNotNone(self.site.reconciled()['last_at'])
        self.assert_undisturbed()

    def test_a_grant_that_was_taken_away(self):
        with self.site.unseen():
            self.site.target.revoke(self.volume_id, base.connector('moved')['initiator'])
            self.assertNotEqual(self.before, self.site.granted())
        self.until(lambda: self.site.granted() == self.before)
        self.until(lambda: self.repaired('grant') == 1)
        self.assert_undisturbed()

    def test_export_without_attachment_removed(self):
        unused, gone = self.a_volume(self.site.api), base.instance('gone')
        self.site.offer_by_hand(unused)
        self.until(lambda: unused not in self.site.exported())
        self.site.offer_by_hand(gone)
        self.until(lambda: gone not in self.site.exported())
        self.until(lambda: (self.repaired('unused_export'),
                            self.repaired('stray_export')) == (1, 1))
        self.assertEqual(self.before, self.site.granted())
        self.assert_undisturbed()

    def test_a_target_that_stops(self):
        """A killed target is started again. Its hosts log in again with the old connection data.
        """
        pid = self.site.tgtd.client().pid()
        os.kill(pid, signal.SIGKILL)
        self.until(lambda: self.site.tgtd.running() and self.site.tgtd.client().pid() != pid)
        self.until(lambda: self.site.granted() == self.before)
        for session in filter(None, self.steady):
            self.assertTrue(session.read(0, 4096, 1))
        if all(self.steady):
            self.assertEqual({name[1] for name in self.sessions},
                             {name[1] for name in self.site.sessions()})
