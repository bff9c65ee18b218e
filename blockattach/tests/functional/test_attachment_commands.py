"""Commands of the openstackclient plugin that list attachments.

Also the names of all commands, invalid arguments, and the page of the commands.
"""
import csv
import importlib.metadata
import io
import json
import re
import sys
import unittest
import uuid

import yaml

from blockattach.storage.domain import attachment_lifecycle
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import served
from blockattach.tests.functional import attachment_commands
from blockattach.tests.functional import commands
from blockattach.tests.rules import sources

GROUP = 'openstack.blockattach.v1'
NO_COMMANDS = ('openstack.cli.base', 'openstack.cli.extension')
"""Entry point groups that name plugins in place of commands."""
LIST = ['ID', 'Volume ID', 'Server ID', 'Host', 'Status', 'Mode', 'Age']
TREE = ['Volume Name', 'Volume ID', 'Volume Status', 'Host', 'Server ID', 'Attachment ID', 'Mode',
        'Mode Enforced By', 'Status', 'Age', 'Last Error']
CONNECTED = ['Device', 'Attachment ID', 'Volume ID', 'Host', 'Mode', 'Session Shared With']
_State = attachment_lifecycle.State


def names(groups):
    """Return the command lines of groups of entry points."""
    return {entry.name.replace('_', ' ') for group in groups
            for entry in importlib.metadata.entry_points(group=group)}


def clashes(ours, theirs):
    """Return pairs of commands that are the same or start with each other's words."""
    return {(one, other) for one in ours for other in theirs
            if f'{one} '.startswith(f'{other} ') or f'{other} '.startswith(f'{one} ')}


class NamesTest(unittest.TestCase):

    def setUp(self):
        self.ours = names([GROUP])
        self.theirs = names({group for group in importlib.metadata.entry_points().groups
                             if group.startswith('openstack.')} - {GROUP, *NO_COMMANDS})

    def test_command_names_clash_with_no_installed_plugin(self):
        self.assertLessEqual({'volume attachment list', 'volume host set', 'server list',
                              'volume list'}, self.theirs)
        self.assertEqual(set(), clashes(self.ours, self.theirs))

    def test_clashing_command_name_found(self):
        for name in ('volume attachment list', 'volume attachment list more', 'volume attachment',
                     'volume host', 'volume host set'):
            with self.subTest(name):
                self.assertNotEqual(set(), clashes({name}, self.theirs))
        self.assertEqual(set(), clashes({'volume attachment lister'}, self.theirs))

    def test_entry_points_register_every_command(self):
        self.assertEqual({'server shared create', 'server volume attach',
                          'volume attachment detail list', 'volume attachment direct create',
                          'volume attachment direct delete', 'volume attachment explain',
                          'volume attachment history', 'volume attachment tree',
                          'volume attachment watch', 'volume backend pool explain',
                          'volume detail list',
                          'volume host connect', 'volume host disconnect',
                          'volume host session clean', 'volume host session list',
                          'volume reconcile'}, self.ours)


def in_ascii():
    """Set the encoding of the standard output to ASCII."""
    sys.stdout.reconfigure(encoding='ascii')


def in_unicode():
    """Set the encoding of the standard output to UTF-8."""
    sys.stdout.reconfigure(encoding='utf-8')


class TreeTest(attachment_commands.AttachmentCommandsTestCase):

    def test_tree_nests_hosts_servers_and_attachments(self):
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

    def test_tree_uses_ascii_without_unicode_output(self):
        volume = self.volume()
        self.attachment(volume, _State.ATTACHED)
        text = self.output('tree', volume.id, '--all-projects',
                           prepare=in_ascii)
        self.assertIn('`-- compute-1\n    `-- server ', text)

    def test_tree_replaces_control_characters(self):
        volume = self.volume('a\x1b[31mb')
        self.assertIn(f'a?[31mb ({volume.id}): available\n',
                      self.output('tree', volume.id, prepare=in_ascii))

    def test_tree_supports_every_formatter(self):
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

    def test_tree_shows_unattached_volume_only_if_named(self):
        used, unused = self.volume(), self.volume()
        self.attachment(used, _State.ATTACHED)
        every = self.output('tree', '--all-projects')
        self.assertIn(used.id, every)
        self.assertNotIn(unused.id, every)
        named = self.output('tree', unused.id, prepare=in_ascii)
        self.assertEqual(f'{unused.name} ({unused.id}): available\n`-- no attachments\n', named)
        self.assertEqual('', self.output('tree', unused.id, used.id, '--all-projects', '--stuck'))

    def test_tree_lists_more_than_twenty_volumes(self):
        volumes = [self.volume() for _ in range(21)]
        for volume in volumes:
            self.attachment(volume, _State.ATTACHED, 'compute-many')
        found = json.loads(self.output('tree', '--all-projects', '--host', 'compute-many',
                                       '-f', 'json'))
        self.assertEqual(sorted((one.name, one.id) for one in volumes),
                         [(row['Volume Name'], row['Volume ID']) for row in found])


