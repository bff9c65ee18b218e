"""Supervision of a tgtd process that the service starts itself, without privileges.

tgtd outlives the service on purpose. tgtd runs in a process session of its own, so that neither
Ctrl-C nor the end of the service ends the iSCSI sessions of hosts. After a restart, the service
finds the running tgtd by its socket. The kernel reports which process listens on the socket, so a
stale pid file can never cause another process to be killed.
"""
import contextlib
import fcntl
import os
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from collections.abc import Iterator

from oslo_log import log as oslo_log

from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.platform import log
from blockattach.storage.drivers.targets import tgt_socket

LOG = oslo_log.getLogger(__name__)

# Value of the option -C. The value 0 is that of the tgtd of the system. All tgtd processes of this
# project have the same value, because each has a directory of its own for its socket.
_CONTROL_PORT = '1'
_IO_THREADS = '4'
# Portal on which tgtd can always start. A tgtd whose portals are all in use would open one on all
# addresses. Therefore tgtd starts on this portal, the real portals are opened by requests on its
# socket, and then this portal is closed.
_FIRST_PORTAL = '127.0.0.1:0'
# First port to try. Port 3260 is not tried, because the tgt service of the distribution, which is
# installed along with tgt, takes it at each boot.
_FIRST_PORT = 13260
_PORTS_TRIED = 1000
_PATH_LIMIT = 107
_START_SECONDS = 15.0
_STOP_SECONDS = 10.0
_TICK = 0.02
# Debian installs daemons outside of the PATH of ordinary users.
_SEARCH = ('/usr/local/sbin', '/usr/sbin', '/sbin')
_FOLDER_MODE = 0o700
_CLEARING = {'MALLOC_PERTURB_': '170'}
"""Additional environment of tgtd, which answers some SCSI commands with uninitialized buffers.
With this variable, glibc overwrites each buffer when it is allocated and when it is freed
(mallopt(3), M_PERTURB), so that hosts do not receive data of other hosts."""


def program() -> str | None:
    """Return the path of the tgtd program, or None if it is not installed."""
    return shutil.which('tgtd') or shutil.which('tgtd', path=os.pathsep.join(_SEARCH))


