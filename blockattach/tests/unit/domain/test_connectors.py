"""Validation of connectors."""
import unittest

from blockattach.platform import errors
from blockattach.storage.domain import connection
from blockattach.tests.fixtures import make


class InitiatorTest(unittest.TestCase):

    def test_iscsi_node_name_is_initiator(self):
        for name in ('iqn.1993-08.org.debian:01:a1b2c3', 'iqn.1994-05.com.redhat:abc',
                     'iqn.1991-05.com.microsoft:host.example.com', 'iqn.2010-11.libiscsi',
                     'IQN.2016-04.com.example:a'.lower(), 'eui.02004567A425678D',
                     'naa.52004567BA64678D', 'naa.62004567BA64678D0123456789ABCDEF',
                     f'iqn.2016-04.com.example:{"x" * 199}', connection.NO_INITIATOR):
            with self.subTest(name=name):
                self.assertTrue(connection.is_initiator(name))

    def test_invalid_node_name_is_no_initiator(self):
        for name in ('', ' ', 'ALL', 'null', '1e5', '127.0.0.1', 'fake2',
                     '6f0d4c1e-9c7e-4a2e-9d53-6f2b3c7d8e90', 'iqn', 'iqn.', 'iqn.2016-13.a.b:c',
                     'iqn.2016-04.a b', 'iqn.2016-04.a,b', 'iqn.2016-04.com.example:\u00e9',
                     'iqn.2016-04.com.example:a\n', 'eui.02004567', 'naa.52004567BA64678',
                     f'iqn.2016-04.com.example:{"x" * 200}', None, 5, ['iqn.2016-04.a:b']):
            with self.subTest(name=name):
                self.assertFalse(connection.is_initiator(name))


class BoundsTest(unittest.TestCase):

    def refused(self, said, **more):
        with self.assertRaises(errors.InvalidInput) as caught:
            connection.check_connector(make.connector(**more))
        self.assertIn(said, str(caught.exception))
        self.assertLess(len(str(caught.exception)), 200)

    def test_usual_connector_accepted(self):
        connection.check_connector({})
        connection.check_connector({
            'ip': '192.0.2.7', 'host': 'compute-1', 'multipath': False, 'enforce_multipath': True,
            'initiator': 'iqn.1993-08.org.debian:01:a1b2', 'do_local_attach': False,
            'platform': 'x86_64', 'os_type': 'linux', 'mountpoint': '/dev/vdb',
            'system uuid': '6f0d4c1e-9c7e-4a2e-9d53-6f2b3c7d8e90', 'found_dsc': '',
            'nqn': 'nqn.2014-08.org.nvmexpress:uuid:6f0d4c1e-9c7e-4a2e-9d53-6f2b3c7d8e90',
            'wwpns': ['100000109bdd539c', '10:00:00:10:9b:dd:53:9d'],
            'wwnns': ['200000109bdd539c'], 'nvme_hostid': None, 'mode': 'ro',
            'more': {'lists': [1, None, {'of': 'things'}], 'words': 'a\\u0000b'}})

    def test_connector_beyond_limits_rejected(self):
        for said, more in (
                ('more than 64 keys', {f'k{number}': 1 for number in range(62)}),
                ('a key is longer than 64', {'k' * 65: 1}),
                ('a key is longer than 64', {'a': [{'k' * 65: 1}]}),
                ('a is longer than 4096', {'a': 'x' * 4097}),
                ('a is longer than 4096', {'a': ['x' * 4097]}),
                ('larger than 16384 bytes', {'a': ['x' * 4000] * 5}),
                ('NUL character', {'a': 'x\0y'}), ('NUL character', {'a': {'x\0': 1}}),
                ('mountpoint must be', {'mountpoint': 'x' * 256}),
                ('mountpoint must be', {'mountpoint': 5}),
                ('nqn has an invalid format', {'nqn': 'nqn.5'}),
                ('wwpns has an invalid format', {'wwpns': ['zz']}),
                ('wwnns has an invalid format', {'wwnns': [5]})):
            with self.subTest(more=str(more)[:60]):
                self.refused(said, **more)

    def test_connector_with_invalid_host_rejected(self):
        for name in ('', ' ', '\t', 'a\r\nb', None, 5, ['a']):
            with self.subTest(name=name), self.assertRaises(errors.InvalidInput):
                connection.check_connector({**make.connector(), 'host': name})
        connection.check_connector({'initiator': 'iqn.2016-04.com.example:a'})
