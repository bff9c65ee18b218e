"""Commands `openstack volume host connect` and `disconnect`.

The tests check the order of the calls to os-brick and to the service, and the rollback. A stand-in
with the signatures of the real os-brick takes its place.
"""
import errno
import functools
import importlib.metadata
import inspect
import io
import json
import os
import types
import unittest
import unittest.mock
import uuid

import openstack
import webob
from os_brick.initiator import connector
from os_brick.initiator.connectors import iscsi
from osc_lib import exceptions

from blockattach.tests.fixtures import served
from blockattach.tests.functional import attachment_commands
from blockattach.tests.functional import test_attachment_commands

IQN = attachment_commands.IQN
HOST = 'this-host'
DEVICE = '/dev/sdx'
BY_PATH = '/dev/disk/by-path/of-the-test'


class Brick:
    """Stand-in for the module ``os_brick.initiator.connector`` and for its connector.

    Its calls are recorded in ``between.asked`` beside the requests. ``on`` maps the name of a call
    to a function that runs at the call.
    """

    def __init__(self, between):
        self._between = between
        self.name = f'{IQN}{HOST}'
        self.on = {}
        self.given = {}
        self.InitiatorConnector = self
        self.is_busy = False

    def _act(self, name, real, *arguments, **named):
        inspect.signature(real).bind(*arguments, **named)
        self._between.asked.append((name,))
        self.given[name] = arguments
        self.on.get(name, lambda: None)()

    def get_connector_properties(self, *arguments):
        self._act('describe', connector.get_connector_properties, *arguments)
        _, address, multipath, _ = arguments
        return {'host': HOST, 'initiator': self.name, 'ip': address, 'multipath': multipath,
                'platform': 'x86_64', 'nqn': None}

    def factory(self, *arguments, **named):
        inspect.signature(connector.InitiatorConnector.factory).bind(*arguments, **named)
        self.given['factory'] = named
        return self

    def connect_volume(self, info):
        self._act('connect', iscsi.ISCSIConnector.connect_volume, self, info)
        return {'type': 'block', 'path': DEVICE}

    def get_volume_paths(self, info):
        inspect.signature(iscsi.ISCSIConnector.get_volume_paths).bind(self, info)
        return [BY_PATH]

    def disconnect_volume(self, info, device):
        self._act('disconnect', iscsi.ISCSIConnector.disconnect_volume, self, info, device)

    def open_device(self, path, flags):
        if self.is_busy:
            raise OSError(errno.EBUSY, 'busy', path)
        return os.open(os.devnull, flags)


def loaded(group, name):
    """Load an entry point of the plugin as the stock client does."""
    [found] = importlib.metadata.entry_points(group=group, name=name)
    return found.load()


class HostCommandsTestCase(attachment_commands.AttachmentCommandsTestCase):

    noun = 'host'

    def setUp(self):
        super().setUp()
        self.brick = Brick(self.between)
        self.installed, self.user = {}, 0
        self.said = ''
        self.of = self.volume()

    def call(self, name, *arguments):
        """Run a command with the stand-in for os-brick and return its output."""
        sdk = openstack.connect(load_yaml_config=False, load_envvars=False, auth_type='none',
                                auth={'endpoint': self.service.endpoint})
        self.addCleanup(sdk.close)
        client = loaded('openstack.cli.extension', 'blockattach').make_client(
            types.SimpleNamespace(sdk_connection=sdk))
        app = types.SimpleNamespace(
            client_manager=types.SimpleNamespace(blockattach=client), stdout=io.StringIO(),
            stderr=io.StringIO())
        command = loaded(test_attachment_commands.GROUP, f'volume_host_{name}')(app, None)
        command.this_host = functools.partial(
            command.this_host, self.find, lambda: self.user, self.brick.open_device)
        if name.startswith('session'):
            command.of_kernel = functools.partial(command.of_kernel, self.kernel)
        try:
            command.run(command.get_parser('openstack').parse_args(arguments))
        finally:
            self.said = app.stderr.getvalue()
        return app.stdout.getvalue()

    def find(self, name):
        """Import a module of what is installed on this host."""
        if name == 'os_brick.initiator.connector':
            return self.brick
        return self.installed.setdefault(name, unittest.mock.MagicMock())

    def connect(self, *arguments):
        return json.loads(self.call('connect', self.of.id, '-f', 'json', *arguments))

    def disconnect(self, *arguments):
        self.assertEqual('', self.call('disconnect', self.of.name, *arguments))

    def refused(self, words, call, *arguments):
        with self.assertRaisesRegex(exceptions.CommandError, words) as caught:
            call(*arguments)
        self.assertNotIn('\n', str(caught.exception))
        return str(caught.exception)

    def other(self, **more):
        """Create another attachment of the volume to this host and return its id."""
        status, body = self.plain.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': self.of.id, **more,
            'connector': {'host': HOST, 'initiator': self.brick.name}}})
        self.assertEqual(200, status, body)
        return body['attachment']['id']

    def acts(self):
        return [one[0] for one in self.between.asked]

    def attachments(self):
        return {one['id']: one for one in self.plain.list('attachments')
                if one['volume_id'] == self.of.id}


