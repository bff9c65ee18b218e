"""Commands of an operator and of users, run many times without loading everything each time.

Each runs as its console script does, in a process of its own, which was forked from one that has
loaded what they need.
"""
import importlib.metadata
import os
import pathlib
import sys
import tempfile
from typing import NamedTuple

from blockattach.tests.fixtures import forks
from blockattach.tests.fixtures import patience

SECONDS = patience.LIMIT


class Done(NamedTuple):
    """How a command ended, and what it said."""

    status: int
    output: str
    errors: str


def run(name, arguments, environment):
    """Run one to its end."""
    [script] = importlib.metadata.entry_points(group='console_scripts', name=name)
    with tempfile.TemporaryDirectory() as folder:
        places = [pathlib.Path(folder) / stream for stream in ('output', 'errors')]
        process = forks.context().Process(target=_call, args=(script.value, name, arguments,
                                                      dict(environment), places))
        process.start()
        try:
            process.join(SECONDS)
            assert process.exitcode is not None, f'{name} {arguments} does not end'
        finally:
            process.kill()
            process.join()
        return Done(process.exitcode, *(place.read_text() for place in places))


def _call(script, name, arguments, environment, places):
    for name in [name for name in os.environ if name.startswith('OS_')]:
        del os.environ[name]
    for number, place in enumerate(places, 1):
        with place.open('wb') as file:
            os.dup2(file.fileno(), number)
    os.environ.update(environment)
    sys.argv = [name, *arguments]
    module, _, function = script.partition(':')
    sys.exit(getattr(importlib.import_module(module), function)())