def without_output():
    """Close the standard output, like ``>&-``."""
    sys.stdout = None


class StreamsTest(attachment_commands.AttachmentCommandsTestCase):

    def test_name_beyond_the_encoding_written_as_codes(self):
        volume = self.volume('\xe9\u4e2d')
        self.attachment(volume, _State.ATTACHED)
        named = ('tree', volume.id, '--all-projects')
        self.assertIn(f'\\xe9\\u4e2d ({volume.id}): in-use\n`-- compute-1\n',
                      self.output(*named, prepare=in_ascii))
        for form in ('table', 'value', 'csv', 'yaml'):
            with self.subTest(form):
                self.assertRegex(self.output(*named, '-f', form, prepare=in_ascii),
                                 r'(?i)\\xe9\\u4e2d')

    def test_command_with_closed_output_refused_without_effect(self):
        volume = self.volume()
        for arguments in (('tree',), ('watch',), ('detail', 'list'), ('explain', volume.id),
                          ('direct', 'create', volume.id)):
            with self.subTest(arguments):
                done = self.run_command(*arguments, prepare=without_output)
                self.assertEqual(1, done.status)
                self.assertRegex(done.errors,
                                 r'^Standard output is closed, so the command was not run\. ')
        self.assertEqual([], self.ids('--volume', volume.id))

    def test_silent_command_with_closed_output_succeeds(self):
        volume = self.volume()
        made = self.connected(volume)['ID']
        done = self.run_command('direct', 'delete', made, prepare=without_output)
        self.assertEqual((0, ''), (done.status, done.errors))
        self.assertEqual([], self.ids('--volume', volume.id))

    def test_every_command_prepares_its_streams(self):
        for entry in importlib.metadata.entry_points(group=GROUP):
            with self.subTest(entry.name):
                self.assertIn('blockattachclient.output', {
                    one.__module__ for one in entry.load().__mro__})


class DetailListTest(attachment_commands.AttachmentCommandsTestCase):

    def test_detail_list_columns(self):
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

    def test_detail_list_filters(self):
        volume = self.volume()
        first = self.attachment(volume, _State.ATTACHED, 'compute-8')
        second = self.attachment(volume, _State.RESERVED)
        of_volume = ('--volume', volume.id)
        self.assertEqual([second.id, first.id], self.ids(*of_volume))
        self.assertEqual([first.id], self.ids('--host', 'compute-8'))
        self.assertEqual([second.id], self.ids('--server', second.instance_uuid))
        self.assertEqual([second.id], self.ids(*of_volume, '--state', 'reserved'))
        self.assertEqual([], self.ids(*of_volume, '--state', 'detaching'))

    def test_detail_list_stuck_returns_errors_and_old_transitions(self):
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

    def test_detail_list_follows_pages(self):
        volume = self.volume()
        made = [self.attachment(volume, _State.RESERVED).id for _ in range(3)]
        self.between.page = 2
        self.assertEqual(made[::-1], self.ids('--volume', volume.id))
        self.assertEqual(3, len(self.between.asked))


