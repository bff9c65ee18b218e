"""Private and default volume types with unmodified stock clients over HTTP."""
from cinderclient import client as cinder_client
from cinderclient import exceptions as cinder_exceptions
from cinderclient.contrib import noauth
from keystoneauth1 import session

from blockattach.tests.functional import test_clients

OTHER = 'another-project'


class TypeAccessClientsTest(test_clients.ClientsTestCase):

    def setUp(self):
        super().setUp()
        self.client = cinder_client.Client('3.71', session=session.Session(
            auth=noauth.CinderNoAuthPlugin('somebody', test_clients.PROJECT,
                                           endpoint=self.service.endpoint)))

    def test_cinderclient_manages_type_access(self):
        kind = self.client.volume_types.create('private', is_public=False)
        access = self.client.volume_type_access
        for project in (OTHER, test_clients.PROJECT):
            access.add_project_access(kind, project)
        access.remove_project_access(kind, OTHER)
        self.assertEqual([test_clients.PROJECT], [one.project_id for one in access.list(kind)])
        shown = self.openstack_json('volume', 'type', 'show', 'private')
        self.assertEqual([test_clients.PROJECT], shown['access_project_ids'])
        self.client.volume_types.delete(kind)

    def test_cinderclient_manages_default_types(self):
        kind = self.client.volume_types.create('of-the-project')
        defaults = self.client.default_types
        defaults.create(kind.name, test_clients.PROJECT)
        self.assertEqual([(test_clients.PROJECT, kind.id)], [
            (one.project_id, one.volume_type_id) for one in defaults.list()])
        self.assertEqual(kind.name, self.client.volume_types.default().name)
        volume = self.client.volumes.create(1)
        self.assertEqual(kind.name, volume.volume_type)
        self.client.volumes.delete(volume)
        self.assertRaisesRegex(cinder_exceptions.BadRequest, 'default volume type',
                               self.client.volume_types.delete, kind)
        defaults.delete(test_clients.PROJECT)
        self.client.volume_types.delete(kind)