class Tgtd:
    """tgtd process with its socket and its portals."""

    def __init__(self, state_dir: str, addresses: Iterable[str], port: int,
                 clock: clocks.Clock | None = None) -> None:
        """Create the supervisor without starting tgtd.

        :param state_dir: directory below which the socket, the log and the pid file are kept
        :param addresses: IP addresses, each of which gets one portal
        :param port: port of all portals; 0 for the first port from 13260 on that is free on all
            addresses
        """
        self._folder = os.path.join(os.path.abspath(state_dir), 'tgtd')
        self._addresses = tuple(f'[{address}]' if ':' in address else address
                                for address in dict.fromkeys(addresses))
        self._wanted_port = port
        self._clock = clock or clocks.Clock()
        self._lock = threading.Lock()
        self._socket_path: str | None = None

    def client(self) -> tgt_socket.Client:
        """Return a client for the socket of tgtd, whether or not tgtd is running."""
        return tgt_socket.Client(self._control_socket())

    def portals(self) -> tuple[str, ...]:
        """Return ``address:port`` of each portal, in the order in which hosts receive them."""
        return self._at(self._wanted_port or self._remembered_port() or _FIRST_PORT)

    def start(self) -> None:
        """Start tgtd unless it is running, and open its portals.

        :raises ConfigurationError: if tgtd cannot be started or used; the text says why
        """
        with self._lock, self._alone():
            pid = self._listener()
            if pid is not None:
                self._wait_for_answer(pid)
                LOG.info('tgtd found running%s', log.fields(pid=pid, portals=self.portals()))
                warn_of_memory(pid)
            else:
                self._refuse_mute()
                pid = self._launch()
                LOG.info('tgtd started%s', log.fields(pid=pid))
            self._remember('pid', f'{pid} {_started_at(pid)}')
            self._open_portals()

    def running(self) -> bool:
        """Return True if tgtd answers requests now."""
        return self.client().answers()

    def pid(self) -> int | None:
        """Return the process id from the pid file, or None if that process has ended.

        Without a pid file, the result is None. The process may be running without answering
        requests.
        """
        words = (self._recall('pid') or '').split()
        if len(words) != 2 or not words[0].isdigit():
            return None
        pid = int(words[0])
        # The kernel reuses process ids, so the start time must match too.
        return pid if _started_at(pid) == words[1] and _is_tgtd(pid) else None

    def sessions(self) -> int | None:
        """Return the number of iSCSI sessions, or None if tgtd does not answer.

        A host has one session for each volume that it uses.
        """
        try:
            return sum(len(target.sessions) for target in self.client().targets())
        except errors.BackendError:
            return None

    def stop(self) -> None:
        """Stop tgtd, even if it has targets and sessions, which end with it.

        Succeeds if tgtd is not running.
        """
        with self._lock, self._alone():
            pid = self._listener() or self.pid()
            if pid is None:
                return
            # tgtd refuses to shut down while it has targets, and is then killed.
            with contextlib.suppress(errors.BackendError):
                self.client().shut_down()
            # Once tgtd has ended, another process may have the same id.
            born = _started_at(pid)
            if born is not None and _is_tgtd(pid):
                _kill(pid)
            if not self._clock.until(lambda: _started_at(pid) is None or
                                     _started_at(pid) != born, _STOP_SECONDS, _TICK):
                LOG.error('Failed to stop tgtd%s', log.fields(
                    pid=pid, reason=f'still running after {_STOP_SECONDS} s'))
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(self._folder, 'pid'))
            LOG.info('tgtd stopped%s', log.fields(pid=pid))

    def _launch(self) -> int:
        found = program()
        if found is None:
            raise errors.ConfigurationError(
                reason='tgtd is not installed; install the Debian package tgt, or set tgt_socket '
                       'to the socket of a running tgtd')
        environment = {**os.environ, **_CLEARING,
                       'TGT_IPC_SOCKET': self._control_socket().rpartition('.')[0]}
        log_path = os.path.join(self._folder, 'log')
        # With setsid --fork, init becomes the parent of tgtd. The service need not reap it, and
        # Ctrl-C does not reach it.
        command = ['setsid', '--fork', found, '-f', '-C', _CONTROL_PORT, '-t', _IO_THREADS,
                   '--iscsi', f'portal={_FIRST_PORTAL}']
        with open(os.open(log_path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), 'ab') as out:
            try:
                subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=out,
                               stderr=out, cwd='/', check=True, timeout=_START_SECONDS)
            except (OSError, subprocess.SubprocessError) as exc:
                raise errors.ConfigurationError(reason=f'cannot start tgtd: {exc}') from exc
        if not self._clock.until(lambda: self._listener() is not None, _START_SECONDS, _TICK):
            raise errors.ConfigurationError(
                reason=f'cannot start tgtd; the end of its log: {self._log_end()}')
        pid = self._listener()
        assert pid is not None
        _raise_file_limit(pid)
        self._wait_for_answer(pid)
        return pid

    def _open_portals(self) -> None:
        """Make tgtd listen on the configured portals and on no others.

        :raises ConfigurationError: if a portal cannot be opened, or tgtd does not answer
        """
        client = self.client()
        try:
            if not self._listens(client):
                self._close_unused(client)
                raise errors.ConfigurationError(
                    reason=f'tgtd cannot listen on {", ".join(self.portals())}: the port is in '
                           f'use, or an address is not on this host (target_ip_address, '
                           f'target_secondary_ip_addresses, target_port)')
            for portal in client.portals():
                if portal not in self.portals():
                    client.delete_portal(portal)
        except errors.BackendError as exc:
            raise errors.ConfigurationError(reason=f'cannot use tgtd: {exc}') from exc

    def _listens(self, client: tgt_socket.Client) -> bool:
        if self._wanted_port or self._remembered_port():
            return _open_all(client, self.portals())
        for port in range(_FIRST_PORT, _FIRST_PORT + _PORTS_TRIED):
            if _open_all(client, self._at(port)):
                self._remember('port', str(port))
                return True
        return False

    def _at(self, port: int) -> tuple[str, ...]:
        return tuple(f'{address}:{port}' for address in self._addresses)

    def _close_unused(self, client: tgt_socket.Client) -> None:
        with contextlib.suppress(errors.BackendError):
            pid = client.pid()
            # A tgtd without portals and targets is of no use. A tgtd with targets may still serve
            # hosts.
            if not client.targets() and _is_tgtd(pid):
                _kill(pid)

    def _wait_for_answer(self, pid: int) -> None:
        if not self._clock.until(self.running, _START_SECONDS, _TICK):
            raise errors.ConfigurationError(
                reason=f'tgtd (process {pid}) is running but does not answer; stop the process '
                       f'manually')

    def _refuse_mute(self) -> None:
        """Raise ConfigurationError if tgtd is running but does not listen on its socket.

        Such a tgtd still serves volumes, but access to the volumes can no longer be revoked.
        """
        pid = self.pid()
        if pid is not None:
            raise errors.ConfigurationError(
                reason=f'tgtd (process {pid}) is running but has lost its socket '
                       f'{self._control_socket()}; stop the process manually')

    def _listener(self) -> int | None:
        try:
            pid = self.client().pid()
        except tgt_socket.Unanswered:
            return None
        return pid if _is_tgtd(pid) else None

    def _remembered_port(self) -> int | None:
        text = self._recall('port') or ''
        return int(text) if text.isdigit() else None

    def _control_socket(self) -> str:
        if self._socket_path is None:
            path = os.path.join(self._folder, f'socket.{_CONTROL_PORT}')
            # The address of a Unix socket is too short for some state directories.
            if len(os.fsencode(path)) > _PATH_LIMIT:
                path = os.path.join(self._short_folder(), f'socket.{_CONTROL_PORT}')
            self._socket_path = path
        return self._socket_path

    def _short_folder(self) -> str:
        self._make_folder()
        remembered = self._recall('socket_folder')
        if remembered is not None and _is_private(remembered):
            return remembered
        runtime = os.environ.get('XDG_RUNTIME_DIR')
        if runtime is None or not os.path.isdir(runtime) or len(runtime) > _PATH_LIMIT - 40:
            runtime = '/tmp'
        folder = tempfile.mkdtemp(prefix='blockattach-', dir=runtime)
        self._remember('socket_folder', folder)
        return folder

    def _recall(self, name: str) -> str | None:
        try:
            with open(os.path.join(self._folder, name), encoding='utf-8') as file:
                return file.read().strip()
        except FileNotFoundError:
            return None

    def _remember(self, name: str, text: str) -> None:
        path = os.path.join(self._folder, name)
        with open(f'{path}.new', 'w', encoding='utf-8') as file:
            file.write(f'{text}\n')
        # A crash while the file is written must not leave half of it under its name.
        os.replace(f'{path}.new', path)

    def _make_folder(self) -> None:
        try:
            os.makedirs(self._folder, mode=_FOLDER_MODE, exist_ok=True)
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot use {self._folder}: {exc.strerror}') from exc

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        self._make_folder()
        with open(os.path.join(self._folder, 'lock'), 'w', encoding='utf-8') as file:
            # Without the lock, two processes could both find no tgtd, and each could start one in
            # this directory.
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _log_end(self) -> str:
        with open(os.path.join(self._folder, 'log'), encoding='utf-8', errors='replace') as file:
            lines = file.read().splitlines()
        return ' | '.join(lines[-3:])


