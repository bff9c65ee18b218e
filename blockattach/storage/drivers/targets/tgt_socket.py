"""Client of the management protocol of tgtd on its Unix socket.

Unlike tgtadm, the client needs no child process, and passes no secret on a command line.

A request is a fixed structure followed by parameters as text. The response is a number and a text.
The layout (`struct tgtadm_req`) and the numbers are those of tgt 1.0.x, in the byte order of the
host. tgtd splits parameters at commas, so the client rejects values that contain a comma.
"""
import contextlib
import dataclasses
import enum
import re
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from blockattach.platform import errors

_REQUEST = struct.Struct('=II64sIiQQIIIIII')
_RESPONSE = struct.Struct('=II')
_PEER = struct.Struct('iII')
_TIMEVAL = struct.Struct('ll')
_NO_LUN = 2 ** 64 - 1
_DRIVER = b'iscsi'
_DISK = 0
_INCOMING = 0
_CHUNK = 65536
_UNFIT = re.compile(r'[,\x00-\x1f\x7f]')


class _Mode(enum.IntEnum):
    SYSTEM = 0
    TARGET = 1
    DEVICE = 2
    PORTAL = 3
    CONNECTION = 6
    ACCOUNT = 7


class _Op(enum.IntEnum):
    NEW = 0
    DELETE = 1
    SHOW = 2
    BIND = 3
    UNBIND = 4
    UPDATE = 5


class Code(enum.IntEnum):
    """Error codes of tgtd that the driver distinguishes."""

    NO_TARGET = 4
    NO_LUN = 5
    NO_SESSION = 6
    NO_CONNECTION = 7
    TARGET_EXISTS = 9
    LUN_EXISTS = 10
    ACL_EXISTS = 12
    NO_ACL = 13
    USER_EXISTS = 14
    NO_USER = 15
    INVALID_REQUEST = 17
    TARGET_ACTIVE = 19
    LUN_ACTIVE = 20


class Unanswered(errors.BackendUncertain):
    """Error of a request that tgtd did not answer, but may have carried out."""


class NotThere(Unanswered):
    """Error of a request that was not carried out, because no tgtd listens on the socket."""


class Rejected(errors.BackendRefused):
    """Error of a request that tgtd rejected without changing anything."""

    @property
    def answer(self) -> int:
        """Error code of tgtd, which is a `Code` if the driver distinguishes it."""
        return self.kwargs['answer']


def rejected(answer: int, action: str) -> Rejected:
    """Return the error for an error code of tgtd.

    :param action: requested action for the error text, such as "add target iqn…"
    """
    return Rejected(answer=answer, reason=f'tgtd refused to {action}: {_reason(answer)}')


class Session(NamedTuple):
    """Session of an initiator that is logged in."""

    sid: int
    initiator: str


