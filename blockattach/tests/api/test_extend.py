"""os-extend of available and attached volumes, and the messages of a failed extend."""
import dataclasses

from blockattach.storage.db.services import pools
from blockattach.storage.db.volumes import extending
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.drivers import faults
from blockattach.storage.drivers.targets import fake as fake_target
from blockattach.tests.api import actions
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import in_process
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import nova
from blockattach.wiring import scheduler

_Own = volume_lifecycle.OwnStatus


class StaleTarget(fake_target.FakeTarget):
    """Target whose hosts see the new size of a volume only when they attach it again."""

    resize = None


class ExtendTestCase(actions.ActionsTestCase):

    @property
    def store(self):
        return self.http.manager.backend.fake_store

    def extend(self, volume_id, new_size=3, version=http.LATEST, **more):
        return self.act(volume_id, 'os-extend', {'new_size': new_size}, version=version, **more)

    def extended(self, volume_id, new_size=3, **more):
        self.assert_status(202, self.extend(volume_id, new_size, **more))

    def sizes(self, volume_id):
        """Return the size of the volume as shown and in the store, and the allocated GiB."""
        return (self.shown(volume_id)['size'], self.store.sizes()[f'volume-{volume_id}'],
                self.allocated())

    def allocated(self):
        return pools.get(self.http.database, http.POOL, in_process.DOWN_AFTER).allocated_gb

    def messages(self, volume_id):
        return [(one['event_id'], one['user_message'])
                for one in self.http.as_member.get('/messages').body['messages']
                if one['resource_uuid'] == volume_id]

    def message(self, volume_id):
        [found] = self.messages(volume_id)
        return found


class AvailableTest(ExtendTestCase):

    def test_extend_available_volume(self):
        volume_id = self.volume()
        for version, new_size in (('3.0', 2), ('3.41', '3'), ('3.71', 5)):
            with self.subTest(version):
                self.extended(volume_id, new_size, version=version)
                self.assertEqual((int(new_size),) * 3, self.sizes(volume_id))
                self.assertEqual('available', self.status(volume_id))
        self.assertEqual([], self.messages(volume_id))

    def test_extending_volume_keeps_size_and_rejects_actions(self):
        volume_id = self.volume()
        self.http.hold = True
        self.extended(volume_id)
        shown = self.shown(volume_id)
        self.assertEqual(('extending', 1), (shown['status'], shown['size']))
        self.assert_fault(400, "status must be '{'status': 'available'}' to extend, currently "
                               'extending.', self.extend(volume_id, 4))
        self.assert_fault(400, 'Volume status must be', self.http.as_member.delete(
            f'/volumes/{volume_id}'))
        self.assert_fault(409, 'Retry when the operation has finished', self.act(
            volume_id, 'os-reset_status', {'status': 'available'}, persona=self.http.as_admin))
        self.http.hold = False
        self.assertEqual('extending', self.shown(volume_id)['status'])
        self.assertEqual((3, 3, 3), self.sizes(volume_id))

    def test_extend_to_invalid_size_rejected(self):
        volume_id = self.volume(size=3)
        for new_size in (3, 2, '1', '0'):
            with self.subTest(new_size):
                self.assert_fault(
                    400, f'New size for extend must be greater than current size. (current: 3, '
                         f'extended: {new_size}).', self.extend(volume_id, new_size))
        for value in (0, -1, '', 'x', '1.5', 1.5, None, True, [4], 2 ** 31, '9' * 20):
            with self.subTest(value):
                self.assert_fault(400, 'new_size', self.extend(volume_id, value))
        for body in ({}, None, {'new_size': 5, 'more': 1}):
            with self.subTest(body):
                self.assert_status(400, self.act(volume_id, 'os-extend', body))
        self.assertEqual((3, 3, 3), self.sizes(volume_id))

    def test_extend_rejected_by_own_status(self):
        for own_status in (_Own.ERROR, _Own.MAINTENANCE, _Own.ERROR_EXTENDING, _Own.MIGRATING):
            with self.subTest(own_status):
                volume_id = self.volume()
                self.sql(f"UPDATE volumes SET own_status = '{own_status}', status = '"
                         f"{volume_lifecycle.derive_status(own_status, None).status}' "
                         f"WHERE id = '{volume_id}'")
                self.assert_fault(400, 'to extend, currently', self.extend(volume_id))

    def test_extend_of_another_project_not_found(self):
        volume_id = self.volume()
        self.assert_status(404, self.extend(volume_id, persona=self.http.as_stranger))
        self.assertEqual((1, 1, 1), self.sizes(volume_id))


