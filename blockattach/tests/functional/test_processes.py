"""Separate processes by configuration alone, as the guide says."""
from blockattach.tests.functional import base
from blockattach.tests.functional import processes


class ProcessesTest(processes.ProcessesTestCase):

    def test_the_story_by_configuration_alone(self):
        status, words = self.run_once('scheduler')
        self.assertEqual((1, True), (status, 'blockattach-manage db sync' in words), words)
        self.begin()
        volume_id = self.a_volume(self.api, volume_type='multiattach')
        made = [self.attached(volume_id, host) for host in ('one', 'two')]
        self.assertEqual('in-use', self.api.ask('GET', f'/volumes/{volume_id}')[1]['volume'][
            'status'])
        for attachment_id in made:
            self.assertEqual(200, self.api.ask('DELETE', f'/attachments/{attachment_id}')[0])
        self.assertEqual(202, self.api.ask('DELETE', f'/volumes/{volume_id}')[0])
        self.assertTrue(base.wait_for(
            lambda: self.api.ask('GET', f'/volumes/{volume_id}')[0] == 404))

    def attached(self, volume_id, host):
        status, made = self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': base.connector(host)}})
        self.assertEqual(200, status, made)
        attachment_id = made['attachment']['id']
        self.assertEqual(204, self.api.ask(
            'POST', f'/attachments/{attachment_id}/action', {'os-complete': {}})[0])
        return attachment_id
