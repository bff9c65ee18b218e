"""Every command: handle signals, print in a line why it cannot start, run until it is stopped.

Signal handlers are set first, and only then come the imports, which take a second: nothing of ours
may be imported above, nor above in the commands.
"""
import contextlib
import enum
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    from oslo_config import cfg

    from blockattach.wiring import processes

    Load = Callable[[cfg.ConfigOpts], processes.ServiceProcess]

_OWNER_ONLY = 0o077
_BY_SIGNAL = 128
"""What a shell adds to the number of the signal that ended a process."""
_STOP = (signal.SIGTERM, signal.SIGINT)
_STANDARD_ERROR = 2
_LEAVING_SECONDS = 5.0


class Phase(enum.Enum):
    """How far a command is, by which a signal to stop means something else."""

    LOADING = 'loading: exits immediately'
    BEGINNING = 'starting: rolls back the start'
    SERVING = 'serving: shuts down gracefully'


class Interrupted(BaseException):
    """A signal to stop while the process starts. Passes through everything."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """The signals of the process, from now on.

    A second signal to stop (SIGTERM, Ctrl-C) ends the process at once, for instance if it waits
    for a broker. SIGHUP waits until the process serves; SIGUSR2 requests a state report at any
    time.

    :ivar phase: how far the command is
    :ivar shutdown_timeout: how many seconds the process may take to end; 0: no limit
    :ivar report: called on SIGUSR2
    :ivar abandon: called when that time is over; waited for a moment only
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._stopping = False
        self.phase = Phase.LOADING
        self.shutdown_timeout = 0
        self.report: Callable[[], None] = _nothing
        self.abandon: Callable[[], None] = _nothing
        # The kernel may deliver a signal to any thread; Python handles it in this one, and writes
        # its number here at once.
        self._woken, self._waking = os.pipe()
        os.set_blocking(self._waking, False)
        signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False)
        for number in _STOP:
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)
        signal.signal(signal.SIGALRM, self._cut_off)
        signal.signal(signal.SIGUSR2, lambda _number, _frame: self.report())
        sys.unraisablehook = _say_unraisable

    def wait(self, reload: Callable[[], None]) -> None:
        """Return when the process shall stop.

        :param reload: called on SIGHUP, to read files again
        """
        while True:
            number = os.read(self._woken, 1)[0]
            if number in _STOP:
                return
            if number == signal.SIGHUP:
                reload()

    def end(self, stop: Callable[[], None]) -> None:
        """Return when the process has stopped, and handle signals meanwhile.

        In a thread: while this one waits for something that hangs, no signal handler would run,
        not even that of the shutdown timeout.
        """
        ended = threading.Event()
        failures: list[BaseException] = []

        def act() -> None:
            try:
                stop()
            except BaseException as exc:
                failures.append(exc)
            finally:
                ended.set()
                with contextlib.suppress(BlockingIOError):
                    os.write(self._waking, b'\0')

        threading.Thread(target=act, name='ending').start()
        try:
            self._wait_for(ended)
        except Interrupted:
            # Not twice. What was begun is still taken back.
            self._wait_for(ended)
            raise
        if failures:
            raise failures[0]

    def _wait_for(self, event: threading.Event) -> None:
        while not event.is_set():
            os.read(self._woken, 1)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._stopping:
            os._exit(_BY_SIGNAL + number)
        if self.phase is Phase.LOADING:
            _end_by(number)
        self._stopping = True
        signal.alarm(self.shutdown_timeout)
        if self.phase is Phase.BEGINNING:
            raise Interrupted(number)

    def _cut_off(self, _number: int, _frame: FrameType | None) -> None:
        # What is interrupted may be a line on its way to the log.
        os.write(_STANDARD_ERROR, f'{self._name}: shutdown timed out after '
                 f'{self.shutdown_timeout} seconds, unfinished work is left to other processes or '
                 'expires\n'.encode())
        # In a thread: what this one holds it may wait for, as for a database that hangs.
        leaving = threading.Thread(target=self.abandon, daemon=True)
        leaving.start()
        leaving.join(_LEAVING_SECONDS)
        os._exit(1)


