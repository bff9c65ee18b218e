"""Connection information about paths and discard, tested by hosts on the file backend."""
import os
import pathlib
import uuid

from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import scsi
from blockattach.tests.conformance import settings
from blockattach.tests.functional import base

_MIB = 1024 ** 2
_SETTINGS = """
[file]
target_secondary_ip_addresses = 127.0.0.2
report_discard_supported = true
"""
_LISTS = ('target_portals', 'target_iqns', 'target_luns')


class ConnectionFactsTest(base.StackTestCase):

    def served(self, options=''):
        """Start a service with the file backend."""
        settings.outside_program(self, tgtd.program() is not None, 'tgtd')
        settings.outside_program(self, scsi.available(), 'libiscsi')
        made = base.ForkedStack('file', settings=options)
        self.addCleanup(made.remove)
        self.addCleanup(made.stop)
        made.start()
        return made

    def connected(self, served, **connector):
        """Attach a new volume to a host and return the connection information."""
        api = base.Api(served.endpoint)
        _, made = api.ask('POST', '/volumes', {'volume': {'size': 1}})
        volume_id = made['volume']['id']
        self.assertEqual('available', base.settled(
            lambda: api.ask('GET', f'/volumes/{volume_id}')[1]['volume']['status']))
        status, made = api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': str(uuid.uuid4()),
            'connector': {**base.connector('one'), **connector}}})
        self.assertEqual(200, status, made)
        return made['attachment']['connection_info']

    def test_a_host_discards_if_offered_and_finds_every_path(self):
        served = self.served(_SETTINGS)
        info = self.connected(served)
        self.assertIs(True, info['discard'])
        self.assertEqual(['127.0.0.1', '127.0.0.2'], [
            portal.rpartition(':')[0] for portal in info['target_portals']])
        [path] = pathlib.Path(served.state_dir).glob(f'**/volume-{info["volume_id"]}')
        initiator = base.connector('one')['initiator']
        for portal in info['target_portals']:
            with scsi.Session(initiator, info, portal) as host:
                host.flush()
                for number in range(8):
                    self.assertEqual(scsi.GOOD, host.write(
                        number * 2048, b'\x5a' * _MIB).status)
                self.assertEqual(scsi.GOOD, host.flush().status)
                before = os.stat(path).st_blocks * 512
                self.assertGreaterEqual(before, 8 * _MIB)
                self.assertEqual(scsi.GOOD, host.unmap(0, 8 * 2048).status)
                self.assertLess(os.stat(path).st_blocks * 512, before - 4 * _MIB)

    def test_by_default_one_path_and_nothing_of_discard(self):
        served = self.served()
        info = self.connected(served)
        self.assertEqual(set(), {*_LISTS, 'discard', 'logical_block_size'} & info.keys())
        info = self.connected(served, multipath=True)
        self.assertEqual([[info['target_portal']], [info['target_iqn']], [info['target_lun']]],
                         [info[name] for name in _LISTS])
