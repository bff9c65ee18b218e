"""Servers with volumes under a real Keystone.

The compute API uses the tokens of users, and its own account after a token has been lost.
"""
import json
import os
import unittest

import requests
from openstack import exceptions

from blockattach.tests.fixtures import keystone
from blockattach.tests.fixtures import rabbit
from blockattach.tests.fixtures import servers
from blockattach.tests.functional import base
from blockattach.tests.functional import commands
from lab.system import clouds
from lab.system import consumers

STORAGE = 'storage-1'
MAPPED = {'source_type': 'volume', 'destination_type': 'volume', 'boot_index': 0}


class ServersTestCase(clouds.CloudTestCase):
    """Block storage and compute API. The latter is the Nova of block storage.

    Block storage asks it for the attachments of servers, and notifies it of extended volumes.
    ``TRANSPORT`` is the option for attachment requests.
    """

    TRANSPORT = 'http'
    broker = None

    @classmethod
    def setUpClass(cls):
        cls.port = servers.free_port()
        super().setUpClass()
        storage = cls.cloud('admin', 'admin').block_storage
        storage.create_type(name='shared', extra_specs={'multiattach': '<is> True'})
        cls.passwords['compute'] = cls.keystone.person('compute', 'service', 'service', 'admin')
        cls.keystone.service('nova', 'compute', f'http://{servers.LOOPBACK}:{cls.port}/v2.1')
        cls.account = cls.cloud('compute', 'service').current_user_id

    @classmethod
    def settings(cls):
        return (super().settings()
                + f'[nova]\nendpoint_override = http://{servers.LOOPBACK}:{cls.port}/v2.1\n'
                f'auth_url = {cls.keystone.url}\nusername = nova\n'
                f'password = {cls.passwords["nova"]}\n')

    def setUp(self):
        super().setUp()
        self.outside_program(rabbit.why_missing() is None, 'RabbitMQ')
        self.consumer = consumers.Consumer(self.port, (
            '[api]\nauth_strategy = keystone\n'
            + self.keystone.authtoken('compute', self.passwords['compute'], 'service')
            + f'[block_storage]\nauth_url = {self.keystone.url}\n'
            f'region_name = {keystone.REGION}\nusername = compute\n'
            f'password = {self.passwords["compute"]}\ntransport = {self.TRANSPORT}\n'),
            broker=self.broker)
        self.addCleanup(lambda: self.assertEqual({}, self.consumer.close()))
        self.consumer.start(consumers.API, consumers.AGENT)
        self.ann, self.eve = self.cloud('ann', 'shop'), self.cloud('eve', 'elsewhere')
        self.admin = self.cloud('admin', 'admin')
        self.secrets = [*self.passwords.values()]
        self.addCleanup(self.assert_nothing_is_said)
        self.assertTrue(base.wait_for(lambda: {one.state for one in self.admin.compute.services()
                                               } == {'up'}, clouds.SECONDS))

    def assert_nothing_is_said(self):
        """Check that the logs contain no password and no token."""
        self.secrets += [one.auth_token for one in (self.ann, self.eve, self.admin)]
        said = self.consumer.text() + self.stack.log_text()
        self.assertNotIn('Traceback', said)
        for secret in self.secrets:
            self.assertNotIn(secret, said)

    def volume(self, person, kind=None):
        made = person.block_storage.create_volume(size=1, volume_type=kind)
        person.block_storage.wait_for_status(made, 'available', wait=clouds.SECONDS)
        return made.id

    def boot(self, person, *volumes, wait=True):
        """Create a server with volumes, each a mapping with an id and optionally a mode."""
        answer = person.compute.post('/servers', headers=consumers.MODES, json={'server': {
            'name': 'web', 'flavorRef': '1', 'imageRef': '', 'networks': 'none',
            'block_device_mapping_v2': [{**MAPPED, **one} for one in volumes]}})
        exceptions.raise_from_response(answer)
        made = person.compute.get_server(answer.json()['server']['id'])
        return person.compute.wait_for_server(made, wait=clouds.SECONDS) if wait else made

    def attachments(self, volume_id):
        """Return server, mode and status of the attachments of a volume, by attachment id."""
        answer = self.admin.block_storage.get(
            '/attachments/detail', params={'volume_id': volume_id, 'all_tenants': '1'},
            headers={'OpenStack-API-Version': 'volume 3.71, blockattach 1.4'})
        found = answer.json()['attachments']
        self.secrets += [one['connection_info']['auth_password'] for one in found
                         if 'auth_password' in one.get('connection_info', {})]
        return {one['id']: (one['instance'], one['mode'], one['status']) for one in found}

    def acted(self, attachment_id):
        """Return event and user of each entry in the history of an attachment."""
        answer = self.admin.block_storage.get(
            f'/attachments/{attachment_id}/history',
            headers={'OpenStack-API-Version': 'volume 3.71, blockattach 1.4'})
        return [(one['event'], one['user_id']) for one in answer.json()['history']]

    def assert_members_share(self):
        """Share a volume between two servers of a member, who must be the user in the history."""
        shared = self.volume(self.ann, 'shared')
        made = [self.boot(self.ann, {'uuid': shared, **more})
                for more in ({'attach_mode': 'ro'}, {})]
        held = self.attachments(shared)
        self.assertEqual({(made[0].id, 'ro', 'attached'), (made[1].id, 'rw', 'attached')},
                         set(held.values()))
        for one in held:
            self.assertEqual({self.ann.current_user_id}, {who for _, who in self.acted(one)})
        return made, shared

    def assert_listed(self, made):
        """Check that the member and the command line list these servers."""
        self.assertEqual({one.id for one in made},
                         {one.id for one in self.ann.compute.servers()})
        done = commands.run('openstack', ['server', 'list', '-f', 'json'], {
            'OS_AUTH_URL': self.keystone.url, 'OS_USERNAME': 'ann',
            'OS_PASSWORD': self.passwords['ann'], 'OS_PROJECT_NAME': 'shop',
            'OS_USER_DOMAIN_ID': keystone.DOMAIN, 'OS_PROJECT_DOMAIN_ID': keystone.DOMAIN,
            'OS_IDENTITY_API_VERSION': '3', 'OS_REGION_NAME': keystone.REGION})
        self.assertEqual(0, done.status, done.errors)
        self.assertEqual({(one.id, 'ACTIVE') for one in made},
                         {(row['ID'], row['Status']) for row in json.loads(done.output)})

    def assert_hidden(self, server_id, shared):
        """Check that a member of another project can use neither the server nor the volume."""
        compute = self.eve.compute
        self.assertEqual([], list(compute.servers()))
        with self.assertRaises(exceptions.NotFoundException):
            compute.get_server(server_id)
        with self.assertRaises(exceptions.NotFoundException):
            compute.delete_server(server_id, ignore_missing=False)
        with self.assertRaises(exceptions.BadRequestException):
            self.boot(self.eve, {'uuid': shared})
        hers = self.boot(self.eve, {'uuid': self.volume(self.eve)})
        with self.assertRaises(exceptions.NotFoundException):
            compute.create_volume_attachment(hers, shared)
        self.assertEqual(2, len(self.attachments(shared)))


