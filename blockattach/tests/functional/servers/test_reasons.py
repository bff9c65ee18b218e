"""Host names in reasons of failures, which are hidden from members."""
from blockattach.compute import errors
from blockattach.tests.functional.servers import cloud

MEMBER = 'member,reader'
TO_THE_PROJECT = {'os_compute_api:os-instance-actions:events:details': 'role:reader'}
NAMING = 'host-a: host-ab at tcp:192.0.2.7:49152 and [2001:db8::7]:1 has no host of 1.2.3'
HIDDEN = '***: *** at tcp:***:49152 and ***:1 has no host of 1.2.3'


class ReasonsTest(cloud.ComputeTestCase):

    HOSTS = ('host-a', 'host-ab')
    OLD = ('host-a', 'host-ab')

    def refuse(self, _guest):
        raise errors.HostRefused(reason=NAMING)

    def test_server_fault_hides_hosts_from_member(self):
        self.hosts['host-a'].spawn = self.refuse
        made = self.create(self.volume())
        for roles, reason in (('admin', NAMING), (MEMBER, HIDDEN)):
            for path in (f'/servers/{made}', '/servers/detail'):
                found = self.asked(200, 'GET', path, roles=roles)
                [shown] = [found['server']] if 'server' in found else found['servers']
                self.assertEqual(reason, shown['fault']['message'])
            self.assertEqual(roles == 'admin', 'host-a' in str(found))

    def test_action_details_hide_hosts_from_member(self):
        """The policy allows the members of the project to see the details."""
        self.cloud.rules = TO_THE_PROJECT
        self.cloud.restart_api()
        self.hosts['host-a'].spawn = self.refuse
        made = self.create(self.volume())
        path = f'/servers/{made}/os-instance-actions'
        [action] = self.asked(200, 'GET', path)['instanceActions']
        for roles, reason in (('admin,reader', NAMING), (MEMBER, HIDDEN)):
            found = self.asked(200, 'GET', f'{path}/{action["request_id"]}', roles=roles)
            [event] = found['instanceAction']['events']
            self.assertEqual(reason, event['details'])

    def test_old_agent_error_hides_host_from_member(self):
        made = self.create(self.volume())
        for roles, host in (('admin,member', 'host-a'), (MEMBER, '***')):
            for path, body in (
                    (f'/servers/{made}/os-volume_attachments', {'volumeAttachment': {
                        'volumeId': self.volume(), 'attach_mode': 'ro'}}),
                    ('/servers', {'server': {
                        'name': 'web', 'imageRef': 'image', 'flavorRef': '1',
                        'networks': 'none', 'block_device_mapping_v2': [{
                            'uuid': self.volume(), 'source_type': 'volume',
                            'destination_type': 'volume', 'attach_mode': 'ro'}]}})):
                answer = self.asked(409, 'POST', path, body, version=cloud.MODES, roles=roles)
                self.assertIn(f'the agent on host {host} supports version 1.0', str(answer))
