"""Description of a planted bug."""
from typing import NamedTuple


class Bug(NamedTuple):
    """Planted bug: a row of the table of bugs.

    ``old`` occurs exactly once in the file ``path`` of the package, and is replaced by ``new``.
    ``guard`` describes the protection that the bug breaks, and ``promise`` names the promise that
    the guard keeps. ``test`` is the test that detects the bug; empty if a fixed seed detects it.
    """

    name: str
    path: str
    old: str
    new: str
    guard: str
    promise: str
    test: str = ''
