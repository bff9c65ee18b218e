"""HTTP endpoint of the metrics."""
import contextlib
import unittest
import urllib.error
import urllib.request

from blockattach.platform import errors
from blockattach.platform.conf import telemetry as telemetry_conf
from blockattach.platform.telemetry import acts
from blockattach.platform.telemetry import counting
from blockattach.testing import ports
from blockattach.tests.fixtures import polling

LOCAL = '127.0.0.1'


class ExpositionTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        telemetry = acts.Telemetry()
        self.counts = counting.Counts(telemetry.readings)
        self.ports = ports.neighbours(2)

    def served(self):
        made = contextlib.ExitStack()
        self.addCleanup(made.close)
        with self.assertLogs('blockattach.platform.telemetry.counting', 'INFO') as body:
            made.enter_context(counting.served(
                self.counts, telemetry_conf.MetricsSettings(LOCAL, self.ports)))
        return made, body.output[0]

    def ask(self, port):
        with urllib.request.urlopen(f'http://{LOCAL}:{port}/metrics',
                                    timeout=polling.LIMIT) as answer:
            return answer.read().decode()

    def test_metrics_served_on_first_free_port(self):
        for port in self.ports:
            _, body = self.served()
            self.assertIn(f'host={LOCAL} port={port}', body)
            self.assertIn('blockattach_in_progress{act="http_request"} 0.0', self.ask(port))

    def test_metrics_without_free_port_refused(self):
        for _ in self.ports:
            self.served()
        with self.assertRaisesRegex(
                errors.ConfigurationError,
                f'no port from {self.ports[0]} to {self.ports[-1]} is free'):
            self.served()

    def test_metrics_on_foreign_address_refused(self):
        settings = telemetry_conf.MetricsSettings('192.0.2.1', self.ports)
        with self.assertRaisesRegex(errors.ConfigurationError, 'metrics on 192.0.2.1'), \
                counting.served(self.counts, settings):
            pass

    def test_metrics_port_released(self):
        made, _ = self.served()
        made.close()
        with self.assertRaises(urllib.error.URLError):
            self.ask(self.ports[0])
        _, body = self.served()
        self.assertIn(f'port={self.ports[0]}', body)
