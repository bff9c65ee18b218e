"""Attachments: reserve, connect, complete and delete, and each refusal of them."""
import functools

from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.drivers import faults
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

_State = attachment_lifecycle.State
_Own = volume_lifecycle.OwnStatus

TARGET_KEYS = {
    'driver_volume_type', 'target_discovered', 'target_portal', 'target_iqn', 'target_lun',
    'volume_id', 'attachment_id', 'encrypted', 'qos_specs', 'access_mode', 'cacheable',
    'enforce_multipath'}
AUTH_KEYS = {'auth_method', 'auth_username', 'auth_password'}


class LifecycleTest(base.ApiTestCase):
    """Lifecycle of an attachment from reserve to delete, in the order of Nova's requests."""

    def test_attach_and_detach_volume_statuses(self):
        volume_id = self.volume()
        steps = []

        def note():
            shown = self.shown(volume_id)
            steps.append((shown['status'], len(shown['attachments'])))

        attachment_id = self.reserve(volume_id)
        note()
        self.connect(attachment_id)
        note()
        self.complete(attachment_id)
        note()
        remaining = self.http.as_member.delete(f'/attachments/{attachment_id}')
        note()
        self.assertEqual([('reserved', 0), ('attaching', 0), ('in-use', 1), ('available', 0)],
                         steps)
        self.assert_status(200, remaining)
        self.assertEqual({'attachments': []}, remaining.body)
        self.assert_status(404, self.http.as_member.get(f'/attachments/{attachment_id}'))

    def test_reserve_response_body(self):
        volume_id = self.volume()
        for connector in ({}, None):
            with self.subTest(connector=connector):
                reply = self.http.as_member.post('/attachments', {'attachment': {
                    'volume_uuid': volume_id, 'instance_uuid': base.SERVER,
                    'connector': connector}})
                self.assert_status(200, reply)
                made = reply.body['attachment']
                self.assertEqual({
                    'id': made['id'], 'status': 'reserved', 'instance': base.SERVER,
                    'volume_id': volume_id, 'attached_at': '', 'detached_at': '',
                    'attach_mode': 'null', 'connection_info': {}}, made)
                self.http.as_member.delete(f'/attachments/{made["id"]}')

    def test_create_with_connector_returns_attaching(self):
        volume_id = self.volume()
        reply = self.http.as_member.post('/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.SERVER,
            'connector': make.connector()}})
        self.assert_status(200, reply)
        made = reply.body['attachment']
        self.assertEqual('attaching', made['status'])
        self.assertNotEqual('', made['attached_at'])
        self.assertEqual('rw', made['attach_mode'])
        self.assertEqual(made, self.http.as_member.get(
            f'/attachments/{made["id"]}').body['attachment'])

    def test_instance_null_without_server(self):
        reply = self.http.as_member.post(
            '/attachments', {'attachment': {'volume_uuid': self.volume()}}, version='3.27')
        self.assertIsNone(reply.body['attachment']['instance'])

    def test_complete_ignores_body_and_is_idempotent(self):
        attachment_id = self.reserve(self.volume())
        for value in (None, {}, attachment_id, {'a': [1]}):
            with self.subTest(value=value):
                reply = self.http.as_member.post(
                    f'/attachments/{attachment_id}/action', {'os-complete': value},
                    version='3.44')
                self.assert_status(204, reply)
                self.assertEqual('', reply.text)

    def test_repeated_connector_returns_to_attaching(self):
        volume_id = self.volume()
        connector = make.connector()
        attachment_id = self.attached(volume_id, connector=connector)
        again = self.connect(attachment_id, connector)
        self.assertEqual('attaching', again['status'])
        self.assertEqual('attaching', self.shown(volume_id)['status'])

    def test_second_attachment_of_server_moves_between_hosts(self):
        volume_id = self.volume()
        old = self.attached(volume_id)
        reply = self.http.as_member.post('/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.SERVER,
            'connector': make.connector()}})
        self.assert_status(200, reply)
        new = reply.body['attachment']['id']
        self.complete(new)
        remaining = self.http.as_member.delete(f'/attachments/{old}')
        self.assertEqual([{'id': new, 'status': 'attached', 'instance': base.SERVER,
                           'volume_id': volume_id}], remaining.body['attachments'])

    def test_multiattach_hosts_connect_before_first_complete(self):
        volume_id = self.volume(multiattach=True)
        ids = [self.reserve(volume_id, base.new_id()) for _ in range(4)]
        for attachment_id in ids:
            self.connect(attachment_id)
        for attachment_id in ids:
            self.complete(attachment_id)
        shown = self.shown(volume_id)
        self.assertEqual('in-use', shown['status'])
        self.assertEqual(set(ids), {one['attachment_id'] for one in shown['attachments']})


