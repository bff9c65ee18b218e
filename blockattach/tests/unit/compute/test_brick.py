"""Calls of the brick connector to os-brick.

A stand-in with the signatures of the real os-brick takes its place.
"""
import inspect
import os
import traceback
import unittest
import unittest.mock

from os_brick.initiator import connector
from os_brick.initiator.connectors import iscsi

from blockattach.compute import errors
from blockattach.compute.hosts import base
from blockattach.compute.hosts.local import brick
from blockattach.storage.domain import connection
from blockattach.tests.conformance import settings

PASSWORD = 'secret-of-twelve'
RW = connection.AccessMode.RW


class Brick:
    """Stand-in for the module ``os_brick.initiator.connector`` and for its connector."""

    def __init__(self, device):
        self.InitiatorConnector = self
        self.asked = []
        self.failing = set()
        self._device = device
        self._is_connected = False

    def factory(self, *arguments, **named):
        inspect.signature(connector.InitiatorConnector.factory).bind(*arguments, **named)
        return self

    def get_connector_properties(self, *arguments):
        inspect.signature(connector.get_connector_properties).bind(*arguments)
        return {'host': arguments[4], 'initiator': 'iqn.2026-01.org.example:this', 'nqn': None}

    def connect_volume(self, info):
        self._act('connect', iscsi.ISCSIConnector.connect_volume, info)
        self._is_connected = True
        return {'type': 'block', 'path': self._device}

    def get_volume_paths(self, info):
        inspect.signature(iscsi.ISCSIConnector.get_volume_paths).bind(self, info)
        return [self._device] if self._is_connected else []

    def disconnect_volume(self, info, device):
        self._act('disconnect', iscsi.ISCSIConnector.disconnect_volume, info, device)
        self._is_connected = False

    def _act(self, name, real, info, *arguments):
        inspect.signature(real).bind(self, info, *arguments)
        self.asked.append((name, info['auth_password'], *arguments))
        if name in self.failing:
            raise RuntimeError(f'iscsiadm failed with {info["auth_password"]}')


class BrickConnectorTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = os.path.realpath(settings.folder(self))
        self.device = os.path.join(self.folder, 'device')
        with open(self.device, 'wb') as file:
            file.write(bytes(4096))
        self.brick = Brick(self.device)
        self.notes = os.path.join(self.folder, 'notes')

    def make(self):
        return brick.BrickConnector('this-host', self.notes, find=self.find)

    def find(self, name):
        if name == 'os_brick.initiator.connector':
            return self.brick
        return unittest.mock.MagicMock()

    def disk(self):
        return base.Disk('volume', '/dev/vdb', RW, True, {
            'driver_volume_type': 'iscsi', 'target_portal': '127.0.0.1:3260',
            'target_iqn': 'iqn.2026-01.org.example:target', 'target_lun': 1,
            'auth_method': 'CHAP', 'auth_username': 'someone', 'auth_password': PASSWORD})

    def names(self):
        return [one[0] for one in self.brick.asked]

    def test_connector_properties_same_for_all_servers(self):
        self.make().check()
        self.assertEqual({'host': 'this-host', 'initiator': 'iqn.2026-01.org.example:this'},
                         self.make().properties('any'))

    def test_repeated_connect_and_disconnect_call_once(self):
        for _ in range(2):
            self.assertEqual(self.device, self.make().connect('server', self.disk()))
        self.assertEqual([('connect', PASSWORD)], self.brick.asked)
        for _ in range(2):
            self.make().disconnect('server', 'volume')
        self.assertEqual([], os.listdir(self.notes))
        # What is to be flushed is named, and no password was kept for it.
        self.assertEqual([('disconnect', connection.MASKED, {'path': self.device})],
                         self.brick.asked[1:])

    def test_failed_connect_undone_without_password_in_error(self):
        self.brick.failing.add('connect')
        with self.assertRaises(errors.HostRefused) as caught:
            self.make().connect('server', self.disk())
        self.assertNotIn(PASSWORD, str(caught.exception))
        self.assertIn('iscsiadm failed', str(caught.exception))
        self.assertEqual(['connect', 'disconnect'], self.names())
        self.assertEqual([], os.listdir(self.notes))

    def test_failed_undo_repeated_by_disconnect(self):
        self.brick.failing |= {'connect', 'disconnect'}
        with self.assertRaises(Exception) as caught:
            self.make().connect('server', self.disk())
        self.assertNotIsInstance(caught.exception, errors.HostRefused)
        # Nor does a log print the first one, as what it came of.
        self.assertNotIn(PASSWORD, ''.join(traceback.format_exception(caught.exception)))
        self.brick.failing.clear()
        self.make().disconnect('server', 'volume')
        self.assertEqual('disconnect', self.names()[-1])
        self.assertEqual([], os.listdir(self.notes))

    def test_connection_notes_have_no_password(self):
        self.make().connect('server', self.disk())
        [name] = os.listdir(self.notes)
        with open(os.path.join(self.notes, name), encoding='utf-8') as file:
            self.assertNotIn(PASSWORD, file.read())

    def test_device_of_other_disk_not_returned(self):
        self.make().connect('server', self.disk())
        self.brick._is_connected = False
        self.assertIsNone(self.make().path('server', 'volume'))

    def test_check_without_os_brick_names_extra(self):
        def find(name):
            raise ImportError(name)

        with self.assertRaisesRegex(errors.ConfigurationError, r'blockattach\[host\]'):
            brick.BrickConnector('this-host', self.notes, find=find).check()
