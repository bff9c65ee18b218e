"""What every command does: read its configuration, start logging, run until it is told to stop."""
import contextlib
import os
import queue
import signal
import sys
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import Protocol

import oslo_messaging
from oslo_config import cfg

from blockattach import errors
from blockattach.wiring import foundation

_OWNER_ONLY = 0o077
_INTERRUPTED = 130


class Service(Protocol):
    """What a process runs."""

    def start(self) -> None:
        """Serve from now on."""

    def stop(self) -> None:
        """Take nothing new and finish what runs."""


class Told:
    """What the process is told by signals, from now on.

    Whoever says stop twice is not kept waiting, as for a broker that is away: it ends at once.
    """

    def __init__(self) -> None:
        self._stopping = False
        # Of all that wakes a waiting thread, only this may be used while that thread is in it.
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._tell)

    def wait(self, reload: Callable[[], None] | None = None) -> None:
        """Return when the process is told to stop (SIGTERM, or Ctrl-C).

        :param reload: called when it is told to read its files again (SIGHUP)
        """
        while self._signals.get() == signal.SIGHUP:
            if reload is not None:
                reload()

    def _tell(self, number: int, _frame: Any) -> None:
        if number != signal.SIGHUP:
            if self._stopping:
                os._exit(_INTERRUPTED)
            self._stopping = True
        self._signals.put(number)


def say(text: str) -> None:
    """Tell the terminal, if it is still there: a reader that has gone must not hold us up."""
    try:
        print(text, flush=True)
    except OSError:
        # What is left in the buffer would fail once more at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def starting(command: str) -> Iterator[None]:
    """Begin privately, and if that fails, say in one line why; then the exit status is 1.

    What the process and its children make belongs to its user alone, wherever it is told to be.
    """
    os.umask(_OWNER_ONLY)
    try:
        yield
    except (errors.ConfigurationError, cfg.Error, oslo_messaging.MessagingException) as exc:
        print(f'{command}: {" ".join(str(exc).split())}', file=sys.stderr)
        raise SystemExit(1) from None


def run(command: str, arguments: list[str],
        build: Callable[[foundation.Foundation], Sequence[Service]]) -> int:
    """Run services that stand on one foundation until the process is told to stop."""
    conf = cfg.ConfigOpts()
    told = Told()
    with contextlib.ExitStack() as running:
        with starting(command):
            foundation.configure(conf, arguments)
            base = foundation.build_foundation(conf)
            running.callback(base.close)
            for service in build(base):
                running.callback(service.stop)
                service.start()
        told.wait()
    return 0