class ModeTest(base.ApiTestCase):
    """Mode of an attachment and of its connection."""

    def test_attach_mode_from_request_and_connector(self):
        rows = (
            # mode of the create request, mode of the connector, stored and shown mode
            (None, None, 'rw'),
            ('ro', None, 'ro'),
            ('rw', None, 'rw'),
            (None, 'ro', 'ro'),
            ('ro', 'rw', 'ro'),
        )
        for asked, of_connector, answered in rows:
            with self.subTest(asked=asked, of_connector=of_connector):
                more = {} if asked is None else {'mode': asked}
                connector = make.connector(**({'mode': of_connector} if of_connector else {}))
                attachment_id = self.reserve(self.volume(), **more)
                made = self.connect(attachment_id, connector)
                self.assertEqual(answered, made['attach_mode'])
                self.assertEqual(answered, made['connection_info']['access_mode'])

    def test_mode_accepted_from_3_54(self):
        body = {'attachment': {'volume_uuid': self.volume(), 'mode': 'ro'}}
        self.assert_fault(400, 'Additional properties are not allowed',
                          self.http.as_member.post('/attachments', body, version='3.53'))
        reply = self.http.as_member.post('/attachments', body, version='3.54')
        self.assertEqual('ro', reply.body['attachment']['attach_mode'])

    def test_invalid_mode_rejected(self):
        volume_id = self.volume()
        for mode in (None, 'RO', 'null', '', 1):
            with self.subTest(mode=mode):
                self.assert_fault(400, 'mode', self.http.as_member.post(
                    '/attachments', {'attachment': {'volume_uuid': volume_id, 'mode': mode}}))
        attachment_id = self.reserve(volume_id)
        self.assert_fault(400, 'mode', self.http.as_member.put(
            f'/attachments/{attachment_id}',
            {'attachment': {'connector': make.connector(mode='no')}}))


class ConnectionInfoTest(base.ApiTestCase):
    """Connection info a consumer logs in with, and the callers that see its secret."""

    def test_connection_info_keys_and_values(self):
        volume_id = self.volume()
        attachment_id = self.reserve(volume_id)
        connector = make.connector(enforce_multipath=True)
        info = self.connect(attachment_id, connector)['connection_info']
        self.assertEqual(TARGET_KEYS | AUTH_KEYS, info.keys())
        iqn = f'iqn.2010-10.org.openstack:volume-{volume_id}'
        self.assertEqual(
            {'driver_volume_type': 'iscsi', 'target_discovered': False,
             'target_portal': '127.0.0.1:3260', 'target_iqn': iqn, 'target_lun': 1,
             'volume_id': volume_id, 'attachment_id': attachment_id, 'encrypted': False,
             'qos_specs': None, 'access_mode': 'rw', 'cacheable': False,
             'enforce_multipath': True, 'auth_method': 'CHAP'},
            {key: info[key] for key in TARGET_KEYS | {'auth_method'}})
        self.assertEqual(connection.AccessMode.RW, self.http.manager.backend.fake_target.log_in(
            volume_id, connector['initiator'],
            connection.Credential(info['auth_username'], info['auth_password'])))

    def test_multipath_connection_info_has_lists(self):
        info = self.connect(self.reserve(self.volume()),
                            make.connector(multipath=True))['connection_info']
        self.assertEqual([info['target_portal']], info['target_portals'])
        self.assertEqual([info['target_iqn']], info['target_iqns'])
        self.assertEqual([info['target_lun']], info['target_luns'])

    def test_chap_secret_visible_by_persona(self):
        attachment_id = self.attached(self.volume())
        reading_service = http.Persona(self.http, 'reader', service_token=True)
        rows = (
            (self.http.as_member, True), (self.http.as_admin, True), (reading_service, True),
            (http.Persona(self.http, 'reader,service'), True), (self.http.as_reader, False),
        )
        for persona, sees in rows:
            with self.subTest(sees=sees):
                one = persona.get(f'/attachments/{attachment_id}').body['attachment']
                of_list = persona.get('/attachments/detail').body['attachments'][0]
                self.assertEqual(one, of_list)
                expected = TARGET_KEYS | AUTH_KEYS if sees else TARGET_KEYS
                self.assertEqual(expected, one['connection_info'].keys())

    def test_chap_secret_differs_per_host(self):
        volume_id = self.volume(multiattach=True)
        infos = [self.connect(self.reserve(volume_id, base.new_id()))['connection_info']
                 for _ in range(2)]
        self.assertNotEqual(infos[0]['auth_password'], infos[1]['auth_password'])

    def test_former_connection_shown_while_grant_uncertain(self):
        """The secret shown with a target always belongs to that target."""
        volume_id = self.volume()
        attachment_id = self.reserve(volume_id)
        before = self.connect(attachment_id, make.connector(
            multipath=True, enforce_multipath=True))['connection_info']
        self.http.manager.backend.fake_target.faults.plan(
            'grant', faults.Fault.UNCERTAIN_BEFORE)
        self.assert_status(504, self.http.as_member.put(
            f'/attachments/{attachment_id}', {'attachment': {'connector': make.connector()}}))
        now = self.http.as_member.get(f'/attachments/{attachment_id}').body['attachment']
        self.assertEqual('attaching', now['status'])
        self.assertEqual(before, now['connection_info'])


