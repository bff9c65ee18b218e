"""Servers that agents report although they must not run on that host."""
from blockattach.tests.functional.servers import test_stuck


class StraysTest(test_stuck.StuckTestCase):

    def setUp(self):
        super().setUp()
        self.ended = []
        self.server_id = self.create(self.root, host='host-a')
        self.kill('host-a')
        self.act(self.server_id, 'evacuate', {'host': None}, 200)
        self.cloud.agents['host-a'] = self.dead
        self.dead.server.start()
        self.host = self.hosts['host-a']
        destroy = self.host.destroy
        self.host.destroy = lambda server_id: (self.ended.append(server_id), destroy(server_id))

    def test_stray_reported_again_ended_once(self):
        for _ in range(3):
            self.dead.reporter.report()
        self.cloud.settle()
        self.assertEqual([self.server_id], self.ended)
        self.assertEqual({}, self.host.servers())

    def test_stray_whose_end_failed_ended_by_next_report(self):
        self.host.failing.append('destroy')
        for _ in range(2):
            self.dead.reporter.report()
            self.cloud.settle()
        self.assertEqual(2, len(self.ended))
        self.assertEqual({}, self.host.servers())

    def test_stray_reported_while_it_is_destroyed_not_ended_again(self):
        destroy = self.host.destroy

        def report_meanwhile(server_id):
            self.dead.reporter.report()
            destroy(server_id)

        self.host.destroy = report_meanwhile
        self.dead.reporter.report()
        self.cloud.settle()
        self.assertEqual([self.server_id], self.ended)