class RefusedTest(ExtendTestCase):

    def test_extend_without_pool_space_changes_nothing(self):
        volume_id = self.volume()
        self.extended(volume_id, 1001)
        self.assertEqual((1, 1, 1), self.sizes(volume_id))
        self.assertEqual('available', self.status(volume_id))
        event, text = self.message(volume_id)
        self.assertEqual('VOLUME_VOLUME_007_003', event)
        self.assertIn('not enough free space', text)
        self.extended(volume_id, 1000)
        self.assertEqual((1000,) * 3, self.sizes(volume_id))

    def test_extend_not_moved_to_another_pool(self):
        volume_id = self.volume()
        in_process.Manager(self.http.deployment, 'storage-2@fake')
        self.sql("UPDATE services SET disabled = 1 WHERE host = 'storage-1@fake'")
        self.extended(volume_id)
        self.assertEqual((1, 1, 1), self.sizes(volume_id))
        self.assertIn('out of service', self.message(volume_id)[1])

    def test_extend_needs_pool_space_of_difference(self):
        self.store.total_gb = 10
        self.http.manager.report()
        volume_id = self.volume(size=6)
        self.extended(volume_id, 10)
        self.assertEqual((10, 10, 10), self.sizes(volume_id))

    def test_extend_refused_by_driver_sets_error_extending(self):
        for fault in (faults.Fault.REFUSED, faults.Fault.FULL):
            with self.subTest(fault):
                volume_id = self.volume()
                before = self.allocated()
                self.store.faults.plan('extend', fault)
                self.extended(volume_id)
                self.assertEqual((1, 1, before), self.sizes(volume_id))
                self.assertEqual('error_extending', self.shown(volume_id)['status'])
                event, text = self.message(volume_id)
                self.assertEqual('VOLUME_VOLUME_007_010', event)
                self.assertIn('Volume Driver failed to extend volume.', text)
                self.assert_status(202, self.act(volume_id, 'os-reset_status', {
                    'status': 'available'}, persona=self.http.as_admin))
                self.extended(volume_id)
                self.assertEqual((3, 3, before + 2), self.sizes(volume_id))

    def test_error_extending_volume_deleted(self):
        volume_id = self.volume()
        self.store.faults.plan('extend', faults.Fault.REFUSED)
        self.extended(volume_id)
        self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))
        self.assertEqual(({}, 0), (self.store.sizes(), self.allocated()))

    def test_extending_volume_force_deleted(self):
        volume_id = self.volume()
        self.http.hold = True
        self.extended(volume_id)
        self.assert_status(202, self.http.as_admin.delete(f'/volumes/{volume_id}?force=true'))
        self.http.work.settle()
        self.assertEqual(({}, 0), (self.store.sizes(), self.allocated()))

    def test_extend_without_scheduler_resumed_at_deadline(self):
        volume_id = self.volume()
        self.shown(volume_id)
        extending.start(self.http.database, make.judged(volume_id), 3, 'available', -1)
        scheduler.build_placing(self.http.deployment.base).waiting.look()
        self.shown(volume_id)
        self.assertEqual((3, 3, 3), self.sizes(volume_id))


class InUseTestCase(ExtendTestCase):

    def seen(self, volume_id):
        """Return the size of the volume in GiB that its hosts see."""
        return self.http.manager.backend.fake_target.seen_gb(volume_id)


