"""Commands of an operator and of users, run many times without loading everything each time.

Each runs as its console script does, in a process of its own, which was forked from one that has
loaded what they need.
"""
import pathlib
import tempfile
from typing import NamedTuple

from blockattach.tests.fixtures import forks
from blockattach.tests.fixtures import next_release


class Done(NamedTuple):
    """How a command ended, and what it said."""

    status: int
    output: str
    errors: str


def run(name, arguments, environment=None, prepare=None, code=None):
    """Run one to its end; ``prepare`` is called in its process first.

    :param code: the folder with the package of the next release; None: this one
    """
    if code is not None:
        module = name.removeprefix('blockattach-').replace('-', '_')
        done = next_release.run(code, '-m', f'blockattach.cmd.{module}', *arguments,
                                environment=environment)
        return Done(done.returncode, done.stdout, done.stderr)
    with tempfile.TemporaryDirectory() as folder:
        places = [pathlib.Path(folder) / stream for stream in ('output', 'errors')]
        process = forks.Fork([name, *arguments], places[0], errors=places[1],
                             environment=environment, prepare=prepare)
        try:
            status = process.wait()
        finally:
            process.kill()
        return Done(status, *(place.read_text() for place in places))
