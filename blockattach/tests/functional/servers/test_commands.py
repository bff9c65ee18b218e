"""Commands `openstack server volume attach` and `openstack server shared create`."""
from blockattach.tests.functional.servers import clients
from blockattach.tests.functional.servers import cloud

ATTACHED = ['Server ID', 'Volume ID', 'Device', 'Attach Mode']
LISTED = ['ID', 'Name', 'Status', 'Fault']
NO_MODES = 'This Compute service does not support access modes of volumes'


class ServerCommandsTestCase(clients.ClientsTestCase):

    def setUp(self):
        super().setUp()
        self.shared = self.volume(multiattach=True)

    def without_the_extension(self, environ, start_response):
        """Serve the API as stock Nova does, which ignores the extension in the version header."""
        environ['HTTP_OPENSTACK_API_VERSION'] = environ.get(
            'HTTP_OPENSTACK_API_VERSION', '').partition(',')[0]
        return self.both(environ, start_response)


class AttachTest(ServerCommandsTestCase):

    def setUp(self):
        super().setUp()
        self.made = self.create(self.volume())

    def attach(self, *arguments):
        return self.shown('server', 'volume', 'attach', 'web', *arguments)

    def attached(self):
        """Return the volume attachments of the server, without its root disk."""
        return [found for found in self.asked(
            200, 'GET', f'/servers/{self.made}/os-volume_attachments',
            version=cloud.MODES)['volumeAttachments'] if found['device'] != '/dev/vda']

    def test_attach_uses_requested_mode(self):
        made = self.attach(self.shared, '--attach-mode', 'ro')
        self.assertEqual(dict(zip(ATTACHED, (self.made, self.shared, '/dev/vdb', 'ro'),
                                  strict=True)), made)
        self.assertEqual([(self.made, 'host-a', 'ro', 'attached')], self.attachments(self.shared))
        for arguments in ((), ('--attach-mode', 'rw')):
            one = self.volume()
            self.assertEqual('rw', self.attach(one, *arguments)['Attach Mode'])
            self.assertEqual([(self.made, 'host-a', 'rw', 'attached')], self.attachments(one))

    def test_attach_with_device_and_delete_on_termination(self):
        self.attach(self.shared, '--device', 'vdx', '--delete-on-termination')
        [found] = self.attached()
        self.assertEqual(('/dev/vdx', True, 'rw'), tuple(
            found[key] for key in ('device', 'delete_on_termination', 'attach_mode')))

    def test_attach_to_server_given_by_id(self):
        self.shown('server', 'volume', 'attach', self.made, self.shared)
        self.assertEqual([self.shared], [one['volumeId'] for one in self.attached()])

    def wait(self, *more):
        """Run the command with `--wait` against an attach that is held for two polls."""
        self.both.held = 2
        return self.run_command('server', 'volume', 'attach', 'web', self.shared, '--attach-mode',
                                'ro', '--wait', *more)

    def test_attach_with_wait_returns_mode(self):
        self.create(self.shared, name='other')
        done = self.wait('-f', 'value', '-c', 'Attach Mode')
        self.assertEqual((0, 'ro\n'), (done.status, done.output), done.errors)
        self.assertRegex(done.errors, rf's  volume {self.shared}: attaching')
        self.assertIn((self.made, 'host-a', 'ro', 'attached'), self.attachments(self.shared))

    def test_attach_with_wait_reports_failure(self):
        self.create(self.shared, name='other')
        self.hosts['host-a'].failing.append('plug')
        done = self.wait()
        self.assertEqual(1, done.status)
        self.assertRegex(' '.join(done.errors.split()),
                         rf'Volume {self.shared} was not attached and is no longer reserved\. .*'
                         rf'"openstack server event list {self.made}".* show the reason with ')
        self.assertEqual([], self.attached())
        [failed] = [row['Request ID'] for row in self.shown('server', 'event', 'list', self.made)
                    if row['Action'] == 'attach_volume']
        shown = self.shown('--os-compute-api-version', '2.84', 'server', 'event', 'show',
                           self.made, failed)
        self.assertIn('plug fails as planned', str(shown['events']))

    def test_attach_with_wait_times_out(self):
        self.both.held = 1000
        self.assert_refused(
            rf'volume {self.shared} is still attaching after 1 s.*set a longer --timeout',
            'server', 'volume', 'attach', 'web', self.shared, '--wait', '--timeout', '1')

    def test_attach_error_names_next_step(self):
        self.create(name='twin')
        self.create(name='twin')
        self.attach(self.shared)
        for words, arguments in (
                (r"Server 'nosuch' not found\. List .*server list", ('nosuch', self.shared)),
                (r"More than one server is named 'twin'\. Specify the ID", ('twin', self.shared)),
                (r"Volume 'nosuch' not found\. List .*volume list", ('web', 'nosuch')),
                (r'already attached \(HTTP 400\)\. Show the users of the volume',
                 ('web', self.shared)),
                (r'device path .* is invalid.*\(HTTP 400\)',
                 ('web', self.volume(), '--device', '../x'))):
            with self.subTest(words):
                self.assert_refused(words, 'server', 'volume', 'attach', *arguments)
        self.act(self.made, 'resize', {'flavorRef': '2'}, settle=False)
        self.both.held = 1000
        self.assert_refused(r'task_state .* \(HTTP 409\)\. Show the state of the server',
                            'server', 'volume', 'attach', 'web', self.volume())

    def test_attach_with_invalid_arguments_is_usage_error(self):
        for words, arguments in (
                ("invalid choice: 'w'", ('web', 'v', '--attach-mode', 'w')),
                ("'0' is not a number from 1 to", ('web', 'v', '--timeout', '0')),
                ('<volume>: the value must not be empty', ('web', '')),
                ('arguments are required: <volume>', ('web',))):
            with self.subTest(words):
                self.assert_refused(words, 'server', 'volume', 'attach', *arguments, status=2)

    def test_attach_without_extension_sends_no_request(self):
        self.serve(self.without_the_extension)
        for arguments in ((), ('--attach-mode', 'ro')):
            self.assert_refused(NO_MODES, 'server', 'volume', 'attach', 'web', self.shared,
                                *arguments)
        self.assertEqual(([], []), (self.both.asked, self.attached()))

    def test_attach_without_service_names_compute(self):
        self.overrides['compute_endpoint_override'] = 'http://127.0.0.1:1/v2.1'
        self.assert_refused('The request to Compute failed: ', 'server', 'volume', 'attach', 'web',
                            self.shared)