def warn_of_memory(pid: int) -> None:
    """Log a warning if tgtd was started without the environment variables of `_CLEARING`.

    Without these variables, hosts may receive data of other hosts. A warning is also logged if the
    environment of tgtd cannot be read.
    """
    try:
        with open(f'/proc/{pid}/environ', 'rb') as file:
            clears = {f'{name}={value}'.encode() for name, value in _CLEARING.items()} <= set(
                file.read().split(b'\0'))
    except OSError:
        clears = False
    if not clears:
        missing = ' '.join(f'{name}={value}' for name, value in _CLEARING.items())
        LOG.warning('Cannot confirm memory clearing of tgtd, hosts may receive data of other '
                    'hosts%s', log.fields(
                        pid=pid, reason=f'{missing} not found in the environment of tgtd; restart '
                                        'tgtd with these variables'))


def _open_all(client: tgt_socket.Client, portals: Iterable[str]) -> bool:
    """Open the portals that are not open yet, or none of them if one cannot be opened.

    :returns: False if tgtd cannot open one of the portals
    """
    present = client.portals()
    opened: list[str] = []
    for portal in portals:
        if portal in present:
            continue
        try:
            client.add_portal(portal)
        except tgt_socket.Rejected:
            for extra in opened:
                client.delete_portal(extra)
            return False
        opened.append(portal)
    return True


def _started_at(pid: int) -> str | None:
    """Return the start time of a process in clock ticks, or None if the process has ended."""
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as file:
            # The name of the program, in parentheses, may contain spaces and parentheses itself
            # (proc(5)).
            fields = file.read().rpartition(')')[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in 'ZX' else fields[19]


def _is_tgtd(pid: int) -> bool:
    try:
        with open(f'/proc/{pid}/comm', encoding='utf-8', errors='replace') as file:
            return file.read().strip() == 'tgtd' and _started_at(pid) is not None
    except (FileNotFoundError, ProcessLookupError):
        return False


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        # tgtd ignores SIGTERM and SIGINT.
        os.kill(pid, signal.SIGKILL)


def _raise_file_limit(pid: int) -> None:
    # tgtd needs one open file for each grant, and another one for each session.
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))


def _is_private(folder: str) -> bool:
    try:
        # Another user may have created a directory or a link of this name in a shared directory
        # such as /tmp.
        status = os.lstat(folder)
    except OSError:
        return False
    return (stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            and stat.S_IMODE(status.st_mode) == _FOLDER_MODE)
