"""Clock of the machine that runs a command."""
import datetime
import threading
import time

_NEVER = threading.Event()


def monotonic() -> float:
    """Return the seconds of the monotonic clock, to measure durations."""
    return time.monotonic()


def utcnow() -> datetime.datetime:
    """Return the current time in UTC without a time zone, like the times of the API."""
    return datetime.datetime.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)


def pause(seconds: float) -> None:
    """Wait for some seconds before the service is asked again."""
    _NEVER.wait(seconds)
