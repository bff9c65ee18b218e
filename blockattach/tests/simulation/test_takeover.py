"""Scenario that the documentation shows."""
from lab.simulation import base


class TakeoverTest(base.ScenarioTestCase):

    CLOUD = {'clustered': True}
    DOWN = ('volume-2',)

    def test_the_other_member_goes_on_with_what_a_dead_one_had_begun(self):
        place = 'volume.attachments.after_grant'
        made = self.api.reserve(self.api.volume())
        self.cloud.kill('volume-1', at=place)
        asked = self.cloud.beside(self.api.connect, made)
        self.cloud.until_at('volume-1', place)
        self.cloud.start('volume-2')
        self.cloud.pass_time(30)
        asked.result()
        self.assertEqual('attaching', self.api.status(made))
