"""The health report of a process, in a file: for probes that cannot ask it over HTTP.

Little is imported here: a probe runs every few seconds.
"""
import contextlib
import dataclasses
import datetime
import enum
import json
import os
from collections.abc import Mapping

MISSED_INTERVALS = 3
"""A check or process that is silent for so many intervals counts as failed."""


class State(enum.StrEnum):
    """Only `READY` can do its work."""

    READY = 'ready'
    NOT_READY = 'not ready'
    STOPPING = 'stopping'


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """A process at one moment (UTC, without zone). ``wrong`` maps failed checks to why.

    ``interval`` is after how many seconds it reports again.
    """

    process: str
    pid: int
    state: State
    time: datetime.datetime
    interval: float
    wrong: Mapping[str, str]

    def age(self, now: datetime.datetime) -> float:
        """Seconds since then."""
        return (now - self.time).total_seconds()


def write(path: str, report: Report) -> None:
    """Replace the report atomically: a reader gets the former one or this one.

    :raises OSError: it cannot be written
    """
    draft = f'{path}.{os.getpid()}'
    try:
        with open(draft, 'w', encoding='utf-8') as file:
            json.dump(dataclasses.asdict(report), file, default=datetime.datetime.isoformat)
            file.write('\n')
        os.replace(draft, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def read(path: str) -> Report:
    """The report in a file.

    :raises OSError: there is none that can be read
    :raises ValueError: it is no report
    """
    with open(path, encoding='utf-8') as file:
        values = json.load(file)
    try:
        return Report(process=str(values['process']), pid=int(values['pid']),
                      state=State(values['state']), interval=float(values['interval']),
                      time=datetime.datetime.fromisoformat(values['time']),
                      wrong=dict(values['wrong']))
    except (TypeError, KeyError) as exc:
        raise ValueError(f'{exc} is missing or malformed') from exc