class ServersTest(ServersTestCase):

    def test_members_share_a_volume_and_others_see_nothing(self):
        made, shared = self.assert_members_share()
        self.assert_listed(made)
        self.assert_hidden(made[0].id, shared)

    def test_a_server_lets_go_of_a_volume_in_the_compute_api_only(self):
        data = self.volume(self.ann)
        made = self.boot(self.ann, {'uuid': self.volume(self.ann)})
        self.ann.compute.create_volume_attachment(made, data)
        self.assertTrue(base.wait_for(lambda: 'attached' in str(self.attachments(data))))
        [held] = self.attachments(data)
        with self.assertRaisesRegex(exceptions.ConflictException, 'ConflictNovaUsingAttachment'):
            self.ann.block_storage.delete_attachment(held)
        self.ann.compute.delete_volume_attachment(made, data, ignore_missing=False)
        self.assertTrue(base.wait_for(lambda: not self.attachments(data), clouds.SECONDS))
        self.assertEqual({self.ann.current_user_id}, {who for _, who in self.acted(held)})

    def test_the_account_goes_on_with_what_was_cut_off(self):
        """After a crash of the compute API, its account undoes an attach and completes a delete.
        """
        data, root = self.volume(self.ann), self.volume(self.ann)
        stays, goes = (self.boot(self.ann, {'uuid': one}) for one in (
            self.volume(self.ann), root))
        [rooted] = self.attachments(root)
        self.consumer.pause(consumers.AGENT)
        self.ann.compute.create_volume_attachment(stays, data)
        [held] = self.attachments(data)
        self.ann.compute.delete_server(goes)
        self.consumer.kill(consumers.API)
        self.consumer.resume(consumers.AGENT)
        self.consumer.start(consumers.API)
        self.assertTrue(base.wait_for(lambda: not self.attachments(data), clouds.SECONDS))
        self.ann.compute.wait_for_delete(goes, wait=clouds.SECONDS)
        self.assertEqual({}, self.attachments(root))
        for one in (held, rooted):
            acted = self.acted(one)
            self.assertEqual(self.ann.current_user_id, acted[0][1])
            self.assertEqual(self.account, acted[-1][1])
        self.assertEqual([stays.id], [one.id for one in self.ann.compute.servers()])
        self.assertEqual(1, len(list(self.ann.compute.volume_attachments(stays))))

    def say_extended(self, token, service_token=None, **event):
        """Send an external event, and return status and body."""
        headers = {'X-Auth-Token': token, 'OpenStack-API-Version': 'compute 2.51'}
        if service_token:
            headers['X-Service-Token'] = service_token
        answer = requests.post(f'{self.consumer.endpoint}/os-server-external-events', json={
            'events': [{'name': 'volume-extended', **event}]}, headers=headers,
            timeout=clouds.SECONDS)
        return answer.status_code, answer.json()

    def test_a_guest_is_shown_that_a_volume_has_grown(self):
        """A volume-extended event of block storage reaches the host once. Users may not send it.
        """
        data, made = self.volume(self.ann), self.boot(self.ann, {'uuid': self.volume(self.ann)})
        self.ann.compute.create_volume_attachment(made, data)
        self.assertTrue(base.wait_for(lambda: 'attached' in str(self.attachments(data))))
        event = {'server_uuid': made.id, 'tag': data}
        service = self.cloud('nova', 'service').auth_token
        self.secrets.append(service)
        self.assertEqual(403, self.say_extended(self.ann.auth_token, **event)[0])
        self.assertEqual(0, self.shown_sizes(data))
        answer = self.ann.block_storage.post(
            f'/volumes/{data}/action', json={'os-extend': {'new_size': 2}}, microversion='3.42')
        exceptions.raise_from_response(answer)
        self.assertTrue(base.wait_for(lambda: self.shown_sizes(data) == 1, clouds.SECONDS))
        self.assertEqual(2, self.ann.block_storage.get_volume(data).size)
        for number, tokens in enumerate(((service, None), (self.ann.auth_token, service)), 2):
            status, answer = self.say_extended(*tokens, **event)
            self.assertEqual((200, 'completed'), (status, answer['events'][0]['status']))
            self.assertTrue(base.wait_for(
                lambda expected=number: self.shown_sizes(data) == expected, clouds.SECONDS))
        status, answer = self.say_extended(service, **{**event, 'tag': made.id})
        self.assertEqual((207, 404), (status, answer['events'][0]['code']))

    def shown_sizes(self, volume_id):
        """Return the number of times that the agent has resized a volume in a guest."""
        return sum('Server operation completed on host' in line and 'resize' in line
                   and volume_id in line for line in self.consumer.text().splitlines())


