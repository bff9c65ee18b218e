"""Life cycle of commands: signal handlers, errors, and running until a signal stops the process.

Signal handlers are set before most imports, because imports take a second. Therefore this module
and the entry modules of the commands must not import large modules of this project at the top.
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
"""Number that shells add to the number of the signal that ended a process."""
_STOP = (signal.SIGTERM, signal.SIGINT)
_STANDARD_ERROR = 2
_LEAVING_SECONDS = 5.0


class Phase(enum.Enum):
    """Phase of a command, with its reaction to a stop signal."""

    LOADING = 'loading: exits immediately'
    BEGINNING = 'starting: rolls back the start'
    SERVING = 'serving: shuts down gracefully'


class Interrupted(BaseException):
    """Stop signal during the start of the process.

    The class is derived from BaseException, so that ``except Exception`` does not catch it.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """Signal handlers of the process, which are installed when an instance is created.

    A second stop signal (SIGTERM, SIGINT) ends the process at once, even if it waits for a broker.
    A SIGHUP that arrives before `wait` is called takes effect in `wait`. SIGUSR2 calls `report`.

    :ivar phase: current phase of the command
    :ivar shutdown_timeout: maximum time in seconds from a stop signal until the process has
        stopped, or 0 for no limit
    :ivar report: function that is called on SIGUSR2
    :ivar abandon: function that is called when ``shutdown_timeout`` has passed. The process exits
        when the function returns, or after a few seconds
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._stopping = False
        self.phase = Phase.LOADING
        self.shutdown_timeout = 0
        self.report: Callable[[], None] = _nothing
        self.abandon: Callable[[], None] = _nothing
        # The kernel may deliver a signal to any thread. Python runs the handler in this thread,
        # and writes the number of the signal to this pipe immediately, which wakes the thread.
        self._woken, self._waking = os.pipe()
        os.set_blocking(self._waking, False)
        signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False)
        for number in _STOP:
            signal.signal(number, self._on_signal)
        # A handler that does nothing, because the default action of SIGHUP ends the process.
        # `wait` reads the number of the signal from the pipe.
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)
        signal.signal(signal.SIGALRM, self._cut_off)
        signal.signal(signal.SIGUSR2, lambda _number, _frame: self.report())
        sys.unraisablehook = _say_unraisable

    def wait(self, reload: Callable[[], None]) -> None:
        """Wait for a stop signal.

        :param reload: function that is called on each SIGHUP
        """
        while True:
            number = os.read(self._woken, 1)[0]
            if number in _STOP:
                return
            if number == signal.SIGHUP:
                reload()

    def end(self, stop: Callable[[], None]) -> None:
        """Call a function that stops the process, and handle signals meanwhile.

        The function is called in another thread.
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
                    # Wakes `_wait_for`. A full pipe wakes its reader anyway.
                    os.write(self._waking, b'\0')

        # If `stop` hung in this thread, no signal handler would run, not even the handler
        # of the shutdown timeout.
        threading.Thread(target=act, name='ending').start()
        try:
            self._wait_for(ended)
        except Interrupted:
            # The stop is not repeated, but it must be completed.
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
        # With 0, no alarm is set, so the process may take as long as it needs.
        signal.alarm(self.shutdown_timeout)
        if self.phase is Phase.BEGINNING:
            raise Interrupted(number)

    def _cut_off(self, _number: int, _frame: FrameType | None) -> None:
        # Written directly, because the signal may have interrupted the output of a log line.
        os.write(_STANDARD_ERROR, f'{self._name}: shutdown timed out after '
                 f'{self.shutdown_timeout} seconds, unfinished work is left to other processes or '
                 'expires\n'.encode())
        # Called in another thread, because this thread may hold a lock that the call needs, and
        # because the call may hang, for instance if the database does not respond.
        leaving = threading.Thread(target=self.abandon, daemon=True)
        leaving.start()
        leaving.join(_LEAVING_SECONDS)
        os._exit(1)


@contextlib.contextmanager
def command(name: str) -> Iterator[Signals]:
    """Handle the signals and errors of a command, which is executed in the block.

    Files that the process and its children create are private to the user. An error that needs no
    traceback is printed in one line, and the exit status is 1. An interrupted command ends by the
    signal, as its parent process expects.
    """
    # Files may contain keys and credentials.
    os.umask(_OWNER_ONLY)
    try:
        yield Signals(name)
    except Interrupted as exc:
        _end_by(exc.number)
    except Exception as exc:
        # Any other error is a bug, and is printed with a traceback.
        if not _is_known(exc):
            raise
        print(f'{name}: {" ".join(str(exc).split())}', file=sys.stderr)
        raise SystemExit(1) from None
    finally:
        # From here on a stop signal ends the process, because nothing is left to be stopped.
        for number in _STOP:
            signal.signal(number, signal.SIG_DFL)


def name_choices(subparsers: Any, choices: Iterable[str]) -> None:
    """Set the metavar of argparse, so that the error about a missing command lists all commands.

    :param subparsers: result of `argparse.ArgumentParser.add_subparsers`
    :param choices: names of the commands
    """
    subparsers.metavar = f'{{{",".join(choices)}}}'


def load_services(name: str, module: str,
                  conf: 'cfg.ConfigOpts') -> 'processes.ServiceProcess':
    """Return a block storage process, whose services a module of the wiring builds.

    :param name: name of the process
    :param module: name of the module in `blockattach.wiring`
    """
    from blockattach.wiring import dependencies

    return _load(name, module, conf, dependencies.build_dependencies)


def load_outside(name: str, module: str,
                 conf: 'cfg.ConfigOpts') -> 'processes.ServiceProcess':
    """Return a compute process, whose services a module of the wiring builds.

    The modules of the block storage database are not imported. For the parameters, see
    `load_services`.
    """
    from blockattach.wiring import outside

    return _load(name, module, conf, outside.open_outside)


def _load(name: str, module: str, conf: 'cfg.ConfigOpts',
          open_base: 'processes.Open') -> 'processes.ServiceProcess':
    from blockattach.wiring import processes

    wiring = importlib.import_module(f'blockattach.wiring.{module}')
    return processes.ServiceProcess(name, conf, open_base, wiring.build_services)


def run(name: str, load: 'Load', text: str = '') -> int:
    """Run a process until it is stopped.

    :param load: function that imports the modules of the process, registers its options, and
        returns the process
    :param text: description of the process in the output of ``--help``
    :returns: exit status
    """
    with command(name) as signals:
        # Imports produce hardly any garbage. The collector is enabled when the process serves.
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
    """Do nothing. `Signals.report` and `Signals.abandon` have this value until they are set."""


def say(text: str) -> None:
    """Print a line on standard output. Errors, such as a closed terminal, are ignored."""
    try:
        print(text, flush=True)
    except OSError:
        # Python would flush the remaining buffer at the end of the process, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_known(exc: Exception) -> bool:
    """Return True if the text of an error is enough for an operator, without a traceback."""
    from oslo_config import cfg

    from blockattach.platform import errors

    return isinstance(exc, cfg.Error) or errors.is_known(exc)


def _say_unraisable(unraisable: 'sys.UnraisableHookArgs') -> None:
    """Print an exception that Python cannot raise, unless the exception is `Interrupted`."""
    # Python cannot raise the exception of a signal handler in some places, such as a finalizer.
    # The signal is not lost, and the process stops in order when it has started.
    if unraisable.exc_type is not Interrupted:
        sys.__unraisablehook__(unraisable)


def _end_by(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    # The first process of a container (PID 1) is not killed by its own signal.
    os._exit(_BY_SIGNAL + number)
