"""Programs that are run to their end, and ours that live on: known by a path in their arguments.

Nobody else has that path, so no number of a process that has ended can make us end another one,
and nothing has to be noted for a process to be found again.
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
    """What a program says on standard output.

    :raises HostError: it is missing, failed, or did not end in time; the text has its complaint
    """
    try:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, errors='replace', cwd='/')
    except OSError as exc:
        raise errors.HostError(reason=f'{words[0]}: {exc.strerror}') from None
    try:
        output, complaint = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        # One that waits for a device ends when that answers: it is not waited for.
        process.kill()
        raise errors.HostError(
            reason=f'{words[0]} did not finish within {seconds:.0f} s') from None
    if process.returncode:
        raise errors.HostError(reason=f'{words[0]}: {complaint.strip()}')
    return output


def launch(words: Sequence[str], log: str) -> None:
    """Begin a program that goes on when the agent ends, with what it says in a file.

    :raises HostError: it cannot be run
    """
    # setsid --fork leaves it to init: no zombie here, and no Ctrl-C there.
    with open(os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), 'ab') as out:
        try:
            subprocess.run(['setsid', '--fork', *words], stdin=subprocess.DEVNULL, stdout=out,
                           stderr=out, cwd='/', check=True)
        except (OSError, subprocess.SubprocessError) as exc:
            raise errors.HostError(reason=f'{words[0]}: {exc}') from None


def find(program: str, path: str) -> list[int]:
    """Those that run this program with arguments that have this path."""
    return [int(name) for name in os.listdir('/proc') if name.isdigit()
            and _is(int(name), program, path)]


def end(program: str, path: str) -> None:
    """End them: asked first, then forced.

    :raises HostError: one is still there
    """
    for pid in find(program, path):
        with contextlib.suppress(ProcessLookupError):
            # The number stands for that very process as long as this is open.
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
