"""The same stories where attachments are asked for over the bus: `[block_storage] transport`."""
from blockattach.tests.functional.servers import test_interruptions
from blockattach.tests.functional.servers import test_servers


class OverTheBus:
    """Volumes are asked for over HTTP still."""

    TRANSPORT = 'bus'

    def setUp(self):
        super().setUp()
        self.addCleanup(self.assert_over_the_bus)

    def assert_over_the_bus(self):
        asked = [one for one in self.cloud.cutting.asked if '/attachments' in one]
        self.assertEqual([], asked)


class CreateTest(OverTheBus, test_servers.CreateTest):
    """Servers with volumes."""


class VolumesTest(OverTheBus, test_servers.VolumesTest):
    """Volumes come and go."""

    def test_nobody_listens(self):
        """What was begun is undone once block storage is there again."""
        one = self.volume()
        place = 'attachments', 'control-1'
        gone = self.cloud.bus.endpoints.pop(place)
        answer = self.attach(self.made, one, 503)
        self.assertIn('cannot reach block storage', answer['serviceUnavailable']['message'])
        self.cloud.bus.endpoints[place] = gone
        self.cloud.later()
        self.assertEqual({}, self.volumes(self.made))
        self.assertEqual([], self.attachments(one))
        self.attach(self.made, one)
        self.assertEqual({one: 'rw'}, self.volumes(self.made))


class MovesTest(OverTheBus, test_servers.MovesTest):
    """Servers move."""


class InterruptionTest(OverTheBus, test_interruptions.InterruptionTest):
    """The compute API dies behind each call."""