class CreateRefusedTest(base.ApiTestCase):

    def create(self, volume_id, persona=None, **more):
        return (persona or self.http.as_member).post(
            '/attachments', {'attachment': {'volume_uuid': volume_id, **more}})

    def test_create_for_absent_or_foreign_volume_not_found(self):
        volume_id = self.volume()
        for persona, asked in ((self.http.as_member, base.ABSENT),
                               (self.http.as_stranger, volume_id)):
            with self.subTest(asked=asked):
                self.assert_fault(404, f'Volume {asked} could not be found.',
                                  self.create(asked, persona))

    def nested(self, levels):
        return functools.reduce(lambda inner, _: [inner], range(levels), 'x')

    def test_malformed_create_rejected(self):
        volume_id = self.volume()
        good = {'volume_uuid': volume_id, 'instance_uuid': base.SERVER}
        rows = (
            ({}, "'attachment' is a required property"),
            ({'attachment': good, 'more': 1}, 'Additional properties are not allowed'),
            ({'attachment': None}, 'attachment'),
            ({'attachment': {}}, "'volume_uuid' is a required property"),
            ({'attachment': {**good, 'other': 1}}, 'Additional properties are not allowed'),
            ({'attachment': {**good, 'volume_uuid': 'x'}}, 'volume_uuid'),
            ({'attachment': {**good, 'volume_uuid': None}}, 'volume_uuid'),
            ({'attachment': {**good, 'instance_uuid': None}}, 'instance_uuid'),
            ({'attachment': {**good, 'instance_uuid': 'x'}}, 'instance_uuid'),
            ({'attachment': {**good, 'connector': 'x'}}, 'connector'),
            ({'attachment': {**good, 'connector': {'host': 'h' * 256}}}, 'host'),
            # A stored connector is shown again, also in lists with attachments of other volumes.
            ({'attachment': {**good, 'connector': make.connector(deep=self.nested(200))}},
             'Malformed request body'),
            (b'', 'Malformed request body'),
            (b'{', 'Malformed request body'),
        )
        for body, sentence in rows:
            with self.subTest(body=body):
                self.assert_fault(400, sentence, self.http.as_member.post('/attachments', body))
        self.assertEqual('available', self.shown(volume_id)['status'])

    def test_create_for_reserved_or_attached_volume_rejected(self):
        volume_id = self.volume()
        reserved = self.reserve(volume_id)
        for status, step in (('reserved', lambda: None),
                             ('attaching', lambda: self.connect(reserved)),
                             ('in-use', lambda: self.complete(reserved))):
            step()
            with self.subTest(status=status):
                self.assert_fault(
                    400, f'status must be available or downloading to reserve, but the current '
                         f'status is {status}.',
                    self.create(volume_id, instance_uuid=base.OTHER_SERVER))

    def test_create_rejected_by_own_status(self):
        for own_status, sentence in (
                (_Own.CREATING, 'the current status is creating'),
                (_Own.DELETING, 'the current status is deleting'),
                (_Own.ERROR, 'can not be created if the volume is in an error state'),
                (_Own.ERROR_DELETING, 'can not be created if the volume is in an error state')):
            with self.subTest(own_status=own_status):
                volume = make.volume(self.http.database, own_status=own_status,
                                     on_pool=http.POOL)
                self.assert_fault(400, sentence, self.create(volume.id))

    def test_create_with_unusable_connector_changes_nothing(self):
        volume_id = self.volume()
        reply = self.create(volume_id, connector={'host': 'h'})
        self.assert_fault(400, "Connector doesn't have required information: initiator", reply)
        self.assertEqual('available', self.shown(volume_id)['status'])

    def test_create_with_refused_grant_changes_nothing(self):
        volume_id = self.volume()
        self.http.manager.backend.fake_target.faults.plan('grant', faults.Fault.REFUSED)
        self.assert_fault(
            500, 'Unable to create attachment for volume (grant refused as planned).',
            self.create(volume_id, connector=make.connector()))
        self.assertEqual('available', self.shown(volume_id)['status'])
        self.assertEqual([], self.http.as_admin.get('/attachments').body['attachments'])

    def test_create_without_manager_times_out(self):
        volume_id = self.volume()
        self.http.managers.remove(http.HOST)
        self.assert_fault(504, 'Unable to create attachment for volume.',
                          self.create(volume_id, connector=make.connector()))
        self.assertEqual('detaching', self.shown(volume_id)['status'])