class InUseTest(InUseTestCase):

    SETTINGS = {'options': {'nova': {'detach_rule': 'off'}}}

    def test_extend_attached_volume_stays_in_use(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.http.hold = True
        self.extended(volume_id, version='3.42')
        shown = self.shown(volume_id)
        self.assertEqual(('extending', 1), (shown['status'], shown['size']))
        self.http.hold = False
        self.shown(volume_id)
        self.assertEqual((3, 3, 3), self.sizes(volume_id))
        self.assertEqual((3, 'in-use'), (self.seen(volume_id), self.status(volume_id)))
        self.assertEqual([], self.messages(volume_id))

    def test_extend_attached_volume_rejected_before_3_42(self):
        volume_id = self.volume()
        self.attached(volume_id)
        for version in ('3.0', '3.41'):
            self.assert_fault(400, "status must be '{'status': 'available'}' to extend, currently "
                                   'in-use.', self.extend(volume_id, version=version))
        self.assertEqual((1, 1, 1), self.sizes(volume_id))

    def test_extend_reserved_or_attaching_volume_rejected(self):
        volume_id = self.volume(multiattach=True)
        attachment_id = self.reserve(volume_id)
        self.assert_fault(400, 'currently reserved.', self.extend(volume_id))
        self.connect(attachment_id)
        self.assert_fault(400, 'currently attaching.', self.extend(volume_id))

    def test_detach_during_extend_accepted(self):
        volume_id = self.volume()
        attachment_id = self.attached(volume_id)
        self.http.hold = True
        self.extended(volume_id)
        self.assert_status(400, self.http.as_member.post('/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.OTHER_SERVER}}))
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{attachment_id}'))
        self.assertEqual('extending', self.shown(volume_id)['status'])
        self.http.hold = False
        self.shown(volume_id)
        self.assertEqual((3, 3, 3), self.sizes(volume_id))
        self.assertEqual('available', self.status(volume_id))

    def test_refused_extend_keeps_attachments(self):
        volume_id = self.volume()
        attachment_id = self.attached(volume_id)
        self.store.faults.plan('extend', faults.Fault.REFUSED)
        self.extended(volume_id)
        shown = self.shown(volume_id)
        self.assertEqual(('error_extending', [attachment_id]), (
            shown['status'], [one['attachment_id'] for one in shown['attachments']]))
        self.assert_status(202, self.act(volume_id, 'os-reset_status', {'status': 'in-use'},
                                         persona=self.http.as_admin))
        self.extended(volume_id)
        self.assertEqual((3, 'in-use'), (self.seen(volume_id), self.status(volume_id)))

    def test_refused_target_resize_keeps_new_size(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.http.manager.backend.fake_target.faults.plan('resize', faults.Fault.REFUSED)
        self.extended(volume_id)
        self.assertEqual((3, 3, 3), self.sizes(volume_id))
        self.assertEqual('in-use', self.status(volume_id))


class ForbiddenTest(InUseTestCase):

    SETTINGS = {'rules': {'volume:extend_attached_volume': '!'}}

    def test_extend_attached_volume_forbidden_by_policy(self):
        volume_id = self.volume()
        attachment_id = self.attached(volume_id)
        self.assert_fault(403, 'volume:extend_attached_volume', self.extend(volume_id))
        self.assert_status(200, self.http.as_service.delete(f'/attachments/{attachment_id}'))
        self.extended(volume_id)
        self.assertEqual((3, 3, 3), self.sizes(volume_id))


class StaleTargetTest(InUseTestCase):

    def setUp(self):
        super().setUp()
        manager = self.http.manager
        manager.backend.loaded = dataclasses.replace(
            manager.backend.loaded, target=StaleTarget(manager.backend.loaded.settings))
        manager.report()

    def test_extend_attached_volume_rejected_without_online_extend(self):
        [pool] = self.http.as_admin.get('/scheduler-stats/get_pools?detail=true').body['pools']
        self.assertIs(False, pool['capabilities']['online_extend_support'])
        volume_id = self.volume()
        attachment_id = self.attached(volume_id)
        self.assert_fault(400, 'its backend cannot extend attached volumes. Detach the volume',
                          self.extend(volume_id))
        self.assertEqual('in-use', self.status(volume_id))
        self.assert_status(200, self.http.as_service.delete(f'/attachments/{attachment_id}'))
        self.extended(volume_id)
        self.assertEqual((3, 3, 3), self.sizes(volume_id))


class NovaTest(InUseTestCase):

    SERVERS = (base.SERVER, base.OTHER_SERVER)

    def setUp(self):
        self.nova = nova.NovaStandIn()
        self.addCleanup(self.nova.close)
        self.SETTINGS = {'options': {'nova': {
            'endpoint_override': self.nova.url, 'timeout': 5.0}}}
        super().setUp()
        for server_id in self.SERVERS:
            self.nova.run(server_id, 'web')

    def in_use(self):
        volume_id = self.volume(multiattach=True)
        for number, server_id in enumerate(self.SERVERS):
            self.attached(volume_id, server_id, make.connector(
                f'iqn.2026-01.org.example:host-{number}', f'host-{number}'))
        return volume_id

    def test_extend_notifies_each_server_once(self):
        volume_id = self.in_use()
        self.attached(volume_id, base.SERVER, make.connector(
            'iqn.2026-01.org.example:host-9', 'host-9'))
        self.extended(volume_id)
        self.shown(volume_id)
        self.assertEqual([('volume-extended', server_id, volume_id) for server_id in self.SERVERS],
                         sorted(self.nova.events))
        [sent] = [one for one in self.nova.requests if one.path.endswith('external-events')]
        self.assertEqual('compute 2.51', sent.headers['openstack-api-version'])
        self.assertEqual([], self.messages(volume_id))

    def test_extend_unattached_volume_sends_no_nova_event(self):
        volume_id = self.volume()
        self.reserve(self.volume())
        self.extended(volume_id)
        self.shown(volume_id)
        self.assertEqual([], self.nova.events)

    def test_extend_reports_server_unknown_to_nova(self):
        volume_id = self.in_use()
        self.nova.end(base.OTHER_SERVER)
        self.extended(volume_id)
        self.assertEqual((3, 3, 3), self.sizes(volume_id))
        self.assertEqual('in-use', self.status(volume_id))
        self.assertEqual([('volume-extended', base.SERVER, volume_id)], self.nova.events)
        event, text = self.message(volume_id)
        self.assertEqual('VOLUME_VOLUME_007_009', event)
        self.assertIn(f'Server {base.OTHER_SERVER}: Nova does not know the server', text)
        self.assertNotIn(base.SERVER, text)

    def test_extend_reports_failed_nova_event(self):
        for status, body, words in (
                (500, {}, 'status 500'), (403, {'forbidden': {}}, 'status 403'),
                (404, {'itemNotFound': {}}, 'Nova does not know the server'),
                (404, {}, 'status 404'),
                (200, {}, 'status 200'), (200, {'events': []}, 'Nova rejected the event'),
                (200, {'events': [None, {}, {'code': 200}]}, 'Nova rejected the event'),
                (207, {'events': [{'server_uuid': base.SERVER, 'code': 422}]},
                 'the server is not on any host'),
                (200, b'no JSON', 'status 200')):
            with self.subTest(status=status, body=body):
                volume_id = self.volume()
                self.attached(volume_id)
                self.nova.answer = nova.Reply(status, body)
                self.extended(volume_id)
                self.shown(volume_id)
                self.assertIn(words, self.message(volume_id)[1])
                self.assertEqual((3, 'in-use'), (self.seen(volume_id), self.status(volume_id)))

    def test_extend_reports_unreachable_nova(self):
        volume_id = self.in_use()
        self.nova.close()
        self.extended(volume_id)
        self.assertEqual('in-use', self.status(volume_id))
        self.assertEqual(3, self.seen(volume_id))
        self.assertIn('Nova cannot be reached', self.message(volume_id)[1])


class UnknownNovaTest(InUseTestCase):

    def test_extend_reports_nova_not_configured(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.extended(volume_id)
        self.assertEqual('in-use', self.status(volume_id))
        self.assertIn('access to Nova is not configured', self.message(volume_id)[1])


class CompletionTest(ExtendTestCase):

    def complete(self, volume_id, body, persona=None, version=http.LATEST):
        return self.act(volume_id, 'os-extend_volume_completion', body,
                        persona or self.http.as_admin, version)

    def test_extend_completion_rejected_before_3_71(self):
        for version in ('3.0', '3.70'):
            self.assert_status(400, self.complete(self.volume(), {}, version=version))

    def test_extend_completion_of_idle_volume_rejected(self):
        volume_id = self.volume()
        for body in ({}, {'error': None}, {'error': True}, {'error': 'true'}):
            self.assert_fault(400, 'Volume is not being extended.', self.complete(volume_id, body))
        for body in (None, {'error': 1}, {'more': True}):
            self.assert_status(400, self.complete(volume_id, body))
        self.assert_status(403, self.complete(volume_id, {}, self.http.as_member))

    def test_extend_completion_during_extend_rejected(self):
        volume_id = self.volume()
        self.http.hold = True
        self.extended(volume_id)
        for body in ({}, {'error': True}):
            self.assert_fault(400, 'Required volume admin metadata is malformed or missing.',
                              self.complete(volume_id, body))
        self.http.hold = False
        self.shown(volume_id)
        self.assertEqual((3, 3, 3), self.sizes(volume_id))