class OverTheBusTest(ServersTestCase):
    """Attachment requests over the message bus, on behalf of users of Keystone."""

    TRANSPORT = 'bus'

    @classmethod
    def setUpClass(cls):
        missing = rabbit.why_missing()
        if missing is not None and os.environ.get('CI') != 'true':
            raise unittest.SkipTest(missing)
        cls.broker = rabbit.RabbitFixture()
        cls.addClassCleanup(cls.broker.close)
        for topic, host in (('attachments', STORAGE), ('scheduler', STORAGE),
                            ('volume', f'{STORAGE}@fake'),
                            ('process', f'cinder-volume.{STORAGE}'),
                            ('process', f'cinder-scheduler.{STORAGE}')):
            cls.broker.serves(topic, host)
        super().setUpClass()

    @classmethod
    def settings(cls):
        return super().settings() + f'[service]\nhost = {STORAGE}\n' + ''.join(
            f'[{group}]\n{name} = {value}\n'
            for (group, name), value in cls.broker.options().items())

    def test_members_share_a_volume_and_others_see_nothing(self):
        made, shared = self.assert_members_share()
        self.assert_hidden(made[0].id, shared)
        self.ann.compute.delete_server(made[0])
        self.ann.compute.wait_for_delete(made[0], wait=clouds.SECONDS)
        self.assertEqual({(made[1].id, 'rw', 'attached')}, set(self.attachments(shared).values()))
