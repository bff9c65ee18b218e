"""Failpoints of a process of its own, armed from outside as a test of an installation does it."""
from blockattach.testing import stack
from blockattach.tests.functional import base

# Before the connection is recorded, and after it: then the row tells, whatever has become of the
# answer.
FAILING = ('control.attachments.after_reserve', 'rpc.volume.let_in.before_send',
           'backend.target.grant.before', 'backend.target.grant.after')
TOLD_BY_THE_ROW = ('db.attachments.move.after', 'rpc.volume.let_in.before_reply',
                   'rpc.volume.let_in.after_answer')


class FailpointsTest(base.StackTestCase):

    def armed(self, *texts):
        return self.a_stack(environment={'OS_FAILPOINTS__ARMED': ','.join(texts)})

    def attach(self, api, volume_id):
        return api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance('one'),
            'connector': base.connector('one')}})

    def test_a_process_that_is_killed_at_a_point(self):
        service = self.armed('control.attachments.after_reserve=kill')
        api = base.Api(service.endpoint)
        volume_id = self.a_volume(api)
        self.assertRaises(OSError, self.attach, api, volume_id)
        self.assertTrue(base.wait_for(lambda: not service.running()))

    def test_an_error_that_nobody_foresees_at_each_point_of_an_attach(self):
        for name in FAILING:
            with self.subTest(name):
                api = base.Api(self.armed(f'{name}=raise*1').endpoint)
                volume_id = self.a_volume(api)
                self.assertLessEqual(500, self.attach(api, volume_id)[0])
                self.assertEqual(200, base.wait_for(
                    lambda api=api, volume_id=volume_id:
                    (told := self.attach(api, volume_id)[0]) == 200 and told))

    def test_an_answer_that_is_lost(self):
        for name in TOLD_BY_THE_ROW:
            action = 'drop' if name.startswith('rpc.volume.let_in.after') else 'raise'
            with self.subTest(name):
                api = base.Api(self.armed(f'{name}={action}*1').endpoint)
                self.assertEqual(200, self.attach(api, self.a_volume(api))[0])

    def test_a_message_that_comes_twice(self):
        api = base.Api(self.armed('rpc.volume.let_in.before_send=duplicate').endpoint)
        self.assertEqual(200, self.attach(api, self.a_volume(api))[0])

    def test_one_that_cannot_be_understood(self):
        with self.assertRaisesRegex(stack.StackRefused, "cannot arm a failpoint by 'here=now'"):
            self.armed('here=now')
