"""Profiles of processes: py-spy during a load, with a flame graph for each process.

Each process has two files. ``NAME.txt`` is the output of py-spy, with a line for each stack and
its samples. ``NAME.svg`` is the flame graph.
"""
import collections
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Iterator

from bench import flames
from bench import processes

_RATE = '200'
_SLACK_SECONDS = 60


class CannotProfile(Exception):
    """Raised if py-spy is missing. The text is the reason in one line."""


def program() -> str:
    """Return the path of py-spy.

    :raises CannotProfile: py-spy is not installed
    """
    found = shutil.which('py-spy', path=os.pathsep.join(
        (os.path.dirname(sys.executable), os.environ.get('PATH', ''))))
    if found is None:
        raise CannotProfile('--profile needs py-spy (pip install py-spy)')
    return found


@contextlib.contextmanager
def recording(folder: pathlib.Path, name: str, own: processes.Processes, seconds: float,
              say: Callable[[str], None]) -> Iterator[None]:
    """Record all processes of a service during the context.

    :param seconds: duration of the load
    :raises CannotProfile: py-spy is not installed
    """
    folder.mkdir(parents=True, exist_ok=True)
    recorders = []
    for process, pids in own.families().items():
        for number, pid in enumerate(pids):
            path = folder / f'{name}-{process}-{number}.txt'
            recorders.append((path, subprocess.Popen(
                [program(), 'record', '--pid', str(pid), '--format', 'raw', '--rate', _RATE,
                 '--gil', '--nonblocking', '--duration', str(max(1, round(seconds))), '--output',
                 str(path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)))
    yield
    for path, recorder in recorders:
        try:
            recorder.wait(seconds + _SLACK_SECONDS)
        except subprocess.TimeoutExpired:
            recorder.kill()
            recorder.wait()
        if path.exists():
            found = list(stacks(path))
            path.with_suffix('.svg').write_text(flames.drawn(path.stem, found), 'utf-8')
            say(f'{path.stem}: {", ".join(largest(found)) or "idle"}')


def largest(sampled: list[tuple[list[str], int]], count: int = 5) -> list[str]:
    """Return the functions in which most samples ended, with their percentages."""
    samples: collections.Counter[str] = collections.Counter()
    for frames, number in sampled:
        samples[frames[-1]] += number
    total = sum(samples.values())
    return [f'{frame} {100 * number / total:.1f} %' for frame, number in
            samples.most_common(count)]


def stacks(path: pathlib.Path) -> Iterator[tuple[list[str], int]]:
    """Yield each stack, outermost function first, with its number of samples."""
    for line in path.read_text('utf-8', 'replace').splitlines():
        frames, _, number = line.rpartition(' ')
        if number.isdigit() and frames:
            yield frames.split(';'), int(number)
