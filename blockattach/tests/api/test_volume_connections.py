"""os-initialize_connection and os-terminate_connection of legacy clients."""
from blockattach.storage.domain import connection
from blockattach.storage.drivers import faults
from blockattach.tests.api import actions
from blockattach.tests.api import base
from blockattach.tests.fixtures import make

DATA_KEYS = {
    'target_discovered', 'target_portal', 'target_iqn', 'target_lun', 'volume_id', 'encrypted',
    'qos_specs', 'access_mode', 'cacheable', 'enforce_multipath'}
AUTH_KEYS = {'auth_method', 'auth_username', 'auth_password'}


class ConnectionTestCase(actions.ActionsTestCase):

    def terminate(self, volume_id, connector):
        return self.act(volume_id, 'os-terminate_connection', {'connector': connector})

    def log_in(self, volume_id, connector, info):
        """Log a host in with its connection info and return the mode, or None if it is refused."""
        data = info['data']
        return self.http.manager.backend.fake_target.log_in(
            volume_id, connector['initiator'],
            connection.Credential(data['auth_username'], data['auth_password']))


class InitializeTest(ConnectionTestCase):

    def test_initialize_connection_response(self):
        volume_id = self.volume()
        connector = make.connector(enforce_multipath=True)
        info = self.initialize(volume_id, connector)
        self.assertEqual({'driver_volume_type', 'data', 'enforce_multipath'}, info.keys())
        self.assertEqual(DATA_KEYS | AUTH_KEYS, info['data'].keys())
        self.assertEqual(('iscsi', True, True, 'rw', volume_id), (
            info['driver_volume_type'], info['enforce_multipath'],
            info['data']['enforce_multipath'], info['data']['access_mode'],
            info['data']['volume_id']))
        self.assertEqual('rw', self.log_in(volume_id, connector, info))

    def test_multipath_connection_has_lists(self):
        info = self.initialize(self.volume(), make.connector(multipath=True))
        for key in ('target_portal', 'target_iqn', 'target_lun'):
            self.assertEqual([info['data'][key]], info['data'][f'{key}s'])

    def test_chap_secret_hidden_without_permission(self):
        self.fixture(rules={'blockattach:attachment_secrets': '!'})
        info = self.initialize(self.volume())
        self.assertEqual(DATA_KEYS, info['data'].keys())

    def test_attachment_hidden_until_os_attach(self):
        volume_id = self.volume()
        self.initialize(volume_id)
        self.assertEqual('attaching', self.status(volume_id))
        self.assertEqual([], self.listed())
        self.attach(volume_id)
        attachment, = self.listed()
        self.assertEqual(('attached', base.SERVER),
                         (attachment['status'], attachment['instance']))

    def test_repeated_initialize_connection_is_idempotent(self):
        volume_id = self.volume()
        connector = make.connector()
        first = self.initialize(volume_id, connector)
        self.assertEqual(first, self.initialize(volume_id, connector))
        self.assertEqual(1, len(self.rows(volume_id)))

    def test_initialize_connection_adopts_os_reserve(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-reserve')
        reservation, = self.rows(volume_id)
        self.initialize(volume_id)
        row, = self.rows(volume_id)
        self.assertEqual(reservation.id, row.id)

    def test_initialize_connection_of_attachment_returns_same_info(self):
        volume_id = self.volume()
        connector = make.connector()
        attachment_id = self.attached(volume_id, connector=connector)
        flat = self.http.as_member.get(
            f'/attachments/{attachment_id}').body['attachment']['connection_info']
        info = self.initialize(volume_id, connector)
        self.assertEqual(
            flat, {**info['data'], 'driver_volume_type': info['driver_volume_type'],
                   'attachment_id': attachment_id})
        self.assertEqual('in-use', self.status(volume_id))

    def test_initialize_connection_of_server_attached_without_host(self):
        """A server shelved and unshelved by legacy clients stays attached."""
        volume_id = self.volume()
        self.attach(volume_id)
        connector = make.connector()
        info = self.initialize(volume_id, connector)
        self.assertEqual('rw', self.log_in(volume_id, connector, info))
        self.assertEqual(('in-use', [base.SERVER]),
                         (self.status(volume_id), self.servers(volume_id)))

    def test_initialize_connection_grants_each_host_separately(self):
        volume_id = self.volume(multiattach=True)
        connectors = [make.connector() for _ in range(3)]
        answers = []
        for connector in connectors:
            self.done(volume_id, 'os-reserve')
            answers.append(self.initialize(volume_id, connector))
        self.assertEqual(3, len({info['data']['auth_password'] for info in answers}))
        self.assertEqual(dict.fromkeys((one['initiator'] for one in connectors), 'rw'),
                         self.grants(volume_id))
        self.assertEqual(3, len(self.rows(volume_id)))

    def test_os_attach_adopts_connection_of_own_host(self):
        volume_id = self.volume(multiattach=True)
        connectors = [make.connector() for _ in range(2)]
        servers = [base.SERVER, base.OTHER_SERVER]
        for connector in connectors:
            self.done(volume_id, 'os-reserve')
            self.initialize(volume_id, connector)
        for server, connector in reversed(list(zip(servers, connectors, strict=True))):
            self.attach(volume_id, server, host_name=connector['host'])
        self.assertEqual(
            {server: connector['initiator']
             for server, connector in zip(servers, connectors, strict=True)},
            {row.instance_uuid: row.initiator for row in self.rows(volume_id)})

    def test_second_host_of_plain_volume_rejected(self):
        volume_id = self.volume()
        connector = make.connector()
        self.attached(volume_id, connector=connector)
        reply = self.act(volume_id, 'os-initialize_connection', {'connector': make.connector()})
        self.assert_status(400, reply)
        self.assertEqual({connector['initiator']: 'rw'}, self.grants(volume_id))

    def test_malformed_initialize_connection_rejected(self):
        volume_id = self.volume()
        for value in (None, {}, [], {'connector': None}, {'connector': 5}, {'connector': []},
                      {'connector': make.connector(), 'a': 'b'},
                      {'connector': {'initiator': 'x' * 256}}, {'connector': {'host': 5}}):
            with self.subTest(value=value):
                self.assert_status(400, self.act(volume_id, 'os-initialize_connection', value))
        self.assertEqual('available', self.status(volume_id))

    def test_connector_without_initiator_rejected(self):
        volume_id = self.volume()
        for connector in ('x', '', {}, {'host': 'h'}, {'initiator': ''}):
            with self.subTest(connector=connector):
                self.assert_fault(
                    400, "Connector doesn't have required information: initiator",
                    self.act(volume_id, 'os-initialize_connection', {'connector': connector}))
        for name, value in (('initiator', 'a b'), ('initiator', 'iqn.x\n'), ('host', 'a\nb')):
            with self.subTest(name, value=value):
                self.assert_fault(400, f'connector: {name} must be ', self.act(
                    volume_id, 'os-initialize_connection',
                    {'connector': {**make.connector(), name: value}}))
        self.assertEqual([], self.rows(volume_id))

    def test_initialize_connection_in_maintenance_rejected(self):
        volume_id = self.volume()
        connector = make.connector()
        self.attached(volume_id, connector=connector)
        self.done(volume_id, 'os-reset_status', {'status': 'maintenance'}, self.http.as_admin)
        for one in (connector, make.connector()):
            self.assert_fault(400, 'maintenance', self.act(
                volume_id, 'os-initialize_connection', {'connector': one}))

    def test_refused_grant_keeps_volume_status(self):
        volume_id = self.volume()
        for prepare, expected in ((lambda: None, 'available'),
                                  (lambda: self.done(volume_id, 'os-reserve'), 'attaching')):
            with self.subTest(expected=expected):
                prepare()
                self.http.manager.backend.fake_target.faults.plan('grant', faults.Fault.REFUSED)
                reply = self.act(volume_id, 'os-initialize_connection',
                                 {'connector': make.connector()})
                self.assert_fault(500, 'Unable to fetch connection information from backend',
                                  reply)
                self.assertEqual(expected, self.status(volume_id))
                self.assertEqual({}, self.grants(volume_id))


class TerminateTest(ConnectionTestCase):

    def test_terminate_connection_revokes_and_frees_volume(self):
        volume_id = self.volume()
        connector = make.connector()
        info = self.initialize(volume_id, connector)
        self.assert_status(202, self.terminate(volume_id, connector))
        self.assertIsNone(self.log_in(volume_id, connector, info))
        self.assertEqual('available', self.status(volume_id))

    def test_terminate_connection_ignores_case_of_initiator(self):
        for state in ('initialized', 'attached'):
            with self.subTest(state):
                volume_id = self.volume()
                sent = make.connector(initiator='iqn.1993-08.org.debian:01:Host-A')
                other = {**sent, 'initiator': 'IQN.1993-08.org.debian:01:host-a'}
                info = self.initialize(volume_id, sent)
                if state == 'attached':
                    self.attach(volume_id)
                self.assertEqual(info, self.initialize(volume_id, other))
                self.assertEqual({'iqn.1993-08.org.debian:01:host-a'},
                                 set(self.grants(volume_id)))
                self.assert_status(202, self.terminate(volume_id, other))
                for connector in (sent, other):
                    self.assertIsNone(self.log_in(volume_id, connector, info))
                self.assertEqual('available', self.status(volume_id))

    def test_terminate_connection_without_connector_revokes_all(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-reserve')
        self.assert_status(202, self.terminate(volume_id, None))
        self.assertEqual('available', self.status(volume_id))
        self.attached(volume_id)
        self.assert_status(202, self.terminate(volume_id, None))
        self.assertEqual(('available', {}), (self.status(volume_id), self.grants(volume_id)))

    def test_terminate_connection_of_unknown_host_changes_nothing(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.assert_status(202, self.terminate(volume_id, make.connector()))
        self.assertEqual('in-use', self.status(volume_id))

    def test_terminate_connection_keeps_other_hosts(self):
        volume_id = self.volume(multiattach=True)
        connectors = [make.connector() for _ in range(2)]
        for connector in connectors:
            self.attached(volume_id, base.new_id(), connector)
        self.assert_status(202, self.terminate(volume_id, connectors[0]))
        self.assertEqual({connectors[1]['initiator']: 'rw'}, self.grants(volume_id))
        self.assertEqual('in-use', self.status(volume_id))

    def test_malformed_terminate_connection_rejected(self):
        volume_id = self.volume()
        for value in (None, {}, [], {'connector': 5}, {'connector': 'x'},
                      {'connector': None, 'a': 'b'}):
            with self.subTest(value=value):
                self.assert_status(400, self.act(volume_id, 'os-terminate_connection', value))

    def test_refused_revoke_keeps_grant(self):
        volume_id = self.volume()
        connector = make.connector()
        self.initialize(volume_id, connector)
        self.http.manager.backend.fake_target.faults.plan('revoke', faults.Fault.REFUSED)
        self.assert_fault(500, 'Unable to terminate volume connection from backend',
                          self.terminate(volume_id, connector))
        self.assertEqual({connector['initiator']: 'rw'}, self.grants(volume_id))
        self.assert_status(202, self.terminate(volume_id, connector))
        self.assertEqual([], self.rows(volume_id))


class SharedHostTest(ConnectionTestCase):
    """Servers of one host, which share its connection and have the same connector."""

    def setUp(self):
        super().setUp()
        self.volume_id = self.volume(multiattach=True)
        self.connector = make.connector()
        self.attached(self.volume_id, base.OTHER_SERVER, make.connector())

    def reservation(self):
        """Reserve and connect a server of the host, and return the attachment id."""
        before = {row.id for row in self.rows(self.volume_id)}
        self.done(self.volume_id, 'os-reserve')
        self.initialize(self.volume_id, self.connector)
        made, = {row.id for row in self.rows(self.volume_id)} - before
        return made

    def joined(self, server=base.SERVER):
        row = self.reservation()
        self.attach(self.volume_id, server, host_name=self.connector['host'])
        return row

    def expected(self, connector=None):
        """Terminate the connection of a host, check its grant, and return its remaining rows."""
        self.assert_status(202, self.terminate(self.volume_id, connector or self.connector))
        rows = [row.id for row in self.rows(self.volume_id) if row.host == self.connector['host']]
        self.assertEqual(bool(rows), self.connector['initiator'] in self.grants(self.volume_id))
        self.assertEqual(2 if rows else 1, len(self.grants(self.volume_id)))
        return rows

    def test_os_detach_selects_server_on_shared_host(self):
        first, second = self.joined(), self.joined(base.new_id())
        for announced in (False, True):
            if announced:
                self.done(self.volume_id, 'os-begin_detaching')
            self.assertEqual([first, second], self.expected())
        self.done(self.volume_id, 'os-detach', {'attachment_id': first})
        self.assertEqual([], self.expected())

    def test_os_unreserve_keeps_server_on_shared_host(self):
        server = self.joined()
        self.reservation()
        self.assertEqual([server], self.expected())
        self.done(self.volume_id, 'os-unreserve')
        self.assertEqual([base.OTHER_SERVER, base.SERVER], self.servers(self.volume_id))

    def test_terminate_of_detaching_server_keeps_reservation(self):
        server = self.joined()
        reservation = self.reservation()
        self.done(self.volume_id, 'os-begin_detaching')
        self.assertEqual([server, reservation], self.expected())
        self.done(self.volume_id, 'os-detach', {'attachment_id': server})
        self.attach(self.volume_id, base.new_id(), host_name=self.connector['host'])
        self.assertIn(self.connector['initiator'], self.grants(self.volume_id))

    def test_terminate_connection_matches_host_name(self):
        server = self.joined()
        self.assertEqual([server], self.expected({'host': 'another'}))
        self.assertEqual([], self.expected({'host': self.connector['host']}))


class LifecycleTest(ConnectionTestCase):
    """Legacy actions in the order in which clients send them."""

    def go(self, volume_id, connector, server):
        steps = []
        for action, value in (
                ('os-reserve', None), ('os-initialize_connection', {'connector': connector}),
                ('os-attach', {'instance_uuid': server, 'mountpoint': '/dev/vdb'}),
                ('os-begin_detaching', None),
                ('os-terminate_connection', {'connector': connector}), ('os-detach', None)):
            reply = self.act(volume_id, action, value)
            self.assertIn(reply.status, (200, 202), (action, reply.text))
            steps.append((self.status(volume_id), len(self.servers(volume_id)),
                          len(self.grants(volume_id))))
        return steps

    def test_legacy_lifecycle_volume_statuses(self):
        volume_id = self.volume()
        wanted = [('attaching', 0, 0), ('attaching', 0, 1), ('in-use', 1, 1),
                  ('detaching', 1, 1), ('available', 0, 0), ('available', 0, 0)]
        for _ in range(2):
            self.assertEqual(wanted, self.go(volume_id, make.connector(), base.SERVER))
        self.assertEqual([], self.rows(volume_id))

    def test_terminate_and_unreserve_clean_up_failed_attach(self):
        volume_id = self.volume()
        connector = make.connector()
        self.done(volume_id, 'os-reserve')
        self.initialize(volume_id, connector)
        self.assert_status(202, self.terminate(volume_id, connector))
        self.done(volume_id, 'os-unreserve')
        self.assertEqual(('available', {}), (self.status(volume_id), self.grants(volume_id)))

    def test_os_unreserve_revokes_initialized_connection(self):
        volume_id = self.volume()
        self.done(volume_id, 'os-reserve')
        self.initialize(volume_id)
        self.done(volume_id, 'os-unreserve')
        self.assertEqual(('available', {}), (self.status(volume_id), self.grants(volume_id)))

    def test_os_unreserve_keeps_connection_of_other_host(self):
        volume_id = self.volume(multiattach=True)
        connectors = [make.connector() for _ in range(2)]
        for connector in connectors:
            self.done(volume_id, 'os-reserve')
            self.initialize(volume_id, connector)
        self.assert_status(202, self.terminate(volume_id, connectors[0]))
        self.done(volume_id, 'os-unreserve')
        self.assertEqual({connectors[1]['initiator']: 'rw'}, self.grants(volume_id))

    def test_detach_keeps_grant_of_other_server_on_host(self):
        """The host keeps its grant while another server on it uses the volume."""
        volume_id = self.volume(multiattach=True)
        connector = make.connector()
        for server in (base.SERVER, base.OTHER_SERVER):
            self.done(volume_id, 'os-reserve')
            self.initialize(volume_id, connector)
            self.attach(volume_id, server)
        ids = {row.instance_uuid: row.id for row in self.rows(volume_id)}
        self.assertEqual(2, len(ids))
        self.done(volume_id, 'os-detach', {'attachment_id': ids[base.OTHER_SERVER]})
        self.assertEqual([base.SERVER], self.servers(volume_id))
        self.assertEqual({connector['initiator']: 'rw'}, self.grants(volume_id))

    def test_legacy_lifecycle_keeps_modern_attachment(self):
        volume_id = self.volume(multiattach=True)
        connector = make.connector()
        attachment_id = self.attached(volume_id, base.OTHER_SERVER, connector)
        before, = self.rows(volume_id)
        old = make.connector()
        for action, value in (
                ('os-reserve', None), ('os-initialize_connection', {'connector': old}),
                ('os-attach', {'instance_uuid': base.SERVER, 'mountpoint': '/dev/vdb'})):
            self.assertIn(self.act(volume_id, action, value).status, (200, 202))
        self.assertEqual({base.SERVER, base.OTHER_SERVER}, set(self.servers(volume_id)))
        self.assert_status(202, self.terminate(volume_id, old))
        self.assertEqual([before], self.rows(volume_id))
        self.assertEqual(attachment_id, before.id)
        self.assertEqual({connector['initiator']: 'rw'}, self.grants(volume_id))
