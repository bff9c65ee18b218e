"""Metrics of the alerts, dashboard, documents and code, which agree with the table."""
import ast
import json
import re
import unittest

import yaml

from blockattach.platform import metrics
from blockattach.tests.rules import sources

RULES = sources.ROOT / 'etc' / 'prometheus' / 'blockattach.rules.yaml'
DASHBOARD = sources.ROOT / 'etc' / 'grafana' / 'blockattach.json'
NAMES = re.compile(rf'\b{metrics.PREFIX}\w+')
SUFFIXES = {metrics.Kind.HISTOGRAM: ('_bucket', '_sum', '_count'), metrics.Kind.COUNTER: ('',),
            metrics.Kind.GAUGE: ('',)}
SELECTOR = re.compile(rf'({metrics.PREFIX}\w+)(?:\{{([^}}]*)\}})?')


def exported():
    """Return the labels of each series by its name."""
    return {row.full_name + suffix: set(row.labels) for row in metrics.METRICS
            for suffix in SUFFIXES[row.kind]}


def alerts():
    with RULES.open(encoding='utf-8') as file:
        return [rule for group in yaml.safe_load(file)['groups'] for rule in group['rules']]


def panels():
    """Return the panels of the dashboard that have queries."""
    with DASHBOARD.open(encoding='utf-8') as file:
        return [panel for panel in json.load(file)['panels'] if panel['type'] != 'row']


def unknown(expression, legend):
    """Yield metrics and labels of a panel's query that do not exist."""
    known = exported()
    found = SELECTOR.findall(expression)
    if not found:
        yield f'no metric: {expression}'
    # Labels that Prometheus adds to each series.
    labels = {'le', 'job', 'instance'}.union(*(known.get(name, ()) for name, _ in found))
    yield from (name for name, _ in found if name not in known)
    for words in (*re.findall(r'by \(([^)]*)\)', expression), *(text for _, text in found)):
        yield from set(re.findall(r'(\w+)(?=,|$|\s*[=!])', re.sub('"[^"]*"', '', words))) - labels
    yield from set(re.findall(r'{{(\w+)}}', legend)) - labels


class TableTest(unittest.TestCase):

    def test_metric_names_follow_prometheus_conventions(self):
        for row in metrics.METRICS:
            with self.subTest(row.name):
                self.assertRegex(row.full_name, r'^[a-z][a-z_]*[a-z]$')
                self.assertEqual(row.kind is metrics.Kind.COUNTER, row.name.endswith('_total'))
                self.assertEqual(row.kind is metrics.Kind.HISTOGRAM, bool(row.buckets))
                if row.buckets:
                    self.assertTrue(row.name.endswith('_seconds'))
                    self.assertEqual(sorted(row.buckets), list(row.buckets))
        self.assertEqual(len(metrics.METRICS), len({row.name for row in metrics.METRICS}))

    def test_every_label_described(self):
        self.assertEqual({label for row in metrics.METRICS for label in row.labels},
                         set(metrics.LABELS))

    def test_every_metric_in_table(self):
        declared = {row for row in vars(metrics).values() if isinstance(row, metrics.Metric)}
        self.assertEqual(declared, set(metrics.METRICS))

    def test_every_metric_measured(self):
        used = {module.imported(node).rpartition('.')[2] for module in sources.product()
                for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)}
        self.assertEqual([], [name for name, row in vars(metrics).items()
                              if isinstance(row, metrics.Metric) and name not in used])


class AlertsTest(unittest.TestCase):

    def test_alerts_have_severity_and_summary(self):
        for rule in alerts():
            with self.subTest(rule['alert']):
                self.assertRegex(rule['alert'], '^Blockattach[A-Za-z]+$')
                self.assertIn(rule['labels']['severity'], ('critical', 'warning'))
                self.assertTrue(rule['annotations']['summary'])

    def test_alerts_name_existing_metrics_and_labels(self):
        known = exported()
        for rule in alerts():
            with self.subTest(rule['alert']):
                found = SELECTOR.findall(rule['expr'])
                self.assertTrue(found)
                for name, selected in found:
                    self.assertIn(name, known)
                    self.assertLessEqual(set(re.findall(r'(\w+)\s*[=!]', selected)), known[name])
                shown = set(re.findall(r'\$labels\.(\w+)', str(rule['annotations'])))
                self.assertLessEqual(shown, {'instance'}.union(*(known[name]
                                                                 for name, _ in found)))

    def test_documents_name_existing_metrics(self):
        known = exported()
        histograms = {row.full_name for row in metrics.METRICS if row.buckets}
        for name, text in sources.texts('.rst', '.txt'):
            if name.startswith('doc/source/admin/'):
                said = {word for word in NAMES.findall(text) if word.endswith(
                    ('_seconds', '_bytes', '_total', '_count'))}
                with self.subTest(name):
                    self.assertLessEqual(said, known.keys() | histograms)


class DashboardTest(unittest.TestCase):

    def test_dashboard_names_existing_metrics_and_labels(self):
        for panel in panels():
            for query in panel['targets']:
                with self.subTest(panel['title'], query=query['expr']):
                    self.assertEqual([], list(unknown(query['expr'], query['legendFormat'])))

    def test_unknown_metrics_of_dashboard_found(self):
        good = f'sum by (queue) (rate({metrics.QUEUE_REFUSED.full_name}{{job=~"$job"}}[5m]))'
        self.assertEqual([], list(unknown(good, '{{queue}}')))
        for expression, legend in (
                (good.replace('refused', 'party'), ''), (good.replace('(queue)', '(guest)'), ''),
                (good.replace('job=', 'guest='), ''), (good, '{{guest}}'), ('vector(1)', '')):
            with self.subTest(expression, legend=legend):
                self.assertNotEqual([], list(unknown(expression, legend)))

    def test_dashboard_shows_every_metric(self):
        shown = {name.removesuffix('_bucket').removesuffix('_count') for panel in panels()
                 for query in panel['targets'] for name, _ in SELECTOR.findall(query['expr'])}
        self.assertEqual({row.full_name for row in metrics.METRICS}, shown)

    def test_dashboard_panels_do_not_overlap(self):
        taken = [(panel['gridPos']['x'] + x, panel['gridPos']['y'] + y) for panel in panels()
                 for x in range(panel['gridPos']['w']) for y in range(panel['gridPos']['h'])]
        self.assertTrue(taken)
        self.assertEqual(len(taken), len(set(taken)))
        self.assertLess(max(x for x, _ in taken), 24)
