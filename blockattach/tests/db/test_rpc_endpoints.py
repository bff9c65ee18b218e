"""RPC endpoints, which are known as long as their servers send heartbeats."""
import threading
from concurrent import futures

from blockattach.platform.db import clock
from blockattach.storage.db import models
from blockattach.storage.db.services import rpc_endpoints
from blockattach.tests.db import base
from blockattach.tests.fixtures import polling

DOWN_AFTER = 60
TOPIC = 'blockattach-volume'


def at(port, fingerprint=None):
    return rpc_endpoints.RpcEndpoint('192.0.2.1', port, f'instance-{port}', fingerprint)


@base.on_chosen_databases
class RpcEndpointsTest(base.DatabaseTestCase):
    def register(self, port, server='one@a', topic=TOPIC, fingerprint=None):
        endpoint = at(port, fingerprint)
        rpc_endpoints.register(self.database, topic, server, endpoint, DOWN_AFTER)
        return endpoint

    def found(self, server=None, topic=TOPIC):
        return rpc_endpoints.find(self.database, topic, server, DOWN_AFTER)

    def silence(self, endpoint, seconds):
        with self.database.writer() as connection:
            connection.execute(models.rpc_endpoints.update()
                               .where(models.rpc_endpoints.c.instance == endpoint.instance)
                               .values(reported_at=clock.now(-seconds)))

    def rows(self):
        with self.database.reader() as connection:
            return len(connection.execute(models.rpc_endpoints.select()).all())

    def test_endpoints_found_by_topic_and_name_in_order(self):
        one, two = self.register(9), self.register(1, 'two@a', fingerprint='f' * 64)
        member = self.register(5)
        self.register(7, 'one@a', 'blockattach-scheduler')
        self.assertEqual([one, two, member], self.found())
        self.assertEqual([one, member], self.found('one@a'))
        self.assertEqual([two], self.found('two@a'))
        self.assertEqual([], self.found('three@a'))

    def test_repeated_registration_is_idempotent(self):
        for _ in range(2):
            endpoint = self.register(1)
        self.assertEqual([endpoint], self.found())

    def test_silent_endpoint_hidden_until_next_heartbeat(self):
        endpoint = self.register(1)
        self.silence(endpoint, DOWN_AFTER + 1)
        self.assertEqual([], self.found())
        self.assertTrue(rpc_endpoints.heartbeat(self.database, [endpoint.instance]))
        self.assertEqual([endpoint], self.found())

    def test_heartbeat_reports_deleted_endpoint(self):
        endpoint, other = self.register(1), self.register(2)
        self.silence(endpoint, 11 * DOWN_AFTER)
        self.register(3)
        self.assertEqual(2, self.rows())
        self.assertFalse(rpc_endpoints.heartbeat(
            self.database, [endpoint.instance, other.instance]))

    def test_withdrawn_endpoint_hidden(self):
        first, second, third = self.register(1), self.register(2), self.register(3)
        rpc_endpoints.withdraw(self.database, [first.instance, third.instance, 'unknown'])
        self.assertEqual([second], self.found())

    def test_concurrent_registrations_and_withdrawals_succeed(self):
        start = threading.Barrier(6)

        def begin(number):
            start.wait(polling.LIMIT)
            for again in range(3):
                endpoint = self.register(100 * number + again)
                rpc_endpoints.heartbeat(self.database, [endpoint.instance])
            rpc_endpoints.withdraw(self.database, [endpoint.instance])

        with futures.ThreadPoolExecutor(6) as pool:
            for each in [pool.submit(begin, number) for number in range(6)]:
                each.result()
        self.assertEqual(12, len(self.found()))
