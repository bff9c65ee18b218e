"""Hosts of services, the volumes on them, and their availability zones."""
from blockattach.storage.db import models
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make


class HostsTest(base.ApiTestCase):

    def list(self, query=''):
        reply = self.http.as_admin.get(f'/os-hosts{query}', version='3.0')
        self.assert_status(200, reply)
        return reply.body['hosts']

    def test_hosts_list_shows_enabled_services(self):
        volume, scheduler = self.list()
        self.assertRegex(volume.pop('last-update'), r'^2\d{3}-')
        self.assertEqual({'host_name': http.HOST, 'service': 'cinder-volume', 'zone': 'nova',
                          'service-status': 'available', 'service-state': 'enabled'}, volume)
        self.assertEqual(('control-1', 'cinder-scheduler'),
                         (scheduler['host_name'], scheduler['service']))

    def test_silent_host_unavailable_and_disabled_host_hidden(self):
        self.sql("UPDATE services SET reported_at = '2020-01-01 00:00:00.000000'")
        self.assertEqual(['unavailable'] * 2, [one['service-status'] for one in self.list()])
        for put in (lambda flag: services.set_disabled(
                        self.http.database, binaries.VOLUME, http.HOST, flag),
                    lambda flag: services.set_frozen(self.http.database, http.HOST, flag)):
            put(True)
            self.assertEqual(['control-1'], [one['host_name'] for one in self.list()])
            put(False)

    def test_hosts_list_filtered_by_zone(self):
        services.register(self.http.database, binaries.VOLUME, 'node-1@fake', 'north', 'x')
        self.assertEqual(['node-1@fake'], [one['host_name'] for one in self.list('?zone=north')])
        self.assertEqual(3, len(self.list('?zone=')))
        self.assertEqual([], self.list('?zone=zz'))

    def test_host_shows_usage_per_project(self):
        self.assertEqual([self.use('(total)', 0, 0, 0, 0)], self.show())
        mine = self.volume(size=3)
        self.volume(size=4)
        theirs = make.volume(self.http.database, size_gb=7, project_id=http.OTHER_PROJECT,
                             on_pool=http.POOL)
        gone = self.volume(size=9)
        self.http.as_member.delete(f'/volumes/{gone}')
        make.volume(self.http.database, size_gb=100, on_pool='storage-10@fake#pool')
        for volume_id, project, deleted in (
                (mine, http.PROJECT, False), (mine, http.PROJECT, True),
                (theirs.id, http.OTHER_PROJECT, False)):
            self.snapshot(volume_id, project, deleted)
        self.assertEqual(
            [self.use('(total)', 3, 14, 2, 4), self.use(http.OTHER_PROJECT, 1, 7, 1, 2),
             self.use(http.PROJECT, 2, 7, 1, 2)],
            self.show())

    def use(self, project, volumes, volumes_gb, snapshots, snapshots_gb):
        return {'resource': {
            'host': http.HOST, 'project': project, 'volume_count': str(volumes),
            'total_volume_gb': str(volumes_gb), 'snapshot_count': str(snapshots),
            'total_snapshot_gb': str(snapshots_gb)}}

    def show(self):
        reply = self.http.as_admin.get(f'/os-hosts/{http.HOST}')
        self.assert_status(200, reply)
        return reply.body['host']

    def snapshot(self, volume_id, project, deleted):
        now = self.http.database.clock.utcnow()
        kind = self.shown(volume_id)['volume_type_id']
        with self.http.database.writer() as connection:
            connection.execute(models.snapshots.insert().values(
                id=base.new_id(), volume_id=volume_id, project_id=project, user_id='u',
                size_gb=2, status='available', progress=100, volume_type_id=kind,
                availability_zone='nova', pool=http.POOL, generation=0, created_at=now,
                deleted=deleted))

    def test_cluster_member_shows_usage_of_cluster(self):
        services.register(self.http.database, binaries.VOLUME, 'node-1@fake', 'nova', 'x',
                          cluster='alpha@fake')
        make.volume(self.http.database, size_gb=7, on_pool='alpha@fake#pool')
        reply = self.http.as_admin.get('/os-hosts/node-1@fake')
        self.assertEqual('7', reply.body['host'][0]['resource']['total_volume_gb'])

    def test_unknown_host_not_found(self):
        for host in ('zz', 'control-1', 'storage-1'):
            with self.subTest(host=host):
                self.assert_fault(404, f'Host {host} could not be found.',
                                  self.http.as_admin.get(f'/os-hosts/{host}'))


class ZonesTest(base.ApiTestCase):

    def zones(self, persona=None):
        reply = (persona or self.http.as_reader).get('/os-availability-zone', version='3.0')
        self.assert_status(200, reply)
        return {one['zoneName']: one['zoneState'] for one in
                reply.body['availabilityZoneInfo']}

    def test_zone_available_while_any_service_enabled(self):
        for host, zone in (('node-1@fake', 'north'), ('node-2@fake', 'north')):
            services.register(self.http.database, binaries.VOLUME, host, zone, 'x')
        services.register(self.http.database, binaries.SCHEDULER, 'node-3', 'south', 'x')
        yes, no = {'available': True}, {'available': False}
        self.assertEqual({'nova': yes, 'north': yes}, self.zones())
        services.set_disabled(self.http.database, binaries.VOLUME, 'node-1@fake', True)
        self.assertEqual({'nova': yes, 'north': yes}, self.zones())
        services.set_frozen(self.http.database, 'node-2@fake', True)
        self.assertEqual({'nova': yes, 'north': no}, self.zones())

    def test_zones_visible_to_every_persona(self):
        for persona in (self.http.as_admin, self.http.as_member, self.http.as_nobody):
            self.assertEqual({'nova': {'available': True}}, self.zones(persona))