class CreateTest(ServerCommandsTestCase):

    def made(self, *arguments):
        return self.shown('server', 'shared', 'create', 'web', '--flavor', 'm1.small', *arguments)

    def test_shared_create_uses_mode_of_each_volume(self):
        other = self.volume(multiattach=True)
        third = self.volume(multiattach=True)
        rows = self.made('--volume', self.shared, '--volume', f'{other}:rw', '--volume',
                         f'{third}:ro', '--attach-mode', 'ro', '--count', '2')
        self.assertEqual([LISTED, LISTED], [list(row) for row in rows])
        self.assertEqual([('web-1', None), ('web-2', None)], [
            (row['Name'], row['Fault']) for row in rows])
        for row in rows:
            self.assertEqual({self.shared: 'ro', other: 'rw', third: 'ro'},
                             self.volumes(row['ID']))
            shown = self.server(row['ID'])
            self.assertEqual(('ACTIVE', 'm1.small', '/dev/vda'), (
                shown['status'], shown['flavor']['original_name'],
                shown['OS-EXT-SRV-ATTR:root_device_name']))
        self.assertEqual({'ro'}, {mode for _, _, mode, _ in self.attachments(self.shared)})

    def test_shared_create_uses_mode_of_each_server(self):
        rows = self.made('--volume', f'{self.shared}:rw,ro', '--count', '2')
        self.assertEqual([('web-1', {self.shared: 'rw'}), ('web-2', {self.shared: 'ro'})], [
            (row['Name'], self.volumes(row['ID'])) for row in rows])

    def test_shared_create_finds_volume_by_name_with_colon(self):
        made = self.cloud.storage.as_member.post('/volumes', {'volume': {
            'size': 1, 'name': 'system:disk'}})
        [row] = self.made('--volume', 'system:disk', '--host', 'host-b')
        self.assertEqual('web', row['Name'])
        self.assertEqual('host-b', self.server(row['ID'])['OS-EXT-SRV-ATTR:host'])
        self.assertEqual({made.body['volume']['id']: 'rw'}, self.volumes(row['ID']))

    def test_shared_create_with_wait_returns_active_servers(self):
        self.both.held = 2
        done = self.run_command('server', 'shared', 'create', 'web', '--flavor', '1', '--volume',
                                self.shared, '--count', '3', '--wait', '-f', 'value', '-c',
                                'Status')
        self.assertEqual((0, 'ACTIVE\n' * 3), (done.status, done.output), done.errors)
        self.assertRegex(done.errors, r's  reservation .*: 0 of 3 servers ready')

    def test_shared_create_shows_fault_of_failed_server(self):
        self.hosts['host-a'].failing.append('spawn')
        done = self.run_command('server', 'shared', 'create', 'web', '--flavor', '1', '--volume',
                                self.shared, '--count', '2', '--wait', '-f', 'value', '-c',
                                'Status', '-c', 'Fault')
        self.assertEqual(['ACTIVE None', 'ERROR spawn fails as planned'],
                         sorted(done.output.splitlines()))
        self.assertEqual(1, done.status)

    def test_shared_create_with_wait_times_out(self):
        self.both.held = 1000
        self.assert_refused(
            'is still 0 of 1 servers ready after 1 s', 'server', 'shared', 'create', 'web',
            '--flavor', '1', '--volume', self.shared, '--wait', '--timeout', '1')

    def test_shared_create_error_names_next_step(self):
        plain = self.volume()
        for words, arguments in (
                (r"Flavor 'nosuch' not found\. List .*flavor list",
                 ('--flavor', 'nosuch', '--volume', plain)),
                (r"Volume 'nosuch' not found\.", ('--flavor', '1', '--volume', 'nosuch')),
                (r'not multiattach.*\(HTTP 400\)',
                 ('--flavor', '1', '--volume', plain, '--count', '2')),
                (r'attach_modes has 3 items for 2 servers.*\(HTTP 400\)',
                 ('--flavor', '1', '--volume', f'{self.shared}:rw,ro,ro', '--count', '2'))):
            with self.subTest(words):
                self.assert_refused(words, 'server', 'shared', 'create', 'web', *arguments)
        self.both.roles = 'member,reader'
        self.assert_refused(r'\(HTTP 403\)\. Ask an administrator', 'server', 'shared', 'create',
                            'web', '--flavor', '1', '--volume', plain, '--host', 'host-a')
        self.assertEqual([], self.asked(200, 'GET', '/servers')['servers'])
        self.assertEqual('available', self.status_of_volume(plain))

    def test_shared_create_with_invalid_arguments_is_usage_error(self):
        for words, arguments in (
                ("'0' is not a number from 1 to", ('--volume', 'v', '--count', '0')),
                ('--volume: the value must not be empty', ('--volume', ':ro')),
                ("invalid choice: 'w'", ('--volume', 'v', '--attach-mode', 'w')),
                ('arguments are required: --volume', ())):
            with self.subTest(words):
                self.assert_refused(words, 'server', 'shared', 'create', 'web', '--flavor', '1',
                                    *arguments, status=2)

    def test_shared_create_without_extension_sends_no_request(self):
        self.serve(self.without_the_extension)
        self.assert_refused(NO_MODES, 'server', 'shared', 'create', 'web', '--flavor', '1',
                            '--volume', self.shared)
        self.assertEqual(([], []), (
            self.both.asked, self.asked(200, 'GET', '/servers')['servers']))
