"""Tests of `tools/benchmark`: each scenario is measured and printed. No figure is asserted."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from blockattach.testing import stack
from blockattach.tests.fixtures import database
from blockattach.tests.fixtures import rabbit
from blockattach.tests.functional import base
from blockattach.tests.rules import sources

SECONDS = 600
PROJECT = '0000000000000000000000000000beef'
SCENARIOS = {'attach-cycle', 'reserve-cycle', 'storm', 'race', 'create-available', 'show-volume',
             'show-attachment', 'list-detail', 'list-attachments', 'list-by-instance',
             'list-by-host'}
WITH_A_FLOOR = {'attach-cycle', 'reserve-cycle', 'show-volume', 'show-attachment'}
ON_BOTH = ('attach-cycle', 'reserve-cycle', 'show-volume')
DRIVERS = ('mysqlclient', 'PyMySQL')
FEATURES = {'baseline', 'classic queues', 'calls over HTTP', 'no broker', 'notifications',
            'metrics', 'tracing of 10 % of requests', 'tracing of all requests', 'debug = true',
            'cluster with one member', 'no history'}
COPIES = ('none', 'clone', 'migration', 'limited clone', 'limited migration')
OPERATIONS = ('create', 'clone', 'extend', 'create-snapshot', 'delete-snapshot', 'delete')
TINY = ('--seconds', '0.2', '--rounds', '1', '--concurrency', '2')


def benchmark(*arguments):
    """Run the benchmark and return the completed process."""
    return subprocess.run([sys.executable, sources.ROOT / 'tools' / 'benchmark', *arguments],
                          capture_output=True, text=True, timeout=SECONDS, check=False)


def row(target, number, per_second, cpu_ms, noise=0.05):
    """Return the result of a round of the scenario attach-cycle."""
    return {'target': target, 'scenario': 'attach-cycle', 'clients': 8, 'round': number,
            'per_second': per_second, 'p50_ms': 50, 'p99_ms': 100, 'cpu_ms': cpu_ms,
            'backing_cpu_ms': 1, 'noise': noise, 'errors': {}}


class VerdictsTest(unittest.TestCase):
    """Verdicts about stored results."""

    def judged(self, rows, **facts):
        """Return the columns of the lines about goals, by name."""
        with tempfile.TemporaryDirectory(prefix='blockattach-') as folder:
            path = pathlib.Path(folder) / 'rows.json'
            path.write_text(json.dumps({'rows': rows, 'facts': facts}))
            done = benchmark('--merge', str(path))
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        lines = (re.split(' {2,}', line) for line in done.stdout.splitlines())
        return {line[0]: line[1:] for line in lines if 'attach-cycle: ' in line[0]
                or ' volumes, ' in line[0]}

    def rounds(self, count=3, **last):
        """Return rounds in which the service is 10, 12 and 30 times as fast as the peer."""
        own = [(100, 2), (120, 3), (300, 9)][:count]
        return [
            *(row('blockattach', number, *figures, **(last if number == count - 1 else {}))
              for number, figures in enumerate(own)),
            *(row('peer', number, 10, 19) for number in range(count)),
            *(row('floor', number, 400, 1) for number in range(count))]

    def test_medians_and_what_single_rounds_were(self):
        said = self.judged(self.rounds(), calls='http')
        self.assertEqual(['8', '>= 10x', '12.0x', '10.0x..30.0x', '10 per s', 'met'],
                         said['attach-cycle: throughput relative to the peer'])
        self.assertEqual(['8', '<= 0.1x', '0.20x', '0.150x..0.50x', '20 ms', 'not met'],
                         said['attach-cycle: CPU relative to the peer'])
        self.assertEqual(['8', '<= 2.2x', '2.0x', '1.50x..5.0x', '2 ms', 'met'],
                         said['attach-cycle: CPU relative to the floor'])

    def test_calls_through_the_broker_may_cost_more(self):
        said = self.judged(self.rounds(), calls='transport_url')
        self.assertEqual(['8', '<= 0.2x', '0.20x', '0.150x..0.50x', '20 ms', 'met'],
                         said['attach-cycle: CPU relative to the peer'])

    def test_a_round_beside_others_is_void(self):
        said = self.judged(self.rounds(noise=0.11))
        self.assertEqual({'void'}, {line[-1] for line in said.values()})

    def test_fewer_rounds_are_no_verdict(self):
        said = self.judged(self.rounds(2))
        self.assertEqual({'fewer than 3 rounds'}, {line[-1] for line in said.values()})

    def test_another_buffer_pool(self):
        sizes = [10_000, 1_000_000, 2048]
        said = self.judged([], sizes=sizes, pool_sizes=sizes, pool_size_show=1.1)
        name = 'show with 1,000,000 volumes, relative to 10,000, with '
        self.assertEqual('met', said[f'{name}a buffer pool of 2,048 MiB'][-1])
        self.assertEqual('not measured', said[f'{name}the default buffer pool'][-1])


class BenchmarkTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        self.outside_program(rabbit.why_missing() is None, 'RabbitMQ')
        self.outside_program(database.why_missing(database.MYSQL) is None, 'MariaDB')
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.path = self.folder / 'results.json'

    def measured(self, *arguments):
        """Run the benchmark, and return its stored results and its output."""
        done = benchmark(*arguments, *TINY, '--json', str(self.path))
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return json.loads(self.path.read_text()), done.stdout

    def test_every_scenario_the_floor_and_a_peer(self):
        with stack.Stack('fake') as peer:
            api = base.Api(peer.endpoint)
            stored, said = self.measured(
                'scenarios', 'memory', '--volumes', '20', '--peer', f'{peer.endpoint}/{PROJECT}',
                '--peer-pids', f'all={peer.pid}')
            # The volumes of the peer are unchanged, except for those that fill a project to be
            # listed.
            self.assertTrue(base.wait_for(lambda: {f'seed-{number}' for number in range(20)} == {
                one['name'] for one in api.list('volumes', '/volumes/detail?all_tenants=1')}))
        self.assertRegex(said, r'(?m)^show-attachment +2 +[0-9.]+x +[0-9.]+x')
        self.assertIn('show-attachment: throughput relative to the peer', said)
        own = [row for row in stored['rows'] if row['target'] == 'blockattach']
        self.assertEqual(SCENARIOS, {row['scenario'] for row in own})
        self.assertEqual(WITH_A_FLOOR, {row['scenario'] for row in stored['rows']
                                        if row['target'] == 'floor'})
        self.assertEqual(SCENARIOS, {row['scenario'] for row in stored['rows']
                                     if row['target'] == 'peer'})
        self.assertIn(stored['facts']['versions']['database driver'], DRIVERS)
        for row in stored['rows']:
            with self.subTest(scenario=row['scenario'], target=row['target']):
                self.assertIn(row['scenario'], said)
                self.assertEqual((2, 0, {}), (row['clients'], row['failed'], row['errors']))
                self.assertGreater(row['operations'], 0)
                self.assertLessEqual(row['p50_ms'], row['p99_ms'])
        for name, wrong in ((row['scenario'], row['facts']['wrong']) for row in own
                            if 'wrong' in row['facts']):
            self.assertEqual(0, wrong, name)
        self.assertEqual({'api', 'control', 'scheduler', 'volume'},
                         set(stored['facts']['idle_pss_mib']))
        self.assertGreater(stored['facts']['all_in_one_pss_mib'], 0)
        self.check_documents(stored)

    def check_documents(self, stored):
        """Check that tables are written from stored results, without a new measurement."""
        done = benchmark('--merge', str(self.path), '--docs', str(self.folder / 'docs'))
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        text = (self.folder / 'docs' / 'scenarios.txt').read_text()
        for scenario in SCENARIOS:
            self.assertIn(f'   * - {scenario}', text)
        page = (sources.ROOT / 'doc' / 'source' / 'admin' / 'performance.rst').read_text()
        for table in os.listdir(self.folder / 'docs'):
            if table.endswith('.txt'):
                self.assertIn(f'.. include:: performance/{table}', page)

    def test_a_crowd_sizes_and_more_load_than_can_be_served(self):
        stored, said = self.measured('crowd', 'size', 'overload', '--crowds', '1', '4', '--sizes',
                                     '10', '30', '--overload-seconds', '1')
        rows, facts = stored['rows'], stored['facts']
        self.assertEqual({1, 4}, {row['attachments'] for row in rows if 'attachments' in row})
        self.assertEqual({10, 30}, {row['volumes'] for row in rows if 'volumes' in row})
        self.assertEqual(0, facts['crowd_refused'])
        self.assertGreater(facts['innodb_buffer_pool_mib'], 0)
        self.assertRegex(said, 'attach with 30 volumes, relative to 10, with (the default|a) '
                               'buffer pool')
        self.assertEqual(0, facts['overload_unsettled'])
        self.assertEqual(0, facts['overload']['stuck'])

    def test_a_slow_backend_and_a_rush(self):
        stored, said = self.measured('slow', 'rush', '--hosts', '20')
        self.assertEqual({f'{when} {scenario}' for when in ('baseline', 'slow-backend')
                          for scenario in ('attach-cycle', 'show-volume')} | {'rush'},
                         {row['scenario'] for row in stored['rows']})
        self.assertEqual(0, stored['facts']['rush_refused'])
        self.assertEqual(20, stored['facts']['rush']['joined'])
        self.assertGreater(stored['facts']['slow_backend_p99'], 0)
        self.assertIn('p99 with a backend that takes 30 s', said)

    def test_copies_beside_attachments_and_a_store_of_files(self):
        stored, said = self.measured('copies', 'store', '--copied-mib', '16', '--stored', '3')
        rows = {row['scenario']: row for row in stored['rows']}
        self.assertEqual({f'copies {kind}' for kind in COPIES}
                         | {f'store {name}' for name in OPERATIONS}, set(rows))
        self.assertEqual({}, {name: row['errors'] for name, row in rows.items() if row['errors']})
        self.assertEqual({3, 6}, {row['operations'] for name, row in rows.items()
                                  if name.startswith('store ')})
        self.assertEqual({name for name in rows if name.startswith('copies ')},
                         {name for name, row in rows.items() if 'copied_mib' in row})
        self.assertIn('p99 of attach during a copy', said)
        self.assertIn('CPU to clone a volume', said)
        self.assertIn(stored['facts']['store_shares_extents'], (True, False))
        self.check_table('copies', *COPIES)
        self.check_table('store', *OPERATIONS)

    def test_many_requests(self):
        stored, said = self.measured('lasting', '--requests', '600')
        facts = stored['facts']
        self.assertEqual([60, 600], facts['lasting_requests'])
        self.assertEqual(11, len(facts['lasting_pss_mib']))
        self.assertIn('memory of the API after 600 requests, relative to 60', said)
        self.check_table('lasting', '0', '60', '600')

    def test_both_databases(self):
        self.outside_program(database.why_missing(database.POSTGRESQL) is None, 'PostgreSQL')
        stored, _ = self.measured('databases')
        self.assertEqual({(name, scenario) for name in ('MariaDB', 'PostgreSQL')
                          for scenario in ON_BOTH},
                         {(row['target'], row['scenario']) for row in stored['rows']})
        self.assertEqual([], [row['errors'] for row in stored['rows'] if row['errors']])
        self.assertIn('PostgreSQL', stored['facts']['PostgreSQL_versions']['database'])
        self.check_table('databases', *ON_BOTH)

    def test_features_scenario_measures_each_feature(self):
        stored, _ = self.measured('features')
        self.assertEqual(FEATURES, {row['target'] for row in stored['rows']})
        self.check_table('features', *FEATURES)

    def check_table(self, name, *wanted):
        """Check that a table written from stored results has these rows."""
        done = benchmark('--merge', str(self.path), '--docs', str(self.folder / 'docs'))
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        text = (self.folder / 'docs' / f'{name}.txt').read_text()
        for row in wanted:
            self.assertIn(f'   * - {row}', text)

    def test_no_peer(self):
        done = benchmark('--scenario', 'show-volume', '--peer',
                         f'http://127.0.0.1:{stack.free_port()}/v3/{PROJECT}', *TINY)
        self.assertEqual(1, done.returncode)
        self.assertIn('Cannot measure: ', done.stderr)
        self.assertNotIn('Traceback', done.stderr)
