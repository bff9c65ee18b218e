"""What python-cinderclient asks of the processes of a service, unmodified."""
from cinderclient import client as cinder_client
from cinderclient import exceptions as cinder_exceptions
from cinderclient.contrib import noauth
from keystoneauth1 import session

from blockattach.tests.functional import base
from blockattach.tests.functional import test_clients


class ClientOfProcessesTest(base.StackTestCase):

    def test_cinderclient_on_the_processes(self):
        cinder = cinder_client.Client('3.71', session=session.Session(
            auth=noauth.CinderNoAuthPlugin('somebody', test_clients.PROJECT,
                                           endpoint=self.a_stack().endpoint)))
        binaries = {'cinder-api', 'cinder-volume', 'cinder-scheduler'}
        for level in ('DEBUG', 'INFO'):
            cinder.services.set_log_levels(level, '*', '', 'blockattach.volume')
            told = cinder.services.get_log_levels('*', '', 'blockattach.volume.')
            self.assertEqual(binaries, {one.binary for one in told})
            self.assertEqual({level}, {one.level for one in told})
        backend, = (one.host for one in cinder.services.list(binary='cinder-volume'))
        cinder.services.freeze_host(backend)
        self.assertTrue(cinder.services.list(binary='cinder-volume')[0].frozen)
        self.assertRaises(cinder_exceptions.BadRequest, cinder.services.failover_host, backend,
                          None)
        cinder.services.thaw_host(backend)
        self.assertFalse(cinder.services.list(binary='cinder-volume')[0].frozen)
