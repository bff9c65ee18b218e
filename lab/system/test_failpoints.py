"""Failpoints of a service process, armed by an environment variable."""
from blockattach.testing import stack
from blockattach.tests.functional import base


class FailpointsTest(base.StackTestCase):

    def armed(self, text):
        return self.a_stack(environment={'OS_FAILPOINTS__ARMED': text})

    def test_a_process_that_is_killed_at_a_point(self):
        service = self.armed('control.attachments.after_reserve=kill')
        api = base.Api(service.endpoint)
        volume_id = self.a_volume(api)
        with self.assertRaises(OSError):
            api.ask('POST', '/attachments', {'attachment': {
                'volume_uuid': volume_id, 'instance_uuid': base.instance('one'),
                'connector': base.connector('one')}})
        self.assertTrue(base.wait_for(lambda: not service.running()))

    def test_invalid_armed_failpoint_rejected(self):
        with self.assertRaisesRegex(stack.StackRefused, "cannot arm a failpoint by 'here=now'"):
            self.armed('here=now')
