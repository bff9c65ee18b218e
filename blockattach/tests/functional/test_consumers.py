"""Attachment operations over the bus, under the rules of the API."""
import functools
import uuid

from oslo_config import cfg

from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import transport
from blockattach.storage import errors
from blockattach.storage.control import endpoint
from blockattach.storage.rpc import attachments
from blockattach.storage.rpc import history
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import nova
from blockattach.tests.functional import base

MOST = 3
COMPLETE_RULE = 'volume:attachment_complete'
SECRET_RULE = 'blockattach:attachment_secrets'


def caller(roles='member,reader', project_id=make.PROJECT, service_roles=('service',)):
    """Return the context of a service that acts for a user."""
    return attachments.caller(project_id, make.USER, [role for role in roles.split(',') if role],
                              service_roles)


class ConsumersTestCase(base.StackTestCase):
    """Test case with an API, and a control service on a bus over the same database."""

    def begin(self, **settings):
        self.http = http.ApiFixture(**settings)
        self.addCleanup(self.http.close)
        conf = cfg.ConfigOpts()
        conf([], project='blockattach', default_config_files=[], default_config_dirs=[])
        bus = transport.Bus(transport.build_transport(conf, f'inproc://{uuid.uuid4().hex}/'),
                            rpc_conf.RpcSettings(), history.RELEASES)
        self.addCleanup(bus.close)
        services = self.http.services
        served = bus.server(endpoint.AttachmentsEndpoint(
            services.policy, services.attachments, MOST), 'any')
        served.start()
        self.addCleanup(served.stop)
        self.bus = bus
        self.client = attachments.AttachmentsClient(bus)
        self.member = caller()

    def setUp(self):
        super().setUp()
        self.begin()

    def volume(self, multiattach=False):
        """Create a volume and return its id."""
        if multiattach:
            self.http.as_admin.post('/types', {'volume_type': {
                'name': 'shared', 'extra_specs': {'multiattach': '<is> True'}}})
        body = {'size': 1, **({'volume_type': 'shared'} if multiattach else {})}
        return self.http.as_member.post('/volumes', {'volume': body}).body['volume']['id']

    def created(self, host='one', volume_id=None):
        return self.client.create(self.member, volume_id or self.volume(), base.instance(host),
                                  base.connector(host))

    def shown(self, attachment_id):
        """Return the attachment as the API shows it, or None if it does not exist."""
        reply = self.http.as_service.get(f'/attachments/{attachment_id}')
        return reply.body['attachment'] if reply.status == 200 else None

    def outcome(self, act, *arguments, **more):
        """Return the class of the error that a call raises, or None."""
        try:
            act(*arguments, **more)
        except errors.BlockattachError as error:
            return type(error)
        return None


