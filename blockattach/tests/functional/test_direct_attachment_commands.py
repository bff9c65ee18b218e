"""Commands `openstack volume attachment direct create` and `direct delete`."""
import json
import uuid

from blockattach.storage.domain import attachment_lifecycle
from blockattach.tests.fixtures import nova
from blockattach.tests.functional import attachment_commands
from blockattach.tests.functional import commands
from blockattach.tests.functional import test_clients

IQN = attachment_commands.IQN
_State = attachment_lifecycle.State


class DirectCreateTest(attachment_commands.AttachmentCommandsTestCase):

    def test_direct_create_without_host_reserves(self):
        volume, server = self.volume(), str(uuid.uuid4())
        made = self.shown('direct', 'create', volume.name, '--server', server, '--mode', 'ro')
        self.assertEqual((volume.id, server, 'reserved', 'ro', None), tuple(
            made[title] for title in ('Volume ID', 'Server ID', 'Status', 'Mode', 'Host')))
        self.assertEqual(volume.id, json.loads(self.output(
            'show', made['ID'], '-f', 'json'))['Volume ID'])

    def test_direct_create_with_host_connects(self):
        made = self.connected(self.volume(), '--mountpoint', '/dev/vdb', '--multipath')
        self.assertEqual(('attaching', 'compute-1', 'rw', 'target'), tuple(
            made[title] for title in ('Status', 'Host', 'Mode', 'Mode Enforced By')))
        self.assertEqual('iscsi', made['Properties']['driver_volume_type'])
        self.output('complete', made['ID'])
        self.assertEqual([made['ID']], self.ids('--state', 'attached', '--volume',
                                                made['Volume ID']))

    def test_password_hidden_unless_asked_for(self):
        volume = self.volume()
        hidden = self.connected(volume)['Properties']
        shown = self.connected(volume, '--show-password')['Properties']
        self.assertEqual(('CHAP', '***'), (hidden['auth_method'], hidden['auth_password']))
        self.assertEqual({**shown, 'attachment_id': hidden['attachment_id'],
                          'auth_password': '***'}, hidden)
        password = shown['auth_password']
        self.assertRegex(password, '^[A-Za-z0-9]{12,16}$')
        for form in ('table', 'value', 'yaml', 'shell'):
            for more, count in (([], 0), (['--show-password'], 1)):
                with self.subTest(form, more=more):
                    said = self.output(
                        'direct', 'create', volume.id, '--host', 'compute-1', '--initiator',
                        f'{IQN}compute-1', '-f', form, *more)
                    self.assertEqual(count, said.count(password))

    def test_direct_create_table_prints_one_property_per_line(self):
        lines = self.output('direct', 'create', self.volume().id, '--host', 'compute-1',
                            '--initiator', f'{IQN}compute-1', '-f', 'table').splitlines()
        self.assertLessEqual(max(map(len, lines)), 110)
        self.assertEqual(1, sum("target_lun='" in line or 'target_lun=' in line
                                for line in lines))

    def test_direct_create_with_wait_prints_progress(self):
        volume = self.volume()
        self.between.answers = [(503, {'Retry-After': '1'})]
        done = self.run_command('direct', 'create', volume.id, '--host', 'h', '--initiator',
                                f'{IQN}h', '--wait', '-f', 'value', '-c', 'ID')
        self.assertEqual(0, done.status, done.errors)
        self.assertRegex(done.errors, r's  attachment: waiting \(Come again\)\n *\d+ s  '
                                      rf'attachment {done.output.strip()}: attaching, connected')
        first, again = self.between.asked[:2]
        self.assertEqual('POST', first[0])
        self.assertIsNotNone(first[1])
        self.assertEqual(first, again)

    def test_direct_create_without_wait_not_retried(self):
        self.between.answers = [(503, {'Retry-After': '1'})]
        self.assert_refused(r'Come again \(HTTP 503\)\. The condition is temporary\. .*--wait',
                            'direct', 'create', self.volume().id)
        self.assertEqual(1, len(self.between.asked))

    def test_direct_create_with_wait_ends_on_error_state(self):
        volume = self.volume()

        def change(method, body):
            if method == 'GET':
                body['attachment'] |= {'status': 'error_attaching', 'last_error': 'no such path'}
            return body

        self.between.change = change
        self.assert_refused(
            'is error_attaching: no such path. Delete the attachment with .*direct delete',
            'direct', 'create', volume.id, '--host', 'h', '--initiator', f'{IQN}h', '--wait')

    def test_direct_create_with_wait_ends_on_deletion(self):
        self.between.change = self.gone
        self.assert_refused('no longer exists, because the request was rejected or', 'direct',
                            'create', self.volume().id, '--wait')

    def gone(self, _method, body):
        self.between.change = None
        self.between.answers = [(404, {})]
        return body

    def test_direct_create_with_wait_times_out(self):
        def change(method, body):
            body['attachment']['attached_at'] = ''
            return body

        self.between.change = change
        self.assert_refused(
            '0 s attachment .*: attaching .* is still attaching after 1 s', 'direct', 'create',
            self.volume().id, '--host', 'h', '--initiator', f'{IQN}h', '--wait', '--timeout', '1')

    def test_direct_create_error_names_next_step(self):
        volume = self.volume(kind='single')
        self.attachment(volume, _State.ATTACHED)
        for words, arguments in (
                (r"Volume 'nosuch' not found\. List .*volume list", ['nosuch']),
                (r'status must be available.*\(HTTP 400\)\. Show the users .*attachment tree',
                 [volume.id]),
                (r'connector: initiator must be an iSCSI node name .*\(HTTP 400\)\. '
                 'Correct the request and repeat',
                 [volume.id, '--host', 'h', '--initiator', 'bad name\n']),
                (r'host must be a non-empty string of printable characters \(HTTP 400\)',
                 [volume.id, '--host', 'a\nb', '--initiator', f'{IQN}h']),
                (r'required information: initiator \(HTTP 400\)',
                 [self.volume().id, '--host', 'h']),
                ('--initiator requires --host. Specify --host as well',
                 [volume.id, '--initiator', f'{IQN}h']),
                ('--multipath requires --host', [volume.id, '--multipath']),
                ("Cannot find a single server named 'web' in Compute",
                 [volume.id, '--server', 'web'])):
            with self.subTest(arguments):
                self.assert_refused(words, 'direct', 'create', *arguments)

    def test_direct_create_with_ambiguous_volume_name_rejected(self):
        for _ in range(2):
            self.volume('twin')
        self.assert_refused("More than one volume is named 'twin'", 'direct', 'create', 'twin')