class InputTest(attachment_commands.AttachmentCommandsTestCase):

    def test_command_with_invalid_arguments_is_usage_error(self):
        for words, arguments in (
                ("invalid choice: 'bad'", ['detail', 'list', '--state', 'bad']),
                ('--host: the value must not be empty', ['tree', '--host', '']),
                ("'x' is not an attachment ID, see ", ['direct', 'delete', 'x']),
                ("'../volumes' is not an attachment ID", ['direct', 'delete', '../volumes']),
                ("'0' is not a number from 1 to", ['direct', 'create', 'v', '--timeout', '0']),
                ("'soon' is not a number", ['direct', 'delete', str(uuid.uuid4()),
                                            '--timeout', 'soon']),
                ("'9{10}' is not a number", ['direct', 'create', 'v', '--timeout', '9' * 10]),
                ("--ip: '999.1' is not an IP address", ['direct', 'create', 'v', '--ip', '999.1']),
                (r"'\\udcff' is not valid text in the encoding", ['tree', '\udcff']),
                ("invalid choice: 'w'", ['direct', 'create', 'v', '--mode', 'w']),
                ('<attachment-or-volume>: the value must not be empty', ['history', '']),
                ('<attachment-or-volume>: the value must not be empty', ['explain', '']),
                ('arguments are required: <attachment>', ['direct', 'delete'])):
            with self.subTest(arguments):
                self.assert_refused(words, *arguments, status=2)

    def test_command_without_extension_changes_nothing(self):
        volume = self.volume()
        made = self.attachment(volume, _State.ATTACHED)
        stock = self.enterContext(served.Served(self.without_the_extension))
        whole, self.service = self.service, stock
        self.addCleanup(setattr, self, 'service', whole)
        for arguments in (['tree'], ['detail', 'list'], ['direct', 'create', volume.id],
                          ['direct', 'create', volume.id, '--dry-run'], ['history', made.id],
                          ['explain', made.id], ['direct', 'delete', '--force', made.id]):
            with self.subTest(arguments):
                self.assert_refused('does not support the extension "blockattach"', *arguments)
        self.service = whole
        self.assertEqual([made.id], self.ids('--volume', volume.id))

    def without_the_extension(self, environ, start_response):
        environ['HTTP_OPENSTACK_API_VERSION'] = environ.get(
            'HTTP_OPENSTACK_API_VERSION', '').partition(',')[0]
        return self.api(environ, start_response)

    def test_command_with_older_extension_changes_nothing(self):
        volume = self.volume()
        older = self.enterContext(served.Served(self.without_the_version))
        whole, self.service = self.service, older
        self.addCleanup(setattr, self, 'service', whole)
        for arguments in (['history', str(uuid.uuid4())], ['explain', volume.id],
                          ['direct', 'create', volume.id, '--dry-run']):
            with self.subTest(arguments):
                self.assert_refused('^This command needs version 1.4 of the extension '
                                    '"blockattach", which .*. Upgrade the service.$', *arguments)
        self.assertEqual([], self.ids('--volume', volume.id))

    def without_the_version(self, environ, start_response):
        """Serve the API with no version of the extension from 1.4 on."""
        asked = environ.get('HTTP_OPENSTACK_API_VERSION', '')
        environ['HTTP_OPENSTACK_API_VERSION'] = asked.replace('blockattach 1.4', 'blockattach 9.9')
        return self.api(environ, start_response)

    def test_command_without_service_names_remedy(self):
        gone = served.Served(self.api)
        gone.close()
        self.service = gone
        self.assert_refused('Cannot reach the service: .*Check that the service is running',
                            'tree')

    def test_completion_lists_every_command(self):
        done = commands.run('openstack', ['complete'], {'NO_PROXY': '127.0.0.1'})
        self.assertEqual(0, done.status, done.errors)
        for name in sorted(names([GROUP])):
            with self.subTest(name):
                before, _, last = name.rpartition(' ')
                self.assertRegex(done.output, rf"cmds_{before.replace(' ', '_')}='[^']*\b{last}\b")
        self.assertRegex(done.output, "cmds_volume_attachment_direct_create='[^']*--wait")


class PageTest(attachment_commands.AttachmentCommandsTestCase):
    """Page ``doc/source/user/command_line.rst`` against the installed commands."""

    def setUp(self):
        super().setUp()
        self.page = (sources.ROOT / 'doc' / 'source' / 'user' / 'command_line.rst').read_text()

    def test_page_documents_every_command_and_option(self):
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

    def test_page_documents_every_column(self):
        volume = self.volume()
        made = self.connected(volume)
        rows = (made, *self.shown('tree', volume.id),
                *self.shown('detail', 'list', '--long', '--volume', volume.id),
                *self.shown('history', '--long', made['ID']), *self.shown('explain', made['ID']),
                self.shown('direct', 'create', volume.id, '--dry-run'),
                dict.fromkeys(CONNECTED))
        for title in sorted({title for row in rows for title in row}):
            with self.subTest(title):
                self.assertIn(f'``{title}``', self.page)
