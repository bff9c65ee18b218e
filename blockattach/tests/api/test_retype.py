"""os-retype, which changes the type of a volume in place or with a migration, or nothing."""
from blockattach.storage.db.types import qos_specs
from blockattach.storage.db.types import volume_types
from blockattach.storage.drivers import faults
from blockattach.tests.api import base
from blockattach.tests.api import moves
from blockattach.tests.fixtures import http


class RetypeTestCase(moves.MovesTestCase):

    def retype(self, volume_id, new_type, policy='never', **more):
        return self.act(volume_id, 'os-retype', {
            'new_type': new_type, 'migration_policy': policy}, **more)

    def type(self, name, specs=None, is_public=True):
        return volume_types.create(self.http.database, name, None, is_public, specs or {})

    def kind(self, volume_id):
        shown = self.shown(volume_id)
        return shown['volume_type'], shown['multiattach'], shown['status']


class InPlaceTest(RetypeTestCase):

    def test_retype_by_type_id_or_name(self):
        volume_id, plain, shared = self.written(), self.type('plain'), self.multiattach_type()
        for asked, outcome in ((plain.name, ('plain', False, 'available')),
                               (shared.id, (shared.name, True, 'available')),
                               (plain.id, ('plain', False, 'available'))):
            for policy in ('never', 'on-demand', None):
                with self.subTest(asked, policy=policy):
                    if self.kind(volume_id)[0] != outcome[0]:
                        self.assert_status(202, self.retype(volume_id, asked, policy))
                    self.assertEqual(outcome, self.kind(volume_id))
        self.assert_at(http.POOL, volume_id)
        self.assertEqual((1, 0), self.allocated())
        self.assertIsNone(self.shown(volume_id)['migration_status'])

    def test_retyping_volume_shows_former_type(self):
        volume_id, shared = self.written(), self.multiattach_type()
        before = self.kind(volume_id)
        self.http.hold = True
        self.assert_status(202, self.retype(volume_id, shared.name))
        self.assertEqual((*before[:2], 'retyping'), self.kind(volume_id))
        self.assert_status(400, self.retype(volume_id, shared.name))
        self.release()
        self.assertEqual((shared.name, True, 'available'), self.kind(volume_id))

    def test_retype_in_full_pool_accepted(self):
        self.store.total_gb = 3
        self.http.manager.report()
        volume_id = self.written(size=3)
        self.type('plain')
        self.assert_status(202, self.retype(volume_id, 'plain'))
        self.assertEqual('plain', self.kind(volume_id)[0])

    def test_retype_without_capable_pool_keeps_type(self):
        volume_id = self.written()
        before = self.kind(volume_id)
        self.type('fast', {'volume_backend_name': 'nowhere', 'multiattach': '<is> True'})
        for policy in ('never', 'on-demand'):
            self.assert_status(202, self.retype(volume_id, 'fast', policy))
            self.assertEqual(before, self.kind(volume_id))
        self.assertEqual('VOLUME_VOLUME_057_003', self.messages(volume_id)[0][0])
        self.assertIsNone(self.shown(volume_id)['migration_status'])

    def test_retype_to_type_changed_meanwhile_cancelled(self):
        volume_id, plain = self.written(), self.type('plain')
        before = self.kind(volume_id)
        for change in (
                lambda: volume_types.set_extra_specs(
                    self.http.database, plain.id, {'multiattach': '<is> True'}),
                lambda: volume_types.delete(self.http.database, plain.id)):
            self.http.hold = True
            self.assert_status(202, self.retype(volume_id, plain.id))
            change()
            self.release()
            self.assertEqual(before, self.kind(volume_id))


