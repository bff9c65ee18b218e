#!/usr/bin/env python3
"""Print the dashboard for Grafana from a table of panels with queries of the metrics."""
import json
import sys
from typing import Any
from typing import NamedTuple

from blockattach.platform import metrics

_SOURCE = {'type': 'prometheus', 'uid': '${datasource}'}
_WIDTH, _HEIGHT = 8, 8
_COLUMNS = 24
_ALL = 'job=~"$job"'
_NOT_OK = f'outcome!="{metrics.Outcome.OK}"'
_SECONDS, _BYTES, _A_SECOND, _COUNT, _SHARE = 's', 'bytes', 'ops', 'short', 'percentunit'


class Query(NamedTuple):
    """Query of Prometheus, with the legend of its series."""

    expression: str
    legend: str


class Panel(NamedTuple):
    """Panel of the dashboard. ``unit`` is Grafana's name of the unit."""

    title: str
    text: str
    unit: str
    queries: tuple[Query, ...]


def _selected(metric: metrics.Metric, suffix: str, where: str) -> str:
    return f'{metric.full_name}{suffix}{{{", ".join(filter(None, (_ALL, where)))}}}'


def _legend(labels: tuple[str, ...], what: str = '') -> str:
    return ' '.join(filter(None, (*(f'{{{{{label}}}}}' for label in labels), what)))


def _gauge(metric: metrics.Metric, *by: str, how: str = 'max', where: str = '',
           what: str = '') -> Query:
    """Return a query of a gauge.

    The default is the maximum, because all processes report the same values of the database.
    """
    return Query(f'{how} by ({", ".join(by)}) ({_selected(metric, "", where)})',
                 _legend(by, what))


def _rate(metric: metrics.Metric, *by: str, where: str = '', what: str = '') -> Query:
    """Return a query of the rate per second."""
    suffix = '_count' if metric.buckets else ''
    rate = f'rate({_selected(metric, suffix, where)}[$__rate_interval])'
    return Query(f'sum by ({", ".join(by)}) ({rate})', _legend(by, what))


def _slowest(metric: metrics.Metric, *by: str, where: str = '') -> Query:
    """Return a query of the 95th percentile of a duration."""
    rate = f'rate({_selected(metric, "_bucket", where)}[$__rate_interval])'
    return Query(f'histogram_quantile(0.95, sum by ({", ".join(("le", *by))}) ({rate}))',
                 _legend(by))


def _increase(metric: metrics.Metric, *by: str, what: str) -> Query:
    """Return a query of the increase in the selected time range."""
    increase = f'increase({_selected(metric, "", "")}[$__range])'
    return Query(f'sum by ({", ".join(by)}) ({increase})', _legend(by, what))


