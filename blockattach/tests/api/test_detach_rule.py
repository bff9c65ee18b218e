"""Detach rule of CVE-2023-2088: requests that delete or move an attachment ask Nova first."""
from blockattach.platform import failpoints
from blockattach.tests.api import base
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import nova
from blockattach.tests.fixtures import polling

FORCED = {'OpenStack-API-Version': 'volume 3.71, blockattach 1.0'}
POINT = 'control.attachments.after_check'


class DetachRuleTest(base.ApiTestCase):
    """Attachment that a server uses according to Nova."""

    def setUp(self):
        self.nova = nova.NovaStandIn()
        self.addCleanup(self.nova.close)
        self.SETTINGS = {'options': {'nova': {'endpoint_override': self.nova.url,
                                              'timeout': polling.LIMIT}}}
        super().setUp()
        self.volume_id = self.volume()
        connector = make.connector()
        self.host = connector['initiator']
        self.attachment_id = self.attached(self.volume_id, connector=connector)
        self.nova.use(base.SERVER, self.volume_id, self.attachment_id)

    def delete(self, persona, attachment_id=None):
        return persona.delete(f'/attachments/{attachment_id or self.attachment_id}')

    def act(self, persona, action, body=None, volume_id=None):
        return persona.post(f'/volumes/{volume_id or self.volume_id}/action', {action: body})

    def move(self, persona, attachment_id=None, connector=None):
        return persona.put(f'/attachments/{attachment_id or self.attachment_id}', {
            'attachment': {'connector': connector or make.connector()}})

    def ways(self):
        """Yield each request that ends the attachment or gives its access to another host.

        A member and an administrator send it.
        """
        named = {'attachment_id': self.attachment_id}
        for persona in (self.http.as_member, self.http.as_admin):
            yield 'delete', self.delete(persona)
            yield 'update', self.move(persona)
            yield 'os-detach', self.act(persona, 'os-detach', {})
            yield 'os-detach named', self.act(persona, 'os-detach', named)
            yield 'os-terminate_connection', self.act(persona, 'os-terminate_connection',
                                                      {'connector': None})
        yield 'os-force_detach', self.act(self.http.as_admin, 'os-force_detach', named)
        for status in ({}, {'status': 'available'}, {'status': 'error'}):
            yield 'os-reset_status', self.act(self.http.as_admin, 'os-reset_status', {
                'attach_status': 'detached', **status})

    def assert_still_attached(self):
        shown = self.shown(self.volume_id)
        self.assertEqual(('in-use', [self.attachment_id]), (
            shown['status'], [one['attachment_id'] for one in shown['attachments']]))

    def test_user_detach_of_attachment_in_use_rejected(self):
        for way, reply in self.ways():
            with self.subTest(way):
                self.assert_fault(409, f'ConflictNovaUsingAttachment: Detach volume from instance '
                                       f'{base.SERVER} using the Compute API', reply)
                self.assert_still_attached()

    def test_service_user_delete_accepted_without_asking_nova(self):
        self.assert_status(200, self.delete(self.http.as_service))
        self.assertEqual([], self.nova.requests)

    def test_failed_nova_request_keeps_attachment(self):
        self.nova.answer = nova.Reply(500, {'computeFault': {'code': 500}})
        for way, reply in self.ways():
            with self.subTest(way):
                self.assert_status(503, reply)
                self.assertEqual('serviceUnavailable', reply.fault[0])
                self.assert_still_attached()

    def test_force_delete_ignores_silent_nova_only(self):
        path = f'/attachments/{self.attachment_id}?force=true'
        self.assert_fault(409, 'ConflictNovaUsingAttachment',
                          self.http.as_admin.delete(path, None, **FORCED))
        self.assert_still_attached()
        self.nova.answer = nova.Reply(500, {'computeFault': {'code': 500}})
        self.assert_status(200, self.http.as_admin.delete(path, None, **FORCED))

    def test_same_host_reconnects_without_asking_nova(self):
        connector = make.connector()
        volume_id = self.volume()
        made = self.attached(volume_id, connector=connector)
        self.nova.use(base.SERVER, volume_id, made)
        self.assert_status(200, self.move(self.http.as_member, made, connector))
        self.assertEqual([], self.nova.requests)

    def test_another_host_connects_after_server_deleted(self):
        self.nova.answer = nova.Reply(404, {'itemNotFound': {'code': 404}})
        self.assert_status(200, self.move(self.http.as_member))

    def test_detach_all_rejected_if_nova_uses_one_attachment(self):
        volume_id = self.volume(multiattach=True)
        made = [self.attached(volume_id, server)
                for server in (base.OTHER_SERVER, base.SERVER)]
        self.nova.use(base.SERVER, volume_id, made[1])
        self.assert_status(409, self.act(self.http.as_admin, 'os-reset_status',
                                         {'attach_status': 'detached'}, volume_id))
        self.assertEqual(2, len(self.shown(volume_id)['attachments']))

    def test_legacy_actions_keep_access_of_connected_server(self):
        """Actions outside `domain.detach_rule.ASKED` change nothing for a connected server."""
        for action, body in (
                ('os-initialize_connection', {'connector': make.connector()}),
                ('os-attach', {'instance_uuid': base.OTHER_SERVER, 'mountpoint': '/dev/vdc'}),
                ('os-unreserve', None)):
            with self.subTest(action):
                self.act(self.http.as_admin, action, body)
                self.assertEqual(
                    [(self.attachment_id, base.SERVER)],
                    [(one['attachment_id'], one['server_id'])
                     for one in self.shown(self.volume_id)['attachments']])
                self.assertEqual([self.host], [
                    grant.initiator
                    for export in self.http.manager.backend.fake_target.exports()
                    for grant in export.grants])

    def test_nova_asked_with_user_token(self):
        self.delete(self.http.as_member)
        self.assertEqual([self.http.as_member.token],
                         [request.headers['x-auth-token'] for request in self.nova.requests])

    def test_delete_of_attachment_unused_by_server_accepted(self):
        self.nova.use(base.SERVER, self.volume_id, base.new_id())
        self.assert_status(200, self.delete(self.http.as_member))

    def test_delete_of_reservation_accepted_without_asking_nova(self):
        volume_id = self.volume()
        attachment_id = self.reserve(volume_id)
        self.nova.use(base.SERVER, volume_id, attachment_id)
        self.assert_status(200, self.delete(self.http.as_member, attachment_id))
        self.assertEqual([], self.nova.requests)

    def test_delete_rejected_if_server_completes_meanwhile(self):
        """The attachment is reserved when Nova is asked. Before the delete, the server connects
        and completes.
        """
        service = self.http.as_service
        for way in ('delete', 'os-detach', 'os-force_detach'):
            with self.subTest(way):
                self.attachment_id = self.reserve(volume_id := self.volume())
                self.nova.use(base.SERVER, volume_id, self.attachment_id)

                def overtake(attachment_id=self.attachment_id):
                    failpoints.disarm(POINT)
                    path = f'/attachments/{attachment_id}'
                    self.assert_status(200, service.put(path, {'attachment': {
                        'connector': make.connector()}}))
                    self.assert_status(204, service.post(f'{path}/action', {'os-complete': None}))

                failpoints.arm(POINT, overtake)
                self.addCleanup(failpoints.disarm, POINT)
                named = {'attachment_id': self.attachment_id}
                reply = (self.delete(self.http.as_admin) if way == 'delete'
                         else self.act(self.http.as_admin, way, named, volume_id))
                self.assert_fault(409, 'ConflictNovaUsingAttachment', reply)
                self.assertEqual('in-use', self.shown(volume_id)['status'])

    def test_os_detach_without_attachment_id_of_multiattach_rejected(self):
        volume_id = self.volume(multiattach=True)
        for server_id in (base.SERVER, base.OTHER_SERVER):
            self.attached(volume_id, server_id)
        for body in ({}, {'attachment_id': base.ABSENT}):
            self.assert_fault(409, 'Detach volume from instance  using the Compute API',
                              self.act(self.http.as_member, 'os-detach', body, volume_id))

    def test_os_detach_after_terminate_connection_accepted(self):
        """Legacy clients send both requests, and only the second one names the attachment."""
        volume_id = self.volume()
        connector = make.connector()
        ended = {'attachment_id': self.attached(volume_id, connector=connector)}
        self.assert_status(202, self.act(self.http.as_member, 'os-terminate_connection',
                                         {'connector': connector}, volume_id))
        self.assert_status(202, self.act(self.http.as_member, 'os-detach', ended, volume_id))
        self.assertEqual('available', self.shown(volume_id)['status'])
        self.assert_fault(409, 'ConflictNovaUsingAttachment',
                          self.act(self.http.as_member, 'os-detach', ended, self.volume()))

    def test_terminate_connection_of_shared_host_rejected_for_users(self):
        volume_id = self.volume(multiattach=True)
        connector = make.connector()
        for server_id in (base.SERVER, base.OTHER_SERVER):
            self.attached(volume_id, server_id, connector)
        for persona, status in ((self.http.as_member, 409), (self.http.as_admin, 409),
                                (self.http.as_service, 202)):
            self.assert_status(status, self.act(
                persona, 'os-terminate_connection', {'connector': connector}, volume_id))
            self.assertEqual(2, len(self.shown(volume_id)['attachments']))

    def test_os_detach_of_attachment_of_another_volume_rejected(self):
        body = {'attachment_id': self.attachment_id}
        self.assert_fault(400, 'Mismatched volume and attachment',
                          self.act(self.http.as_member, 'os-detach', body, self.volume()))