class InUseTest(RetypeTestCase):

    def test_retype_attached_volume_accepted(self):
        volume_id = self.written()
        self.attached(volume_id)
        self.type('plain')
        self.assert_status(202, self.retype(volume_id, 'plain', 'on-demand'))
        self.assertEqual(('plain', False, 'in-use'), self.kind(volume_id))

    def test_retype_attached_volume_affecting_attachments_rejected(self):
        volume_id = self.written()
        self.attached(volume_id)
        before = self.kind(volume_id)
        self.assert_fault(400, 'retypes affecting multiattach are only allowed on available '
                               'volumes, the specified volume however currently has a status of: '
                               'in-use.', self.retype(volume_id, self.multiattach_type().name))
        self.assert_fault(400, 'the mode of the volume type from RW to RO', self.retype(
            volume_id, self.type('single', {'mode': 'RO'}).name))
        limited = self.type('limited')
        specs = qos_specs.create(self.http.database, 'limits', 'front-end',
                                 {'total_iops_sec': '100'})
        qos_specs.associate(self.http.database, specs.id, limited.id)
        self.assert_fault(400, 'Retype needs volume to be in available or in-use state',
                          self.retype(volume_id, limited.name))
        self.assertEqual(before, self.kind(volume_id))

    def test_retype_attached_volume_with_migration_cancelled(self):
        volume_id = self.written()
        self.attached(volume_id)
        before = self.kind(volume_id)
        self.type('other', {'volume_backend_name': 'other'})
        self.assert_status(202, self.retype(volume_id, 'other', 'on-demand'))
        self.assertEqual(before, self.kind(volume_id))
        self.assertEqual('VOLUME_VOLUME_057_003', self.messages(volume_id)[0][0])
        self.assert_at(http.POOL, volume_id)


class MovedTest(RetypeTestCase):

    def setUp(self):
        super().setUp()
        self.type('other', {'volume_backend_name': 'other', 'multiattach': '<is> True'})

    def test_retype_migrates_with_on_demand_policy_only(self):
        volume_id = self.written()
        before = self.kind(volume_id)
        self.assert_status(202, self.retype(volume_id, 'other', 'never'))
        self.assertEqual(before, self.kind(volume_id))
        self.assert_status(202, self.retype(volume_id, 'other', 'on-demand'))
        self.clean()
        self.assertEqual(('other', True, 'available'), self.kind(volume_id))
        self.assert_at(moves.OTHER_POOL, volume_id)
        self.assertEqual((0, 1), self.allocated())

    def test_retype_fault_keeps_type_and_backend(self):
        for method in ('create', 'disk'):
            volume_id = self.written()
            before = self.kind(volume_id)
            self.other_store.faults.plan(method, faults.Fault.REFUSED)
            self.assert_status(202, self.retype(volume_id, 'other', 'on-demand'))
            self.clean()
            self.assertEqual(before, self.kind(volume_id))
            self.assert_at(http.POOL, volume_id)
            self.assertEqual('error', self.shown(volume_id)['migration_status'])

    def test_retype_with_snapshots_not_migrated(self):
        volume_id = self.written()
        self.http.as_member.post('/snapshots', {'snapshot': {'volume_id': volume_id}})
        before = self.kind(volume_id)
        self.assert_status(202, self.retype(volume_id, 'other', 'on-demand'))
        self.assertEqual(before, self.kind(volume_id))


class RefusedTest(RetypeTestCase):

    def test_retype_to_invalid_type_rejected(self):
        volume_id = self.written()
        self.type('private', is_public=False)
        for name in ('nothing', base.ABSENT, 'private'):
            self.assert_status(404, self.retype(volume_id, name))
        same = self.shown(volume_id)['volume_type']
        self.assert_fault(400, 'requested type has to be different',
                          self.retype(volume_id, same))
        for body in ({}, {'new_type': None}, {'new_type': same, 'migration_policy': 'always'},
                     {'new_type': same, 'more': 1}):
            self.assert_status(400, self.act(volume_id, 'os-retype', body))

    def test_retype_rejected_by_status(self):
        volume_id = self.written()
        self.type('plain')
        self.reserve(volume_id)
        self.assert_fault(400, 'Retype needs volume', self.retype(volume_id, 'plain'))
        self.assert_fault(400, 'status of: reserved', self.retype(
            volume_id, self.multiattach_type().name))
        broken = self.written()
        self.act(broken, 'os-reset_status', {'status': 'error'}, persona=self.http.as_admin)
        self.assert_fault(400, 'Retype needs volume', self.retype(broken, 'plain'))
