"""Execution of short programs, and management of daemons by a path in their arguments.

The path is unique to one daemon, so that no process id has to be stored. Therefore a process that
reuses an id is not killed by mistake.
"""
import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Sequence

from blockattach.compute import errors

_GRACE_SECONDS = 10.0


def run(words: Sequence[str], seconds: float = 60.0) -> str:
    """Run a program to its end, and return its standard output.

    :param seconds: timeout of the program
    :raises HostError: the program is missing, failed or did not end in time. For a failure, the
        error text contains the standard error of the program
    """
    try:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors='replace', cwd='/')
    except OSError as exc:
        raise errors.HostError(reason=f'{words[0]}: {exc.strerror}') from None
    try:
        output, complaint = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        # A program blocked on a device ends only when the device responds, so do not wait.
        process.kill()
        raise errors.HostError(
            reason=f'{words[0]} did not finish within {seconds:.0f} s') from None
    if process.returncode:
        raise errors.HostError(reason=f'{words[0]}: {complaint.strip()}')
    return output


def launch(words: Sequence[str], log: str) -> None:
    """Start a program that outlives the agent.

    :param log: path of the file to which the output of the program is appended
    :raises HostError: the program cannot be run
    """
    # setsid --fork reparents to init: no zombie remains, and Ctrl-C does not reach it.
    with open(os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), 'ab') as out:
        try:
            subprocess.run(['setsid', '--fork', *words], stdin=subprocess.DEVNULL, stdout=out,
                           stderr=out, cwd='/', check=True)
        except (OSError, subprocess.SubprocessError) as exc:
            raise errors.HostError(reason=f'{words[0]}: {exc}') from None


def find(program: str, path: str) -> list[int]:
    """Return the ids of the processes of a program that have a path in their arguments."""
    return [int(name) for name in os.listdir('/proc') if name.isdigit()
            and _is(int(name), program, path)]


def end(program: str, path: str) -> None:
    """Terminate the processes of a program that have a path in their arguments.

    SIGTERM is followed by SIGKILL after a grace time.

    :raises HostError: a process did not end after SIGKILL
    """
    for pid in find(program, path):
        with contextlib.suppress(ProcessLookupError):
            # The pidfd refers to the same process as long as it is open.
            process = os.pidfd_open(pid)
            try:
                if _is(pid, program, path):
                    _end(process, pid)
            finally:
                os.close(process)


def _end(process: int, pid: int) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        signal.pidfd_send_signal(process, number)
        if select.select([process], [], [], _GRACE_SECONDS)[0]:
            return
    raise errors.HostError(reason=f'process {pid} did not end after SIGKILL')


def _is(pid: int, program: str, path: str) -> bool:
    try:
        with open(f'/proc/{pid}/cmdline', 'rb') as file:
            words = file.read().split(b'\0')
    except (FileNotFoundError, ProcessLookupError):
        return False
    return (os.path.basename(words[0]) == os.fsencode(program)
            and any(os.fsencode(path) in word for word in words[1:]))
