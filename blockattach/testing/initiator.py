"""Host with QEMU's user-space iSCSI initiator, which needs no kernel module and no privileges.

    host = initiator.Initiator('iqn.2026-01.org.example:host-a')
    with host.open(connection_info) as session:
        session.write(0, 4096, 0x5a)
        assert session.read(0, 4096, 0x5a)

``connection_info`` has the format of the Block Storage API. Every wait has a timeout, because
libiscsi reconnects a cut session for ever. The secret is passed in a file
that only its owner can read.
"""
import contextlib
import os
import queue
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import Self

from blockattach.platform import clock as clocks
from blockattach.storage.domain import connection as connections

PROGRAM = 'qemu-io'
_PROMPT = b'qemu-io> '
# libiscsi reports each failed reconnect at this level.
_TELLS_OF_CUTS = {'LIBISCSI_DEBUG': '1'}
_CUT = re.compile(rb'reconnect try \d+ failed')


class InitiatorError(Exception):
    """Error of a failed operation, with the text of the initiator."""


class LoginRefused(InitiatorError):
    """Error of a login that the target rejected, for example because of the credential."""


class WriteRefused(InitiatorError):
    """Error of a failed write, or of a login for writing to a write-protected disk."""


class ReadFailed(InitiatorError):
    """Error of a read to which the target responded with an error."""


class SessionLost(InitiatorError):
    """Error of a session that was cut, or whose target or initiator does not respond in time."""


def available() -> bool:
    """Return True if the initiator is installed.

    The Debian packages are qemu-utils and qemu-block-extra.
    """
    return shutil.which(PROGRAM) is not None


class Initiator:
    """Host with one iSCSI initiator name, which opens sessions."""

    def __init__(self, name: str, timeout: float = 15.0, comes_back: bool = True) -> None:
        """Create the host without logging in.

        :param timeout: timeout in seconds of a login or a transfer
        :param comes_back: True if a cut session may reconnect until the timeout; False if the
            session is lost as soon as a reconnect fails
        """
        self.name = name
        self._timeout = timeout
        self._comes_back = comes_back

    def open(self, connection_info: Mapping[str, Any], read_only: bool = False) -> 'Session':
        """Log in, and return the open session.

        :param connection_info: ``connection_info`` of the API, or its ``data``
        :param read_only: True to open the disk for reading only
        :raises LoginRefused: if the target rejects the initiator name or the credential
        :raises WriteRefused: if the access is read-only and ``read_only`` is False
        :raises SessionLost: if the target does not respond
        """
        info = connection_info.get('data', connection_info)
        options = {
            'driver': 'iscsi', 'transport': 'tcp', 'portal': info['target_portal'],
            'target': info['target_iqn'], 'lun': info['target_lun'], 'initiator-name': self.name,
        }
        command = [PROGRAM, *(['-r'] if read_only else [])]
        with _secret_file(info.get('auth_password')) as path:
            if path is not None:
                options |= {'user': info['auth_username'], 'password-secret': 'chap'}
                command += ['--object', f'secret,id=chap,file={_quoted(path)}']
            image = ','.join(f'{name}={_quoted(value)}' for name, value in options.items())
            return Session([*command, '--image-opts', image], self._timeout, self._comes_back)

    def can_log_in(self, connection_info: Mapping[str, Any]) -> bool:
        """Log in read-only and log out, and return False if the target rejects the login."""
        try:
            self.open(connection_info, read_only=True).close()
        except LoginRefused:
            return False
        return True


