"""The clock of the machine that a command runs on."""
import datetime
import threading
import time

_NEVER = threading.Event()


def monotonic() -> float:
    """Seconds that only grow; for measuring how long something took."""
    return time.monotonic()


def utcnow() -> datetime.datetime:
    """Now, in UTC, without zone, as the API prints times."""
    return datetime.datetime.fromtimestamp(time.time(), datetime.UTC).replace(tzinfo=None)


def pause(seconds: float) -> None:
    """Let so much time pass before the service is asked again."""
    _NEVER.wait(seconds)
