"""Expiry of waiting attachments with the options of an operator, in a process of the service."""
import uuid

from blockattach.tests.fixtures import nova
from blockattach.tests.functional import base

SECONDS = 120
SERVER, ANOTHER = (base.instance(name) for name in ('server', 'another'))
WAITING = '[attachments]\nreserve_timeout = 1\ncomplete_timeout = 1\n'


class AbandonedTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.nova = nova.NovaStandIn()
        self.addCleanup(self.nova.close)

    def serve(self, settings):
        self.service = self.a_stack(settings=settings)
        self.api = base.Api(self.service.endpoint)

    def volume(self):
        _, made = self.api.ask('POST', '/volumes', {'volume': {'size': 1}})
        volume_id = made['volume']['id']
        self.assertEqual('available', base.settled(lambda: self.status(volume_id)))
        return volume_id

    def status(self, volume_id):
        return self.api.ask('GET', f'/volumes/{volume_id}')[1]['volume']['status']

    def attach(self, volume_id, server_id, **more):
        named = {} if server_id is None else {'instance_uuid': server_id}
        status, made = self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, **named, **more}})
        self.assertEqual(200, status, made)
        return made['attachment']['id']

    def until_gone(self, attachment_id):
        self.assertTrue(base.wait_for(
            lambda: self.api.ask('GET', f'/attachments/{attachment_id}')[0] == 404, SECONDS))

    def test_expired_attachment_kept_only_if_nova_knows_it(self):
        self.serve(WAITING + f'[nova]\ndetach_rule = off\nendpoint_override = {self.nova.url}\n')
        kept_on, volume_id, third = self.volume(), self.volume(), self.volume()
        self.nova.run(SERVER, 'web', **{'OS-EXT-STS:task_state': 'spawning'})
        kept = self.attach(kept_on, SERVER)
        self.nova.use(SERVER, kept_on, kept)
        self.nova.run(SERVER, 'web')
        self.until_gone(self.attach(volume_id, SERVER))
        self.until_gone(self.attach(third, ANOTHER, connector=base.connector('one')))
        # By now this attachment has waited for longer than the others.
        asked = f'/v2.1/servers/{SERVER}/os-volume_attachments/{kept_on}'
        self.assertTrue(base.wait_for(
            lambda: asked in [request.path for request in self.nova.requests], SECONDS))
        self.assertEqual(['reserved', 'available', 'available'],
                         [self.status(one) for one in (kept_on, volume_id, third)])
        found = {(one['event_id'], one['resource_uuid'])
                 for one in self.api.list('messages', '/messages')}
        self.assertEqual({('VOLUME_VOLUME_002_051', volume_id),
                          ('VOLUME_VOLUME_002_052', third)}, found)
        self.assertIn('Deleting expired attachment', self.service.log_text())
        self.nova.end(SERVER)
        self.until_gone(kept)

    def test_by_default_nothing_is_ended_or_asked(self):
        self.serve(f'[nova]\nendpoint_override = {self.nova.url}\n')
        attachment_id = self.attach(self.volume(), str(uuid.uuid4()))
        self.service.restart()
        self.assertEqual(200, self.api.ask('GET', f'/attachments/{attachment_id}')[0])
        self.assertEqual([], self.nova.requests)

    def test_a_nova_that_nobody_may_ask(self):
        """Missing credentials for Nova are logged, and attachments of servers do not expire."""
        self.serve(WAITING + f'[nova]\ndetach_rule = off\nauth_url = {self.nova.url}\n')
        self.assertIn('[nova] username is not set', self.service.log_text())
        kept = self.attach(self.volume(), SERVER)
        self.until_gone(self.attach(self.volume(), None))
        self.assertEqual(200, self.api.ask('GET', f'/attachments/{kept}')[0])
