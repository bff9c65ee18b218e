"""The tables of consumers in Python against what their clients really send, as they are installed:
a release that sends something else fails here.
"""

from blockattach.tests.contracts import calls
from blockattach.tests.contracts import clients
from blockattach.tests.contracts import nova
from blockattach.tests.contracts import player
from blockattach.tests.contracts import test_contracts
from blockattach.tests.fixtures import served


class RecordedTest(test_contracts.ServiceCase):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.recorder = player.Recorder(cls.http)
        cls.service = cls.enterClassContext(served.Served(cls.recorder))

    def record(self, consumer):
        for flow in consumer.flows:
            with self.subTest(flow.name):
                self.record_flow(consumer, flow)

    def record_flow(self, consumer, flow):
        played = player.Player(self.http, consumer, self.names)
        rest = list(flow.calls)
        while rest:
            if rest[0].uses is None:
                played.play(rest.pop(0))
                continue
            rows, rest = rest[:rest[0].uses.sends], rest[rest[0].uses.sends:]
            failure = self.use(consumer, played, rows[0])
            exchanges = self.recorder.take(played.names[rows[0].who.project])
            self.assertEqual(len(rows), len(exchanges), f'{rows[0].by}: {failure} {exchanges}')
            for row, exchange in zip(rows, exchanges, strict=True):
                played.look_at(row, exchange)
            self.assertEqual(rows[-1].raises != '', failure is not None, failure)

    def use(self, consumer, played, call):
        """Let the client ask; what it raised."""
        endpoint = self.service.endpoint
        if consumer.with_project:
            endpoint += f'/{played.names[call.who.project]}'
        client = clients.CLIENTS[consumer.client](endpoint, played.token(call.who), call.version)
        method, arguments, keywords, _ = calls.filled(tuple(call.uses), played.names)
        self.recorder.exchanges.clear()
        try:
            clients.use(client, method, arguments, keywords)
        except Exception as failure:  # noqa: BLE001 - each client has its own kinds
            return failure
        return None

    def test_nova(self):
        self.record(nova.CONSUMER)


