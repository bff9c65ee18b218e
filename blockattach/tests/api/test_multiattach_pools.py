"""Multiattach volumes, which create, retype and migrate keep off backends without multiattach."""
from blockattach.storage.db.types import volume_types
from blockattach.storage.drivers.targets import fake as fake_target
from blockattach.tests.api import base
from blockattach.tests.api import moves
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

SHARED = {'multiattach': '<is> True'}
REASON = 'multiattach is not supported'


class PoolsTestCase(moves.MovesTestCase):
    """Deployment of two backends, of which only the first supports multiattach."""

    OTHER_TARGET = fake_target.SingleHostTarget

    def setUp(self):
        super().setUp()
        self.type('shared')
        self.type('elsewhere', volume_backend_name='other')
        self.type('plain', shared=False)

    def type(self, name, shared=True, **specs):
        return volume_types.create(self.http.database, name, None, True,
                                   {**(SHARED if shared else {}), **specs})

    def ask(self, kind):
        return self.http.as_member.post('/volumes', {'volume': {'size': 1, 'volume_type': kind}})

    def create(self, kind):
        reply = self.ask(kind)
        self.assert_status(202, reply)
        return reply.body['volume']['id']

    def retype(self, volume_id, kind, policy='on-demand'):
        return self.act(volume_id, 'os-retype', {'new_type': kind, 'migration_policy': policy})

    def migrate(self, volume_id):
        return self.act(volume_id, 'os-migrate_volume', {'host': moves.OTHER},
                        persona=self.http.as_admin)


class MultiattachPoolsTest(PoolsTestCase):

    def test_pools_report_multiattach_capability(self):
        found = self.http.as_admin.get('/scheduler-stats/get_pools?detail=True').body['pools']
        self.assertEqual({http.POOL: True, moves.OTHER_POOL: False}, {
            one['name']: one['capabilities']['multiattach'] for one in found})

    def test_create_multiattach_avoids_unsupporting_pool(self):
        for _ in range(3):
            volume_id = self.create('shared')
            self.assertEqual(http.POOL, self.shown(volume_id)['os-vol-host-attr:host'])

    def test_create_multiattach_without_capable_pool_fails(self):
        volume_id = self.create('elsewhere')
        self.assertEqual('error', self.shown(volume_id)['status'])
        self.assertIn(REASON, self.messages(volume_id)[0][1])

    def test_retype_to_multiattach_moves_volume(self):
        self.sql(f"UPDATE services SET disabled = 1 WHERE host = '{http.HOST}'")
        volume_id = self.create('plain')
        self.sql(f"UPDATE services SET disabled = 0 WHERE host = '{http.HOST}'")
        self.other_store.contents(f'volume-{volume_id}')[0] = moves.PIECE
        self.assert_status(202, self.retype(volume_id, 'shared', 'never'))
        self.assert_at(moves.OTHER_POOL, volume_id)
        self.assertFalse(self.shown(volume_id)['multiattach'])
        self.assert_status(202, self.retype(volume_id, 'shared'))
        self.clean()
        self.assert_at(http.POOL, volume_id)
        self.assertTrue(self.shown(volume_id)['multiattach'])

    def test_retype_multiattach_to_unsupporting_pool_cancelled(self):
        volume_id = self.written(volume_type='shared')
        self.assert_status(202, self.retype(volume_id, 'elsewhere'))
        self.clean()
        self.assert_at(http.POOL, volume_id)
        self.assertEqual('shared', self.shown(volume_id)['volume_type'])

    def test_migrate_multiattach_to_unsupporting_pool_rejected(self):
        volume_id = self.written(volume_type='shared')
        self.migrate(volume_id)
        self.clean()
        self.assert_at(http.POOL, volume_id)
        self.assertEqual('error', self.shown(volume_id)['migration_status'])
        self.assertIn(REASON, str(self.messages(volume_id)))

    def test_migrate_plain_volume_to_unsupporting_pool(self):
        volume_id = self.written(volume_type='plain')
        self.assert_status(202, self.migrate(volume_id))
        self.clean()
        self.assert_at(moves.OTHER_POOL, volume_id)

    def test_second_host_in_unsupporting_pool_rejected(self):
        volume_id = self.written(volume_type='plain')
        self.migrate(volume_id)
        self.clean()
        for status, instance in ((200, base.SERVER), (500, base.OTHER_SERVER)):
            reply = self.http.as_member.post('/attachments', {'attachment': {
                'volume_uuid': volume_id, 'instance_uuid': base.SERVER,
                'connector': make.connector(host=instance)}})
            self.assert_status(status, reply)


class CheckTest(PoolsTestCase):
    """Check of capabilities before the request is accepted."""

    SETTINGS = {'check_capabilities': 'reject'}

    def test_pool_check_rejects_type_without_capable_pool(self):
        for kind, disabled in (('shared', True), ('elsewhere', False)):
            self.sql(f"UPDATE services SET disabled = {int(disabled)} WHERE host = '{http.HOST}'")
            self.assert_fault(400, REASON if kind == 'shared' else 'capabilities required',
                              self.ask(kind))

    def test_pool_check_accepts_type_with_capable_pool(self):
        self.assert_status(202, self.ask('shared'))
