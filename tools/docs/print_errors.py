#!/usr/bin/env python3
"""Print the table of errors: code, class, message, outcome, status and Retry-After."""
import sys
from collections.abc import Iterator

import rst
from blockattach.platform import errors

_INTRODUCTION = """
Each error has a stable code that programs can rely on. The message may change.

The outcome is *final* if the request had no effect, so that a repeated request is a new request.
The outcome is *uncertain* if the request may have taken effect. The service determines the outcome
and finishes the operation automatically, and repeating the request is safe.

A value in the column *Retry-After* marks a temporary condition. Repeat the request after the
number of seconds in the header ``Retry-After``. Quota errors have the value 0, because clients
expect the header with status 413.
"""


def classes(root: type[errors.BlockattachError]) -> Iterator[type[errors.BlockattachError]]:
    """Yield a class of errors and its subclasses, depth first."""
    yield root
    for child in root.__subclasses__():
        if child.__module__ in errors.MODULES:
            yield from classes(child)


def row(error: type[errors.BlockattachError]) -> list[str]:
    """Return the row of an error in the table."""
    text = ' '.join(error.text.split())
    return [rst.literal(error.code), error.__name__, rst.literal(text),
            'final' if error.final else 'uncertain', str(error.status),
            error.retry_after or '']


def document() -> str:
    """Return the page."""
    rows = [row(error) for error in classes(errors.BlockattachError)]
    return ''.join((rst.NOTICE, rst.heading('Errors'), _INTRODUCTION,
                    rst.table(('Code', 'Class', 'Message', 'Outcome', 'Status', 'Retry-After'),
                              rows, (22, 20, 40, 10, 6, 6))))


if __name__ == '__main__':
    sys.stdout.write(document())
