"""Notifications of a running service."""
import re

from blockattach.tests.functional import base
from blockattach.tests.functional.test_attachment_outcomes import ATTACHED
from blockattach.tests.functional.test_attachment_outcomes import DETACHED


class ServiceTest(base.StackTestCase):
    """Each process emits the notifications of its own actions."""

    SETTINGS = '[oslo_messaging_notifications]\ndriver = log\n'

    def test_a_lifecycle(self):
        service = self.a_stack(settings=self.SETTINGS)
        api = base.Api(service.endpoint)
        volume_id = self.a_volume(api)
        status, made = api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance('a'),
            'connector': base.connector('a')}})
        self.assertEqual(200, status, made)
        attachment = f'/attachments/{made["attachment"]["id"]}'
        self.assertEqual(204, api.ask('POST', f'{attachment}/action', {'os-complete': {}})[0])
        self.assertEqual(200, api.ask('DELETE', attachment)[0])
        # The output of the process repeats the lines of the log.
        sent = dict.fromkeys(re.findall(
            r'"message_id": "([^"]+)".*"event_type": "volume\.([a-z.]+)"', service.log_text()))
        self.assertEqual(ATTACHED + DETACHED, [word for _, word in sent])
        self.assertNotIn('auth_password', service.log_text())
