"""Where processes spend their time: py-spy beside a load, a flame graph for each process.

Two files for each: ``NAME.txt`` with a line for each stack and its samples, as py-spy writes it,
and ``NAME.svg``, drawn from that.
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
    """One line that says why."""


def program() -> str:
    """Where py-spy is.

    :raises CannotProfile: nowhere
    """
    found = shutil.which('py-spy', path=os.pathsep.join(
        (os.path.dirname(sys.executable), os.environ.get('PATH', ''))))
    if found is None:
        raise CannotProfile('--profile needs py-spy (pip install py-spy)')
    return found


@contextlib.contextmanager
def recording(folder: pathlib.Path, name: str, own: processes.Processes, seconds: float,
              say: Callable[[str], None]) -> Iterator[None]:
    """Record every process of a service for as long as a load takes.

    :raises CannotProfile: there is no py-spy
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


def largest(found: list[tuple[list[str], int]], count: int = 5) -> list[str]:
    """The functions that most samples ended in, in percent."""
    samples: collections.Counter[str] = collections.Counter()
    for frames, number in found:
        samples[frames[-1]] += number
    total = sum(samples.values())
    return [f'{frame} {100 * number / total:.1f} %' for frame, number in
            samples.most_common(count)]


def stacks(path: pathlib.Path) -> Iterator[tuple[list[str], int]]:
    """Each stack, outermost first, and how often it was sampled."""
    for line in path.read_text('utf-8', 'replace').splitlines():
        frames, _, number = line.rpartition(' ')
        if number.isdigit() and frames:
            yield frames.split(';'), int(number)
