"""Description of a planted bug."""
from typing import NamedTuple


class Bug(NamedTuple):
    """Planted bug: a row of the table of bugs.

    ``old`` occurs exactly once in the file ``path`` of the package, and is replaced by ``new``.
    ``name`` says what the bug does. ``guard`` states the rule that the bug breaks, and ``promise``
    is the number of the promise that depends on the rule. ``test`` is the test that detects the
    bug; empty if a fixed seed detects the bug.
    """

    name: str
    path: str
    old: str
    new: str
    guard: str
    promise: str
    test: str = ''