class LifecycleTest(ConsumersTestCase):

    def test_bus_creates_completes_deletes_attachment(self):
        volume_id = self.volume()
        reserved = self.client.create(self.member, volume_id, base.instance('one'))
        self.assertEqual(('reserved', {}), (reserved.attach_status, reserved.connection_info))
        updated = self.client.update(self.member, reserved.id, base.connector('one'))
        self.assertEqual('attaching', updated.attach_status)
        self.assertEqual(self.shown(reserved.id)['connection_info'], updated.connection_info)
        self.assertIn('auth_password', updated.connection_info)
        self.client.complete(self.member, reserved.id)
        found = self.client.get(self.member, reserved.id)
        self.assertEqual(('attached', 'rw', 'one', base.instance('one'), volume_id),
                         (found.attach_status, found.attach_mode, found.host,
                          found.instance_uuid, found.volume_id))
        self.assertEqual([], self.client.delete(self.member, reserved.id))
        self.assertIsNone(self.shown(reserved.id))
        self.assertEqual('available', self.http.as_member.get(
            f'/volumes/{volume_id}').body['volume']['status'])

    def test_complete_all_ignores_unknown_ids(self):
        """An unknown id does not keep the other attachments from being completed."""
        made = [self.created(host, self.volume()) for host in ('one', 'two')]
        ids = [made[0].id, str(uuid.uuid4()), 'x', made[1].id]
        for _ in range(2):
            self.assertEqual({}, self.client.complete_all(self.member, ids))
            self.assertEqual(['attached'] * 2, [
                self.client.get(self.member, one.id).attach_status for one in made])

    def test_complete_all_reports_forbidden_attachment(self):
        self.begin(rules={COMPLETE_RULE: 'project_id:%(project_id)s'})
        theirs = self.created('one', self.volume())
        admin = caller('admin,member', http.OTHER_PROJECT)
        said = self.client.complete_all(admin, [theirs.id])
        self.assertEqual([theirs.id], list(said))
        self.assertIn(COMPLETE_RULE, said[theirs.id])
        self.assertEqual('attaching', self.shown(theirs.id)['status'])

    def test_delete_returns_remaining_attachments(self):
        volume_id = self.volume(multiattach=True)
        first, second = (self.created(host, volume_id) for host in ('one', 'two'))
        remaining = self.client.delete(self.member, first.id)
        self.assertEqual([(second.id, None)], [(one.id, one.connection_info) for one in remaining])

    def test_create_with_mode(self):
        made = self.client.create(self.member, self.volume(), base.instance('one'),
                                  base.connector('one'), mode='ro')
        self.assertEqual(('ro', 'ro'), (made.attach_mode, made.connection_info['access_mode']))

    def test_idempotency_key_bound_to_request_and_user(self):
        volume_id = self.volume(multiattach=True)
        create = functools.partial(self.client.create, self.member, volume_id,
                                   connector=base.connector('one'), idempotency_key='k')
        first = create(base.instance('one'))
        self.assertEqual(first.id, create(base.instance('one')).id)
        self.assertIs(errors.IdempotencyKeyReused, self.outcome(create, base.instance('two')))
        other = attachments.caller(make.PROJECT, 'another user', ['member'])
        self.assertNotEqual(first.id, self.client.create(
            other, volume_id, base.instance('one'), base.connector('one'),
            idempotency_key='k').id)

    def test_list_pages_by_marker_and_limit(self):
        volume_id = self.volume(multiattach=True)
        made = [self.created(f'host-{number}', volume_id).id for number in range(MOST + 2)]
        first = self.client.list(self.member)
        second = self.client.list(self.member, marker=first[-1].id)
        self.assertEqual(MOST, len(first))
        self.assertEqual(made[::-1], [one.id for one in (*first, *second)])
        for limit, found in ((0, 0), (1, 1), (MOST + 1, MOST)):
            self.assertEqual(found, len(self.client.list(self.member, limit=limit)))
        self.assertIn('auth_password', first[0].connection_info)

    def test_list_filters(self):
        made = self.created('one')
        reserved = self.client.create(self.member, self.volume(), base.instance('two'))
        for filters, found in (
                ({'volume_id': made.volume_id}, made),
                ({'instance_uuid': base.instance('two')}, reserved),
                ({'host': 'one'}, made), ({'attach_status': 'reserved'}, reserved),
                ({'attach_status': 'no such word'}, None), ({'host': 'three'}, None)):
            with self.subTest(filters):
                self.assertEqual([found.id] if found else [],
                                 [one.id for one in self.client.list(self.member, filters)])


class Late:
    """Volume manager whose calls arrive after their deadline."""

    def connect(self, *arguments):
        raise errors.DeadlinePassed(method='connect')

    def disconnect(self, *arguments):
        raise errors.DeadlinePassed(method='disconnect')


class LateTest(ConsumersTestCase):

    def test_call_after_deadline_leaves_no_change(self):
        reserved = self.client.create(self.member, self.volume(), base.instance('one'))
        made = self.created('two')
        volume_id = self.volume()
        self.http.managers.add(http.HOST, Late())
        for act, arguments in (
                (self.client.create, (volume_id, base.instance('one'), base.connector('one'))),
                (self.client.update, (reserved.id, base.connector('one'))),
                (self.client.delete, (made.id,))):
            self.assertIs(errors.DeadlinePassed, self.outcome(act, self.member, *arguments))
        self.assertEqual({reserved.id: 'reserved', made.id: 'attaching'}, {
            one.id: one.attach_status for one in self.client.list(self.member)})
        reply = self.http.as_member.post('/attachments', {'attachment': {
            'volume_uuid': volume_id, 'connector': base.connector('one')}})
        self.assertEqual(503, reply.status)


