"""Console scripts of operators and users, which run in forked processes.

The process that is forked has loaded their modules, so a test can run many commands.
"""
import pathlib
import tempfile
from typing import NamedTuple

from blockattach.tests.fixtures import forks
from blockattach.tests.fixtures import next_release


class Done(NamedTuple):
    """Exit status and output of a command."""

    status: int
    output: str
    errors: str


def run(name, arguments, environment=None, prepare=None, code=None):
    """Run a command and return its exit status and output.

    :param prepare: function that is called in the process of the command first
    :param code: folder with the package of the next release, or None for this release
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
