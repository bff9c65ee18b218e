"""One outside program, run to its end or to its deadline: never by a shell, and with no terminal.

What goes wrong crosses the border between processes as an exception that carries plain values.
"""
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from collections.abc import Sequence

_GRACE_SECONDS = 5.0


class CommandFailed(Exception):
    """It ended by itself with another code than 0."""

    def __init__(self, command: str, code: int, complaint: str) -> None:
        super().__init__(command, code, complaint)
        self.command = command
        self.code = code
        self.complaint = complaint


class CommandMissing(Exception):
    """There is no such program, or it cannot be run: nothing happened."""

    def __init__(self, program: str, reason: str) -> None:
        super().__init__(program, reason)
        self.program = program
        self.reason = reason


class CommandHung(Exception):
    """It had not ended when its time was up, and was killed: what it did is not known."""

    def __init__(self, command: str, seconds: float) -> None:
        super().__init__(command, seconds)
        self.command = command
        self.seconds = seconds


def run(words: Sequence[str], seconds: float, environment: Mapping[str, str]) -> str:
    """What the program says on standard output.

    :param environment: beside PATH, everything that it sees of ours
    :raises CommandFailed, CommandMissing, CommandHung: as the classes say
    """
    cleaned = {'PATH': os.environ.get('PATH', os.defpath), 'LC_ALL': 'C', **environment}
    try:
        process = subprocess.Popen(
            words, env=cleaned, cwd='/', stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, errors='replace', start_new_session=True)
    except OSError as exc:
        raise CommandMissing(words[0], exc.strerror or str(exc)) from None
    command = ' '.join(words[:2])
    try:
        output, complaint = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        _kill(process)
        raise CommandHung(command, seconds) from None
    if process.returncode:
        raise CommandFailed(command, process.returncode, complaint.strip())
    return output


def _kill(process: subprocess.Popen[str]) -> None:
    """End it and its children. One that is blocked in the kernel ends when that call does."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=_GRACE_SECONDS)