class DryRunTest(attachment_commands.AttachmentCommandsTestCase):

    def test_dry_run_shows_attachment_and_creates_nothing(self):
        volume, server = self.volume(), str(uuid.uuid4())
        done = self.run_command(
            'direct', 'create', volume.name, '--dry-run', '--host', 'h', '--initiator', f'{IQN}h',
            '--server', server, '--mode', 'ro', '-f', 'json')
        self.assertEqual(0, done.status, done.errors)
        self.assertEqual({
            'Made': False, 'Volume ID': volume.id, 'Server ID': server, 'Host': 'h',
            'Status': 'attaching', 'Mode': 'ro', 'Mode Enforced By': 'target',
            'Shared Connections': []}, json.loads(done.output))
        self.assertRegex(done.errors, '^Dry run: no attachment was created')
        self.assertEqual([('POST', None, 'dry_run=true')], self.between.asked)
        self.assertEqual([], self.ids('--volume', volume.id))

    def test_dry_run_shows_shared_connections(self):
        volume = self.volume()
        made = self.connected(volume)['ID']
        self.assertEqual([made], self.connected(volume, '--dry-run')['Shared Connections'])
        self.assertEqual([made], self.ids('--volume', volume.id))

    def test_dry_run_reports_conflict(self):
        volume = self.volume(kind='single')
        self.attachment(volume, _State.ATTACHED)
        self.assert_refused(r'status must be available.*\(HTTP 400\)\. Show the users ', 'direct',
                            'create', volume.id, '--dry-run')

    def test_dry_run_with_wait_retried(self):
        self.between.answers = [(503, {'Retry-After': '1'})]
        done = self.run_command('direct', 'create', self.volume().id, '--dry-run', '--wait')
        self.assertEqual(0, done.status, done.errors)
        self.assertRegex(done.errors, r's  dry run: waiting \(Come again\)')


class DirectDeleteTest(attachment_commands.AttachmentCommandsTestCase):

    def test_direct_delete_of_several(self):
        volume = self.volume()
        made = [self.connected(volume)['ID'] for _ in range(2)]
        self.output('direct', 'delete', *made)
        self.assertEqual([], self.ids('--volume', volume.id))
        self.assertEqual(['', ''], [query for method, _, query in self.between.asked
                                    if method == 'DELETE'])

    def test_direct_delete_with_force(self):
        volume = self.volume()
        made = self.attachment(volume, _State.ERROR_DETACHING)
        self.output('direct', 'delete', '--force', made.id)
        self.assertEqual([], self.ids('--volume', volume.id))
        self.assertIn(('DELETE', None, 'force=true'), self.between.asked)

    def test_direct_delete_continues_after_unknown_attachment(self):
        volume = self.volume()
        made, absent = self.connected(volume)['ID'], str(uuid.uuid4())
        self.assert_refused(
            rf'Failed to delete attachment {absent}: .*HTTP 404.*1 of 2 attachments failed',
            'direct', 'delete', absent, made)
        self.assertEqual([], self.ids('--volume', volume.id))

    def test_direct_delete_with_wait_accepts_not_found_on_retry(self):
        made = self.connected(self.volume())['ID']
        self.between.answers = [(504, {'Retry-After': '1'}), (404, {})]
        done = self.run_command('direct', 'delete', made, '--wait')
        self.assertEqual(0, done.status, done.errors)
        self.assertRegex(done.errors, rf'attachment {made}: waiting \(Come again\)\n'
                                      rf' *\d+ s  attachment {made}: deleted\n')


class ServerNamesTest(attachment_commands.AttachmentCommandsTestCase):

    def test_server_name_resolved_by_compute(self):
        compute = self.enterContext(nova.NovaStandIn())
        compute.publish('block-storage', self.service.endpoint)
        server = str(uuid.uuid4())
        compute.run(server, 'web')
        made = self.attachment(self.volume(), _State.RESERVED, instance_uuid=server)
        done = commands.run('openstack', [
            '--os-auth-type', 'v3password', '--os-auth-url', f'{compute.keystone_url}/v3',
            '--os-user-id', 'somebody', '--os-password', 'x', '--os-project-id',
            test_clients.PROJECT, 'volume', 'attachment', 'detail', 'list', '--all-projects',
            '--server', 'web', '-f', 'value', '-c', 'ID'], {'NO_PROXY': '127.0.0.1'})
        self.assertEqual((0, f'{made.id}\n'), (done.status, done.output), done.errors)
