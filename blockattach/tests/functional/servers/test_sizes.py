"""External events notify guests of new volume sizes without delaying the request."""
from blockattach.tests.functional.servers import test_stuck


class SizesTest(test_stuck.StuckTestCase):

    def setUp(self):
        super().setUp()
        self.shown = []
        for name, host in self.hosts.items():
            host.resize = lambda server_id, volume_id, size_gb, name=name: self.shown.append(
                (name, server_id, volume_id, size_gb))
        self.first = self.create(self.root, host='host-a')
        self.second = self.create(self.root, host='host-b')

    def tell(self, status, *events):
        return [one['code'] for one in self.asked(
            status, 'POST', '/os-server-external-events', {'events': [
                {'name': 'volume-extended', 'server_uuid': server_id, 'tag': volume_id}
                for server_id, volume_id in events]})['events']]

    def asked_of_agents(self):
        return self.cloud.bus.sent.count('compute resize')

    def test_events_of_several_hosts_answered_before_guests_see_sizes(self):
        codes = self.tell(200, (self.first, self.root), (self.second, self.root))
        self.assertEqual(([200, 200], 0), (codes, self.asked_of_agents()))
        self.cloud.settle()
        self.assertEqual([('host-a', self.first, self.root, 1),
                          ('host-b', self.second, self.root, 1)], sorted(self.shown))

    def test_event_sent_many_times_shown_once(self):
        self.assertEqual([200] * 100, self.tell(200, *[(self.first, self.root)] * 100))
        self.cloud.settle()
        self.assertEqual(1, len(self.shown))

    def test_event_of_volume_of_no_server_has_its_code(self):
        self.assertEqual([404, 200], self.tell(
            207, (self.first, self.other), (self.first, self.root)))

    def test_host_that_is_down_not_asked(self):
        self.kill('host-a')
        self.assertEqual([200, 200], self.tell(200, (self.first, self.root),
                                               (self.second, self.root)))
        self.cloud.settle()
        self.assertEqual(['host-b'], [one[0] for one in self.shown])
        self.assertEqual(1, self.asked_of_agents())

    def test_host_that_is_not_reached_asked_once(self):
        self.attach(self.first, self.other)
        self.cloud.agents['host-a'].server.stop()
        self.tell(200, (self.first, self.root), (self.first, self.other))
        self.cloud.settle()
        self.assertEqual((1, []), (self.asked_of_agents(), self.shown))
