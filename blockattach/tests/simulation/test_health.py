"""Responses of an API to ``/healthcheck`` as time passes."""
import webob

from lab.simulation import base
from lab.simulation import deployment

LOOK_SECONDS = 5
HEALTHY = ['database: OK', 'bus: OK', 'backends: OK']


class HealthTest(base.ScenarioTestCase):

    CLOUD = {'control': 1}

    def reported(self):
        """Return the reasons that the API reports, and check the status against them."""
        answer = webob.Request.blank('/healthcheck', accept='application/json').get_response(
            self.cloud.parts['api-1'].serving)
        reasons = answer.json['reasons']
        self.assertEqual(200 if reasons == HEALTHY else 503, answer.status_int, reasons)
        return reasons

    def watch(self):
        """Start the health monitor of the API, and wait until the API is healthy."""
        self.cloud.parts['api-1'].base.monitor.start()
        self.cloud.until(lambda: self.reported() == HEALTHY)

    def test_every_backend_has_been_silent_for_too_long(self):
        self.watch()
        self.cloud.pause('volume-1')
        self.cloud.pass_time(deployment.DOWN_SECONDS - deployment.REPORT_SECONDS - 1)
        self.assertEqual(HEALTHY, self.reported())
        self.cloud.pass_time(deployment.REPORT_SECONDS + LOOK_SECONDS + 2)
        self.assertEqual([*HEALTHY[:2], 'backends: no backend is up: '
                          + self.cloud.deployed.address], self.reported())
        self.cloud.resume('volume-1')
        self.cloud.pass_time(deployment.REPORT_SECONDS + LOOK_SECONDS)
        self.assertEqual(HEALTHY, self.reported())

    def test_an_api_without_its_database(self):
        self.watch()
        self.cloud.partition('api-1', bus=False)
        self.cloud.pass_time(LOOK_SECONDS + 1)
        self.assertEqual('database: cannot reach the database', self.reported()[0])
        self.cloud.heal('api-1')
        self.cloud.pass_time(LOOK_SECONDS + 1)
        self.assertEqual(HEALTHY, self.reported())

    def test_an_api_that_has_stood_still_has_doubts_until_it_has_looked(self):
        self.watch()
        for looks, doubts in ((1.5, False), (4, True)):
            self.cloud.pause('api-1')
            self.cloud.pass_time(looks * LOOK_SECONDS)
            self.cloud.resume('api-1')
            self.assertEqual([doubts] * 3, ['has not answered for ' in reason
                                            for reason in self.reported()])
            self.cloud.pass_time(1)
            self.assertEqual(HEALTHY, self.reported())