@contextlib.contextmanager
def command(name: str) -> Iterator[Signals]:
    """Surround all that a command does.

    Files of the process and its children are private to its user, wherever they are.
    A known error is one line and exit status 1. A command that is interrupted ends by that signal,
    as the process that started it expects.
    """
    os.umask(_OWNER_ONLY)
    try:
        yield Signals(name)
    except Interrupted as exc:
        _end_by(exc.number)
    except Exception as exc:
        if not _is_known(exc):
            raise
        print(f'{name}: {" ".join(str(exc).split())}', file=sys.stderr)
        raise SystemExit(1) from None
    finally:
        # Nobody is there any more to be interrupted.
        for number in _STOP:
            signal.signal(number, signal.SIG_DFL)


def name_choices(subparsers: Any, choices: Iterable[str]) -> None:
    """Have argparse say which commands there are where none is given, not what it calls them.

    :param subparsers: what it has returned for them
    """
    subparsers.metavar = f'{{{",".join(choices)}}}'


def load_services(name: str, module: str,
                  conf: 'cfg.ConfigOpts') -> 'processes.ServiceProcess':
    """A process of the services that a module of the wiring builds."""
    from blockattach.wiring import dependencies

    return _load(name, module, conf, dependencies.build_dependencies)


def load_outside(name: str, module: str,
                 conf: 'cfg.ConfigOpts') -> 'processes.ServiceProcess':
    """The same of services that do not stand on the database of block storage, and load none."""
    from blockattach.wiring import outside

    return _load(name, module, conf, outside.open_outside)


def _load(name: str, module: str, conf: 'cfg.ConfigOpts',
          open_base: 'processes.Open') -> 'processes.ServiceProcess':
    from blockattach.wiring import processes

    wiring = importlib.import_module(f'blockattach.wiring.{module}')
    return processes.ServiceProcess(name, conf, open_base, wiring.build_services)


def run(name: str, load: 'Load', text: str = '') -> int:
    """Run a process until it is stopped; returns the exit status.

    :param load: imports what the process consists of, and puts it together unconfigured
    :param text: what it does, for its help
    """
    with command(name) as signals:
        # What is loaded from here on stays: garbage is collected once the process serves.
        gc.disable()
        from oslo_config import cfg

        from blockattach.wiring import configuration

        conf = cfg.ConfigOpts()
        process = load(conf)
        configuration.configure(conf, sys.argv[1:], name, text)

        def reload() -> None:
            if process.reload():
                signals.shutdown_timeout = conf.graceful_shutdown_timeout

        signals.shutdown_timeout = conf.graceful_shutdown_timeout
        signals.report = process.report
        signals.abandon = process.abandon
        signals.phase = Phase.BEGINNING
        with contextlib.ExitStack() as running:
            running.callback(signals.end, process.stop)
            process.start()
            signals.phase = Phase.SERVING
            process.announce()
            signals.wait(reload)
    return 0


def _nothing() -> None:
    """Before there is a process, there is no report."""


def say(text: str) -> None:
    """Write to the terminal, if it is still there: a closed one must not block us."""
    try:
        print(text, flush=True)
    except OSError:
        # What is left in the buffer would fail once more at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_known(exc: Exception) -> bool:
    """Whether its text says everything; any other error is a bug, and has a traceback."""
    from oslo_config import cfg

    from blockattach.platform import errors

    return isinstance(exc, cfg.Error) or errors.is_known(exc)


def _say_unraisable(unraisable: 'sys.UnraisableHookArgs') -> None:
    """Python cannot interrupt what it does between two statements of ours; the signal is not lost:
    the process ends in order once it has begun."""
    if unraisable.exc_type is not Interrupted:
        sys.__unraisablehook__(unraisable)


def _end_by(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    # The first process of a container is not killed so.
    os._exit(_BY_SIGNAL + number)
