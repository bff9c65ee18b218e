#!/usr/bin/env python3
"""Print what an import from Cinder refuses, changes and leaves, as tables."""
import sys

import rst
from blockattach.domain import importing

_PARTS = (('Refused', ('noun', 'why', 'what to do'), importing.REFUSED),
          ('Changed', ('noun', 'what'), importing.CHANGED),
          ('Left there', ('noun', 'why'), importing.LEFT))


def document() -> str:
    """What is included by the page."""
    return ''.join(part for title, head, remarks in _PARTS for part in (
        rst.heading(title, '~'),
        rst.table(('code', *head),
                  [[rst.literal(code), *one[:len(head)]] for code, one in remarks.items()],
                  (18, 12, 40, 30)[:len(head) + 1])))


if __name__ == '__main__':
    sys.stdout.write(document())
