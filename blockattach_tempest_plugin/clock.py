"""The clock of the machine that the cases run on."""
import threading
import time

_NEVER = threading.Event()


def monotonic() -> float:
    """Seconds that only grow; for a deadline."""
    return time.monotonic()


def pause(seconds: float) -> None:
    """Let so much time pass before the service is asked again."""
    _NEVER.wait(seconds)
