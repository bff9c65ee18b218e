#!/usr/bin/env python3
"""Print the tables of metrics, spans and log fields."""
import sys
from collections.abc import Mapping
from typing import Any

import rst
from blockattach.platform import log
from blockattach.platform import metrics


def _names(texts: Mapping[Any, str], heading: str) -> str:
    return rst.table((heading, 'description'), [[rst.literal(name), text]
                                         for name, text in texts.items()], (20, 80))


def metrics_tables() -> str:
    """Return the tables of metrics, labels, steps and drifts."""
    rows = [[rst.literal(row.full_name), row.kind.value,
             ', '.join(rst.literal(label) for label in row.labels), row.text]
            for row in metrics.METRICS]
    return ''.join((
        rst.NOTICE, rst.table(('name', 'type', 'labels', 'description'), rows, (34, 10, 20, 36)),
        '\nLabels:\n', _names(metrics.LABELS, 'label'),
        '\nSteps of attach and detach operations:\n', _names(metrics.STEPS, 'step'),
        '\nDifferences between the database and the backend:\n', _names(metrics.DRIFTS, 'drift')))


def spans() -> str:
    """Return the table of the spans of traces."""
    return rst.NOTICE + rst.table(
        ('span', 'kind', 'description', 'can start a trace'),
        [[rst.literal(row.span.name), row.span.side, row.text, 'yes' if row.span.begins else '']
         for row in metrics.METRICS if row.span], (24, 10, 52, 14))


def log_fields() -> str:
    """Return the table of the fields of log lines."""
    return rst.NOTICE + _names(log.FIELDS, 'field')


if __name__ == '__main__':
    sys.stdout.write(metrics_tables())
