"""Health report of a process in a file, for probes that cannot use HTTP.

This module imports little, because probes run every few seconds.
"""
import contextlib
import dataclasses
import datetime
import enum
import json
import os
from collections.abc import Mapping

MISSED_INTERVALS = 3
"""Number of intervals without a result after which a check or process has failed."""


class State(enum.StrEnum):
    """State of a process. Only a process in state `READY` can do its work."""

    READY = 'ready'
    NOT_READY = 'not ready'
    STOPPING = 'stopping'


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """Health of a process at ``time``, which is a naive datetime in UTC.

    ``wrong`` maps failed checks to reasons. ``interval`` is the time in seconds between two
    reports.
    """

    process: str
    pid: int
    state: State
    time: datetime.datetime
    interval: float
    wrong: Mapping[str, str]

    def age(self, now: datetime.datetime) -> float:
        """Return the age of the report in seconds."""
        return (now - self.time).total_seconds()


def write(path: str, report: Report) -> None:
    """Replace the report in a file atomically, so that readers see a complete report.

    :raises OSError: the file cannot be written
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
    """Read the report in a file.

    :raises OSError: the file does not exist or cannot be read
    :raises ValueError: the file does not contain a report
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
