"""QoS specs with unmodified stock clients against the service over HTTP."""
import uuid

import openstack
from cinderclient import client as cinder_client
from cinderclient import exceptions as cinder_exceptions
from cinderclient.contrib import noauth
from keystoneauth1 import session
from openstack import exceptions as openstack_exceptions

from blockattach.tests.functional import base
from blockattach.tests.functional import test_clients

LIMITS = {'total_iops_sec_per_gb': '30', 'total_bytes_sec': '1048576'}
EXPECTED = {'total_iops_sec': 60, 'total_bytes_sec': '1048576'}


class QosClientsTest(test_clients.ClientsTestCase):

    def test_cinderclient_manages_qos_specs(self):
        cinder = cinder_client.Client('3.71', session=session.Session(
            auth=noauth.CinderNoAuthPlugin('somebody', test_clients.PROJECT,
                                           endpoint=self.service.endpoint)))
        made = cinder.qos_specs.create('by-cinderclient', {'consumer': 'front-end', **LIMITS})
        self.assertEqual(('front-end', LIMITS), (made.consumer, made.specs))
        self.assertEqual(made.id, cinder.qos_specs.find(name='by-cinderclient').id)
        kind = cinder.volume_types.create('limited-by-cinderclient')
        cinder.qos_specs.associate(made, kind.id)
        self.assertEqual([('volume_type', kind.id, kind.name)], [
            (one.association_type, one.id, one.name)
            for one in cinder.qos_specs.get_associations(made)])
        self.assertEqual(made.id, cinder.volume_types.get(kind.id).qos_specs_id)

        volume = cinder.volumes.create(2, volume_type=kind.name)
        self.assertEqual('available', cinder.volumes.get(volume.id).status)
        reserved = cinder.attachments.create(volume.id, base.connector('one'), str(uuid.uuid4()))
        self.assertEqual(EXPECTED, reserved['connection_info']['qos_specs'])
        cinder.attachments.delete(reserved['id'])

        cinder.qos_specs.set_keys(made.id, {'size_iops_sec': '4096'})
        cinder.qos_specs.unset_keys(made.id, ['total_bytes_sec'])
        self.assertEqual({'total_iops_sec_per_gb': '30', 'size_iops_sec': '4096'},
                         cinder.qos_specs.get(made).specs)
        self.assertRaises(cinder_exceptions.NotFound, cinder.qos_specs.unset_keys, made.id,
                          ['total_bytes_sec'])
        self.assertRaisesRegex(cinder_exceptions.BadRequest, 'still in use',
                               cinder.qos_specs.delete, made)
        cinder.qos_specs.disassociate(made, kind.id)
        cinder.qos_specs.associate(made, kind.id)
        cinder.qos_specs.disassociate_all(made)
        self.assertIsNone(cinder.volume_types.get(kind.id).qos_specs_id)
        cinder.qos_specs.delete(made)
        self.assertNotIn(made.id, [one.id for one in cinder.qos_specs.list()])

    def test_cinder_shell_manages_qos_specs(self):
        self.cinder('type-create', 'limited-by-cinder')
        made = self.cinder('qos-create', 'by-cinder', 'consumer=both', 'total_iops_sec=77')
        specs_id = next(line.split('|')[2].strip() for line in made.splitlines()
                        if line.startswith('| id '))
        listed = self.cinder('qos-list')
        for word in (specs_id, 'by-cinder', 'both', '77'):
            self.assertIn(word, listed)
        kind_id = next(line.split('|')[1].strip()
                       for line in self.cinder('type-list').splitlines()
                       if 'limited-by-cinder ' in line)
        self.cinder('qos-key', specs_id, 'set', 'total_bytes_sec=88')
        self.cinder('qos-associate', specs_id, kind_id)
        self.assertIn(kind_id, self.cinder('qos-get-association', specs_id))
        self.cinder('qos-key', specs_id, 'unset', 'total_iops_sec')
        shown = self.cinder('qos-show', specs_id)
        self.assertIn('total_bytes_sec', shown)
        self.assertNotIn('total_iops_sec', shown)
        with self.assertRaisesRegex(AssertionError, 'still in use'):
            self.cinder('qos-delete', specs_id)
        self.cinder('qos-disassociate', specs_id, kind_id)
        self.cinder('qos-disassociate-all', specs_id)
        self.cinder('qos-associate', specs_id, kind_id)
        self.cinder('qos-delete', '--force', 'True', specs_id)
        self.assertNotIn(specs_id, self.cinder('qos-list'))

    def test_openstacksdk_manages_qos_specs(self):
        storage = openstack.connect(
            load_yaml_config=False, load_envvars=False, auth_type='none',
            auth={'endpoint': self.service.endpoint}).block_storage
        made = storage.create_qos_spec(name='by-sdk', consumer='both', total_iops_sec='5')
        self.assertEqual(('both', {'total_iops_sec': '5'}), (made.consumer, made.specs))
        storage.update_qos_spec(made.id, total_bytes_sec='6')
        found = storage.find_qos_spec('by-sdk', ignore_missing=False)
        self.assertEqual({'total_iops_sec': '5', 'total_bytes_sec': '6'},
                         storage.get_qos_spec(found.id).specs)
        kind = storage.create_type(name='limited-by-sdk')
        storage.associate_qos_spec(made.id, kind.id)
        self.assertRaises(openstack_exceptions.BadRequestException, storage.delete_qos_spec,
                          made.id)
        storage.disassociate_qos_spec(made.id, kind.id)
        storage.delete_qos_spec(made.id)
        self.assertIsNone(storage.find_qos_spec('by-sdk'))

    def test_openstack_shell_manages_qos_specs(self):
        made = self.openstack_json('volume', 'qos', 'create', '--consumer', 'front-end',
                                   '--property', 'total_iops_sec=5', 'by-openstack')
        self.assertEqual(('front-end', {'total_iops_sec': '5'}),
                         (made['consumer'], made['properties']))
        self.openstack('volume', 'type', 'create', 'limited-by-openstack')
        self.openstack('volume', 'qos', 'set', '--property', 'size_iops_sec=6', 'by-openstack')
        self.openstack('volume', 'qos', 'unset', '--property', 'total_iops_sec', 'by-openstack')
        self.openstack('volume', 'qos', 'associate', 'by-openstack', 'limited-by-openstack')
        shown = self.openstack_json('volume', 'qos', 'show', 'by-openstack')
        self.assertEqual((made['id'], {'size_iops_sec': '6'}, ['limited-by-openstack']),
                         (shown['id'], shown['properties'], shown['associations']))
        listed, = (row for row in self.openstack_json('volume', 'qos', 'list')
                   if row['Name'] == 'by-openstack')
        self.assertEqual(['limited-by-openstack'], listed['Associations'])
        with self.assertRaisesRegex(AssertionError, '1 of 1 QoS'):
            self.openstack('volume', 'qos', 'delete', 'by-openstack')
        self.openstack('volume', 'qos', 'disassociate', '--volume-type', 'limited-by-openstack',
                       'by-openstack')
        self.openstack('volume', 'qos', 'disassociate', '--all', 'by-openstack')
        self.openstack('volume', 'qos', 'delete', 'by-openstack')
        self.assertNotIn('by-openstack', self.openstack('volume', 'qos', 'list'))
