"""Directory in the database by which the processes of a site find each other."""
import os
import pathlib
import unittest

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform import clock as clocks
from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform.conf import service as service_conf
from blockattach.platform.rpc.http import sites
from blockattach.storage.db.services import rpc_endpoints
from blockattach.tests.fixtures import database
from blockattach.tests.unit.rpc import probe
from blockattach.tests.unit.wiring import test_wiring
from blockattach.wiring import dependencies
from blockattach.wiring import rpc_site

TOPIC = 'blockattach-volume'
HERE = sites.Endpoint('127.0.0.1', 1, 'this start')


class ServiceEndpointsTest(unittest.TestCase):
    """Directory of endpoints in the database."""

    def setUp(self):
        super().setUp()
        rows = database.DatabaseFixture()
        self.addCleanup(rows.close)
        self.database = rows.database
        self.mine, self.others = self.opened(), self.opened()

    def opened(self):
        made = rpc_site.ServiceEndpoints(
            self.database, service_conf.ServiceSettings(host='here'), clocks.Clock())
        self.addCleanup(made.close)
        return made

    def test_registered_endpoint_found_until_withdrawn(self):
        self.mine.register(TOPIC, 'one', HERE)
        self.assertEqual([HERE], self.others.find(TOPIC, 'one'))
        self.assertEqual([HERE], self.others.find(TOPIC))
        self.mine.withdraw(TOPIC, 'one', HERE)
        self.assertEqual([], self.others.find(TOPIC))
        self.mine.withdraw(TOPIC, 'one', HERE)

    def test_beat_registers_lost_endpoint_again(self):
        self.mine.register(TOPIC, 'one', HERE)
        other = HERE._replace(instance='of another server')
        self.mine.register(TOPIC, 'two', other)
        rpc_endpoints.withdraw(self.database, [HERE.instance])
        self.mine.beat()
        self.assertEqual({HERE, other}, set(self.others.find(TOPIC)))

    def test_beat_skips_endpoint_whose_registration_failed(self):
        for old, new in (('rpc_endpoints', 'away'), ('away', 'rpc_endpoints')):
            if new == 'rpc_endpoints':
                with self.assertRaises(db_exception.DBError):
                    self.mine.register(TOPIC, 'one', HERE)
            with self.database.writer() as connection:
                connection.execute(sa.text(f'ALTER TABLE {old} RENAME TO {new}'))
        self.mine.beat()
        self.assertEqual([], self.others.find(TOPIC))

    def test_beat_skips_withdrawn_endpoint(self):
        self.mine.register(TOPIC, 'one', HERE)
        self.mine.withdraw(TOPIC, 'one', HERE)
        self.mine.beat()
        self.assertEqual([], self.others.find(TOPIC))


class OptionsTest(test_wiring.WiringTestCase):
    """Options of the group ``[rpc]`` for the HTTP bus."""

    def setUp(self):
        super().setUp()
        self.conf.set_override('transport_url', 'http://')

    def refused(self, name, **options):
        for option, value in options.items():
            self.conf.set_override(option, value, group='rpc')
        with self.assertRaises(errors.ConfigurationError) as caught:
            self.base()
        self.assertIn(f'[rpc] {name}', str(caught.exception))

    def test_wildcard_listen_without_advertise_rejected(self):
        self.refused('advertise', listen='0.0.0.0:0')

    def test_invalid_address_rejected(self):
        self.refused('listen', listen='here')
        self.refused('advertise', listen='0.0.0.0:0', advertise='there')

    def test_key_file_readable_by_others_rejected(self):
        path = pathlib.Path(self.conf.state_path, 'rpc.keys')
        path.write_text(f'site {64 * "a"}\n')
        os.chmod(path, 0o644)
        self.refused('key_file')

    def test_processes_of_same_database_and_key_connected(self):
        first, second = (dependencies.build_dependencies(self.conf, upgrade=True)
                         for _ in range(2))
        for base in (first, second):
            self.addCleanup(base.close)
            self.assertFalse(base.probe.needed)
        server = first.bus.server(probe.ProbeEndpoint('first'), 'one')
        server.start()
        self.addCleanup(server.stop)
        client = probe.ProbeClient(second.bus.client(probe.ProbeInterface, 'one'))
        self.assertEqual(['first', 1], client.echo(context.admin_context(), 1))

    def test_inproc_transport_has_no_site(self):
        self.conf.set_override('transport_url', 'inproc://one/')
        self.conf.set_override('calls', 'http', group='rpc')
        self.assertIsNone(self.base().site)


if __name__ == '__main__':
    unittest.main()
