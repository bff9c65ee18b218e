"""The plugin of openstackclient: `openstack volume attachment tree` and its siblings, as they are
typed, against the service over HTTP.
"""
import csv
import importlib.metadata
import io
import json
import re
import sys
import types
import unittest
import uuid

import webob
import yaml

from blockattach.domain import attachment_lifecycle
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import nova
from blockattach.tests.fixtures import served
from blockattach.tests.functional import base
from blockattach.tests.functional import commands
from blockattach.tests.functional import test_clients
from blockattach.tests.rules import sources

GROUP = 'openstack.blockattach.v1'
NO_COMMANDS = ('openstack.cli.base', 'openstack.cli.extension')
"""Groups that name the plugins themselves."""
NOISE = re.compile(r'^(DEBUG|INFO|WARNING|ERROR):.*\n', re.M)
"""What is logged besides where a command is forked off a process that has loaded it."""
LIST = ['ID', 'Volume ID', 'Server ID', 'Host', 'Status', 'Mode', 'Age']
TREE = ['Volume Name', 'Volume ID', 'Volume Status', 'Host', 'Server ID', 'Attachment ID', 'Mode',
        'Mode Enforced By', 'Status', 'Age', 'Last Error']
VERSION = 'OpenStack-API-Version'
IQN = 'iqn.2026-01.org.example:'
_State = attachment_lifecycle.State


def names(groups):
    """The commands of groups of entry points, as they are typed."""
    return {entry.name.replace('_', ' ') for group in groups
            for entry in importlib.metadata.entry_points(group=group)}


def clashes(ours, theirs):
    """Commands that hide another one: the same words, or one begins with all words of another."""
    return {(one, other) for one in ours for other in theirs
            if f'{one} '.startswith(f'{other} ') or f'{other} '.startswith(f'{one} ')}


class NamesTest(unittest.TestCase):

    def setUp(self):
        self.ours = names([GROUP])
        self.theirs = names({group for group in importlib.metadata.entry_points().groups
                             if group.startswith('openstack.')} - {GROUP, *NO_COMMANDS})

    def test_none_clashes_with_what_is_installed_beside(self):
        self.assertLessEqual({'volume attachment list', 'server list', 'volume list'},
                             self.theirs)
        self.assertEqual(set(), clashes(self.ours, self.theirs))

    def test_a_clash_is_found(self):
        for name in ('volume attachment list', 'volume attachment list more', 'volume attachment'):
            with self.subTest(name):
                self.assertNotEqual(set(), clashes({name}, self.theirs))
        self.assertEqual(set(), clashes({'volume attachment lister'}, self.theirs))

    def test_all_are_in_the_tree_of_the_stock_client(self):
        self.assertEqual({'volume attachment detail list', 'volume attachment direct create',
                          'volume attachment direct delete', 'volume attachment tree'}, self.ours)


class Between:
    """Stands between clients and the API: a test lets it answer itself, or change answers."""

    def __init__(self, application):
        self._application = application
        self.asked = []
        self.answers = []
        self.change = None
        self.date = None
        self.page = None

    def __call__(self, environ, start_response):
        request = webob.Request(environ)
        if '/attachments' not in request.path or request.GET.get('limit') == '0':
            return self._application(environ, start_response)
        self.asked.append((request.method, request.headers.get('Idempotency-Key'),
                           request.query_string))
        if self.answers:
            status, after = self.answers.pop(0)
            response = webob.Response(status=status, json_body={
                'serviceUnavailable': {'code': status, 'message': 'Come again.'}})
            response.headers.update({VERSION: 'volume 3.54, blockattach 1.0', **after})
            return response(environ, start_response)
        if self.page is not None:
            request.GET['limit'] = str(self.page)
        response = request.get_response(self._application)
        if self.change is not None and response.status_code == 200:
            response.json_body = self.change(request.method, response.json_body)
        if self.date is not None:
            response.headers['Date'] = self.date
        return response(environ, start_response)


def in_ascii():
    """Let a command write to a terminal that can show no more."""
    sys.stdout.reconfigure(encoding='ascii')


def in_unicode():
    """Let a command write to a terminal that can show all."""
    sys.stdout.reconfigure(encoding='utf-8')