@dataclasses.dataclass(frozen=True, slots=True)
class Lun:
    """Logical unit of a target.

    :ivar size_mb: size in units of 10**6 bytes, rounded by tgtd
    """

    number: int
    readonly: bool
    thin: bool
    size_mb: int
    serial: str
    path: str


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Target as reported by tgtd.

    :ivar initiators: names and addresses in the access list
    :ivar accounts: user names of the CHAP accounts bound to the target
    """

    tid: int
    name: str
    ready: bool
    initiators: tuple[str, ...]
    accounts: tuple[str, ...]
    luns: tuple[Lun, ...]
    sessions: tuple[Session, ...]


class Client:
    """Client of one tgtd. Every call opens its own connection, so that threads need no lock.

    A request raises `Rejected` if tgtd returns an error code or a value cannot be sent, and
    `Unanswered` if tgtd does not answer.
    """

    def __init__(self, path: str, timeout: float = 10.0) -> None:
        self.path = path
        self._timeout = timeout

    def pid(self) -> int:
        """Return the id of the process that listens on the socket.

        :raises Unanswered: if the client cannot connect to the socket
        """
        with self._connect() as connected:
            peer = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
            # A connection must not be closed without a request. At the end of file, a busy tgtd
            # may find errno EAGAIN, which another socket has set, and expect more data. It would
            # then poll for this data at full CPU usage until tgtd ends.
            with contextlib.suppress(OSError):
                _ask(connected, _request(_Mode.PORTAL, _Op.SHOW))
        return int(_PEER.unpack(peer)[0])

    def answers(self) -> bool:
        """Return True if tgtd answers requests now."""
        try:
            self.portals()
        except errors.BackendError:
            return False
        return True

    def has_process(self) -> bool:
        """Return True if a process listens on the socket, even if it does not answer."""
        try:
            self.portals()
        except NotThere:
            return False
        except errors.BackendError:
            pass
        return True

    def portals(self) -> tuple[str, ...]:
        """Return the ``address:port`` of each portal on which tgtd listens."""
        text = self._call(_Mode.PORTAL, _Op.SHOW, 'show the portals')
        return tuple(re.findall(r'^Portal: (.+),\d+$', text, re.MULTILINE))

    def add_portal(self, portal: str) -> None:
        """Open an additional portal.

        :param portal: ``address:port``
        :raises Rejected: if the address or the port is in use
        """
        self._call(_Mode.PORTAL, _Op.NEW, f'listen on {portal}',
                   f'portalOps portal={_fit(portal)},')

    def delete_portal(self, portal: str) -> None:
        """Close a portal. Its sessions continue."""
        self._call(_Mode.PORTAL, _Op.DELETE, f'close {portal}',
                   f'portalOps portal={_fit(portal)},')

    def shut_down(self) -> None:
        """Shut down tgtd.

        :raises Rejected: if tgtd has targets
        """
        self._call(_Mode.SYSTEM, _Op.DELETE, 'shut down')

    def targets(self) -> tuple[Target, ...]:
        """Return all targets with their logical units and sessions."""
        return parse_targets(self._call(_Mode.TARGET, _Op.SHOW, 'show the targets'))

    def add_target(self, tid: int, name: str) -> None:
        """Create a target that has no disk and admits no initiator yet.

        :param tid: number of the target
        :raises Rejected: with `Code.TARGET_EXISTS` if the number or the name is in use
        """
        self._call(_Mode.TARGET, _Op.NEW, f'add target {name}', f'targetname={_fit(name)}', tid)

    def delete_target(self, tid: int) -> None:
        """Delete a target with its logical units.

        :raises Rejected: with `Code.TARGET_ACTIVE` or `Code.LUN_ACTIVE` if the target has sessions
        """
        self._call(_Mode.TARGET, _Op.DELETE, f'delete target {tid}', tid=tid)

    def set_ready(self, tid: int, ready: bool) -> None:
        """Set whether initiators can log in to a target at all."""
        state = 'ready' if ready else 'offline'
        self._call(_Mode.TARGET, _Op.UPDATE, f'set target {tid} {state}', f'state={state}', tid)

    def bind_initiator(self, tid: int, initiator: str) -> None:
        """Add an initiator name to the access list of a target."""
        self._call(_Mode.TARGET, _Op.BIND, f'bind {initiator} to target {tid}',
                   f'initiator-name={_fit(initiator)}', tid)

    def unbind_initiator(self, tid: int, initiator: str) -> None:
        """Remove an initiator name from the access list of a target.

        The sessions of the initiator continue.
        """
        self._call(_Mode.TARGET, _Op.UNBIND, f'unbind {initiator} from target {tid}',
                   f'initiator-name={_fit(initiator)}', tid)

    def unbind_address(self, tid: int, address: str) -> None:
        """Remove an address from the access list of a target.

        :param address: address from which any initiator may log in, or ``ALL`` for every address
        """
        self._call(_Mode.TARGET, _Op.UNBIND, f'unbind {address} from target {tid}',
                   f'initiator-address={_fit(address)}', tid)

    def add_account(self, username: str, password: str) -> None:
        """Create a CHAP account. User names are global in one tgtd."""
        self._call(_Mode.ACCOUNT, _Op.NEW, 'add an account',
                   f'user={_fit(username)},password={_fit(password)}')

    def delete_account(self, username: str) -> None:
        """Delete a CHAP account. Targets to which it was bound then require no credential."""
        self._call(_Mode.ACCOUNT, _Op.DELETE, 'delete an account', f'user={_fit(username)}')

    def bind_account(self, tid: int, username: str) -> None:
        """Require the credential of a CHAP account for logins to a target."""
        self._call(_Mode.ACCOUNT, _Op.BIND, f'bind an account to target {tid}',
                   f'user={_fit(username)}', tid)

    def add_lun(self, tid: int, number: int, path: str) -> None:
        """Add a file or block device to a target as a logical unit.

        tgtd reads and writes the file or device through the page cache.
        """
        self._call(_Mode.DEVICE, _Op.NEW, f'add a logical unit to target {tid}',
                   f'path={_fit(path)},bstype=rdwr', tid, lun=number)

    def update_lun(self, tid: int, number: int, **params: str) -> None:
        """Change attributes of a logical unit while sessions continue.

        :param params: new values by attribute of tgt, such as ``readonly`` or ``scsi_sn``
        """
        text = ','.join(f'{name}={_fit(value)}' for name, value in params.items())
        self._call(_Mode.DEVICE, _Op.UPDATE, f'update the logical unit of target {tid}',
                   f'targetOps {text},', tid, lun=number)

    def close_connection(self, tid: int, sid: int, cid: int) -> None:
        """Close one connection of a session. The session ends a moment later."""
        self._call(_Mode.CONNECTION, _Op.DELETE, f'close a connection of target {tid}', tid=tid,
                   sid=sid, cid=cid)

    def connections(self, tid: int) -> tuple[tuple[int, int], ...]:
        """Return the session number and the connection number of each connection of a target."""
        text = self._call(_Mode.CONNECTION, _Op.SHOW, f'show target {tid}', tid=tid)
        return tuple((int(sid), int(cid)) for sid, cid in
                     re.findall(r'^Session: (\d+)\n\s+Connection: (\d+)$', text, re.MULTILINE))

    def _connect(self) -> socket.socket:
        connected = socket.socket(socket.AF_UNIX)
        try:
            # With a timeout set by Python, connect() would fail at once when the short backlog of
            # tgtd is full. With SO_SNDTIMEO it waits.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                                 _TIMEVAL.pack(*_seconds(self._timeout)))
            connected.connect(self.path)
            connected.settimeout(self._timeout)
        except OSError as exc:
            connected.close()
            # Other errors, such as a full backlog, mean that a tgtd is there but hangs.
            kind = NotThere if isinstance(
                exc, (FileNotFoundError, ConnectionRefusedError)) else Unanswered
            raise kind(reason=f'tgtd does not listen on {self.path}: {exc}') from exc
        return connected

    def _call(self, mode: _Mode, op: _Op, action: str, params: str = '', tid: int = -1,
              sid: int = 0, cid: int = 0, lun: int = _NO_LUN) -> str:
        with self._connect() as connected:
            try:
                code, text = _ask(connected, _request(mode, op, params, tid, sid, cid, lun))
            except OSError as exc:
                raise Unanswered(
                    reason=f'tgtd did not answer the request to {action}: {exc}') from exc
        if code:
            raise rejected(code, action)
        return text


def parse_targets(text: str) -> tuple[Target, ...]:
    """Parse the response of tgtd to a request for all targets."""
    blocks = re.split(r'^Target (\d+): (.*)$', text, flags=re.MULTILINE)
    return tuple(_target(int(tid), name, body)
                 for tid, name, body in zip(blocks[1::3], blocks[2::3], blocks[3::3], strict=True))


def _target(tid: int, name: str, body: str) -> Target:
    parts = dict(_sections(body))
    return Target(
        tid=tid, name=name,
        ready=_field(parts.get('System information', ''), 'State') == 'ready',
        initiators=_lines(parts.get('ACL information', '')),
        accounts=_lines(parts.get('Account information', '')),
        luns=tuple(_luns(parts.get('LUN information', ''))),
        sessions=tuple(_sessions(parts.get('I_T nexus information', ''))))


def _sections(body: str) -> Iterator[tuple[str, str]]:
    found = re.split(r'^ {4}(\S[^:\n]*):$', body, flags=re.MULTILINE)
    return zip(found[1::2], found[2::2], strict=True)


def _luns(text: str) -> Iterator[Lun]:
    found = re.split(r'^ {8}LUN: (\d+)$', text, flags=re.MULTILINE)
    for number, body in zip(found[1::2], found[2::2], strict=True):
        if _field(body, 'Type') != 'controller':
            size = re.match(r'\d+', _field(body, 'Size'))
            yield Lun(int(number), _field(body, 'Readonly') == 'Yes',
                      _field(body, 'Thin-provisioning') == 'Yes',
                      int(size.group()) if size else 0, _field(body, 'SCSI SN'),
                      _field(body, 'Backing store path'))


def _sessions(text: str) -> Iterator[Session]:
    found = re.split(r'^ {8}I_T nexus: (\d+)$', text, flags=re.MULTILINE)
    for sid, body in zip(found[1::2], found[2::2], strict=True):
        yield Session(int(sid), _field(body, 'Initiator').split(' alias:')[0])


def _field(text: str, name: str) -> str:
    found = re.search(rf'^ *{re.escape(name)}: ?(.*)$', text, re.MULTILINE)
    return found.group(1).strip() if found else ''


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def _request(mode: _Mode, op: _Op, params: str = '', tid: int = -1, sid: int = 0, cid: int = 0,
             lun: int = _NO_LUN) -> bytes:
    body = params.encode() + b'\0' if params else b''
    return _REQUEST.pack(mode, op, _DRIVER, _REQUEST.size + len(body), tid, sid, lun, cid,
                         0, _DISK, _INCOMING, 0, 0) + body


def _ask(connected: socket.socket, request: bytes) -> tuple[int, str]:
    connected.sendall(request)
    code, length = _RESPONSE.unpack(_receive(connected, _RESPONSE.size))
    text = _receive(connected, length - _RESPONSE.size)
    return code, text.rstrip(b'\0').decode('utf-8', 'replace')


def _receive(connected: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = connected.recv(min(_CHUNK, length - len(parts)))
        if not part:
            raise ConnectionResetError('tgtd closed the socket')
        parts += part
    return bytes(parts)


def _seconds(timeout: float) -> tuple[int, int]:
    # A time of zero would mean to wait without limit, so at least one microsecond is returned.
    return divmod(max(1, round(timeout * 10 ** 6)), 10 ** 6)


def _fit(value: str) -> str:
    if not value or _UNFIT.search(value):
        raise rejected(Code.INVALID_REQUEST, 'accept a value that is empty or contains a comma '
                                             'or a control character')
    return value


def _reason(code: int) -> str:
    try:
        return Code(code).name.lower().replace('_', ' ')
    except ValueError:
        return f'error {code}'
