"""Services: list, enable, disable and reconcile."""
import datetime
import functools

from blockattach.storage.db.services import pools
from blockattach.storage.db.services import services
from blockattach.storage.domain import binaries
from blockattach.storage.domain import records
from blockattach.storage.drivers import faults
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

KEYS = {'binary', 'host', 'zone', 'status', 'state', 'updated_at', 'disabled_reason'}
VOLUME_KEYS = {'replication_status', 'active_backend_id', 'frozen'}


class ServicesTest(base.ApiTestCase):

    def list(self, query='', version='3.71'):
        reply = self.http.as_admin.get(f'/os-services{query}', version=version)
        self.assert_status(200, reply)
        return reply.body['services']

    def test_service_keys_by_version(self):
        for version, added, of_volume in (('3.0', set(), set()), ('3.6', set(), set()),
                                          ('3.7', {'cluster'}, set()),
                                          ('3.48', {'cluster'}, set()),
                                          ('3.49', {'cluster'}, {'backend_state'})):
            with self.subTest(version=version):
                volume, scheduler = self.list(version=version)
                self.assertEqual(KEYS | added, scheduler.keys())
                self.assertEqual(KEYS | added | VOLUME_KEYS | of_volume, volume.keys())

    def test_running_service_shown_up(self):
        volume, scheduler = self.list()
        self.assertRegex(volume.pop('updated_at'), r'^2\d{3}-')
        self.assertEqual(
            {'binary': 'cinder-volume', 'host': http.HOST, 'zone': 'nova', 'status': 'enabled',
             'state': 'up', 'disabled_reason': None, 'cluster': None, 'backend_state': 'up',
             'replication_status': 'disabled', 'active_backend_id': None, 'frozen': False},
            volume)
        self.assertEqual(('cinder-scheduler', 'control-1', 'up'),
                         (scheduler['binary'], scheduler['host'], scheduler['state']))

    def test_silent_service_shown_down(self):
        self.sql("UPDATE services SET reported_at = '2020-01-01 00:00:00.000000'")
        self.assertEqual(['down', 'down'], [one['state'] for one in self.list()])
        self.assertEqual('down', self.list()[0]['backend_state'])

    def test_disabled_service_shown_with_reason(self):
        services.set_disabled(self.http.database, binaries.VOLUME, http.HOST, True, 'new disks')
        volume = self.list()[0]
        self.assertEqual(('disabled', 'new disks', 'up'),
                         (volume['status'], volume['disabled_reason'], volume['state']))

    def test_backend_state_independent_of_disabled_and_frozen(self):
        for put in (functools.partial(services.set_disabled, self.http.database, binaries.VOLUME),
                    functools.partial(services.set_frozen, self.http.database)):
            put(http.HOST, True)
            for state in ('up', 'down', 'up'):
                with self.subTest(put.func.__name__, state=state):
                    pools.report(self.http.database, http.HOST,
                                 [(http.POOL, {'backend_state': state})], 'nova')
                    shown = self.list()[0]
                    self.assertEqual(('disabled', state),
                                     (shown['status'], shown['backend_state']))
            put(http.HOST, False)

    def test_services_filtered_by_host_and_binary(self):
        for query, expected in (
                (f'?host={http.HOST}', ['cinder-volume']), ('?host=storage-1', ['cinder-volume']),
                ('?host=storage', []), ('?binary=cinder-scheduler', ['cinder-scheduler']),
                ('?host=control-1&binary=cinder-volume', []),
                ('?host=&binary=', ['cinder-volume', 'cinder-scheduler'])):
            with self.subTest(query=query):
                self.assertEqual(expected, [one['binary'] for one in self.list(query)])


class ReconciledTest(base.ApiTestCase):
    """Repairs of a volume service, for clients of ``blockattach 1.2``."""

    def list(self, version='1.2'):
        reply = self.http.as_admin.send(
            'GET', '/os-services', None, None,
            {'OpenStack-API-Version': f'volume 3.71, blockattach {version}'})
        self.assert_status(200, reply)
        return {one['binary']: one for one in reply.body['services']}

    def test_reported_repairs_shown(self):
        at = datetime.datetime(2026, 11, 22, 5, 0, 0, 250)
        services.register(
            self.http.database, binaries.VOLUME, http.HOST, 'nova', 'x',
            reconciled=records.Reconciled({'grant': 2, 'attachment': 1}, 'grant', at))
        listed = self.list()
        self.assertEqual(
            {'repaired': {'volume': 0, 'attachment': 1, 'grant': 2, 'stray_export': 0,
                        'unused_export': 0, 'abandoned': 0},
             'last': 'grant', 'last_at': '2026-11-22T05:00:00.000250'},
            listed[binaries.VOLUME]['reconciled'])
        self.assertNotIn('reconciled', listed[binaries.SCHEDULER])

    def test_repairs_null_before_report_and_absent_in_1_1(self):
        self.sql('UPDATE services SET reconciled = NULL')
        self.assertIsNone(self.list()[binaries.VOLUME]['reconciled'])
        self.assertNotIn('reconciled', self.list('1.1')[binaries.VOLUME])
        plain = self.http.as_admin.get('/os-services', version='3.71').body['services']
        self.assertNotIn('reconciled', plain[0])


