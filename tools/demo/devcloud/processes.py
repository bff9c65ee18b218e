"""Start and termination of processes that outlive the command that starts them.

The kernel reuses process ids. A process is therefore identified by its id and its start time, and
all processes of a cloud, including their children, carry the mark of the cloud in their
environment. Signals are sent to a pidfd of a checked process, never to a process id.
"""
import contextlib
import functools
import os
import pathlib
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping

from blockattach.platform import clock as clocks
from demo.devcloud import record as records

VARIABLE = 'BLOCKATTACH_DEVCLOUD'
"""Environment variable with the mark of the cloud to which a process belongs."""
_SECONDS_TO_STOP = 45.0
_SECONDS_TO_DIE = 15.0
# A process that is being stopped may just have started another one.
_SWEEPS = 5
_ROOT = pathlib.Path(__file__).resolve().parents[3]


def environment(mark: str) -> dict[str, str]:
    """Return the environment of a process of a cloud.

    It is the environment of the caller, except that the package of this checkout is found first.
    """
    paths = [str(_ROOT), *filter(None, [os.environ.get('PYTHONPATH')])]
    return {**os.environ, 'PYTHONPATH': os.pathsep.join(paths), VARIABLE: mark}


def program(module: str, *arguments: str) -> list[str]:
    """Return the command line of an entry point of the package."""
    return [sys.executable, '-m', f'blockattach.cmd.{module}', *arguments]


def spawn(command: list[str], variables: Mapping[str, str], folder: pathlib.Path,
          log: pathlib.Path) -> int:
    """Start a process in its own session, so that Ctrl-C does not reach it, and return its pid."""
    with open(os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), 'ab') as out:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                cwd=folder, env=variables, start_new_session=True).pid


def born(pid: int) -> str | None:
    """Return the boot id of the machine and the start time of a process in clock ticks.

    :returns: None if the process has ended
    """
    try:
        fields = pathlib.Path(f'/proc/{pid}/stat').read_text('utf-8', 'replace')
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *others = fields.rpartition(')')[2].split()
    return None if state in 'ZX' else f'{_boot()}:{others[18]}'


def is_alive(process: records.Process) -> bool:
    """Return True if the process id still belongs to the process."""
    return born(process.pid) == process.born


def end(processes: Iterable[records.Process], clock: clocks.Clock) -> None:
    """Stop processes together with SIGTERM, and with SIGKILL those that do not stop in time."""
    with contextlib.ExitStack() as stack:
        handles = [_handle(process.pid, functools.partial(is_alive, process), stack)
                   for process in processes]
        _end([handle for handle in handles if handle is not None], clock)


def sweep(mark: str, clock: clocks.Clock) -> None:
    """Stop processes that carry the mark until none is left.

    :raises Refused: a process cannot be stopped
    """
    for _ in range(_SWEEPS):
        with contextlib.ExitStack() as stack:
            handles = [_handle(int(one.name), functools.partial(_carries, one, mark), stack)
                       for one in pathlib.Path('/proc').iterdir() if one.name.isdigit()]
            found = [handle for handle in handles if handle is not None]
            if not found:
                return
            _end(found, clock)
    raise records.Refused(f'failed to end the processes with {VARIABLE}={mark}')


def _boot() -> str:
    return pathlib.Path('/proc/sys/kernel/random/boot_id').read_text('utf-8').strip()


def _carries(proc: pathlib.Path, mark: str) -> bool:
    try:
        variables = (proc / 'environ').read_bytes().split(b'\0')
    except OSError:
        # The process has ended, or belongs to another account.
        return False
    return f'{VARIABLE}={mark}'.encode() in variables and int(proc.name) != os.getpid()


def _handle(pid: int, is_meant: Callable[[], bool], stack: contextlib.ExitStack) -> int | None:
    """Return a pidfd of a process, which is closed at the end of the stack.

    :returns: None if the process has ended or is not the intended one
    """
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    stack.callback(os.close, handle)
    # Check the process while the pidfd is open, because the pid may have been reused before.
    return handle if is_meant() else None


def _end(handles: list[int], clock: clocks.Clock) -> None:
    for number, seconds in ((signal.SIGTERM, _SECONDS_TO_STOP), (signal.SIGKILL, _SECONDS_TO_DIE)):
        for handle in handles:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
                # A stopped process handles no signal except SIGCONT and SIGKILL.
                signal.pidfd_send_signal(handle, signal.SIGCONT)
        handles = _still_there(handles, clock.monotonic() + seconds, clock)


def _still_there(handles: list[int], deadline: float, clock: clocks.Clock) -> list[int]:
    """Return the handles of the processes that have not ended at the deadline."""
    poll = select.poll()
    left = set(handles)
    for handle in handles:
        poll.register(handle, select.POLLIN)
    while left and (seconds := deadline - clock.monotonic()) > 0:
        for handle, _ in poll.poll(seconds * 1000):
            poll.unregister(handle)
            left.discard(handle)
    return [handle for handle in handles if handle in left]