def _share(part: metrics.Metric, whole: metrics.Metric, *by: str) -> Query:
    return Query(f'{_gauge(part, *by).expression} / {_gauge(whole, *by).expression}', _legend(by))


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    ('State', (
        Panel('Attachments by state', 'Live attachments in the database.', _COUNT,
              (_gauge(metrics.ATTACHMENTS, 'state'),)),
        Panel('Oldest attachment in progress',
              'Age of the oldest attachment in a transient state.', _SECONDS,
              (_gauge(metrics.OLDEST, 'state'),)),
        Panel('Overdue rows', 'Rows whose deadline has passed. If the value stays above 0 for '
              'minutes, see the log of the process that serves the backend.', _COUNT,
              (_gauge(metrics.OVERDUE, 'noun'),)),
        Panel('Asynchronous operations', 'Waiting, running and overdue operations.', _COUNT,
              (_gauge(metrics.UNDER_WAY, 'noun', 'verb', 'state'),)),
        Panel('Failed checks', '1: the health check failed.', _COUNT,
              (_gauge(metrics.CHECK, 'instance', 'check'),)),
        Panel('Processes', 'Processes that Prometheus scrapes, by version.', _COUNT,
              (_gauge(metrics.BUILD, 'process', 'version', how='count'),)),
        Panel('In progress', 'Operations that have started and not finished.', _COUNT,
              (_gauge(metrics.IN_PROGRESS, 'act', how='sum'),)))),
    ('Operations', (
        Panel('Requests', 'API requests per second.', _A_SECOND,
              (_rate(metrics.HTTP, 'operation'),)),
        Panel('Request duration (p95)', 'Duration of API requests.', _SECONDS,
              (_slowest(metrics.HTTP, 'operation'),)),
        Panel('Operations on volumes and attachments',
              'By verb, requested over HTTP or the message bus.', _A_SECOND,
              (_rate(metrics.VERB, 'verb'),)),
        Panel('Steps of attach and detach (p95)', 'Duration of each step.', _SECONDS,
              (_slowest(metrics.STEP, 'way', 'step'),)),
        Panel('Backend calls (p95)', 'Calls to stores and targets.', _SECONDS,
              (_slowest(metrics.BACKEND, 'backend', 'part', 'verb'),)),
        Panel('Cached images', 'Volumes that were cloned from a cached image (hit) or whose image '
              'was downloaded (miss), and deleted cached images (evicted).', _A_SECOND,
              (_rate(metrics.IMAGE_CACHE, 'backend', 'result'),)),
        Panel('Asynchronous operations (p95)', 'Creation and deletion of volumes.', _SECONDS,
              (_slowest(metrics.WORK, 'work'), _slowest(metrics.PLACING))),
        Panel('RPC requests handled (p95)', 'By topic and method.', _SECONDS,
              (_slowest(metrics.RPC_SERVER, 'topic', 'method'),)),
        Panel('RPC requests sent (p95)', 'By topic and method.', _SECONDS,
              (_slowest(metrics.RPC_CLIENT, 'topic', 'method'),)),
        Panel('Database transactions (p95)', 'Read and write transactions.', _SECONDS,
              (_slowest(metrics.TRANSACTION, 'kind'),)))),
    ('Errors and rejections', (
        Panel('Error responses', '4xx: client errors; 5xx: server errors.', _A_SECOND,
              (_rate(metrics.HTTP, 'operation', 'status', where='status=~"4xx|5xx"'),)),
        Panel('Unsuccessful operations', 'By verb and outcome.', _A_SECOND,
              (_rate(metrics.VERB, 'verb', 'outcome', where=_NOT_OK),)),
        Panel('Unsuccessful backend calls', 'By backend and outcome.', _A_SECOND,
              (_rate(metrics.BACKEND, 'backend', 'part', 'verb', 'outcome', where=_NOT_OK),)),
        Panel('Pools rejected by the scheduler', 'By filter, and pools replaced after selection.',
              _A_SECOND, (_rate(metrics.SCHEDULER_REFUSALS, 'filter'),
                          _rate(metrics.SCHEDULER_RETRIES, 'reason'))),
        Panel('Database retries', 'Retried transactions, by verb.', _A_SECOND,
              (_rate(metrics.DATABASE_RETRIES, 'verb'),)),
        Panel('Broker reconnects', 'By process.', _A_SECOND,
              (_rate(metrics.BUS_RECONNECTS, 'instance'),)))),
    ('Queues', (
        Panel('Waiting requests', 'Requests that wait for a slot.', _COUNT,
              (_gauge(metrics.QUEUE_WAITING, 'queue', how='sum'),)),
        Panel('Wait time (p95)', 'Wait time of requests that found no free slot.', _SECONDS,
              (_slowest(metrics.QUEUE_WAIT, 'queue'),)),
        Panel('Rejected requests', 'Requests that got no slot in time.', _A_SECOND,
              (_rate(metrics.QUEUE_REFUSED, 'queue', 'refusal'),)),
        Panel('Slots', 'Busy slots and total slots.', _COUNT,
              (_gauge(metrics.QUEUE_SLOTS_BUSY, 'queue', how='sum', what='busy'),
               _gauge(metrics.QUEUE_SLOTS, 'queue', how='sum', what='total'))),
        Panel('Threads', 'Busy threads, total threads and waiting tasks.', _COUNT,
              (_gauge(metrics.THREADS_BUSY, 'threads', how='sum', what='busy'),
               _gauge(metrics.THREADS, 'threads', how='sum', what='total'),
               _gauge(metrics.WAITING, 'threads', how='sum', what='waiting'))),
        Panel('Database connections', 'By use, for all processes.', _COUNT,
              (_gauge(metrics.CONNECTIONS, 'use', how='sum'),)))),
    ('Drift', (
        Panel('Drift found', 'Differences between the database and the backends.', _A_SECOND,
              (_rate(metrics.DRIFT_FOUND, 'drift'),)),
        Panel('Drift repaired', 'Repaired differences.', _A_SECOND,
              (_rate(metrics.DRIFT_REPAIRED, 'drift'),)),
        Panel('Drift found and repaired', 'Totals in the selected time range. If more drift was '
              'found than repaired, repairs failed.', _COUNT,
              (_increase(metrics.DRIFT_FOUND, 'drift', what='found'),
               _increase(metrics.DRIFT_REPAIRED, 'drift', what='repaired'))))),
    ('Backends and capacity', (
        Panel('Failed backends', '1: the health check of the backend failed.', _COUNT,
              (_gauge(metrics.CHECK, 'instance', 'check', where='check=~"backend .*"'),)),
        Panel('Used space', 'Used fraction of each pool.', _SHARE,
              (Query(f'1 - {_share(metrics.POOL_FREE, metrics.POOL_TOTAL, "pool").expression}',
                     _legend(('pool',))),)),
        Panel('Free space', 'As last reported by the backends.', _BYTES,
              (_gauge(metrics.POOL_FREE, 'pool'),)),
        Panel('Provisioned', 'Total size of the volumes relative to the size of the pool. Above '
              '100 %, not all volumes can be filled.', _SHARE,
              (_share(metrics.POOL_PROVISIONED, metrics.POOL_TOTAL, 'pool'),)))))