class UpdateRefusedTest(base.ApiTestCase):

    def update(self, attachment_id, connector, persona=None):
        return (persona or self.http.as_member).put(
            f'/attachments/{attachment_id}', {'attachment': {'connector': connector}})

    def test_update_of_absent_or_foreign_attachment_not_found(self):
        attachment_id = self.reserve(self.volume())
        for persona, asked in ((self.http.as_member, base.ABSENT),
                               (self.http.as_stranger, attachment_id)):
            with self.subTest(asked=asked):
                self.assert_fault(
                    404, 'Volume attachment could not be found with filter: attachment_id = '
                         f'{asked}.', self.update(asked, make.connector(), persona))

    def test_malformed_update_rejected(self):
        path = f'/attachments/{self.reserve(self.volume())}'
        for body, sentence in (
                ({'attachment': {}}, "'connector' is a required property"),
                ({'attachment': {'connector': {}}}, 'should be non-empty'),
                ({'attachment': {'connector': None}}, 'connector'),
                ({'attachment': {'connector': {'host': 'h'}, 'mode': 'ro'}},
                 'Additional properties are not allowed')):
            with self.subTest(body=body):
                self.assert_fault(400, sentence, self.http.as_member.put(path, body))

    def test_incomplete_connector_rejected(self):
        attachment_id = self.reserve(self.volume())
        for connector, missing in (
                ({'initiator': make.connector()['initiator']}, 'host'),
                ({**make.connector(), 'host': None}, 'host'),
                ({'host': 'h'}, 'initiator'), ({'host': 'h', 'initiator': ''}, 'initiator')):
            with self.subTest(connector=connector):
                self.assert_fault(
                    400, f"Invalid input received: Connector doesn't have required information: "
                         f'{missing}', self.update(attachment_id, connector))
        shown = self.http.as_member.get(f'/attachments/{attachment_id}').body['attachment']
        self.assertEqual('reserved', shown['status'])

    def test_update_with_volume_in_error_rejected(self):
        volume = make.volume(self.http.database, on_pool=http.POOL)
        attachment_id = self.reserve(volume.id)
        self.sql("UPDATE volumes SET own_status = 'error', status = 'error'")
        self.assert_fault(409, 'Volume attachments can not be updated if the volume is in an '
                               'error state.', self.update(attachment_id, make.connector()))

    def test_second_host_on_single_attach_volume_rejected(self):
        volume_id = self.volume()
        first = self.reserve(volume_id)
        second = self.reserve(volume_id)
        self.connect(first)
        self.assert_fault(409, f'duplicate connectors detected on volume {volume_id}',
                          self.update(second, make.connector()))

    def test_update_with_refused_grant_changes_nothing(self):
        volume_id = self.volume()
        attachment_id = self.reserve(volume_id)
        self.http.manager.backend.fake_target.faults.plan('grant', faults.Fault.REFUSED)
        self.assert_fault(500, 'Unable to update attachment (grant refused as planned).',
                          self.update(attachment_id, make.connector()))
        self.assertEqual('reserved', self.shown(volume_id)['status'])
        self.assertEqual('attaching', self.connect(attachment_id)['status'])


