"""Metrics of the whole service, as Prometheus reads them."""
import contextlib
import socket
import sqlite3
import urllib.request

from prometheus_client import parser

from blockattach.platform import metrics
from blockattach.testing import stack
from blockattach.tests.functional import base

SECONDS = 180
# Calls that are repeated after a pause of the process would be counted twice.
SETTINGS = f"""
[rpc]
repeat_interval = {SECONDS}
silence_timeout = {SECONDS}
[metrics]
port = {{port}}
port_range = {{ports}}
[volume]
reconcile_interval = 1
"""


class Scraped:
    """Metrics of a process at one moment."""

    def __init__(self, port):
        with urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=SECONDS) as answer:
            text = answer.read().decode()
        self.samples = [sample for family in parser.text_string_to_metric_families(text)
                        for sample in family.samples]

    def sum(self, name, **labels):
        """Return the sum of all series with this name and these labels."""
        return sum(sample.value for sample in self.samples
                   if sample.name == f'blockattach_{name}'
                   and labels.items() <= sample.labels.items())


class MetricsTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.port = stack.free_port()
        self.service = self.a_stack(settings=SETTINGS.format(port=self.port, ports=1))
        self.api = base.Api(self.service.endpoint)

    def scrape(self):
        return Scraped(self.port)

    def attach(self, volume_id, host='one', **more):
        return self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': base.connector(host), **more}})

    def cycle(self, volume_id):
        attachment_id = self.attach(volume_id)[1]['attachment']['id']
        self.assertEqual(204, self.api.ask(
            'POST', f'/attachments/{attachment_id}/action', {'os-complete': {}})[0])
        self.assertEqual(200, self.api.ask('DELETE', f'/attachments/{attachment_id}')[0])

    @contextlib.contextmanager
    def rows(self):
        """Open the database without the service."""
        path = f'{self.service.state_dir}/blockattach.sqlite'
        with contextlib.closing(sqlite3.connect(path, timeout=SECONDS)) as connection, connection:
            yield connection

    def test_attach_cycles_are_counted_step_by_step(self):
        volume_id = self.a_volume(self.api)
        before = self.scrape()
        for _ in range(3):
            self.cycle(volume_id)
        after = self.scrape()

        def moved(name, **labels):
            return after.sum(name, **labels) - before.sum(name, **labels)

        for way, steps in (('attach', ('reserve', 'call', 'export', 'grant', 'record',
                                       'complete')),
                           ('detach', ('intent', 'call', 'revoke', 'record'))):
            for step in steps:
                with self.subTest(way=way, step=step):
                    self.assertEqual(3, moved('attachment_step_seconds_count', way=way, step=step,
                                              outcome='ok'))
        for verb in ('create', 'complete', 'delete'):
            self.assertEqual(3, moved('control_verb_seconds_count', verb=f'attachments.{verb}',
                                      outcome='ok'))
        for name, labels in (
                ('http_request_seconds_count', {'operation': 'POST /attachments',
                                                'status': '2xx'}),
                ('rpc_client_seconds_count', {'topic': 'volume', 'method': 'connect'}),
                ('rpc_server_seconds_count', {'topic': 'volume', 'method': 'connect'}),
                ('backend_call_seconds_count', {'backend': 'fake', 'part': 'target',
                                                'verb': 'grant', 'outcome': 'ok'})):
            with self.subTest(name):
                self.assertEqual(3, moved(name, **labels))
        # The writes are: reserve, connected, complete, disconnect, disconnected.
        self.assertGreaterEqual(moved('database_transaction_seconds_count', kind='write',
                                      outcome='ok'), 15)
        self.assertGreater(moved('attachment_step_seconds_sum', way='attach', step='call'), 0)

    def test_refusals_are_counted(self):
        volume_id = self.a_volume(self.api)
        self.assertEqual(400, self.attach(volume_id, connector={'host': 'one'})[0])
        self.assertEqual((404, {'itemNotFound': {
            'code': 404, 'message': 'The resource could not be found.'}}),
            self.api.ask('GET', '/nothing'))
        status, made = self.api.ask('POST', '/volumes', {'volume': {'size': 100000}})
        self.assertEqual(202, status)
        self.assertEqual('error', self.settled(self.api, made['volume']['id']))
        seen = self.scrape()
        self.assertEqual(1, seen.sum('attachment_step_seconds_count', step='reserve',
                                     outcome='refused'))
        self.assertEqual(1, seen.sum('http_request_seconds_count', operation='POST /attachments',
                                     status='4xx'))
        self.assertEqual(1, seen.sum('http_request_seconds_count', operation='none',
                                     status='4xx'))
        self.assertEqual(1, seen.sum('scheduler_refusals_total', filter='capacity'))
        self.assertEqual(1, seen.sum('scheduler_placing_seconds_count', outcome='refused'))

    def test_rows_and_pools_are_reported_as_they_are(self):
        volume_id = self.a_volume(self.api)
        self.assertEqual(200, self.attach(volume_id)[0])
        seen = self.scrape()
        self.assertEqual((1, 1), (seen.sum('attachments', state='connected'),
                                  seen.sum('attachments')))
        self.assertEqual(0, seen.sum('overdue_rows'))
        self.assertTrue(base.wait_for(
            lambda: self.scrape().sum('pool_provisioned_bytes') == 1024 ** 3, SECONDS))
        seen = self.scrape()
        self.assertEqual(1024 ** 3, seen.sum('pool_total_bytes') - seen.sum('pool_free_bytes'))
        self.assertEqual(0, seen.sum('check_failed', check='database'))
        self.assertEqual(1, seen.sum('build_info', process='blockattach-all'))
        self.assertGreater(seen.sum('threads', threads='http'), 0)

    def test_drift_counted_when_found_and_repaired(self):
        volume_id = self.a_volume(self.api)
        attachment_id = self.attach(volume_id)[1]['attachment']['id']
        with self.rows() as connection:
            connection.execute(
                "UPDATE attachments SET state = 'disconnecting', owner = 'somebody', "
                "deadline = '2000-01-01 00:00:00.000000' WHERE id = ?", (attachment_id,))
        self.assertTrue(base.wait_for(
            lambda: self.scrape().sum('drift_repaired_total', drift='attachment') == 1, SECONDS))
        seen = self.scrape()
        self.assertEqual((1, 0), (seen.sum('drift_found_total', drift='attachment'),
                                  seen.sum('attachments')))
        self.assertEqual(0, seen.sum('drift_repaired_total', drift='volume'))
        # The repair pass of the target may already have revoked the grant.
        before = self.repaired_grants()
        attachment_id = self.attach(volume_id)[1]['attachment']['id']
        with self.rows() as connection:
            connection.execute("UPDATE attachments SET state = 'gone', rank = NULL, slot = NULL, "
                               'deleted = 1 WHERE id = ?', (attachment_id,))
        self.assertTrue(base.wait_for(lambda: self.repaired_grants() > before, SECONDS))
        self.assertGreaterEqual(self.scrape().sum('drift_found_total', drift='grant'), before + 1)

    def repaired_grants(self):
        return self.scrape().sum('drift_repaired_total', drift='grant')

    def test_every_metric_and_label_is_in_the_table_and_none_holds_an_id(self):
        volume_id = self.a_volume(self.api)
        self.cycle(volume_id)
        known = {row.full_name: set(row.labels) for row in metrics.METRICS}
        for sample in self.scrape().samples:
            if sample.name.startswith(metrics.PREFIX):
                name = next(name for name in (
                    sample.name, *(sample.name.removesuffix(end)
                                   for end in ('_bucket', '_sum', '_count')))
                    if name in known)
                self.assertEqual(known[name], set(sample.labels) - {'le'}, sample)
                self.assertNotRegex(' '.join(sample.labels.values()), '[0-9a-f]{8}-')

    def test_the_port_is_free_after_the_end_and_off_means_off(self):
        self.service.stop()
        with socket.create_server(('127.0.0.1', self.port)):
            pass
        quiet = self.a_stack()
        self.assertNotIn('Metrics server started', quiet.log_text())


class RefusedMetricsTest(base.StackTestCase):

    def test_a_port_that_is_taken(self):
        with socket.create_server(('127.0.0.1', 0)) as taken:
            port = taken.getsockname()[1]
            with self.assertRaises(stack.StackRefused) as caught:
                self.a_stack(settings=SETTINGS.format(port=port, ports=1))
        line, = [line for line in caught.exception.words.splitlines()
                 if line.startswith('blockattach-all: ')]
        self.assertIn(f'no port from {port} to {port} is free ([metrics] port in ', line)
