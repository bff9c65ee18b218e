"""Recorded calls of consumers compared with the requests of their installed clients.

A release of a client that sends other requests fails here.
"""

from blockattach.tests.contracts import calls
from blockattach.tests.contracts import clients
from blockattach.tests.contracts import ironic
from blockattach.tests.contracts import nova
from blockattach.tests.contracts import openstacksdk
from blockattach.tests.contracts import player
from blockattach.tests.contracts import shells
from blockattach.tests.contracts import test_contracts
from blockattach.tests.fixtures import served


class RecordedTest(test_contracts.ServiceCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.recorder = player.Recorder(cls.http)
        cls.service = cls.enterClassContext(served.Served(cls.recorder))
        cls.compute.publish('block-storage', cls.service.endpoint)

    def record(self, consumer):
        for flow in consumer.flows:
            with self.subTest(flow.name):
                self.record_flow(consumer, flow)

    def record_flow(self, consumer, flow):
        played = player.Player(self.http, consumer, self.names)
        self.compute.run(played.names['server'], f'server-{played.names["project"]}')
        kept = {}
        rest = list(flow.calls)
        while rest:
            if rest[0].uses is None:
                played.play(rest.pop(0))
                continue
            rows, rest = rest[:rest[0].uses.sends], rest[rest[0].uses.sends:]
            failure = self.use(consumer, played, rows[0], kept)
            exchanges = self.recorder.take(played.names[rows[0].who.project])
            self.assertEqual(len(rows), len(exchanges), f'{rows[0].by}: {failure} {exchanges}')
            for row, exchange in zip(rows, exchanges, strict=True):
                played.look_at(row, exchange)
            self.assertEqual(rows[-1].raises != '', failure is not None, failure)

    def client(self, consumer, played, call):
        """Build a client as the consumer does."""
        endpoint = self.service.endpoint
        if consumer.with_project:
            endpoint += f'/{played.names[call.who.project]}'
        caller = clients.Caller(endpoint, played.token(call.who),
                                played.token(calls.SERVICE) if consumer.service_token else None)
        return clients.CLIENTS[consumer.client](caller, call.version)

    def use(self, consumer, played, call, kept):
        """Call the client and return the exception that it raised, or None."""
        method, arguments, keywords, _ = calls.filled(tuple(call.uses), played.names)
        if consumer.client in clients.SHELLS:
            return clients.type_in(consumer.client, method, self.service.endpoint,
                                   self.compute.keystone_url, played.names['project'])
        # Nova creates a cinderclient per call. The SDK negotiates its version, so it is created
        # once.
        key = call.who, call.version if consumer.client == 'cinderclient' else None
        if key not in kept:
            kept[key] = self.client(consumer, played, call)
        self.recorder.exchanges.clear()
        try:
            clients.use(kept[key], method, arguments, keywords)
        except Exception as failure:  # noqa: BLE001 - each client has its own kinds
            return failure
        return None

    def test_nova_client_sends_recorded_calls(self):
        self.record(nova.CONSUMER)

    def test_ironic_client_sends_recorded_calls(self):
        self.record(ironic.CONSUMER)

    def test_openstacksdk_sends_recorded_calls(self):
        self.record(openstacksdk.CONSUMER)

    def test_cinder_shell_sends_recorded_calls(self):
        self.record(shells.CINDER)

    def test_openstack_shell_sends_recorded_calls(self):
        self.record(shells.OPENSTACK)
