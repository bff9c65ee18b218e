#!/usr/bin/env python3
"""Print tables of the rows that an import from Cinder refuses, changes and omits."""
import sys

import rst
from blockattach.storage.domain import importing

_PARTS = (('Refused', ('resource', 'reason', 'action'), importing.REFUSED),
          ('Changed', ('resource', 'change'), importing.CHANGED),
          ('Omitted', ('resource', 'reason'), importing.LEFT))


def document() -> str:
    """Return the tables as included by the page."""
    return ''.join(part for title, head, remarks in _PARTS for part in (
        rst.heading(title, '~'),
        rst.table(('code', *head),
                  [[rst.literal(code), *one[:len(head)]] for code, one in remarks.items()],
                  (18, 12, 40, 30)[:len(head) + 1])))


if __name__ == '__main__':
    sys.stdout.write(document())
