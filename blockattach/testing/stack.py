"""Complete service in a process of its own, which can be stopped, killed and restarted.

Consumer tests and the quickstart run `blockattach-all` on the loopback address, with a temporary
state directory unless the caller names one.
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
"""Options of ``[quota]`` that permit unlimited volumes, gigabytes and snapshots."""

_READY = re.compile(r'^blockattach serves at (?P<url>\S+)/v3 \(state in (?P<state>.*)\)$')
_ADDRESS = ports.LOOPBACK
_LOG_LINES = 10


class StackRefused(Exception):
    """Error of a service that failed to start.

    :ivar status: exit status, or None if the process had to be killed
    :ivar words: last lines of the service log
    """

    def __init__(self, status: int | None, words: str) -> None:
        super().__init__(words or f'blockattach-all ended with status {status}')
        self.status = status
        self.words = words


class Stack:
    """Instance of `blockattach-all`, and a context manager that starts and stops it.

    :param backend: ``fake`` (in memory) or ``file`` (sparse files, exported by a separate tgtd)
    :param state_dir: state directory, which is kept; None for a temporary directory, which
        `remove` deletes
    :param port: port of the API, also after a restart; 0 for any free port
    :param settings: text of a configuration file, for instance ``[volume]\\nstats_seconds = 1``
    :param environment: additional environment variables
    :param log_path: file to which the log and the standard error are appended; None for a
        temporary file
    """

    def __init__(self, backend: str = 'fake', state_dir: str | None = None, port: int = 0,
                 settings: str = '', environment: Mapping[str, str] | None = None,
                 log_path: str | None = None) -> None:
        self._own = tempfile.TemporaryDirectory(prefix='blockattach-')
        self._backend = backend
        self._port = port or free_port()
        self.target_port = 0
        if backend == 'file' and 'target_port' not in settings:
            # Another process could get the port that the service chooses itself while the service
            # restarts.
            self.target_port = free_port()
            settings += f'\n[file]\ntarget_port = {self.target_port}\n'
        # Settings of the caller come last and take precedence.
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
        """URL of the Block Storage API, with the version."""
        return f'{self.url}/v3'

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def target(self) -> tgtd.Tgtd:
        """Return the supervisor of the tgtd of a file backend, whether or not tgtd is running."""
        return tgtd.Tgtd(self.state_dir, (_ADDRESS,), self.target_port)

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the service and wait until it is ready.

        :raises StackRefused: if the service does not start
        """
        begin = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        with open(self.log_path, 'ab') as log:
            self._process = self.begin(self._arguments(), log)
        ready = self._first_line()
        if ready is None:
            status = self._end(None)
            # The service has never been ready, so a tgtd of this directory belongs to another
            # service, and must not be stopped by `stop`.
            self._process = None
            raise StackRefused(status, self._log_end(begin))
        self.url, self.state_dir = ready['url'], ready['state']

    def begin(self, arguments: list[str], log: IO[bytes]) -> 'subprocess.Popen[str]':
        """Start `blockattach-all` with the given arguments, and its standard output as a pipe."""
        # A new session, so that Ctrl-C reaches only this process, which stops the service.
        return subprocess.Popen(
            [sys.executable, '-m', 'blockattach.cmd.allinone', *arguments],
            env=self._full_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=log, text=True, start_new_session=True)

    def stop(self) -> None:
        """Stop the service by SIGTERM, with its tgtd. Succeeds if the service has ended already.

        :raises TimeoutError: if the service did not stop in time, and was killed
        """
        if self._process is None:
            return
        late = self.running() and self._end(signal.SIGTERM) is None
        # A service that has ended in order has stopped its tgtd.
        if self._process.returncode != 0 and self._backend == 'file':
            self.target().stop()
        self._process = None
        if late:
            raise TimeoutError(f'blockattach-all did not stop within {STOP_SECONDS:.0f} s')

    def kill(self) -> None:
        """Kill the service. Its tgtd and the stored data stay, as after a crash."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Restart the service with the same state directory and port.

        A running service is stopped first, with its tgtd.
        """
        if self.running():
            self.stop()
        self.start()

    def remove(self) -> None:
        """Delete the temporary files."""
        self._own.cleanup()

    def log_text(self) -> str:
        """Return the complete lines of the service log."""
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
        """Return the environment of the service, whose PYTHONPATH begins with this package."""
        root = os.path.dirname(os.path.dirname(os.path.abspath(blockattach.__file__)))
        paths = [root, *filter(None, [os.environ.get('PYTHONPATH')])]
        return {**os.environ, 'PYTHONPATH': os.pathsep.join(paths), **self.environment}

    def _first_line(self) -> re.Match[str] | None:
        """Wait for the line that reports the service as ready, and return its match.

        :returns: None if the service ends, prints another line first, or prints no line in time
        """
        assert self._process is not None and self._process.stdout is not None
        lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_pass_on, args=(self._process.stdout, lines), daemon=True).start()
        with contextlib.suppress(queue.Empty):
            return _READY.match(lines.get(timeout=START_SECONDS).rstrip('\n'))
        return None

    def _end(self, number: signal.Signals | None) -> int | None:
        """Send a signal to the process, unless ``number`` is None, and wait for its end.

        :returns: exit status, or None if the process had to be killed
        """
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
    """Return a free port, reserved until this process ends.

    A service can listen on such a fixed port again at once after a crash, while the last
    connections of the port are still closing.
    """
    return ports.free_port()


def _pass_on(stream: IO[str], lines: 'queue.Queue[str]') -> None:
    """Read the lines of a stream into a queue, so that the service never blocks on its output.

    An empty line in the queue marks the end of the stream.
    """
    with stream:
        for line in stream:
            lines.put(line)
    lines.put('')


def _limitless() -> str:
    return '[quota]\n' + ''.join(f'{name} = {value}\n' for name, value in LIMITLESS.items())
