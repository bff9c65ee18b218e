"""Probe of the message broker."""
import socket
import threading
import unittest
import urllib.parse
import uuid

from oslo_config import cfg

from blockattach.platform import errors
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.rpc import rabbit
from blockattach.platform.rpc import transport
from blockattach.tests.fixtures import servers
from blockattach.tests.unit.rpc import test_rabbit
from blockattach.wiring import options
from blockattach.wiring import outside


def relay(listening, place):
    """Forward connections to a server until the listening socket is closed."""
    def copy(source, sink):
        try:
            while part := source.recv(1 << 16):
                sink.sendall(part)
        except OSError:
            pass
        for end in (source, sink):
            end.close()

    def accept():
        while True:
            try:
                client = listening.accept()[0]
            except OSError:
                return
            server = socket.create_connection(place)
            for pair in ((client, server), (server, client)):
                threading.Thread(target=copy, args=pair, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


class ProbeTest(test_rabbit.Rabbit, unittest.TestCase):

    def setUp(self):
        super().setUp()
        port = servers.free_port()
        self.broker = urllib.parse.urlsplit(self.rabbit.url)
        self.way = ('127.0.0.1', port)
        conf = cfg.ConfigOpts()
        self.adapt(conf)
        conf.set_override('transport_url', self.broker._replace(
            netloc=f'{self.broker.username}:{self.broker.password}@127.0.0.1:{port}').geturl())
        channel = transport.build_transport(conf)
        self.addCleanup(channel.cleanup)
        self.probe = transport.BrokerProbe(conf, channel, rpc_conf.RpcSettings(
            topic_prefix=self.rabbit.prefix))

    def make_bus(self, url=None, **more):
        """Return None, because the probe has a connection of its own."""

    def test_probe_recovers_and_counts_reconnect(self):
        for _ in range(2):
            self.assertIn(f'cannot reach the message broker at 127.0.0.1:{self.way[1]}',
                          self.probe.wrong())
        self.assertEqual(0, self.probe.reconnects)
        listening = socket.create_server(self.way)
        self.addCleanup(listening.close)
        self.addCleanup(listening.shutdown, socket.SHUT_RDWR)
        relay(listening, (self.broker.hostname, self.broker.port or 5672))
        for _ in range(2):
            self.assertIsNone(self.probe.wrong())
        self.assertEqual(1, self.probe.reconnects)

    def test_probe_reports_refused_login(self):
        conf = cfg.ConfigOpts()
        self.adapt(conf)
        conf.set_override('transport_url', self.broker._replace(
            netloc=f'nobody:geheim@{self.broker.hostname}:{self.broker.port or 5672}').geturl())
        channel = transport.build_transport(conf)
        self.addCleanup(channel.cleanup)
        said = transport.BrokerProbe(conf, channel, rpc_conf.RpcSettings()).wrong()
        self.assertRegex(said, rf'at {self.broker.hostname}:\d+: (\(403\) )?ACCESS_REFUSED')

    def test_wrong_driver_option_named(self):
        conf = cfg.ConfigOpts()
        options.register(conf)
        self.adapt(conf)
        conf([])
        conf.set_override('transport_url', self.broker.geturl())
        conf.set_override('rabbit_stream_fanout', True, group=rabbit.GROUP)
        with self.assertRaisesRegex(errors.ConfigurationError, (
                rf'cannot use the message broker at {self.broker.hostname}:\d+: .*'
                r'rabbit_qos_prefetch_count .*\(\[oslo_messaging_rabbit\] rabbit_stream_fanout')):
            outside.open_bus(conf, True, 'DEFAULT', 'transport_url')

    def test_unsupported_tls_names_option(self):
        conf = cfg.ConfigOpts()
        options.register(conf)
        self.adapt(conf)
        conf([])
        conf.set_override('transport_url', self.broker.geturl())
        conf.set_override('ssl', True, group=rabbit.GROUP)
        with self.assertRaisesRegex(errors.ConfigurationError, (
                r'cannot use the message broker .*\(\[oslo_messaging_rabbit\] ssl')):
            outside.open_bus(conf, True, 'DEFAULT', 'transport_url')

    def test_probe_hides_password(self):
        self.assertNotIn(self.broker.password, self.probe.wrong() + self.probe.broker)


class WithoutBrokerTest(unittest.TestCase):

    def test_inproc_probe_always_succeeds(self):
        conf = cfg.ConfigOpts()
        transport.register_options(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        conf.set_override('transport_url', f'inproc://{uuid.uuid4().hex}/')
        channel = transport.build_transport(conf)
        self.addCleanup(channel.cleanup)
        made = transport.BrokerProbe(conf, channel, rpc_conf.RpcSettings())
        self.assertEqual((None, 'inside the process', 0),
                         (made.wrong(), made.broker, made.reconnects))
