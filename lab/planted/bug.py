"""What is known of a planted bug."""
from typing import NamedTuple


class Bug(NamedTuple):
    """One row of the table.

    ``old`` stands in the file exactly once, and ``new`` in its place. ``guard`` is what is broken,
    ``promise`` what that guard keeps. ``test``: what catches it; empty: a fixed seed.
    """

    name: str
    path: str
    old: str
    new: str
    guard: str
    promise: str
    test: str = ''