class ConnectTest(HostCommandsTestCase):

    def test_connect_attaches_and_returns_device(self):
        made = self.connect('--mode', 'ro', '--ip', '192.0.2.7')
        self.assertEqual(['describe', 'POST', 'connect', 'POST'], self.acts())
        [one] = self.attachments().values()
        self.assertEqual('attached', one['status'])
        self.assertEqual(dict(zip(
            test_attachment_commands.CONNECTED, (DEVICE, one['id'], self.of.id, HOST, 'ro', []),
            strict=True)), made)
        self.assertEqual(one['connection_info'], self.brick.given['connect'][1])
        self.assertEqual(('', '192.0.2.7', False, False), self.brick.given['describe'])
        self.assertEqual({'use_multipath': False}, self.brick.given['factory'])
        self.assertEqual('', self.said)

    def test_connect_with_multipath_requires_multipathd(self):
        self.connect('--multipath')
        self.assertEqual(('', None, True, True), self.brick.given['describe'])
        self.assertEqual({'use_multipath': True}, self.brick.given['factory'])

    def test_failed_connect_rolled_back_without_secret_in_output(self):
        def fail():
            [one] = self.attachments().values()
            self.secret = one['connection_info']['auth_password']
            raise RuntimeError(f'iscsiadm -v {self.secret}\nfailed.')

        self.brick.on['connect'] = fail
        said = self.refused(
            r'^os-brick failed to connect the volume: iscsiadm -v \*\*\* failed\. Use -v',
            self.connect)
        self.assertNotIn(self.secret, said)
        self.assertRegex(self.said, r'^Rollback completed: deletion of attachment [\w-]+\.\n$')
        self.assertEqual({}, self.attachments())

    def test_failed_complete_rolled_back_in_reverse_order(self):
        self.brick.on['connect'] = lambda: self.between.answers.append((409, {}))
        self.refused(r'Come again \(HTTP 409\)', self.connect)
        self.assertRegex(self.said, rf'^Rollback completed: disconnection of {DEVICE}\.\n'
                                    r'Rollback completed: deletion of attachment [\w-]+\.\n$')
        self.assertEqual(['describe', 'POST', 'connect', 'POST', 'disconnect', 'DELETE'],
                         self.acts())
        self.assertEqual({}, self.attachments())

    def test_failed_disconnect_still_rolls_attachment_back(self):
        def fail():
            raise RuntimeError('the device is stuck')

        self.brick.on['connect'] = lambda: self.between.answers.append((409, {}))
        self.brick.on['disconnect'] = fail
        self.refused(r'Come again \(HTTP 409\)', self.connect)
        self.assertRegex(self.said, rf'^Rollback failed: disconnection of {DEVICE}\. os-brick '
                                    r'failed to .*: the device is stuck\. .*Check "iscsiadm -m '
                                    'session"')
        self.assertEqual({}, self.attachments())

    def test_interrupted_connect_rolled_back(self):
        def interrupt():
            raise KeyboardInterrupt

        self.brick.on['connect'] = interrupt
        self.assertRaises(KeyboardInterrupt, self.connect)
        self.assertEqual({}, self.attachments())

    def test_disconnect_ignores_case_of_initiator_name(self):
        self.connect()
        self.brick.name = self.brick.name.replace(HOST, HOST.upper())
        self.disconnect()
        self.assertEqual({}, self.attachments())

    def test_failed_connect_keeps_shared_session(self):
        there = self.other(instance_uuid=str(uuid.uuid4()))
        self.brick.on['connect'] = lambda: self.between.answers.append((409, {}))
        self.refused('HTTP 409', self.connect)
        self.assertNotIn('disconnect', self.acts())
        self.assertEqual({there}, set(self.attachments()))

    def test_connect_without_prerequisites_changes_nothing(self):
        self.brick.name = ''
        self.refused('no iSCSI initiator name. Install open-iscsi', self.connect)
        self.brick.on['describe'] = lambda: (_ for _ in ()).throw(RuntimeError('no multipathd'))
        self.refused(r'^os-brick failed to read the connector of this host: no multipathd\. '
                     'Use -v', self.connect)
        self.brick.on.clear()
        secret = self.enterContext(served.Served(self.encrypted))
        self.addCleanup(setattr, self, 'service', self.service)
        self.service = secret
        self.refused('is encrypted.*openstack server add volume', self.connect)
        self.assertEqual({}, self.attachments())

    def encrypted(self, environ, start_response):
        """Serve the API with each volume shown as encrypted."""
        request = webob.Request(environ)
        response = request.get_response(self.api)
        if '/volumes/' in request.path and response.status_code == 200:
            body = response.json_body
            body['volume']['encrypted'] = True
            response.json_body = body
        return response(environ, start_response)

    def test_connect_with_other_protocol_rolled_back(self):
        def change(method, body):
            if method == 'POST':
                body['attachment']['connection_info']['driver_volume_type'] = 'rbd'
            return body

        self.between.change = change
        self.refused('provides rbd, but this command supports only iSCSI', self.connect)
        self.assertEqual({}, self.attachments())


