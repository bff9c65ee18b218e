"""The whole service as a process of its own: started, stopped, killed, started again.

What a consumer tests against, what the quickstart plays on: `blockattach-all` on loopback, with a
state directory that is gone afterwards unless the caller brings one.
"""
import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import IO

import blockattach
from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import ports

START_SECONDS = 120.0
STOP_SECONDS = 120.0

LIMITLESS = {'quota_volumes': '-1', 'quota_gigabytes': '-1', 'quota_snapshots': '-1'}
"""Of ``[quota]``: a test makes as many as it likes."""

_READY = re.compile(r'^blockattach serves at (?P<url>\S+)/v3 \(state in (?P<state>.*)\)$')
_ADDRESS = ports.LOOPBACK
_LOG_LINES = 10


class StackRefused(Exception):
    """The service did not start. ``status`` is its exit status, None if it had to be killed."""

    def __init__(self, status: int | None, words: str) -> None:
        super().__init__(words or f'blockattach-all ended with status {status}')
        self.status = status
        self.words = words


class Stack:
    """One `blockattach-all`. As a context manager it starts at the beginning and stops at the end.

    :param backend: ``fake`` (in memory) or ``file`` (sparse files on a tgtd of its own)
    :param state_dir: kept when given; else a temporary folder, removed with `remove`
    :param port: 0 takes a free one; a restart listens on the same
    :param settings: text of a configuration file, for instance ``[volume]\\nstats_seconds = 1``
    :param environment: variables set besides ours
    :param log_path: where log and standard error are appended; default: beside the temporary state
    """

    def __init__(self, backend: str = 'fake', state_dir: str | None = None, port: int = 0,
                 settings: str = '', environment: Mapping[str, str] | None = None,
                 log_path: str | None = None) -> None:
        self._own = tempfile.TemporaryDirectory(prefix='blockattach-')
        self._backend = backend
        self._port = port or free_port()
        self.target_port = 0
        if backend == 'file' and 'target_port' not in settings:
            # The first free one, which it would take, somebody else has found by the time that it
            # is started again.
            self.target_port = free_port()
            settings += f'\n[file]\ntarget_port = {self.target_port}\n'
        # What the caller says comes later, and counts.
        self._settings = _limitless() + settings
        self.environment = dict(environment or {})
        self._process: subprocess.Popen[str] | None = None
        self.state_dir = state_dir or os.path.join(self._own.name, 'state')
        self.log_path = log_path or os.path.join(self._own.name, 'log')
        self.url = ''

    def __enter__(self) -> 'Stack':
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            self.stop()
        finally:
            self.remove()

    @property
    def endpoint(self) -> str:
        """What clients call the service: its address with the version."""
        return f'{self.url}/v3'

    @property
    def pid(self) -> int:
        """The process that serves."""
        assert self._process is not None
        return self._process.pid

    def target(self) -> tgtd.Tgtd:
        """The target of one on files, whether it runs or not."""
        return tgtd.Tgtd(self.state_dir, (_ADDRESS,), self.target_port)

    def running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it and wait until it serves.

        :raises StackRefused: it does not; its output is in the exception
        """
        begin = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        with open(self.log_path, 'ab') as log:
            self._process = self.begin(self._arguments(), log)
        ready = self._first_line()
        if ready is None:
            status = self._end(None)
            # It has never served: a tgtd on this state directory is somebody else's.
            self._process = None
            raise StackRefused(status, self._log_end(begin))
        self.url, self.state_dir = ready['url'], ready['state']

    def begin(self, arguments: list[str], log: IO[bytes]) -> 'subprocess.Popen[str]':
        """The process of `blockattach-all` with these arguments; its standard output is a pipe."""
        # A session of its own: Ctrl-C reaches our parent only, which stops it in order.
        return subprocess.Popen(
            [sys.executable, '-m', 'blockattach.cmd.allinone', *arguments],
            env=self._full_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=log, text=True, start_new_session=True)

    def stop(self) -> None:
        """Stop it in order, and its tgtd with it; one that has ended already is fine.

        :raises TimeoutError: it did not stop by itself and was killed
        """
        if self._process is None:
            return
        late = self.running() and self._end(signal.SIGTERM) is None
        if self._process.returncode != 0 and self._backend == 'file':
            self.target().stop()
        self._process = None
        if late:
            raise TimeoutError(f'blockattach-all did not stop within {STOP_SECONDS:.0f} s')

    def kill(self) -> None:
        """End it as a power cut of the service would: its tgtd and what it stored stay."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start again on the same state and the same port; in order if it still runs."""
        if self.running():
            self.stop()
        self.start()

    def remove(self) -> None:
        """Remove what was temporary."""
        self._own.cleanup()

    def log_text(self) -> str:
        """All that the service has logged, in whole lines: one may be half there yet."""
        with open(self.log_path, encoding='utf-8', errors='replace') as log:
            text = log.read()
        return text[:text.rfind('\n') + 1]

    def _arguments(self) -> list[str]:
        arguments = ['--state-dir', self.state_dir, '--listen', f'{_ADDRESS}:{self._port}',
                     '--backend', self._backend, '--log-file', os.path.abspath(self.log_path)]
        if self._settings:
            path = os.path.join(self._own.name, 'blockattach.conf')
            with open(path, 'w', encoding='utf-8') as file:
                file.write(self._settings)
            arguments += ['--config-file', path]
        return arguments

    def _full_environment(self) -> dict[str, str]:
        """Ours, with the package that we are part of found first."""
        root = os.path.dirname(os.path.dirname(os.path.abspath(blockattach.__file__)))
        paths = [root, *filter(None, [os.environ.get('PYTHONPATH')])]
        return {**os.environ, 'PYTHONPATH': os.pathsep.join(paths), **self.environment}

    def _first_line(self) -> re.Match[str] | None:
        """The line that says where it serves; None if it ends, or prints none in time."""
        assert self._process is not None and self._process.stdout is not None
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_pass_on, args=(self._process.stdout, lines), daemon=True).start()
        with contextlib.suppress(queue.Empty):
            return _READY.match(lines.get(timeout=START_SECONDS).rstrip('\n'))
        return None

    def _end(self, number: signal.Signals | None) -> int | None:
        """Send a signal and wait; the exit status, None if it had to be killed after all."""
        assert self._process is not None
        if number is not None:
            self._process.send_signal(number)
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
            return None

    def _log_end(self, begin: int) -> str:
        with open(self.log_path, encoding='utf-8', errors='replace') as log:
            log.seek(begin)
            return '\n'.join(log.read().splitlines()[-_LOG_LINES:])


def free_port() -> int:
    """A port that nobody listens on, and nobody else is given.

    Chosen before the service starts: a given port can be used again at once after a crash, while
    its last connections are still closing.
    """
    return ports.free_port()


def _pass_on(stream: IO[str], lines: 'queue.Queue[str]') -> None:
    """Keep reading, so that the service never waits for us; an empty line is the end."""
    with stream:
        for line in stream:
            lines.put(line)
    lines.put('')


def _limitless() -> str:
    return '[quota]\n' + ''.join(f'{name} = {value}\n' for name, value in LIMITLESS.items())