class UseTest(base.ApiTestCase):
    """Disable and enable of a service."""

    def put(self, action, body, **headers):
        return self.http.as_admin.put(f'/os-services/{action}', body, **headers)

    def shown(self):
        return self.http.as_admin.get('/os-services').body['services'][0]

    def names(self, **more):
        return {'host': http.HOST, 'binary': 'cinder-volume', **more}

    def test_disable_and_enable_responses(self):
        for action, more, expected in (
                ('disable', {}, {'status': 'disabled', 'disabled': True}),
                ('disable-log-reason', {'disabled_reason': 'new disks'},
                 {'status': 'disabled', 'disabled': True, 'disabled_reason': 'new disks'}),
                ('enable', {}, {'status': 'enabled', 'disabled': False,
                                'disabled_reason': None})):
            with self.subTest(action=action):
                reply = self.put(action, self.names(**more))
                self.assert_status(200, reply)
                self.assertEqual({**self.names(), 'service': '', **expected}, reply.body)

    def test_disable_by_deprecated_service_key(self):
        reply = self.put('disable', {'host': http.HOST, 'service': 'cinder-volume'})
        self.assert_status(200, reply)
        self.assertEqual(('cinder-volume', ''), (reply.body['service'], reply.body['binary']))
        self.assertEqual('disabled', self.shown()['status'])

    def test_disabled_reason_kept_until_enabled(self):
        self.put('disable-log-reason', self.names(disabled_reason='new disks'))
        self.assertEqual(('disabled', 'new disks'),
                         (self.shown()['status'], self.shown()['disabled_reason']))
        self.put('enable', self.names())
        self.assertEqual(('enabled', None),
                         (self.shown()['status'], self.shown()['disabled_reason']))

    def test_disabled_backend_gets_no_volumes(self):
        kept = self.volume()
        self.put('disable', self.names())
        self.http.manager.report()
        made = self.http.as_member.post('/volumes', {'volume': {'size': 1}}).body['volume']
        self.assertEqual('error', self.http.as_member.get(
            f'/volumes/{made["id"]}').body['volume']['status'])
        self.attached(kept)
        self.put('enable', self.names())
        self.volume()

    def test_disable_of_unknown_service_not_found(self):
        for body in (self.names(host='storage-9@fake'), self.names(binary='cinder-backup')):
            with self.subTest(body=body):
                reply = self.put('disable', body)
                self.assert_status(404, reply)
                self.assertEqual(f'Service {body["binary"]} could not be found on host '
                                 f'{body["host"]}.', reply.fault[1])
        self.assert_status(404, self.put('explode', self.names()))

    def test_malformed_disable_changes_nothing(self):
        for action, body in (
                ('disable', {}), ('disable', {'host': http.HOST}),
                ('disable', {'binary': 'cinder-volume'}), ('disable', self.names(host='')),
                ('disable', self.names(host='h' * 256)), ('disable', self.names(host=None)),
                ('disable', self.names(colour='red')), ('disable-log-reason', self.names()),
                ('disable-log-reason', self.names(disabled_reason='')),
                ('disable-log-reason', self.names(disabled_reason=' ')),
                ('disable-log-reason', self.names(disabled_reason='r' * 256))):
            with self.subTest(action=action, body=body):
                self.assert_status(400, self.put(action, body))
        self.assertEqual('enabled', self.shown()['status'])


class ReconcileTest(base.ApiTestCase):
    """Reconcile of a backend on request."""

    def reconcile(self, body=None, extension=', blockattach 1.6', status=200):
        reply = self.http.as_admin.put('/os-services/reconcile', body or {'host': http.HOST},
                                       version=f'3.71{extension}')
        self.assert_status(status, reply)
        return reply.body

    def setUp(self):
        super().setUp()
        self.target = self.http.manager.backend.fake_target
        self.volume_id = self.volume()
        connector = make.connector()
        self.initiator = connector['initiator']
        self.attached(self.volume_id, connector=connector)

    def grants(self):
        return {grant.initiator for export in self.target.exports() for grant in export.grants}

    def lose(self):
        """Revoke the grant at the target behind the back of the service."""
        self.target.revoke(self.volume_id, self.initiator)
        self.assertEqual(set(), self.grants())

    def test_reconcile_without_drift_finds_nothing(self):
        self.assertEqual({'dry_run': False, 'findings': []}, self.reconcile())

    def test_dry_run_reconcile_shows_drift_only(self):
        self.lose()
        found = self.reconcile({'host': http.HOST, 'dry_run': True})
        self.assertEqual({'dry_run': True, 'findings': [{
            'host': http.HOST, 'drift': 'grant', 'volume_id': self.volume_id,
            'attachment_id': None, 'initiator': self.initiator,
            'said': 'the target does not grant the initiator the access of its attachments',
            'remedy': 'grant access', 'outcome': 'would be done'}]}, found)
        self.assertEqual(set(), self.grants())

    def test_reconcile_repairs_drift(self):
        self.lose()
        self.assertEqual(['done'], [one['outcome'] for one in self.reconcile()['findings']])
        self.assertEqual({self.initiator}, self.grants())
        self.assertEqual([], self.reconcile()['findings'])

    def test_reconcile_with_refusing_target_fails(self):
        self.target.faults.plan('exports', faults.Fault.REFUSED)
        self.assert_fault(500, 'refused', self.http.as_admin.put(
            '/os-services/reconcile', {'host': http.HOST}, version='3.71, blockattach 1.6'))

    def test_invalid_reconcile_rejected(self):
        for body, status in (({'host': 'nowhere@fake'}, 404), ({}, 400),
                             ({'host': http.HOST, 'dry_run': 'perhaps'}, 400),
                             ({'host': http.HOST, 'cluster': 'c'}, 400)):
            with self.subTest(body=body):
                self.reconcile(body or {'zz': 1}, status=status)
        self.reconcile(extension=', blockattach 1.5', status=404)
        self.sql("UPDATE services SET reported_at = '2020-01-01 00:00:00.000000'")
        self.reconcile(status=502)
