"""Unmodified stock clients, both libraries and shells, against the service over HTTP.

The service runs in this process and finishes its work before it answers.
"""
import json
import unittest
import uuid

import openstack
from cinderclient import client as cinder_client
from cinderclient import exceptions as cinder_exceptions
from cinderclient.contrib import noauth
from keystoneauth1 import session
from openstack import exceptions as openstack_exceptions

from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import served
from blockattach.tests.functional import base
from blockattach.tests.functional import commands

PROJECT = '00000000000000000000000000000002'


def shell(program, *arguments):
    """Run the installed shell of a client and return its output."""
    done = commands.run(program, arguments, {'NO_PROXY': '127.0.0.1'})
    if done.status:
        raise AssertionError(f'{program} {" ".join(arguments)}: {done.output}{done.errors}')
    return done.output


class ClientsTestCase(unittest.TestCase):
    """Test case with a service for all tests of the class, and with shells."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.api = cls.enterClassContext(http.ApiFixture())
        cls.service = cls.enterClassContext(served.Served(cls.api))
        cls.api.as_admin.post('/types', {'volume_type': {
            'name': 'multiattach', 'extra_specs': {'multiattach': '<is> True'}}})

    def status(self, volume_id):
        return self.api.as_admin.get(f'/volumes/{volume_id}').body['volume']['status']

    def openstack(self, *arguments):
        return shell('openstack', '--os-auth-type', 'none', '--os-endpoint',
                     self.service.endpoint, '--os-volume-api-version', '3.71', *arguments)

    def openstack_json(self, *arguments):
        return json.loads(self.openstack(*arguments, '-f', 'json'))

    def cinder(self, *arguments):
        return shell('cinder', '--os-auth-type', 'noauth', '--os-user-id',
                     'somebody', '--os-project-id', PROJECT, '--os-endpoint',
                     self.service.endpoint, '--os-volume-api-version', '3.71', *arguments)


class ClientsTest(ClientsTestCase):

    def test_cinderclient_attaches_volume(self):
        cinder = cinder_client.Client('3.71', session=session.Session(
            auth=noauth.CinderNoAuthPlugin('somebody', PROJECT, endpoint=self.service.endpoint)))
        self.assertIn('multiattach', [kind.name for kind in cinder.volume_types.list()])
        volume = cinder.volumes.create(1, name='by-cinderclient', volume_type='multiattach')
        self.assertEqual('available', cinder.volumes.get(volume.id).status)
        self.assertIn(volume.id, [found.id for found in cinder.volumes.list()])
        self.assertTrue(cinder.volumes.get(volume.id).multiattach)

        made = cinder.attachments.create(volume.id, base.connector('one'), str(uuid.uuid4()),
                                         'ro')
        self.assertEqual('ro', made['connection_info']['access_mode'])
        cinder.attachments.complete(made['id'])
        self.assertEqual('attached', cinder.attachments.show(made['id']).status)
        self.assertEqual('in-use', cinder.volumes.get(volume.id).status)
        reserved = cinder.attachments.create(volume.id, None, str(uuid.uuid4()))
        updated = cinder.attachments.update(reserved['id'], base.connector('two'))
        self.assertEqual('iscsi', updated.connection_info['driver_volume_type'])
        self.assertEqual(
            {made['id'], reserved['id']},
            {found.id for found in cinder.attachments.list(
                search_opts={'volume_id': volume.id})})
        for attachment_id in (made['id'], reserved['id']):
            cinder.attachments.delete(attachment_id)
        cinder.volumes.delete(volume.id)
        self.assertRaises(cinder_exceptions.NotFound, cinder.volumes.get, volume.id)

    def test_cinder_shell_attaches_volume(self):
        self.cinder('create', '1', '--name', 'by-cinder', '--volume-type', 'multiattach',
                    '--poll')
        shared = [line.split('|')[1:4] for line in self.cinder(
            'list', '--fields', 'name,multiattach').splitlines() if 'by-cinder' in line]
        self.assertEqual([['by-cinder', 'True']],
                         [[cell.strip() for cell in row[1:]] for row in shared])
        self.assertIn('multiattach', self.cinder('type-list'))
        made = self.cinder('attachment-create', 'by-cinder', str(uuid.uuid4()), '--connect',
                           'True', '--initiator', 'iqn.2026-01.org.example:shell', '--host',
                           'shell', '--ip', '127.0.0.1', '--mode', 'rw')
        attachment_id = next(line.split('|')[2].strip() for line in made.splitlines()
                             if line.startswith('| id '))
        self.cinder('attachment-update', attachment_id, '--initiator',
                    'iqn.2026-01.org.example:moved', '--host', 'moved', '--ip', '127.0.0.1')
        self.cinder('attachment-complete', attachment_id)
        self.assertIn('attached', self.cinder('attachment-show', attachment_id))
        self.assertIn(attachment_id, self.cinder('attachment-list'))
        self.cinder('attachment-delete', attachment_id)
        self.assertNotIn(attachment_id, self.cinder('attachment-list'))
        self.cinder('delete', 'by-cinder')

    def test_openstacksdk_attaches_volume(self):
        storage = openstack.connect(
            load_yaml_config=False, load_envvars=False, auth_type='none',
            auth={'endpoint': self.service.endpoint}).block_storage
        self.assertIn('multiattach', [kind.name for kind in storage.types()])
        volume = storage.create_volume(name='by-sdk', size=1, volume_type='multiattach')
        volume = storage.get_volume(volume.id)
        self.assertEqual(('available', True), (volume.status, volume.is_multiattach))
        self.assertIn(volume.id, [found.id for found in storage.volumes(name='by-sdk')])

        made = storage.create_attachment(volume.id, connector=base.connector('sdk'),
                                         attach_mode='ro', instance=str(uuid.uuid4()))
        self.assertEqual('ro', made.connection_info['access_mode'])
        moved = storage.update_attachment(made.id, connector=base.connector('moved'))
        self.assertEqual('ro', moved.connection_info['access_mode'])
        storage.complete_attachment(made)
        self.assertEqual('attached', storage.get_attachment(made.id).status)
        self.assertEqual([made.id], [found.id for found in storage.attachments(
            volume_id=volume.id)])
        self.assertEqual('in-use', storage.get_volume(volume.id).status)
        storage.delete_attachment(made.id, ignore_missing=False)
        self.assertRaises(openstack_exceptions.NotFoundException,
                          storage.get_attachment, made.id)
        storage.delete_volume(volume.id)
        self.assertRaises(openstack_exceptions.NotFoundException, storage.get_volume, volume.id)

    def test_openstack_shell_attaches_volume(self):
        made = self.openstack_json('volume', 'create', '--type', 'multiattach', '--size', '1',
                                   'by-openstack')
        self.assertEqual('available', self.status(made['id']))
        self.assertIn('by-openstack',
                      [row['Name'] for row in self.openstack_json('volume', 'list')])
        self.assertEqual('multiattach',
                         self.openstack_json('volume', 'show', 'by-openstack')['type'])
        self.assertIn('multiattach', [row['Name'] for row in self.openstack_json(
            'volume', 'type', 'list')])

        # The shell's `attachment create` needs a Compute service, so the attachment is created
        # directly.
        _, answer = base.Api(self.service.endpoint).ask('POST', '/attachments', {'attachment': {
            'volume_uuid': made['id'], 'instance_uuid': str(uuid.uuid4()),
            'connector': base.connector('shell')}})
        attachment_id = answer['attachment']['id']
        self.openstack('volume', 'attachment', 'set', '--initiator',
                       'iqn.2026-01.org.example:set', '--host', 'set', '--ip', '127.0.0.1',
                       attachment_id)
        self.openstack('volume', 'attachment', 'complete', attachment_id)
        self.assertEqual('attached', self.openstack_json(
            'volume', 'attachment', 'show', attachment_id)['Status'])
        self.assertIn(attachment_id, [row['ID'] for row in self.openstack_json(
            'volume', 'attachment', 'list')])
        self.openstack('volume', 'attachment', 'delete', attachment_id)
        self.openstack('volume', 'delete', 'by-openstack')
        self.assertEqual(404, self.api.as_admin.get(f'/volumes/{made["id"]}').status)

    def test_readme_commands_succeed(self):
        """The commands are run without a version, as in the README."""
        for arguments in (('volume', 'create', '--type', 'multiattach', '--size', '1', 'v1'),
                          ('volume', 'list'),
                          ('--os-volume-api-version', '3.71', 'volume', 'attachment', 'list')):
            with self.subTest(arguments):
                shell('openstack', '--os-auth-type', 'none',
                      '--os-endpoint', self.service.endpoint, *arguments)
