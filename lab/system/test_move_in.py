"""Migration of a cloud from Cinder while hosts write to their disks.

Cinder 29.0.0 creates tables with its migrations, resources with its API, scheduler and volume
service, and targets with its driver for tgt.
"""
import json

import sqlalchemy as sa

from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import scsi
from blockattach.testing import stack
from blockattach.tests.fixtures import database
from blockattach.tests.functional import base
from blockattach.tests.functional import commands
from lab.system import cinder_peer
from lab.system import processes
from lab.system import streams

SECONDS = 240
BLOCKS = 20
SHARED = 'shared'
LEGACY = 'legacy'
NAMED = ('--initiator', f'{base.instance(LEGACY)}={base.connector(LEGACY)["initiator"]}')
EXTENDED = 'volume 3.71, blockattach 1.2'


class MoveInTest(processes.ProcessesTestCase):

    def setUp(self):
        super().setUp()
        missing = cinder_peer.why_missing()
        self.outside_program(missing is None, missing)
        self.outside_program(scsi.available(), 'libiscsi')
        port = stack.free_port()
        self.system_tgtd = tgtd.Tgtd(f'{self.folder}/system', ('127.0.0.1',), port)
        self.system_tgtd.start()
        self.addCleanup(self.system_tgtd.stop)
        self.client = self.system_tgtd.client()
        files = f'{self.folder}/files'
        self.there = database.DatabaseFixture(database.MYSQL, migrated=False)
        self.addCleanup(self.there.close)
        self.cinder = cinder_peer.Cinder(f'{self.folder}/cinder', self.there.url, processes.HOST,
                                         files, self.client, port)
        self.addCleanup(self.cinder.stop)
        self.cinder.start()
        self.configure({('disks', 'tgt_socket'): self.client.path,
                        ('disks', 'target_port'): str(port), ('disks', 'volumes_dir'): files})

    def configure(self, places):
        self.places = {**getattr(self, 'places', {}), **places}
        super().configure(self.places)

    # ---- Cinder

    def fill(self):
        """Create resources of all kinds in Cinder, and return their ids by name."""
        ask = self.cinder.ask
        kind = ask('POST', '/types', {'volume_type': {
            'name': SHARED, 'description': 'of many', 'extra_specs': {
                'multiattach': '<is> True'}}})['volume_type']['id']
        own = ask('POST', '/types', {'volume_type': {
            'name': 'own', 'os-volume-type-access:is_public': False}})['volume_type']['id']
        ask('POST', f'/types/{own}/action', {'addProjectAccess': {
            'project': cinder_peer.PROJECT}})
        specs = ask('POST', '/qos-specs', {'qos_specs': {
            'name': 'slow', 'consumer': 'front-end', 'total_iops_sec': '100'}})['qos_specs']['id']
        ask('GET', f'/qos-specs/{specs}/associate?vol_type_id={kind}')
        ask('PUT', f'/os-quota-sets/{cinder_peer.PROJECT}', {'quota_set': {
            'volumes': 7, f'gigabytes_{SHARED}': 50}})
        ask('PUT', '/os-quota-class-sets/small', {'quota_class_set': {'snapshots': 3}})
        made = {'kind': kind, 'own': own, 'specs': specs, 'shared': self.volume(),
                'plain': self.volume(volume_type='own', metadata={'color': 'blue'}),
                'reserved': self.volume(), 'legacy': self.volume()}
        plain = made['plain']
        ask('POST', f'/volumes/{plain}/action', {'os-set_image_metadata': {
            'metadata': {'min_ram': '1'}}})
        ask('POST', f'/volumes/{plain}/action', {'os-update_readonly_flag': {'readonly': True}})
        ask('POST', f'/volumes/{plain}/action', {'os-set_bootable': {'bootable': True}})
        made['snapshot'] = self.settled_there('snapshots', ask('POST', '/snapshots', {'snapshot': {
            'volume_id': plain, 'name': 'before', 'metadata': {'kept': 'yes'}}})['snapshot']['id'])
        return made

    def volume(self, **wanted):
        return self.settled_there('volumes', self.cinder.ask('POST', '/volumes', {
            'volume': {'size': 1, 'volume_type': SHARED, **wanted}})['volume']['id'])

    def settled_there(self, noun, one):
        self.assertEqual('available', base.settled(
            lambda: self.cinder.ask('GET', f'/{noun}/{one}')[noun[:-1]]['status']))
        return one

    def attach_there(self, volume_id, host=None, complete=True, **wanted):
        made = self.cinder.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host or 'nobody'),
            **({'connector': {**base.connector(host), 'mountpoint': '/dev/vdb'}} if host else {}),
            **wanted}})['attachment']
        if host and complete:
            self.cinder.ask('POST', f'/attachments/{made["id"]}/action', {'os-complete': {}})
        return made

    def attach_as_of_old(self, volume_id):
        """Attach a volume with the actions that Nova used before the attachments API."""
        def act(name, argument):
            return self.cinder.ask('POST', f'/volumes/{volume_id}/action', {name: argument})
        act('os-reserve', {})
        found = act('os-initialize_connection', {'connector': base.connector(LEGACY)})
        act('os-attach', {'instance_uuid': base.instance(LEGACY), 'mountpoint': '/dev/vdc',
                          'mode': 'rw'})
        return found['connection_info']['data']

    def writer(self, host, info, first_block=0):
        stream = streams.Stream(host, info, first_block)
        self.addCleanup(stream.close)
        self.goes_on(stream)
        return stream

    def goes_on(self, *writers):
        for stream in writers:
            wanted = stream.count + BLOCKS
            self.assertTrue(base.wait_for(
                lambda stream=stream, wanted=wanted: stream.wrong or stream.count >= wanted,
                SECONDS), stream.count)
            self.assertEqual([], stream.wrong)

    # ---- Blockattach

    def imported(self, status, *more):
        """Run the import, and return the JSON report."""
        done = commands.run('blockattach-manage', self.arguments(
            'import', 'cinder', '--connection', self.there.url, '--format', 'json', *more))
        self.assertEqual(status, done.status, done.output + done.errors)
        return json.loads(done.output)

    def shown(self, noun, one):
        status, found = self.api.ask('GET', f'/{noun}/{one}')
        self.assertEqual(200, status, found)
        return found[noun[:-1]]

    def tables(self):
        """Return the content of all tables."""
        with self.rows.database.reader() as connection:
            names = sa.inspect(connection).get_table_names()
            return {name: sorted(map(repr, connection.exec_driver_sql(f'SELECT * FROM {name}')))
                    for name in names}

    def target_of(self, volume_id):
        """Return initiators and sessions of the targets of a volume, by suffix of the name."""
        return {target.name.partition(volume_id)[2]: (set(target.initiators), set(target.sessions))
                for target in self.client.targets() if volume_id in target.name}

    def test_a_cloud_moves_in_while_hosts_write(self):
        made = self.fill()
        one = self.attach_there(made['shared'], 'compute-1')
        two = self.attach_there(made['shared'], 'compute-2', mode='ro')
        three = self.attach_there(made['shared'], 'compute-3', complete=False)
        reserved = self.attach_there(made['reserved'])
        writer = self.writer('compute-1', one['connection_info'])
        legacy = self.writer(LEGACY, self.attach_as_of_old(made['legacy']))
        sessions = {name: self.target_of(made[name])[''][1] for name in ('shared', 'legacy')}
        self.assertEqual(0, self.run_once('manage', 'db', 'sync')[0])
        self.assert_needs_a_name()
        status, said = self.run_once('manage', 'import', 'cinder', '--connection', self.there.url,
                                     *NAMED)
        self.assertNotEqual(0, status)
        self.assertIn('cannot import while Cinder services are running', said)
        self.cinder.stop()
        self.cinder.forget_services()
        self.assert_taken(made)
        status, said = self.run_once('manage', 'reconcile', '--dry-run')
        self.assertEqual((3, 4), (status, said.count('would be done')), said)
        self.begin()
        self.api = base.Api(f'http://127.0.0.1:{self.port}/v3', versions=EXTENDED)
        self.assert_shown(made, (one, two, three, reserved))
        names = {base.connector(f'compute-{number}')['initiator'] for number in (1, 2, 3)}
        self.assertTrue(base.wait_for(lambda: self.target_of(made['shared']) == {
            '': (names, sessions['shared'])}, SECONDS), self.client.targets())
        self.assertTrue(base.wait_for(lambda: self.target_of(made['legacy']) == {
            '': ({base.connector(LEGACY)['initiator']}, sessions['legacy'])}, SECONDS))
        self.goes_on(writer, legacy)
        writer.close()
        self.assertEqual([], writer.wrong)
        self.assert_attached_anew(made['shared'], one)
        self.goes_on(legacy)
        for found in self.api.ask('GET', '/attachments?all_tenants=1')[1]['attachments']:
            if found['id'] != reserved['id']:
                self.assertEqual(200, self.api.ask('DELETE', f'/attachments/{found["id"]}')[0])
        self.assertTrue(base.wait_for(lambda: not self.client.targets(), SECONDS))

    def assert_needs_a_name(self):
        """Check that the import needs the initiator of an attachment by old actions."""
        found = self.imported(3, '--dry-run')
        self.assertEqual([('no_initiator', base.instance(LEGACY))],
                         [(one['code'], one['holder']) for one in found['refused']])
        self.assertEqual([], self.imported(0, '--dry-run', *NAMED)['refused'])

    def assert_taken(self, made):
        """Check that one import takes all resources, and a second one none."""
        found = self.imported(0, *NAMED)
        self.assertEqual((4, 5, 1, 1), tuple(found['taken'][name] for name in (
            'volumes', 'attachments', 'snapshots', 'qos_specs')))
        before = self.tables()
        self.assertEqual(0, sum(self.imported(0, *NAMED)['taken'].values()))
        self.assertEqual(before, self.tables())

    def assert_shown(self, made, attachments):
        """Check that the API shows the resources as Cinder did."""
        plain = self.shown('volumes', made['plain'])
        self.assertEqual(
            ('available', {'color': 'blue'}, 'own', 'true', f'{processes.BACKEND}#disks', '1'),
            (plain['status'], {key: plain['metadata'][key] for key in ('color',)},
             plain['volume_type'], plain['bootable'], plain['os-vol-host-attr:host'],
             plain['volume_image_metadata']['min_ram']))
        snapshot = self.shown('snapshots', made['snapshot'])
        self.assertEqual((made['plain'], 'before', {'kept': 'yes'}, 'available'), tuple(
            snapshot[key] for key in ('volume_id', 'name', 'metadata', 'status')))
        kind = self.api.ask('GET', f'/types/{made["kind"]}')[1]['volume_type']
        self.assertEqual((SHARED, {'multiattach': '<is> True'}, made['specs']),
                         (kind['name'], kind['extra_specs'], kind['qos_specs_id']))
        specs = self.api.ask('GET', f'/qos-specs/{made["specs"]}')[1]['qos_specs']
        self.assertEqual(('slow', 'front-end', {'total_iops_sec': '100'}),
                         (specs['name'], specs['consumer'], specs['specs']))
        access = self.api.ask('GET', f'/types/{made["own"]}/os-volume-type-access')[1]
        self.assertEqual([cinder_peer.PROJECT], [
            one['project_id'] for one in access['volume_type_access']])
        quotas = self.api.ask('GET', f'/os-quota-sets/{cinder_peer.PROJECT}?usage=True')[1]
        self.assertEqual((7, 4, 50), (quotas['quota_set']['volumes']['limit'],
                                      quotas['quota_set']['volumes']['in_use'],
                                      quotas['quota_set'][f'gigabytes_{SHARED}']['limit']))
        for there, (status, mode) in zip(attachments, (
                ('attached', 'rw'), ('attached', 'ro'), ('attaching', 'rw'),
                ('reserved', 'null')), strict=True):
            here = self.shown('attachments', there['id'])
            self.assertEqual((there['volume_id'], there['instance'], status, mode), tuple(
                here[key] for key in ('volume_id', 'instance', 'status', 'attach_mode')))
            for key in ('target_iqn', 'target_portal', 'target_lun', 'auth_username',
                        'auth_password'):
                self.assertEqual(there['connection_info'].get(key),
                                 here['connection_info'].get(key))
            self.assertEqual(None if status == 'reserved' else 'consumer',
                             here['mode_enforced_by'])

    def assert_attached_anew(self, volume_id, old):
        """Check that a new attachment has a new credential, and that the old one is refused."""
        self.assertEqual(200, self.api.ask('DELETE', f'/attachments/{old["id"]}')[0])
        with self.assertRaises(scsi.Lost):
            scsi.Session(base.connector('compute-1')['initiator'], old['connection_info'])
        status, new = self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance('compute-1'),
            'connector': base.connector('compute-1')}})
        self.assertEqual(200, status, new)
        new = new['attachment']
        self.assertEqual('target', new['mode_enforced_by'])
        self.assertNotEqual(old['connection_info']['auth_password'],
                            new['connection_info']['auth_password'])
        stream = self.writer('compute-1', new['connection_info'], first_block=1000)
        stream.close()
        self.assertEqual([], stream.wrong)
