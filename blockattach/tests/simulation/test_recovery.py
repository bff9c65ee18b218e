"""Work of a dead process, which its next instance finishes."""
from lab.simulation import base
from lab.simulation import clients
from lab.simulation import deployment

PLACE = 'volume.attachments.before_revoke'
ROWS = 40


class OnePairTest(base.ScenarioTestCase):
    """Detach of many attachments of one volume and one host at the same time."""

    CLOUD = {'control': 1}

    def test_all_are_ended_within_two_passes(self):
        volume = self.api.volume()
        made = [self.api.attach(volume, instance_uuid=clients.server(1000 + number))
                for number in range(ROWS)]
        self.cloud.kill('volume-1', at=PLACE)
        for attachment in made:
            self.cloud.beside(self.api.ask, 'DELETE', f'/attachments/{attachment}')
        self.cloud.until_at('volume-1', PLACE)
        self.cloud.until(lambda: set(self.api.statuses().values()) == {'detaching'})
        # The callers end with the API, so none of them repeats its request.
        self.cloud.kill('api-1')
        self.cloud.start('api-1')
        self.cloud.start('volume-1')
        self.cloud.pass_time(2 * deployment.RECONCILE_SECONDS)
        self.assertEqual({}, self.api.statuses())
