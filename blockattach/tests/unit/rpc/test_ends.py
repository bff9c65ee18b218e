"""Ends of a call: each row of the table, on a transport on which it can occur.

The name of a test has the name of its row, up to ``_as_``.
"""
import unittest
import uuid

from blockattach.platform.rpc import inproc
from blockattach.tests.unit.rpc import bus_ends
from blockattach.tests.unit.rpc import http_peers


class InprocTest(bus_ends.EndsContract, unittest.TestCase):

    def setUp(self) -> None:
        self.url = f'inproc://{uuid.uuid4().hex}/'
        super().setUp()

    def test_unanswered_as_nobody_listens(self) -> None:
        self.assert_ends('unanswered', self.client('absent').hurry)

    def test_not_taken(self) -> None:
        client = self.client('one')
        for _ in range(inproc.QUEUE_LIMIT):
            client.note(self.ctxt, None)
        self.assert_ends('not taken', client.echo, 1)


class HttpTest(bus_ends.EndsContract, http_peers.SiteTestCase, unittest.TestCase):

    def test_unanswered_as_the_connection_ends(self) -> None:
        peer = http_peers.Peer(http_peers.Spoken.hear)
        self.addCleanup(peer.cut)
        self.store.register(self.topic, 'one', peer.endpoint)
        self.assert_ends('unanswered', self.client('one').echo, 1)
        self.assertEqual(1, peer.end())

    def test_not_reached_as_nobody_listens(self) -> None:
        self.assert_ends('not reached', self.client('absent').echo, 1)

    def test_not_reached_as_it_has_ended(self) -> None:
        gone = http_peers.Peer()
        gone.end()
        self.store.register(self.topic, 'one', gone.endpoint)
        self.assert_ends('not reached', self.client('one').echo, 1)


class TableTest(unittest.TestCase):

    def test_each_row_has_test(self) -> None:
        played = {name.removeprefix('test_').partition('_as_')[0].replace('_', ' ')
                  for case in (InprocTest, HttpTest) for name in dir(case)
                  if name.startswith('test_')}
        self.assertEqual(set(bus_ends.ROWS), played)


if __name__ == '__main__':
    unittest.main()
