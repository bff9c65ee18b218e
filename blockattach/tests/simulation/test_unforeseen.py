"""Unforeseen error at each point of an attach."""
from lab.simulation import base
from lab.simulation import consumer
from lab.simulation import deployment

# Failpoints before the connection is recorded, and after it, when the row keeps the connection
# although the response is an error.
FAILING = (('api-1', 'control.attachments.after_reserve'),
           ('api-1', 'rpc.volume.connect.before_send'),
           ('volume-1', 'backend.target.grant.before'), ('volume-1', 'backend.target.grant.after'))
KNOWN_BY_THE_ROW = (('volume-1', 'db.attachments.move.after'),
                   ('volume-1', 'rpc.volume.connect.before_reply'))


class UnforeseenTest(base.ScenarioTestCase):

    CLOUD = {'control': 1}

    def attach(self, process, place):
        """Attach a volume with an error at a failpoint, and return the volume and the status."""
        volume = self.api.volume()
        self.cloud.fail(process, place, RuntimeError(place))
        return volume, self.api.ask('POST', '/attachments', consumer.wish(volume, 'a')).status

    def test_attach_failing_before_record_withdrawn(self):
        for process, place in FAILING:
            with self.subTest(place):
                volume, status = self.attach(process, place)
                self.assertLessEqual(500, status)
                self.cloud.pass_time(2 * deployment.BACKEND_SECONDS)
                self.assertEqual({}, self.api.statuses())
                self.api.detach(self.api.attach(volume))

    def test_attach_failing_after_record_succeeds(self):
        for process, place in KNOWN_BY_THE_ROW:
            with self.subTest(place):
                self.assertEqual(200, self.attach(process, place)[1])