class Session:
    """iSCSI session that stays open until `close`. Offsets and lengths are in bytes."""

    def __init__(self, command: list[str], timeout: float, comes_back: bool = True) -> None:
        self._timeout = timeout
        self._comes_back = comes_back
        self._clock = clocks.Clock()
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=None if comes_back else {**os.environ, **_TELLS_OF_CUTS})
        # Reading a pipe has no timeout. A thread reads it, and `_answer` waits for a queue.
        self._reader = threading.Thread(target=self._read_answers, daemon=True)
        self._reader.start()
        try:
            self._answer()
        except InitiatorError:
            self.close()
            raise

    def write(self, offset: int, length: int, pattern: int) -> None:
        """Write ``length`` bytes of the value ``pattern``, and flush them.

        :raises WriteRefused: if the write or the flush fails
        :raises SessionLost: if the session is cut, or the target does not respond in time
        """
        for command in (f'write -P {pattern} {offset} {length}', 'flush'):
            answer = self._ask(command)
            if 'failed' in answer or 'read-only' in answer:
                raise WriteRefused(answer.strip())

    def read(self, offset: int, length: int, pattern: int) -> bool:
        """Read a range, and return True if each byte has the value ``pattern``.

        :raises ReadFailed: if the target responds with an error
        :raises SessionLost: if the session is cut, or the target does not respond in time
        """
        answer = self._ask(f'read -P {pattern} {offset} {length}')
        if 'read failed' in answer:
            raise ReadFailed(answer.strip())
        return 'Pattern verification failed' not in answer and 'read' in answer

    def close(self) -> None:
        """Log out. If the process of the session hangs, kill the process."""
        # While libiscsi reconnects a cut session, the process reads no commands.
        if self._process.poll() is None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self._send('quit')
                self._process.wait(2.0)
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _ask(self, command: str) -> str:
        try:
            self._send(command)
        except OSError as exc:
            raise SessionLost('the initiator process ended') from exc
        return self._answer()

    def _send(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f'{command}\n'.encode())
        self._process.stdin.flush()

    def _answer(self) -> str:
        """Return the output of the process up to the next prompt.

        :raises InitiatorError: if the process ends or does not respond in time
        """
        output = b''
        deadline = self._clock.monotonic() + self._timeout
        while not output.endswith(_PROMPT):
            left = deadline - self._clock.monotonic()
            try:
                part = self._answers.get(timeout=max(left, 0.0))
            except queue.Empty:
                raise SessionLost(f'no response within {self._timeout} s, output so far: '
                                  f'{output.decode(errors="replace")}') from None
            if not part:
                raise _why(output.decode(errors='replace').strip())
            output += part
            if not self._comes_back and _CUT.search(output):
                raise SessionLost(output.decode(errors='replace'))
        return output.removesuffix(_PROMPT).decode(errors='replace')

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while part := os.read(descriptor, 65536):
            self._answers.put(part)
        self._answers.put(b'')


class KitInitiator:
    """Adapter of `Initiator` to `blockattach.conformance.target_base.Host`."""

    def __init__(self, timeout: float = 15.0, comes_back: bool = True) -> None:
        self._timeout = timeout
        self._comes_back = comes_back

    def can_log_in(self, connection: connections.Connection, initiator: str,
                   credential: connections.Credential | None) -> bool:
        """Log in and log out, and return False if the target rejects the login."""
        return self._host(initiator).can_log_in(_info(connection, credential))

    def hold(self, connection: connections.Connection, initiator: str,
             credential: connections.Credential, read_only: bool = False) -> 'KitSession':
        """Log in, and return the open session."""
        return KitSession(self._host(initiator).open(_info(connection, credential), read_only))

    def _host(self, name: str) -> Initiator:
        return Initiator(name, self._timeout, self._comes_back)


class KitSession:
    """Adapter of `Session` to `blockattach.conformance.target_base.Held`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.close = session.close

    def can_write(self, offset: int, length: int, pattern: int) -> bool:
        """Write ``length`` bytes, and return True if the write succeeds."""
        try:
            self._session.write(offset, length, pattern)
        except (WriteRefused, SessionLost):
            return False
        return True

    def can_read(self, offset: int, length: int, pattern: int) -> bool:
        """Return True if a read succeeds and each byte has the value ``pattern``."""
        try:
            return self._session.read(offset, length, pattern)
        except (ReadFailed, SessionLost):
            return False


def _info(connection: connections.Connection,
          credential: connections.Credential | None) -> dict[str, Any]:
    info = connection.to_dict()
    if credential is not None:
        info |= {'auth_method': 'CHAP', 'auth_username': credential.username,
                 'auth_password': credential.password}
    return info


def _why(output: str) -> InitiatorError:
    if 'write protected' in output:
        return WriteRefused(output)
    if 'Failed to log in' in output or 'Failed to connect to LUN' in output:
        return LoginRefused(output)
    return SessionLost(output or 'the initiator has ended without output')


def _quoted(value: object) -> str:
    """Return the text of a QEMU option with doubled commas, because commas separate options."""
    return str(value).replace(',', ',,')


@contextlib.contextmanager
def _secret_file(secret: str | None) -> Iterator[str | None]:
    if secret is None:
        yield None
        return
    # Other users of the machine can see the arguments of a process.
    with tempfile.TemporaryDirectory(prefix='initiator-') as folder:
        path = os.path.join(folder, 'secret')
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), 'w',
                  encoding='utf-8') as file:
            file.write(secret)
        yield path