class AttachmentCommandsTestCase(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.api = cls.enterClassContext(http.ApiFixture())
        cls.between = Between(cls.api)
        cls.service = cls.enterClassContext(served.Served(cls.between))
        cls.plain = base.Api(cls.service.endpoint)
        for name, specs in (('multiattach', {'multiattach': '<is> True'}), ('single', {})):
            cls.plain.ask('POST', '/types', {'volume_type': {'name': name, 'extra_specs': specs}})

    def setUp(self):
        super().setUp()
        self.between.__init__(self.api)

    def volume(self, name=None, kind='multiattach'):
        """A new one, with what is needed of it."""
        status, body = self.plain.ask('POST', '/volumes', {'volume': {
            'size': 1, 'volume_type': kind, 'name': name or f'v-{uuid.uuid4()}'}})
        self.assertEqual(202, status, body)
        made = body['volume']
        return types.SimpleNamespace(id=made['id'], name=made['name'],
                                     project_id=test_clients.PROJECT)

    def attachment(self, volume, state, host='compute-1', **more):
        return make.attachment(self.api.database, volume, state,
                               with_connector=make.connector(host=host, initiator=f'{IQN}{host}'),
                               **more)

    def connected(self, volume, *more):
        return self.shown('direct', 'create', volume.id, '--host', 'compute-1', '--initiator',
                          f'{IQN}compute-1', '--ip', '192.0.2.1', *more)

    def run_command(self, *arguments, prepare=None):
        done = commands.run(
            'openstack', ['--os-auth-type', 'none', '--os-endpoint', self.service.endpoint,
                          'volume', 'attachment', *arguments],
            {'NO_PROXY': '127.0.0.1', 'OS_VOLUME_API_VERSION': '3.71'}, prepare)
        self.assertNotIn('Traceback', done.output + done.errors)
        return done._replace(errors=NOISE.sub('', done.errors))

    def output(self, *arguments, **more):
        done = self.run_command(*arguments, **more)
        self.assertEqual(0, done.status, done.errors)
        return done.output

    def shown(self, *arguments):
        return json.loads(self.output(*arguments, '-f', 'json'))

    def ids(self, *arguments):
        return [row['ID'] for row in self.shown('detail', 'list', '--all-projects', *arguments)]

    def assert_refused(self, words, *arguments, status=1):
        done = self.run_command(*arguments)
        self.assertEqual(status, done.status, done.output)
        self.assertRegex(' '.join(done.errors.split()), words)


class TreeTest(AttachmentCommandsTestCase):

    def test_volumes_hosts_and_servers(self):
        volume = self.volume('shared')
        writer = self.attachment(volume, _State.ATTACHED, 'compute-2')
        failed = self.attachment(volume, _State.ERROR_ATTACHING)
        reserved = make.attachment(self.api.database, volume, _State.RESERVED)
        self.between.change = self.at_a_known_age
        self.between.date = 'Thu, 26 Nov 2026 11:01:59 GMT'
        lines = self.output('tree', 'shared', '--all-projects',
                            prepare=in_unicode).splitlines()
        self.assertEqual([
            f'shared ({volume.id}): in-use',
            '├── compute-1',
            f'│   └── server {failed.instance_uuid}, rw enforced by target, error_attaching',
            f'│       ├── attachment {failed.id}',
            '│       └── last error: refused by the test',
            '├── compute-2',
            f'│   └── server {writer.instance_uuid}, rw enforced by target, attached, 1 h 1 min',
            f'│       └── attachment {writer.id}',
            '└── no host yet',
            f'    └── server {reserved.instance_uuid}, no mode, reserved',
            f'        └── attachment {reserved.id}'], lines)

    def at_a_known_age(self, _method, body):
        for one in body['attachments']:
            if one['status'] == 'attached':
                one['attached_at'] = '2026-11-26T10:00:00.000000'
        return body

    def test_terminals_without_lines(self):
        volume = self.volume()
        self.attachment(volume, _State.ATTACHED)
        text = self.output('tree', volume.id, '--all-projects',
                           prepare=in_ascii)
        self.assertIn('`-- compute-1\n    `-- server ', text)

    def test_what_would_move_the_cursor_is_not_printed(self):
        volume = self.volume('a\x1b[31mb')
        self.assertIn(f'a?[31mb ({volume.id}): available\n',
                      self.output('tree', volume.id, prepare=in_ascii))

    def test_a_list_by_every_formatter(self):
        volume = self.volume('flat')
        one = self.attachment(volume, _State.RESERVED)
        expected = ['flat', volume.id, 'reserved', None, one.instance_uuid, one.id, None, None,
                    'reserved', None, None]
        of_volume = ('tree', volume.id, '--all-projects', '-f')
        row = dict(zip(TREE, expected, strict=True))
        self.assertEqual([row], json.loads(self.output(*of_volume, 'json')))
        self.assertEqual([row], yaml.safe_load(self.output(*of_volume, 'yaml')))
        self.assertEqual([TREE, ['' if cell is None else cell for cell in expected]],
                         list(csv.reader(io.StringIO(self.output(*of_volume, 'csv')))))
        self.assertEqual([str(cell) for cell in expected],
                         self.output(*of_volume, 'value').split())
        self.assertIn('| Volume Name | Volume ID ', self.output(*of_volume, 'table'))
        self.assertEqual(f'{one.id}\n', self.output(*of_volume, 'value', '-c', 'Attachment ID'))

    def test_only_volumes_with_attachments_unless_they_are_named(self):
        used, unused = self.volume(), self.volume()
        self.attachment(used, _State.ATTACHED)
        every = self.output('tree', '--all-projects')
        self.assertIn(used.id, every)
        self.assertNotIn(unused.id, every)
        named = self.output('tree', unused.id, prepare=in_ascii)
        self.assertEqual(f'{unused.name} ({unused.id}): available\n`-- no attachments\n', named)


class DetailListTest(AttachmentCommandsTestCase):

    def test_columns(self):
        volume = self.volume()
        made = self.attachment(volume, _State.ATTACHED, 'compute-columns')
        [row] = self.shown('detail', 'list', '--volume', volume.name, '--all-projects')
        self.assertEqual(LIST, list(row))
        self.assertEqual((made.id, volume.id, made.instance_uuid, 'compute-columns', 'attached',
                          'rw'), tuple(row[title] for title in LIST[:-1]))
        self.assertGreaterEqual(row['Age'], 0)
        [row] = self.shown('detail', 'list', '--volume', volume.id, '--all-projects', '--long')
        self.assertEqual([*LIST, 'Mode Enforced By', 'Mount Point', 'Project ID',
                          'Shared Connections', 'Last Error'], list(row))
        self.assertEqual(('target', volume.project_id, []), tuple(
            row[title] for title in ('Mode Enforced By', 'Project ID', 'Shared Connections')))

    def test_filters(self):
        volume = self.volume()
        first = self.attachment(volume, _State.ATTACHED, 'compute-8')
        second = self.attachment(volume, _State.RESERVED)
        of_volume = ('--volume', volume.id)
        self.assertEqual([second.id, first.id], self.ids(*of_volume))
        self.assertEqual([first.id], self.ids('--host', 'compute-8'))
        self.assertEqual([second.id], self.ids('--server', second.instance_uuid))
        self.assertEqual([second.id], self.ids(*of_volume, '--state', 'reserved'))
        self.assertEqual([], self.ids(*of_volume, '--state', 'detaching'))

    def test_stuck(self):
        volume = self.volume()
        made = {state: self.attachment(volume, state, state.value) for state in (
            _State.ATTACHED, _State.CONNECTED, _State.ERROR_ATTACHING, _State.ERROR_DETACHING)}
        of_volume = ('--volume', volume.id, '--stuck')
        errors = {made[_State.ERROR_ATTACHING].id, made[_State.ERROR_DETACHING].id}
        self.between.date = 'Thu, 26 Nov 2026 11:00:00 GMT'
        self.between.change = self.begun('2026-11-26T10:50:01.000000')
        self.assertEqual(errors, set(self.ids(*of_volume)))
        self.between.change = self.begun('2026-11-26T10:50:00.000000')
        self.assertEqual(errors | {made[_State.CONNECTED].id}, set(self.ids(*of_volume)))

    def begun(self, when):
        def change(_method, body):
            for one in body['attachments']:
                one['attached_at'] = when
            return body
        return change

    def test_more_than_a_page(self):
        volume = self.volume()
        made = [self.attachment(volume, _State.RESERVED).id for _ in range(3)]
        self.between.page = 2
        self.assertEqual(made[::-1], self.ids('--volume', volume.id))
        self.assertEqual(3, len(self.between.asked))


class DirectCreateTest(AttachmentCommandsTestCase):

    def test_a_reservation(self):
        volume, server = self.volume(), str(uuid.uuid4())
        made = self.shown('direct', 'create', volume.name, '--server', server, '--mode', 'ro')
        self.assertEqual((volume.id, server, 'reserved', 'ro', None), tuple(
            made[title] for title in ('Volume ID', 'Server ID', 'Status', 'Mode', 'Host')))
        self.assertEqual(volume.id, json.loads(self.output(
            'show', made['ID'], '-f', 'json'))['Volume ID'])

    def test_a_host(self):
        made = self.connected(self.volume(), '--mountpoint', '/dev/vdb', '--multipath')
        self.assertEqual(('attaching', 'compute-1', 'rw', 'target'), tuple(
            made[title] for title in ('Status', 'Host', 'Mode', 'Mode Enforced By')))
        self.assertEqual('iscsi', made['Properties']['driver_volume_type'])
        self.output('complete', made['ID'])
        self.assertEqual([made['ID']], self.ids('--state', 'attached', '--volume',
                                                made['Volume ID']))

    def test_progress_until_it_is_connected(self):
        volume = self.volume()
        self.between.answers = [(503, {'Retry-After': '1'})]
        done = self.run_command('direct', 'create', volume.id, '--host', 'h', '--initiator',
                                f'{IQN}h', '--wait', '-f', 'value', '-c', 'ID')
        self.assertEqual(0, done.status, done.errors)
        self.assertRegex(done.errors, r's  attachment: not yet \(Come again\)\n *\d+ s  '
                                      rf'attachment {done.output.strip()}: attaching, connected')
        first, again = self.between.asked[:2]
        self.assertEqual('POST', first[0])
        self.assertIsNotNone(first[1])
        self.assertEqual(first, again)

    def test_without_wait_nothing_is_repeated(self):
        self.between.answers = [(503, {'Retry-After': '1'})]
        self.assert_refused(r'Come again \(HTTP 503\)\. The condition is temporary: .*--wait',
                            'direct', 'create', self.volume().id)
        self.assertEqual(1, len(self.between.asked))

    def test_waiting_ends_with_an_error_state(self):
        volume = self.volume()

        def change(method, body):
            if method == 'GET':
                body['attachment'] |= {'status': 'error_attaching', 'last_error': 'no such path'}
            return body

        self.between.change = change
        self.assert_refused(
            'is error_attaching: no such path. Remove it, .*direct delete', 'direct', 'create',
            volume.id, '--host', 'h', '--initiator', f'{IQN}h', '--wait')

    def test_waiting_ends_when_it_is_gone(self):
        self.between.change = self.gone
        self.assert_refused('is gone: it was refused or deleted', 'direct', 'create',
                            self.volume().id, '--wait')

    def gone(self, _method, body):
        self.between.change = None
        self.between.answers = [(404, {})]
        return body

    def test_waiting_has_an_end(self):
        def change(method, body):
            body['attachment']['attached_at'] = ''
            return body

        self.between.change = change
        self.assert_refused(
            '0 s attachment .*: attaching .* is still attaching after 1 s', 'direct', 'create',
            self.volume().id, '--host', 'h', '--initiator', f'{IQN}h', '--wait', '--timeout', '1')

    def test_what_is_refused(self):
        volume = self.volume(kind='single')
        self.attachment(volume, _State.ATTACHED)
        for words, arguments in (
                (r"There is no volume 'nosuch'\. See .*volume list", ['nosuch']),
                (r'status must be available.*\(HTTP 400\)\. Change .*attachment tree',
                 [volume.id]),
                ('--initiator describes the host to connect: give --host too',
                 [volume.id, '--initiator', f'{IQN}h']),
                ('--multipath describes the host', [volume.id, '--multipath']),
                ("Compute knows no single server 'web', or cannot be asked",
                 [volume.id, '--server', 'web'])):
            with self.subTest(arguments):
                self.assert_refused(words, 'direct', 'create', *arguments)

    def test_a_name_of_two_volumes(self):
        for _ in range(2):
            self.volume('twin')
        self.assert_refused("Several volumes have the name 'twin'", 'direct', 'create', 'twin')


class DirectDeleteTest(AttachmentCommandsTestCase):

    def test_some(self):
        volume = self.volume()
        made = [self.connected(volume)['ID'] for _ in range(2)]
        self.output('direct', 'delete', *made)
        self.assertEqual([], self.ids('--volume', volume.id))
        self.assertEqual(['', ''], [query for method, _, query in self.between.asked
                                    if method == 'DELETE'])

    def test_by_force(self):
        volume = self.volume()
        made = self.attachment(volume, _State.ERROR_DETACHING)
        self.output('direct', 'delete', '--force', made.id)
        self.assertEqual([], self.ids('--volume', volume.id))
        self.assertIn(('DELETE', None, 'force=true'), self.between.asked)

    def test_one_that_is_not_there_keeps_no_other(self):
        volume = self.volume()
        made, absent = self.connected(volume)['ID'], str(uuid.uuid4())
        self.assert_refused(
            rf'Cannot delete attachment {absent}: .*HTTP 404.*1 of 2 attachments were not deleted',
            'direct', 'delete', absent, made)
        self.assertEqual([], self.ids('--volume', volume.id))

    def test_a_repeat_finds_it_deleted(self):
        made = self.connected(self.volume())['ID']
        self.between.answers = [(504, {'Retry-After': '1'}), (404, {})]
        done = self.run_command('direct', 'delete', made, '--wait')
        self.assertEqual(0, done.status, done.errors)
        self.assertRegex(done.errors, rf'attachment {made}: not yet \(Come again\)\n'
                                      rf' *\d+ s  attachment {made}: deleted\n')


class InputTest(AttachmentCommandsTestCase):

    def test_what_is_no_input(self):
        for words, arguments in (
                ("invalid choice: 'bad'", ['detail', 'list', '--state', 'bad']),
                ('--host: it must not be empty', ['tree', '--host', '']),
                ("'x' is no ID of an attachment; see ", ['direct', 'delete', 'x']),
                ("'../volumes' is no ID", ['direct', 'delete', '../volumes']),
                ("'0' is no positive number", ['direct', 'create', 'v', '--timeout', '0']),
                ("'soon' is no positive number", ['direct', 'delete', str(uuid.uuid4()),
                                                  '--timeout', 'soon']),
                ("invalid choice: 'w'", ['direct', 'create', 'v', '--mode', 'w']),
                ('arguments are required: <attachment>', ['direct', 'delete'])):
            with self.subTest(arguments):
                self.assert_refused(words, *arguments, status=2)

    def test_a_service_without_the_extension_is_changed_by_nothing(self):
        volume = self.volume()
        made = self.attachment(volume, _State.ATTACHED)
        stock = self.enterContext(served.Served(self.without_the_extension))
        whole, self.service = self.service, stock
        self.addCleanup(setattr, self, 'service', whole)
        for arguments in (['tree'], ['detail', 'list'], ['direct', 'create', volume.id],
                          ['direct', 'delete', '--force', made.id]):
            with self.subTest(arguments):
                self.assert_refused('does not answer with the extension "blockattach"', *arguments)
        self.service = whole
        self.assertEqual([made.id], self.ids('--volume', volume.id))

    def without_the_extension(self, environ, start_response):
        environ['HTTP_OPENSTACK_API_VERSION'] = environ.get(
            'HTTP_OPENSTACK_API_VERSION', '').partition(',')[0]
        return self.api(environ, start_response)

    def test_no_service(self):
        gone = served.Served(self.api)
        gone.close()
        self.service = gone
        self.assert_refused('The service cannot be reached: .*Check that it is running', 'tree')

    def test_completion_knows_every_command(self):
        done = commands.run('openstack', ['complete'], {'NO_PROXY': '127.0.0.1'})
        self.assertEqual(0, done.status, done.errors)
        for name in sorted(names([GROUP])):
            with self.subTest(name):
                before, _, last = name.rpartition(' ')
                self.assertRegex(done.output, rf"cmds_{before.replace(' ', '_')}='[^']*\b{last}\b")
        self.assertRegex(done.output, "cmds_volume_attachment_direct_create='[^']*--wait")


class ServerNamesTest(AttachmentCommandsTestCase):

    def test_compute_is_asked_for_a_name(self):
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


class PageTest(AttachmentCommandsTestCase):
    """doc/source/user/command_line.rst."""

    def setUp(self):
        super().setUp()
        self.page = (sources.ROOT / 'doc' / 'source' / 'user' / 'command_line.rst').read_text()

    def test_every_command_and_every_option_is_there(self):
        for name in sorted(names([GROUP])):
            self.assertIn(f'``openstack {name}``', self.page)
            section = self.page.partition(f'\n{name.removeprefix("volume attachment ")}\n---')[2]
            section = re.split(r'\n---+\n', section)[0]
            help_text = commands.run('openstack', ['help', *name.split()],
                                     {'NO_PROXY': '127.0.0.1'}).output
            options = help_text.partition('\noptions:')[2].partition('\noutput formatters:')[0]
            found = set(re.findall(r'^  (--[\w-]+)', options, re.M))
            self.assertNotEqual(set(), found)
            for option in sorted(found):
                with self.subTest(f'{name} {option}'):
                    self.assertRegex(section, rf'``{option}[ `]')

    def test_every_column_is_there(self):
        volume = self.volume()
        made = self.connected(volume)
        rows = (made, *self.shown('tree', volume.id),
                *self.shown('detail', 'list', '--long', '--volume', volume.id))
        for title in sorted({title for row in rows for title in row}):
            with self.subTest(title):
                self.assertIn(f'``{title}``', self.page)
