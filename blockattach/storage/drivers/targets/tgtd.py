"""A tgtd of our own: started without rights, found again after a restart, ended with certainty.

tgtd outlives us on purpose: it runs in its own session, so that neither Ctrl-C nor the end of the
service ends the sessions of initiators. Its own socket identifies the process (the kernel names
the listener), so a stale pid file cannot make us end another one.
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

# -C only has to differ from 0, the machine's own tgtd; the folder distinguishes ours.
_CONTROL_PORT = '1'
_IO_THREADS = '4'
# Always available. A tgtd that finds none of its portals free would open one on all addresses; so
# it starts on this one, gets the real ones over its socket and closes this one.
_FIRST_PORTAL = '127.0.0.1:0'
# Not 3260: a target of the distribution's own, installed along with tgt, takes it at each boot.
_FIRST_PORT = 13260
_PORTS_TRIED = 1000
_PATH_LIMIT = 107
_START_SECONDS = 15.0
_STOP_SECONDS = 10.0
_TICK = 0.02
# Debian has daemons outside of the search path of ordinary users.
_SEARCH = ('/usr/local/sbin', '/usr/sbin', '/sbin')
_FOLDER_MODE = 0o700
_CLEARING = {'MALLOC_PERTURB_': '170'}
"""In tgtd's environment: it answers some commands with buffers that it never filled, and glibc
then overwrites each when it is freed and when it is taken (mallopt(3), M_PERTURB)."""


def program() -> str | None:
    """Where tgtd is installed, if it is."""
    return shutil.which('tgtd') or shutil.which('tgtd', path=os.pathsep.join(_SEARCH))


class Tgtd:
    """The process, its socket and its portals, one for each address.

    ``port`` 0 takes the first from 13260 on that is free at all of them.
    """

    def __init__(self, state_dir: str, addresses: Iterable[str], port: int,
                 clock: clocks.Clock | None = None) -> None:
        self._folder = os.path.join(os.path.abspath(state_dir), 'tgtd')
        self._addresses = tuple(f'[{address}]' if ':' in address else address
                                for address in dict.fromkeys(addresses))
        self._wanted_port = port
        self._clock = clock or clocks.Clock()
        self._lock = threading.Lock()
        self._socket_path: str | None = None

    def client(self) -> tgt_socket.Client:
        """Speaks to it; also when it is not running."""
        return tgt_socket.Client(self._control_socket())

    def portals(self) -> tuple[str, ...]:
        """Each ``address:port`` of the connections that hosts get, the first one first."""
        return self._at(self._wanted_port or self._remembered_port() or _FIRST_PORT)

    def start(self) -> None:
        """Start it, or find it running.

        :raises ConfigurationError: it cannot be started; the text says why
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
        """The process, whether or not it answers, as the last start has noted it in the pid file,
        if that very process is still running.
        """
        words = (self._recall('pid') or '').split()
        if len(words) != 2 or not words[0].isdigit():
            return None
        pid = int(words[0])
        return pid if _started_at(pid) == words[1] and _is_tgtd(pid) else None

    def sessions(self) -> int | None:
        """How many hosts are logged in, one that uses two volumes twice; None: no answer."""
        try:
            return sum(len(target.sessions) for target in self.client().targets())
        except errors.BackendError:
            return None

    def stop(self) -> None:
        """End it, whatever it serves; its sessions end with it. One that is not there is fine."""
        with self._lock, self._alone():
            pid = self._listener() or self.pid()
            if pid is None:
                return
            with contextlib.suppress(errors.BackendError):
                self.client().shut_down()
            born = _started_at(pid)
            if born is not None and _is_tgtd(pid):
                _kill(pid)
            if not self._clock.until(lambda: _started_at(pid) is None or
                                     _started_at(pid) != born, _STOP_SECONDS, _TICK):
                LOG.error('Failed to stop tgtd, still running after SIGKILL%s',
                          log.fields(pid=pid))
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
        # setsid --fork leaves it to init: no zombie here, and no Ctrl-C there.
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
        """Make it listen on the configured portals, and nowhere else."""
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
        """Do not leave behind a process that nobody can use; one that serves is left alone."""
        with contextlib.suppress(errors.BackendError):
            pid = client.pid()
            if not client.targets() and _is_tgtd(pid):
                _kill(pid)

    def _wait_for_answer(self, pid: int) -> None:
        if not self._clock.until(self.running, _START_SECONDS, _TICK):
            raise errors.ConfigurationError(
                reason=f'tgtd (process {pid}) is running but does not answer; stop the process '
                       f'manually')

    def _refuse_mute(self) -> None:
        """A tgtd without its socket would serve volumes that nothing can revoke."""
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
        """The socket: under the state directory, or elsewhere if that path is too long."""
        if self._socket_path is None:
            path = os.path.join(self._folder, f'socket.{_CONTROL_PORT}')
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
        os.replace(f'{path}.new', path)

    def _make_folder(self) -> None:
        try:
            os.makedirs(self._folder, mode=_FOLDER_MODE, exist_ok=True)
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot use {self._folder}: {exc.strerror}') from exc

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Two services of one state directory do not both start a tgtd."""
        self._make_folder()
        with open(os.path.join(self._folder, 'lock'), 'w', encoding='utf-8') as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _log_end(self) -> str:
        with open(os.path.join(self._folder, 'log'), encoding='utf-8', errors='replace') as file:
            lines = file.read().splitlines()
        return ' | '.join(lines[-3:])


def warn_of_memory(pid: int) -> None:
    """Say in the log that a tgtd was begun in a way that lets hosts read what others have written.
    """
    try:
        with open(f'/proc/{pid}/environ', 'rb') as file:
            clears = {f'{name}={value}'.encode() for name, value in _CLEARING.items()} <= set(
                file.read().split(b'\0'))
    except OSError:
        clears = False
    if not clears:
        LOG.warning('tgtd started without memory clearing, hosts may receive data of other hosts; '
                    'restart tgtd with %s in its environment%s',
                    ' '.join(f'{name}={value}' for name, value in _CLEARING.items()),
                    log.fields(pid=pid))


def _open_all(client: tgt_socket.Client, portals: Iterable[str]) -> bool:
    """Listen on each of them, or on no other than before."""
    present = client.portals()
    opened: list[str] = []
    for portal in portals:
        if portal in present:
            continue
        try:
            client.add_portal(portal)
        except tgt_socket.Rejected:
            for one in opened:
                client.delete_portal(one)
            return False
        opened.append(portal)
    return True


def _started_at(pid: int) -> str | None:
    """When a process began, in the kernel's ticks; None once it has ended."""
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as file:
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
    """tgtd ignores every gentle signal."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _raise_file_limit(pid: int) -> None:
    """Each grant costs tgtd an open file, each session another one."""
    with contextlib.suppress(OSError, ValueError):
        _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))


def _is_private(folder: str) -> bool:
    """Ours alone: in a shared folder another user may have made it."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return (stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
            and stat.S_IMODE(found.st_mode) == _FOLDER_MODE)