class DisconnectTest(HostCommandsTestCase):

    def test_disconnect_removes_device_before_attachment(self):
        self.connect()
        info = self.brick.given['connect'][1]
        del self.between.asked[:]
        self.disconnect()
        self.assertEqual(['describe', 'GET', 'GET', 'disconnect', 'DELETE'], self.acts())
        self.assertEqual((info, {'path': BY_PATH}), self.brick.given['disconnect'][1:])
        self.assertEqual({}, self.attachments())

    def test_disconnect_uses_multipath_of_connection(self):
        self.connect('--multipath')
        self.brick.is_busy = True
        self.disconnect()
        self.assertEqual({'use_multipath': True}, self.brick.given['factory'])

    def test_disconnect_of_device_in_use_rejected(self):
        self.connect()
        self.brick.is_busy = True
        self.refused(f'{BY_PATH} is in use on this host .* Unmount the device', self.disconnect)
        self.assertNotIn('disconnect', self.acts())
        self.assertEqual(1, len(self.attachments()))

    def test_disconnect_keeps_shared_session(self):
        server = self.other(instance_uuid=str(uuid.uuid4()))
        self.connect()
        self.disconnect()
        self.assertNotIn('disconnect', self.acts())
        self.assertIn(f'Keeping the session, which other attachments of this host use: {server}.',
                      self.said)
        self.assertEqual({server}, set(self.attachments()))

    def test_repeated_disconnect_deletes_remaining_attachment(self):
        self.connect()
        self.brick.on['disconnect'] = lambda: self.between.answers.append((409, {}))
        self.refused('was not deleted, but this host no longer uses the attachment. Repeat the '
                     'command. Come', self.disconnect)
        self.brick.on.clear()
        self.disconnect()
        self.assertEqual({}, self.attachments())

    def test_disconnect_requires_unambiguous_attachment(self):
        self.refused(rf'This host \({HOST}, {self.brick.name}\) has no matching attachment .*tree '
                     f'{self.of.id}', self.disconnect)
        server = str(uuid.uuid4())
        made = self.other(instance_uuid=server)
        for arguments in ((), ('--attachment', made)):
            self.refused(f'only server {server} uses the volume.*openstack server remove volume',
                         self.disconnect, *arguments)
        first, second = self.other(), self.other()
        self.refused('several attachments of the volume. Specify one with --attachment: '
                     f'({first}|{second}), ', self.disconnect)
        self.disconnect('--attachment', first)
        self.assertEqual({made, second}, set(self.attachments()))
        self.assertNotIn('disconnect', self.acts())


class ThisHostTest(HostCommandsTestCase):

    def test_host_command_with_invalid_arguments_is_usage_error(self):
        self.assert_refused("'x' is not an attachment ID", 'disconnect', 'v', '--attachment',
                            'x', status=2)
        self.assert_refused("invalid choice: 'w'", 'connect', 'v', '--mode', 'w', status=2)
        self.assert_refused('the value must not be empty', 'connect', '', status=2)

    def test_root_runs_privileged_calls_in_process(self):
        self.connect()
        for name in ('default', 'brick_privsep_hide_output'):
            context = getattr(self.installed['os_brick.privileged'], name)
            context.set_client_mode.assert_called_once_with(False)
        self.installed['os_brick'].setup.assert_called_once_with(
            self.installed['oslo_config.cfg'].CONF)

    def test_host_command_without_root_or_os_brick_refused(self):
        def absent(name):
            raise ImportError(name)

        self.find = absent
        for words, user in (
                ('Run the command as root', 1000),
                (r"os-brick is not installed.*pip install 'blockattach\[client,host\]'", 0)):
            self.user = user
            for act in (self.connect, self.disconnect):
                with self.subTest(words, act=act.__name__):
                    self.refused(words, act)
        self.assertEqual([], self.between.asked)