"""Titles of the rows, with the panels of each row."""


def _panel(number: int, x: int, y: int, panel: Panel) -> dict[str, Any]:
    return {
        'id': number, 'type': 'timeseries', 'title': panel.title, 'description': panel.text,
        'datasource': _SOURCE, 'gridPos': {'h': _HEIGHT, 'w': _WIDTH, 'x': x, 'y': y},
        'fieldConfig': {'defaults': {'unit': panel.unit, 'min': 0}, 'overrides': []},
        'options': {'legend': {'displayMode': 'list', 'placement': 'bottom'},
                    'tooltip': {'mode': 'multi', 'sort': 'desc'}},
        'targets': [{'refId': chr(ord('A') + place), 'datasource': _SOURCE, 'editorMode': 'code',
                     'expr': query.expression, 'legendFormat': query.legend or panel.title}
                    for place, query in enumerate(panel.queries)]}


def _panels() -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = []
    y = 0
    for title, panels in ROWS:
        made.append({'id': len(made) + 1, 'type': 'row', 'title': title, 'collapsed': False,
                     'panels': [], 'gridPos': {'h': 1, 'w': _COLUMNS, 'x': 0, 'y': y}})
        y += 1
        for place, panel in enumerate(panels):
            row, column = divmod(place * _WIDTH, _COLUMNS)
            made.append(_panel(len(made) + 1, column, y + row * _HEIGHT, panel))
        y += _HEIGHT * -(-len(panels) * _WIDTH // _COLUMNS)
    return made


def _variables() -> list[dict[str, Any]]:
    values = f'label_values({metrics.BUILD.full_name}, job)'
    return [
        {'name': 'datasource', 'label': 'Data source', 'type': 'datasource',
         'query': 'prometheus'},
        {'name': 'job', 'label': 'Job', 'type': 'query', 'datasource': _SOURCE, 'refresh': 2,
         'definition': values, 'query': {'query': values, 'refId': 'job'}, 'multi': True,
         'includeAll': True, 'allValue': '.*', 'current': {'text': ['All'], 'value': ['$__all']}}]


def document() -> str:
    """Return the dashboard as JSON, in the format that Grafana imports."""
    return json.dumps({
        'uid': 'blockattach', 'title': 'blockattach', 'tags': ['blockattach'],
        'description': 'Generated by tools/docs (tox -e gen). Do not edit.',
        'schemaVersion': 39, 'version': 1, 'editable': True, 'refresh': '30s',
        'time': {'from': 'now-3h', 'to': 'now'}, 'timezone': 'browser',
        'templating': {'list': _variables()}, 'panels': _panels()}, indent=1) + '\n'


if __name__ == '__main__':
    sys.stdout.write(document())
