"""Processes that outlive the command that started them, and are found and ended with certainty.

A number alone does not say which process it is: it is given again. So a process is known by its
number and when it began, and all that belongs to a cloud carries the cloud's mark in its
environment, down to what its processes have started. A signal goes to a handle of the process
that was looked at, never to a number.
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

import devcloud_record as records
from blockattach.platform import clock as clocks

VARIABLE = 'BLOCKATTACH_DEVCLOUD'
"""Holds the mark of the cloud that a process belongs to."""
_SECONDS_TO_STOP = 45.0
_SECONDS_TO_DIE = 15.0
# What is ended may have just started something.
_SWEEPS = 5
_ROOT = pathlib.Path(__file__).resolve().parents[1]


def environment(mark: str) -> dict[str, str]:
    """The caller's, with this checkout's package found first, for a process of a cloud."""
    paths = [str(_ROOT), *filter(None, [os.environ.get('PYTHONPATH')])]
    return {**os.environ, 'PYTHONPATH': os.pathsep.join(paths), VARIABLE: mark}


def program(module: str, *arguments: str) -> list[str]:
    """The command line of an entry point of the package."""
    return [sys.executable, '-m', f'blockattach.cmd.{module}', *arguments]


def spawn(command: list[str], variables: Mapping[str, str], folder: pathlib.Path,
          log: pathlib.Path) -> int:
    """Start a process in a session of its own, so that Ctrl-C does not reach it; its pid."""
    with open(os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), 'ab') as out:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                cwd=folder, env=variables, start_new_session=True).pid


def born(pid: int) -> str | None:
    """When a process began: the boot of the machine and the kernel's ticks. None: it has ended."""
    try:
        fields = pathlib.Path(f'/proc/{pid}/stat').read_text('utf-8', 'replace')
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *others = fields.rpartition(')')[2].split()
    return None if state in 'ZX' else f'{_boot()}:{others[18]}'


def is_alive(process: records.Process) -> bool:
    """Whether it is this process that has its number now."""
    return born(process.pid) == process.born


def end(processes: Iterable[records.Process], clock: clocks.Clock) -> None:
    """End those that still live, together: in order, and if need be by force."""
    with contextlib.ExitStack() as stack:
        handles = [_handle(process.pid, functools.partial(is_alive, process), stack)
                   for process in processes]
        _end([handle for handle in handles if handle is not None], clock)


def sweep(mark: str, clock: clocks.Clock) -> None:
    """End whatever carries the mark, until nothing does.

    :raises Refused: something cannot be ended
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
        # It has ended, or is somebody else's.
        return False
    return f'{VARIABLE}={mark}'.encode() in variables and int(proc.name) != os.getpid()


def _handle(pid: int, is_meant: Callable[[], bool], stack: contextlib.ExitStack) -> int | None:
    """A handle of the process, if it is the one that is meant, until the end of the stack."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    stack.callback(os.close, handle)
    # Read while the handle is open: a number that was given again does not pass.
    return handle if is_meant() else None


def _end(handles: list[int], clock: clocks.Clock) -> None:
    for number, seconds in ((signal.SIGTERM, _SECONDS_TO_STOP), (signal.SIGKILL, _SECONDS_TO_DIE)):
        for handle in handles:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
                # One that was stopped hears nothing else.
                signal.pidfd_send_signal(handle, signal.SIGCONT)
        handles = _still_there(handles, clock.monotonic() + seconds, clock)


def _still_there(handles: list[int], deadline: float, clock: clocks.Clock) -> list[int]:
    """Those that have not ended by then."""
    poll = select.poll()
    left = set(handles)
    for handle in handles:
        poll.register(handle, select.POLLIN)
    while left and (seconds := deadline - clock.monotonic()) > 0:
        for handle, _ in poll.poll(seconds * 1000):
            poll.unregister(handle)
            left.discard(handle)
    return [handle for handle in handles if handle in left]