class RightsTest(ConsumersTestCase):
    """Permissions of the bus: the policies of the API, and a service role for each method."""

    def acts(self, attachment_id, volume_id):
        """Return a call of each method by its name."""
        client, connector = self.client, base.connector('one')
        return {
            'create': lambda ctxt: client.create(ctxt, volume_id, base.instance('two'), connector),
            'update': lambda ctxt: client.update(ctxt, attachment_id, connector),
            'complete': lambda ctxt: client.complete(ctxt, attachment_id),
            'complete_all': lambda ctxt: client.complete_all(ctxt, [attachment_id]),
            'get': lambda ctxt: client.get(ctxt, attachment_id),
            'list': client.list,
            'delete': lambda ctxt: client.delete(ctxt, attachment_id)}

    def refusals(self, ctxt):
        """Return the error class of each method, after checking that nothing changed."""
        made = self.created()
        found = {name: self.outcome(act, ctxt)
                 for name, act in self.acts(made.id, made.volume_id).items()}
        self.assertEqual(set(contract.methods(attachments.AttachmentsInterface)), set(found))
        self.assertEqual('attaching', self.shown(made.id)['status'])
        self.assertEqual(1, len(self.http.as_member.get('/attachments').body['attachments']))
        return found

    def test_caller_without_service_role_not_authorized(self):
        found = self.refusals(caller('admin,member,reader', service_roles=()))
        self.assertEqual({errors.NotAuthorized}, set(found.values()))

    def test_service_user_gets_attachment(self):
        made = self.created()
        service_user = caller('admin,service', 'service-project', ())
        self.assertEqual(made.id, self.client.get(service_user, made.id).id)

    def test_reader_gets_and_lists_only(self):
        found = self.refusals(caller('reader'))
        self.assertEqual({'get': None, 'list': None}, {
            name: found.pop(name) for name in ('get', 'list')})
        self.assertEqual({errors.NotAuthorized}, set(found.values()))

    def test_caller_without_role_not_authorized(self):
        self.assertEqual({errors.NotAuthorized}, set(self.refusals(caller('')).values()))

    def test_caller_of_other_project_finds_nothing(self):
        found = self.refusals(caller(project_id=http.OTHER_PROJECT))
        self.assertIsNone(found.pop('list'))
        self.assertIs(errors.VolumeNotFound, found.pop('create'))
        self.assertIsNone(found.pop('complete_all'))
        self.assertEqual({errors.AttachmentNotFound}, set(found.values()))
        self.assertEqual([], self.client.list(caller(project_id=http.OTHER_PROJECT)))

    def test_admin_decided_by_policy_of_service(self):
        self.created()
        stranger = caller(project_id=http.OTHER_PROJECT)
        stranger.is_admin = True
        self.assertEqual([], self.client.list(stranger, all_projects=True))
        admin = caller('admin', http.OTHER_PROJECT)
        self.assertEqual([], self.client.list(admin))
        self.assertEqual(1, len(self.client.list(admin, all_projects=True)))

    def test_caller_without_project_rejected(self):
        found = self.refusals(caller('admin,member,reader', ''))
        self.assertEqual({errors.InvalidInput}, set(found.values()))

    def test_credential_shown_by_policy(self):
        self.begin(rules={SECRET_RULE: 'role:trusted'})
        made = self.created()
        updated = (made, self.client.get(self.member, made.id), *self.client.list(self.member),
                   self.client.update(self.member, made.id, base.connector('one')))
        for one in updated:
            self.assertIn('target_iqn', one.connection_info)
            self.assertNotIn('auth_password', one.connection_info)
        trusted = self.client.get(caller('member,reader,trusted'), made.id)
        self.assertIn('auth_password', trusted.connection_info)

    def test_delete_of_attachment_in_use_by_server_rejected(self):
        """A service user without a service token is rejected, as over HTTP."""
        with nova.NovaStandIn() as stand_in:
            self.begin(options={'nova': {'endpoint_override': stand_in.url}})
            made = self.created()
            stand_in.use(made.instance_uuid, made.volume_id, made.id)
            self.assertIs(errors.AttachmentInUseByServer, self.outcome(
                self.client.delete, caller('member,service', service_roles=()), made.id))
            self.assertEqual([], self.client.delete(self.member, made.id))


