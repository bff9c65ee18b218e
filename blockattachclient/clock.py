"""Clock of the machine that runs a command."""
import datetime
import threading
import time

_NEVER = threading.Event()


def monotonic() -> float:
    """Return the time of the monotonic clock in seconds."""
    return time.monotonic()


def utcnow() -> datetime.datetime:
    """Return the current time in UTC as a naive datetime, like the times in the API."""
    return datetime.datetime.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)


def pause(seconds: float) -> None:
    """Wait for a number of seconds before a request is repeated."""
    _NEVER.wait(seconds)
