"""Encrypted volume types with unmodified stock clients against the service over HTTP."""
import openstack
from cinderclient import client as cinder_client
from cinderclient import exceptions as cinder_exceptions
from cinderclient.contrib import noauth
from keystoneauth1 import session
from openstack import exceptions as openstack_exceptions

from blockattach.tests.functional import test_clients

FACTS = {'provider': 'luks', 'cipher': 'aes-xts-plain64', 'key_size': 256,
         'control_location': 'back-end'}
EXCLUSION = 'Multiattach cannot be used with encrypted volumes.'


class EncryptionClientsTest(test_clients.ClientsTestCase):

    def facts(self, found):
        """Return the fields of an encryption as a library shows them."""
        return {key: getattr(found, key) for key in FACTS}

    def test_cinderclient_manages_type_encryption(self):
        cinder = cinder_client.Client('3.71', session=session.Session(
            auth=noauth.CinderNoAuthPlugin('somebody', test_clients.PROJECT,
                                           endpoint=self.service.endpoint)))
        kind = cinder.volume_types.create('by-cinderclient')
        self.assertFalse(hasattr(cinder.volume_encryption_types.get(kind), 'encryption_id'))
        made = cinder.volume_encryption_types.create(kind, FACTS)
        self.assertEqual(FACTS, self.facts(made))
        cinder.volume_encryption_types.update(kind, {'key_size': 512})
        found = cinder.volume_encryption_types.get(kind)
        self.assertEqual((made.encryption_id, {**FACTS, 'key_size': 512}),
                         (found.encryption_id, self.facts(found)))
        self.assertIn(kind.id, [one.volume_type_id
                                for one in cinder.volume_encryption_types.list()])
        kind.set_keys({'multiattach': '<is> True'})
        self.assertRaisesRegex(cinder_exceptions.BadRequest, EXCLUSION, cinder.volumes.create, 1,
                               volume_type='by-cinderclient')
        kind.unset_keys(['multiattach'])

        volume = cinder.volumes.create(1, volume_type='by-cinderclient')
        self.assertEqual('available', cinder.volumes.get(volume.id).status)
        self.assertTrue(cinder.volumes.get(volume.id).encrypted)
        self.assertEqual({**FACTS, 'key_size': 512, 'encryption_key_id': None},
                         dict(cinder.volumes.get_encryption_metadata(volume.id)))
        self.assertRaisesRegex(cinder_exceptions.BadRequest, 'Volume type in use',
                               cinder.volume_encryption_types.delete, kind)
        cinder.volumes.delete(volume.id)
        self.assertNotIn(volume.id, [one.id for one in cinder.volumes.list()])
        cinder.volume_encryption_types.delete(kind)
        self.assertFalse(hasattr(cinder.volume_encryption_types.get(kind), 'encryption_id'))

    def test_cinder_shell_manages_type_encryption(self):
        self.cinder('type-create', 'by-cinder')
        made = self.cinder('encryption-type-create', 'by-cinder', 'luks', '--cipher',
                           'aes-xts-plain64', '--key-size', '256', '--control-location',
                           'front-end')
        for shown in (made, self.cinder('encryption-type-show', 'by-cinder'),
                      self.cinder('encryption-type-list')):
            for word in ('luks', 'aes-xts-plain64', '256', 'front-end'):
                self.assertIn(word, shown)
        self.assertIn('back-end', self.cinder('encryption-type-update', 'by-cinder',
                                              '--control-location', 'back-end'))
        self.cinder('type-key', 'by-cinder', 'set', 'multiattach=<is> true')
        with self.assertRaisesRegex(AssertionError, EXCLUSION):
            self.cinder('create', '1', '--volume-type', 'by-cinder')
        self.cinder('encryption-type-delete', 'by-cinder')
        self.assertNotIn('luks', self.cinder('encryption-type-show', 'by-cinder'))

    def test_openstacksdk_manages_type_encryption(self):
        storage = openstack.connect(
            load_yaml_config=False, load_envvars=False, auth_type='none',
            auth={'endpoint': self.service.endpoint}).block_storage
        kind = storage.create_type(name='by-sdk')
        made = storage.create_type_encryption(kind, **FACTS)
        self.assertEqual(FACTS, self.facts(made))
        storage.update_type_encryption(volume_type=kind, key_size=512)
        found = storage.get_type_encryption(kind)
        self.assertEqual((made.encryption_id, {**FACTS, 'key_size': 512}),
                         (found.encryption_id, self.facts(found)))
        storage.update_type_extra_specs(kind, multiattach='<is> True')
        self.assertRaisesRegex(openstack_exceptions.BadRequestException, EXCLUSION,
                               storage.create_volume, size=1, volume_type='by-sdk')
        storage.delete_type_encryption(volume_type=kind, ignore_missing=False)
        self.assertIsNone(storage.get_type_encryption(kind).encryption_id)

    def test_openstack_shell_manages_type_encryption(self):
        def shown():
            found = self.openstack_json('volume', 'type', 'show', '--encryption-type',
                                        'by-openstack')['encryption']
            return {key: found.get(key) for key in FACTS}

        self.openstack('volume', 'type', 'create', '--encryption-provider', 'luks',
                       '--encryption-cipher', 'aes-xts-plain64', '--encryption-key-size', '256',
                       '--encryption-control-location', 'back-end', 'by-openstack')
        self.assertEqual(FACTS, shown())
        listed, = (row for row in self.openstack_json('volume', 'type', 'list',
                                                      '--encryption-type')
                   if row['Name'] == 'by-openstack')
        self.assertEqual(FACTS, {key: listed['Encryption'][key] for key in FACTS})
        self.openstack('volume', 'type', 'set', '--encryption-key-size', '512', 'by-openstack')
        self.assertEqual({**FACTS, 'key_size': 512}, shown())
        self.openstack('volume', 'type', 'unset', '--encryption-type', 'by-openstack')
        self.assertEqual(dict.fromkeys(FACTS), shown())
        self.openstack('volume', 'type', 'set', '--encryption-provider', 'plain', 'by-openstack')
        self.assertEqual({**dict.fromkeys(FACTS), 'provider': 'plain',
                          'control_location': 'front-end'}, shown())