class CompleteAndDeleteRefusedTest(base.ApiTestCase):

    def test_complete_and_delete_of_absent_or_foreign_not_found(self):
        attachment_id = self.reserve(self.volume())
        for persona, asked in ((self.http.as_member, base.ABSENT),
                               (self.http.as_stranger, attachment_id)):
            path = f'/attachments/{asked}'
            with self.subTest(asked=asked):
                self.assert_fault(404, asked, persona.post(f'{path}/action',
                                                           {'os-complete': None}))
                self.assert_fault(404, asked, persona.delete(path))
                self.assert_fault(404, asked, persona.get(path))

    def test_second_delete_not_found(self):
        attachment_id = self.attached(self.volume())
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{attachment_id}'))
        self.assert_status(404, self.http.as_member.delete(f'/attachments/{attachment_id}'))

    def test_complete_while_connecting_rejected(self):
        volume = make.volume(self.http.database, on_pool=http.POOL)
        row = make.attachment(self.http.database, volume, _State.CONNECTING)
        self.assert_fault(409, 'Cannot complete an attachment in state connecting',
                          self.http.as_member.post(f'/attachments/{row.id}/action',
                                                   {'os-complete': {}}))

    def test_delete_with_refused_revoke_changes_nothing(self):
        volume_id = self.volume()
        attachment_id = self.attached(volume_id)
        self.http.manager.backend.fake_target.faults.plan('revoke', faults.Fault.REFUSED)
        self.assert_fault(500, 'Unable to delete attachment for volume',
                          self.http.as_member.delete(f'/attachments/{attachment_id}'))
        self.assertEqual('in-use', self.shown(volume_id)['status'])
        self.assert_status(200, self.http.as_member.delete(f'/attachments/{attachment_id}'))

    def test_delete_keeps_other_attachments_of_volume(self):
        volume_id = self.volume(multiattach=True)
        stays, goes = (self.attached(volume_id, base.new_id()) for _ in range(2))
        remaining = self.http.as_member.delete(f'/attachments/{goes}').body['attachments']
        self.assertEqual([stays], [one['id'] for one in remaining])
        self.assertEqual('in-use', self.shown(volume_id)['status'])


class VersionTest(base.ApiTestCase):

    def test_attachment_routes_by_microversion(self):
        attachment_id = self.reserve(self.volume())
        rows = (
            ('GET', '/attachments', None, '3.26'), ('GET', '/attachments/detail', None, '3.26'),
            ('GET', f'/attachments/{attachment_id}', None, '3.26'),
            ('POST', '/attachments', {'attachment': {}}, '3.26'),
            ('PUT', f'/attachments/{attachment_id}', {'attachment': {}}, '3.26'),
            ('DELETE', f'/attachments/{attachment_id}', None, '3.26'),
            ('POST', f'/attachments/{attachment_id}/action', {'os-complete': {}}, '3.43'),
        )
        for method, path, body, version in rows:
            with self.subTest(method=method, path=path):
                self.assert_fault(404, 'The resource could not be found.',
                                  self.http.as_member.send(method, path, body, version))
                self.assert_fault(404, 'The resource could not be found.',
                                  self.http.as_member.send(method, path, body, None))

    def test_attachment_summary_route_absent(self):
        self.assert_fault(404, 'attachment_id = summary',
                          self.http.as_member.get('/attachments/summary'))


class BootableTest(base.ApiTestCase):
    """Bootable multiattach volume, which has a policy rule of its own from the second host on."""

    SETTINGS = {'rules': {'volume:multiattach_bootable_volume': '!'}}

    def test_second_attachment_of_bootable_multiattach_volume_forbidden(self):
        volume_id = self.volume(multiattach=True)
        self.sql('UPDATE volumes SET bootable = 1')
        self.attached(volume_id)
        reply = self.http.as_member.post('/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.OTHER_SERVER}})
        self.assert_fault(403, "Policy doesn't allow volume:multiattach_bootable_volume to be "
                               'performed.', reply)
