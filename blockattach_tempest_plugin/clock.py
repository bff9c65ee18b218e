"""Clock of the machine that runs the test cases."""
import threading
import time

_NEVER = threading.Event()


def monotonic() -> float:
    """Return the seconds of the monotonic clock, for deadlines."""
    return time.monotonic()


def pause(seconds: float) -> None:
    """Wait for some seconds before the service is asked again."""
    _NEVER.wait(seconds)