class BadInputTest(ConsumersTestCase):
    """Invalid input, which is rejected as the caller's error and changes nothing."""

    def test_create_with_invalid_arguments_rejected(self):
        volume_id, one = self.volume(), base.connector('one')
        for arguments, error in (
                ({'volume_id': 'x'}, errors.VolumeNotFound),
                ({'volume_id': 5}, errors.VolumeNotFound),
                ({'volume_id': str(uuid.uuid4())}, errors.VolumeNotFound),
                ({'instance_uuid': 'x'}, errors.InvalidInput),
                ({'instance_uuid': ['x']}, errors.InvalidInput),
                ({'mode': 'rwx'}, errors.InvalidInput), ({'mode': {}}, errors.InvalidInput),
                ({'connector': 'x'}, errors.InvalidInput),
                ({'connector': ['x']}, errors.InvalidInput),
                ({'connector': {**one, 'host': 5}}, errors.InvalidInput),
                ({'connector': {**one, 'host': 'x' * 256}}, errors.InvalidInput),
                ({'connector': {**one, 'more': 'a\0b'}}, errors.InvalidInput),
                ({'connector': {**one, 'more': ['x' * 4000] * 5}}, errors.InvalidInput),
                ({'connector': {**one, 'initiator': 'ALL'}}, errors.InvalidInput),
                ({'connector': {**one, 'host': ' '}}, errors.ConnectorUnusable),
                ({'connector': {'host': 'one'}}, errors.ConnectorUnusable),
                ({'idempotency_key': ''}, errors.InvalidInput),
                ({'idempotency_key': 'x' * 256}, errors.InvalidInput),
                ({'idempotency_key': 5}, errors.InvalidInput)):
            with self.subTest(str(arguments)[:60]):
                self.assertIs(error, self.outcome(self.client.create, self.member, **{
                    'volume_id': volume_id, 'connector': one, **arguments}))
        self.assertEqual([], self.client.list(self.member))

    def test_update_with_invalid_connector_rejected(self):
        reserved = self.client.create(self.member, self.volume(), base.instance('one'))
        for connector in (None, {}, 'x', {'host': ''}, {'host': 'one'}):
            with self.subTest(connector):
                self.assertTrue(issubclass(
                    self.outcome(self.client.update, self.member, reserved.id, connector),
                    errors.InvalidInput))
        self.assertEqual('reserved', self.client.get(self.member, reserved.id).attach_status)

    def test_invalid_ids_and_page_arguments_rejected(self):
        for wrong in ('x', '', 5, None, 'a\0b', str(uuid.uuid4())):
            for act in (self.client.get, self.client.complete, self.client.delete):
                with self.subTest(wrong=wrong, act=act.__name__):
                    self.assertIs(errors.AttachmentNotFound,
                                  self.outcome(act, self.member, wrong))
        for wrong in ('x', 5, None, ['x'] * 1001):
            self.assertIs(errors.InvalidInput,
                          self.outcome(self.client.complete_all, self.member, wrong))
        for arguments, error in (
                ({'filters': {'colour': 'red'}}, errors.InvalidFilter),
                ({'filters': 'x'}, errors.InvalidInput),
                ({'filters': {'host': 5}}, errors.InvalidInput),
                ({'filters': {'host': 'a\0b'}}, errors.InvalidInput),
                ({'limit': -1}, errors.InvalidInput), ({'limit': 'x'}, errors.InvalidInput),
                ({'marker': 'x'}, errors.AttachmentNotFound),
                ({'marker': str(uuid.uuid4())}, errors.AttachmentNotFound)):
            with self.subTest(arguments):
                self.assertIs(error, self.outcome(self.client.list, self.member, **arguments))

    def test_states_checked_as_by_api(self):
        volume_id = self.volume()
        reserved = self.client.create(self.member, volume_id, base.instance('one'))
        self.assertIs(errors.InvalidVolume, self.outcome(
            self.client.create, self.member, volume_id, base.instance('two')))
        self.assertIs(None, self.outcome(self.client.delete, self.member, reserved.id))
        self.assertIs(errors.AttachmentNotFound, self.outcome(
            self.client.delete, self.member, reserved.id))
