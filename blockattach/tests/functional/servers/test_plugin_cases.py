"""Server cases of the Tempest plugin against Block Storage and the compute API."""
import unittest

from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make
from blockattach.tests.functional.servers import clients
from blockattach_tempest_plugin import client
from blockattach_tempest_plugin import clouds
from blockattach_tempest_plugin.cases import servers


class PluginCasesTest(clients.ClientsTestCase):

    def test_plugin_cases_of_servers_pass(self):
        kind = make.volume_type(self.cloud.storage.database, multiattach=True).name

        def caller(service, project=''):
            endpoint = self.overrides[f'{service}_endpoint_override']
            return client.Client(f'{endpoint}{project}', lambda: clients.TOKEN)

        class Played(servers.ServersOfOneRequest):
            cloud = clouds.Cloud(caller('block_storage', f'/{http.PROJECT}'),
                                 compute=caller('compute'), multiattach_type=kind)

        played = unittest.defaultTestLoader.loadTestsFromTestCase(Played)
        self.assertEqual(3, played.countTestCases())
        outcome = unittest.TestResult()
        played.run(outcome)
        self.assertEqual(([], [], []), (outcome.errors, outcome.failures, outcome.skipped))
