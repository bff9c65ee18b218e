"""tgtd's management protocol, spoken over its unix socket: no child process, no secret in argv.

A request is one fixed structure and a text of parameters; the answer is a number and a text. The
layout (`struct tgtadm_req`) and the numbers are those of tgt 1.0.x on a machine's own byte order.
Parameters are split at commas by tgtd, so a value that holds one is refused here.
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
    """The answers of tgtd that the driver distinguishes."""

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
    """tgtd did not answer: the request may have been carried out."""


class NotThere(Unanswered):
    """Nobody listens: there is no tgtd, and the request was not carried out."""


class Rejected(errors.BackendRefused):
    """tgtd refused: this request changed nothing."""

    @property
    def answer(self) -> int:
        """What tgtd answered: a `Code` where we know it."""
        return self.kwargs['answer']


def rejected(answer: int, doing: str) -> Rejected:
    """The error of an answer of tgtd."""
    return Rejected(answer=answer, reason=f'tgtd refused to {doing}: {_reason(answer)}')


class Session(NamedTuple):
    """An initiator that is logged in."""

    sid: int
    initiator: str


@dataclasses.dataclass(frozen=True, slots=True)
class Lun:
    """A logical unit. ``size_mb`` is in units of 10**6 bytes, rounded, as tgtd prints it."""

    number: int
    readonly: bool
    thin: bool
    size_mb: int
    serial: str
    path: str


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """One target as tgtd shows it."""

    tid: int
    name: str
    ready: bool
    initiators: tuple[str, ...]
    accounts: tuple[str, ...]
    luns: tuple[Lun, ...]
    sessions: tuple[Session, ...]


class Client:
    """One tgtd. Every call opens its own connection, so that threads need no lock."""

    def __init__(self, path: str, timeout: float = 10.0) -> None:
        self.path = path
        self._timeout = timeout

    def pid(self) -> int:
        """The process that listens on the socket.

        It is sent a request. When a caller hangs up without one, a busy tgtd takes the end of file
        for data that is still to come (its ``errno`` is EAGAIN from another socket), and polls for
        it with all of a processor until it ends.

        :raises Unanswered: none does
        """
        with self._connect() as connected:
            peer = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
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
        """Whether a process listens on the socket, also one that does not answer."""
        try:
            self.portals()
        except NotThere:
            return False
        except errors.BackendError:
            pass
        return True

    def portals(self) -> tuple[str, ...]:
        """``address:port`` of each portal."""
        text = self._call(_Mode.PORTAL, _Op.SHOW, 'show the portals')
        return tuple(re.findall(r'^Portal: (.+),\d+$', text, re.MULTILINE))

    def add_portal(self, portal: str) -> None:
        """Listen on ``address:port`` too; `Rejected` when it is in use."""
        self._call(_Mode.PORTAL, _Op.NEW, f'listen on {portal}',
                   f'portalOps portal={_fit(portal)},')

    def delete_portal(self, portal: str) -> None:
        """Listen there no longer; sessions stay."""
        self._call(_Mode.PORTAL, _Op.DELETE, f'close {portal}',
                   f'portalOps portal={_fit(portal)},')

    def shut_down(self) -> None:
        """End tgtd; it refuses while it has targets."""
        self._call(_Mode.SYSTEM, _Op.DELETE, 'shut down')

    def targets(self) -> tuple[Target, ...]:
        """Everything that tgtd offers, with its sessions."""
        return parse_targets(self._call(_Mode.TARGET, _Op.SHOW, 'show the targets'))

    def add_target(self, tid: int, name: str) -> None:
        """Make a target that is still closed; `Code.TARGET_EXISTS` for its number or name."""
        self._call(_Mode.TARGET, _Op.NEW, f'add target {name}', f'targetname={_fit(name)}', tid)

    def delete_target(self, tid: int) -> None:
        """Remove a target with its logical units; `Code.TARGET_ACTIVE` while it has sessions."""
        self._call(_Mode.TARGET, _Op.DELETE, f'delete target {tid}', tid=tid)

    def set_ready(self, tid: int, ready: bool) -> None:
        """Whether logins are possible at all."""
        state = 'ready' if ready else 'offline'
        self._call(_Mode.TARGET, _Op.UPDATE, f'set target {tid} {state}', f'state={state}', tid)

    def bind_initiator(self, tid: int, initiator: str) -> None:
        """Allow logins of this initiator name."""
        self._call(_Mode.TARGET, _Op.BIND, f'bind {initiator} to target {tid}',
                   f'initiator-name={_fit(initiator)}', tid)

    def unbind_initiator(self, tid: int, initiator: str) -> None:
        """Allow logins of this initiator name no longer; its sessions stay."""
        self._call(_Mode.TARGET, _Op.UNBIND, f'unbind {initiator} from target {tid}',
                   f'initiator-name={_fit(initiator)}', tid)

    def unbind_address(self, tid: int, address: str) -> None:
        """Allow logins from this address no longer, whatever the initiator's name; ``ALL``: from
        everywhere.
        """
        self._call(_Mode.TARGET, _Op.UNBIND, f'unbind {address} from target {tid}',
                   f'initiator-address={_fit(address)}', tid)

    def add_account(self, username: str, password: str) -> None:
        """Make a CHAP account; names are global in one tgtd."""
        self._call(_Mode.ACCOUNT, _Op.NEW, 'add an account',
                   f'user={_fit(username)},password={_fit(password)}')

    def delete_account(self, username: str) -> None:
        """Forget an account. A target that it was bound to asks for no credential any more."""
        self._call(_Mode.ACCOUNT, _Op.DELETE, 'delete an account', f'user={_fit(username)}')

    def bind_account(self, tid: int, username: str) -> None:
        """Require the account's credential for a login to this target."""
        self._call(_Mode.ACCOUNT, _Op.BIND, f'bind an account to target {tid}',
                   f'user={_fit(username)}', tid)

    def add_lun(self, tid: int, number: int, path: str) -> None:
        """Offer a file or block device as logical unit, through the page cache."""
        self._call(_Mode.DEVICE, _Op.NEW, f'add a logical unit to target {tid}',
                   f'path={_fit(path)},bstype=rdwr', tid, lun=number)

    def update_lun(self, tid: int, number: int, **params: str) -> None:
        """Change attributes live: ``readonly``, ``thin_provisioning``, ``scsi_sn``, ..."""
        text = ','.join(f'{name}={_fit(value)}' for name, value in params.items())
        self._call(_Mode.DEVICE, _Op.UPDATE, f'update the logical unit of target {tid}',
                   f'targetOps {text},', tid, lun=number)

    def close_connection(self, tid: int, sid: int, cid: int) -> None:
        """Cut one connection; the session is gone a moment later."""
        self._call(_Mode.CONNECTION, _Op.DELETE, f'close a connection of target {tid}', tid=tid,
                   sid=sid, cid=cid)

    def connections(self, tid: int) -> tuple[tuple[int, int], ...]:
        """(session, connection) numbers of one target."""
        text = self._call(_Mode.CONNECTION, _Op.SHOW, f'show target {tid}', tid=tid)
        return tuple((int(sid), int(cid)) for sid, cid in
                     re.findall(r'^Session: (\d+)\n\s+Connection: (\d+)$', text, re.MULTILINE))

    def _connect(self) -> socket.socket:
        connected = socket.socket(socket.AF_UNIX)
        try:
            # A socket with a time-out of Python's would not wait in tgtd's short queue of callers.
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO,
                                 _TIMEVAL.pack(*_seconds(self._timeout)))
            connected.connect(self.path)
            connected.settimeout(self._timeout)
        except OSError as exc:
            connected.close()
            # One that hangs is there: its queue of callers is full after a while.
            kind = NotThere if isinstance(
                exc, (FileNotFoundError, ConnectionRefusedError)) else Unanswered
            raise kind(reason=f'tgtd does not listen on {self.path}: {exc}') from exc
        return connected

    def _call(self, mode: _Mode, op: _Op, doing: str, params: str = '', tid: int = -1,
              sid: int = 0, cid: int = 0, lun: int = _NO_LUN) -> str:
        with self._connect() as connected:
            try:
                code, text = _ask(connected, _request(mode, op, params, tid, sid, cid, lun))
            except OSError as exc:
                raise Unanswered(
                    reason=f'tgtd did not answer the request to {doing}: {exc}') from exc
        if code:
            raise rejected(code, doing)
        return text


def parse_targets(text: str) -> tuple[Target, ...]:
    """Read what tgtd answers to a show of all targets."""
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
    """What tgtd answers: a number, and a text."""
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
    """Seconds and millionths of a second; none at all would mean for ever."""
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
