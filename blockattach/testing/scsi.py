"""Host that sends any SCSI command by libiscsi, such as reservations and malformed writes.

    with scsi.Session('iqn.2026-01.org.example:host-a', connection_info) as session:
        session.register(0xabc)
        assert session.send(write_10, b'...').key == scsi.DATA_PROTECT

A cut session is not reconnected, no command is retried, and every command has a timeout.
"""
import contextlib
import ctypes
import ctypes.util
import dataclasses
from collections.abc import Mapping
from typing import Any
from typing import Self

from blockattach.storage.domain import connection as connections

GOOD = 0x00
CHECK_CONDITION = 0x02
RESERVATION_CONFLICT = 0x18
DATA_PROTECT = 0x07
"""Sense key of a write to a read-only logical unit."""

WRITE_EXCLUSIVE = 0x1
WRITE_EXCLUSIVE_ALL_REGISTRANTS = 0x7

_NORMAL_SESSION = 2
_NO_DIGEST = 0
_TO_HOST, _TO_TARGET = 1, 2
_BLOCK = 512


class Lost(Exception):
    """Error of a session that could not be opened, was cut, or returned an unexpected response."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """Response to a command: the SCSI status and, for CHECK CONDITION, the sense key."""

    status: int
    key: int


@dataclasses.dataclass(frozen=True, slots=True)
class Capacity:
    """Result of READ CAPACITY (16). Block sizes are in bytes.

    :ivar unmaps: True if the logical unit supports UNMAP (LBPME)
    """

    blocks: int
    block_size: int
    physical_block_size: int
    unmaps: bool


class _Sense(ctypes.Structure):
    _fields_ = (('error_type', ctypes.c_ubyte), ('key', ctypes.c_int), ('ascq', ctypes.c_int))


class _Task(ctypes.Structure):
    """Leading fields of libiscsi's ``struct scsi_task``."""

    _fields_ = (('status', ctypes.c_int), ('cdb_size', ctypes.c_int), ('direction', ctypes.c_int),
                ('length', ctypes.c_int), ('cdb', ctypes.c_ubyte * 16),
                ('residual_status', ctypes.c_int), ('residual', ctypes.c_size_t),
                ('sense', _Sense))


class _Capacity(ctypes.Structure):
    """Leading fields of libiscsi's ``struct scsi_readcapacity16``."""

    _fields_ = (('last_block', ctypes.c_uint64), ('block_length', ctypes.c_uint32),
                ('protection', ctypes.c_uint8 * 3), ('exponent', ctypes.c_uint8),
                ('unmaps', ctypes.c_uint8))


class _Data(ctypes.Structure):
    _fields_ = (('size', ctypes.c_size_t), ('data', ctypes.c_char_p))


def available() -> bool:
    """Return True if libiscsi is installed (Debian package libiscsi7)."""
    return ctypes.util.find_library('iscsi') is not None


class Session:
    """iSCSI session with a target, for commands to one logical unit.

    The constructor takes the ``connection_info`` of the Block Storage API.
    """

    def __init__(self, initiator: str, connection_info: Mapping[str, Any],
                 portal: str | None = None, timeout: int = 15) -> None:
        """Log in to the target.

        :param portal: ``address:port``; None for the first portal in ``connection_info``
        :param timeout: timeout of each command in seconds
        :raises Lost: if the login fails, or the target does not respond
        """
        info = connection_info.get('data', connection_info)
        self._library = _library()
        self._lun = info['target_lun']
        self._block = _BLOCK
        self._context = self._library.iscsi_create_context(initiator.encode())
        call = self._library
        call.iscsi_set_targetname(self._context, info['target_iqn'].encode())
        call.iscsi_set_session_type(self._context, _NORMAL_SESSION)
        call.iscsi_set_header_digest(self._context, _NO_DIGEST)
        # A reconnect would hide from the test that the target has cut the session.
        call.iscsi_set_noautoreconnect(self._context, 1)
        call.iscsi_set_timeout(self._context, timeout)
        if info.get('auth_password'):
            call.iscsi_set_initiator_username_pwd(
                self._context, info['auth_username'].encode(), info['auth_password'].encode())
        if info.get('mutual_password'):
            call.iscsi_set_target_username_pwd(
                self._context, info['mutual_username'].encode(), info['mutual_password'].encode())
        address = (portal or info['target_portal']).encode()
        if call.iscsi_full_connect_sync(self._context, address, self._lun):
            reason = self._error()
            self.close()
            raise Lost(reason)

    def send(self, cdb: bytes, data: bytes = b'', to_host: int = 0) -> Answer:
        """Send one command.

        :param data: bytes to send to the target
        :param to_host: number of bytes expected from the target, or 0
        :raises Lost: if the session is cut, or the status is none of `GOOD`, `CHECK_CONDITION` and
            `RESERVATION_CONFLICT`
        """
        direction = _TO_HOST if to_host else _TO_TARGET if data else 0
        return self._run(self._task(cdb, direction, to_host or len(data)),
                         _Data(len(data), data) if direction == _TO_TARGET else None)

    def received(self, cdb: bytes, length: int, lun: int | None = None) -> bytes:
        """Return the data that the target sends for a command, padded with zeros.

        The statuses that `send` returns are ignored.

        :param length: size of the receive buffer in bytes, whatever length the CDB requests
        :param lun: number of a logical unit, which need not exist; None for the session's unit
        :raises Lost: as for `send`
        """
        found = ctypes.create_string_buffer(length)
        task = self._task(cdb, _TO_HOST, length)
        self._library.scsi_task_add_data_in_buffer(task, length, found)
        self._run(task, None, lun)
        return found.raw

    def read(self, block: int, count: int) -> bytes:
        """Read ``count`` blocks by READ (10), starting at a block number.

        The block size is 512 bytes before a call of `capacity`, and the reported size afterwards.

        :raises Lost: if the session is cut, or the read fails
        """
        size = count * self._block
        found = ctypes.create_string_buffer(size)
        task = self._task(bytes((0x28, 0)) + block.to_bytes(4) + b'\0' + count.to_bytes(2)
                          + b'\0', _TO_HOST, size)
        self._library.scsi_task_add_data_in_buffer(task, size, found)
        answer = self._run(task, None)
        if answer.status != GOOD:
            raise Lost(f'cannot read block {block}: {answer}')
        return found.raw

    def write(self, block: int, data: bytes) -> Answer:
        """Write whole blocks by WRITE (10), starting at a block number.

        The block size is 512 bytes before a call of `capacity`, and the reported size afterwards.
        """
        count = len(data) // self._block
        return self.send(bytes((0x2a, 0)) + block.to_bytes(4) + b'\0' + count.to_bytes(2) + b'\0',
                         data)

    def unmap(self, block: int, count: int) -> Answer:
        """Discard ``count`` blocks by UNMAP, starting at a block number."""
        ranges = block.to_bytes(8) + count.to_bytes(4) + bytes(4)
        data = (len(ranges) + 6).to_bytes(2) + len(ranges).to_bytes(2) + bytes(4) + ranges
        return self.send(bytes((0x42,)) + bytes(6) + len(data).to_bytes(2) + b'\0', data)

    def flush(self) -> Answer:
        """Flush the whole logical unit by SYNCHRONIZE CACHE (10)."""
        return self.send(bytes((0x35,)) + bytes(9))

    def capacity(self) -> Capacity:
        """Return the result of READ CAPACITY (16), and use its block size from now on.

        :raises Lost: if the target does not respond
        """
        task = self._library.iscsi_readcapacity16_sync(self._context, self._lun)
        if not task:
            raise Lost(self._error())
        try:
            found = self._library.scsi_datain_unmarshall(task)
            if not found:
                raise Lost(f'no capacity: {self._error()}')
            answer = found.contents
            self._block = answer.block_length
            return Capacity(answer.last_block + 1, answer.block_length,
                            answer.block_length << answer.exponent, bool(answer.unmaps))
        finally:
            self._library.scsi_free_scsi_task(task)

    def register(self, key: int, survives_power_loss: bool = False) -> Answer:
        """Register a reservation key in place of any earlier key. Key 0 unregisters the host."""
        return self._reserve_out(0x06, 0, 0, key, survives_power_loss)

    def reserve(self, key: int, kind: int = WRITE_EXCLUSIVE) -> Answer:
        """Reserve the logical unit by PERSISTENT RESERVE OUT (RESERVE) with a registered key."""
        return self._reserve_out(0x01, kind, key, 0, False)

    def release(self, key: int, kind: int = WRITE_EXCLUSIVE) -> Answer:
        """Release the reservation by PERSISTENT RESERVE OUT (RELEASE)."""
        return self._reserve_out(0x02, kind, key, 0, False)

    def close(self) -> None:
        """Log out. A repeated call does nothing."""
        if self._context:
            self._library.iscsi_logout_sync(self._context)
            self._library.iscsi_destroy_context(self._context)
            self._context = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def _reserve_out(self, action: int, kind: int, key: int, new_key: int,
                     survives_power_loss: bool) -> Answer:
        parameters = (key.to_bytes(8) + new_key.to_bytes(8) + bytes(4)
                      + bytes((int(survives_power_loss), 0, 0, 0)))
        cdb = bytes((0x5f, action, kind)) + bytes(2) + len(parameters).to_bytes(4) + b'\0'
        # A unit attention, such as after a command of another initiator or a reset, replaces the
        # response once.
        answer = self.send(cdb, parameters)
        return self.send(cdb, parameters) if answer.key == 0x06 else answer

    def _task(self, cdb: bytes, direction: int, length: int) -> Any:
        return self._library.scsi_create_task(
            len(cdb), (ctypes.c_ubyte * len(cdb)).from_buffer_copy(cdb), direction, length)

    def _run(self, task: Any, sent: _Data | None, lun: int | None = None) -> Answer:
        done = self._library.iscsi_scsi_command_sync(
            self._context, self._lun if lun is None else lun, task,
            ctypes.byref(sent) if sent else None)
        if not done:
            raise Lost(self._error())
        answer = Answer(done.contents.status, done.contents.sense.key)
        self._library.scsi_free_scsi_task(done)
        if answer.status not in (GOOD, CHECK_CONDITION, RESERVATION_CONFLICT):
            raise Lost(f'status {answer.status:#x}: {self._error()}')
        return answer

    def _error(self) -> str:
        text = self._library.iscsi_get_error(self._context)
        return (text or b'').decode(errors='replace')


class KitScsi:
    """Adapter of `Session` to `blockattach.conformance.target_base.Commander`."""

    def __init__(self, timeout: int = 10) -> None:
        self._timeout = timeout

    def log_in(self, connection: connections.Connection, initiator: str,
               credential: connections.Credential) -> Session:
        """Log in, and return the open session."""
        return Session(initiator, connection.to_dict() | {
            'auth_username': credential.username, 'auth_password': credential.password},
            timeout=self._timeout)


def _library() -> Any:
    found = ctypes.util.find_library('iscsi')
    if found is None:
        raise Lost('libiscsi is not installed')
    library = ctypes.CDLL(found)
    # Without declared types, ctypes passes and returns pointers as C ints and truncates them.
    library.iscsi_create_context.restype = ctypes.c_void_p
    library.iscsi_get_error.restype = ctypes.c_char_p
    library.scsi_create_task.restype = ctypes.c_void_p
    library.iscsi_scsi_command_sync.restype = ctypes.POINTER(_Task)
    library.iscsi_readcapacity16_sync.restype = ctypes.POINTER(_Task)
    library.scsi_datain_unmarshall.restype = ctypes.POINTER(_Capacity)
    pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    for name, arguments in {
        'iscsi_create_context': (text,),
        'iscsi_set_targetname': (pointer, text),
        'iscsi_set_session_type': (pointer, number),
        'iscsi_set_header_digest': (pointer, number),
        'iscsi_set_noautoreconnect': (pointer, number),
        'iscsi_set_timeout': (pointer, number),
        'iscsi_set_initiator_username_pwd': (pointer, text, text),
        'iscsi_set_target_username_pwd': (pointer, text, text),
        'iscsi_full_connect_sync': (pointer, text, number),
        'iscsi_get_error': (pointer,),
        'iscsi_logout_sync': (pointer,),
        'iscsi_destroy_context': (pointer,),
        'scsi_create_task': (number, pointer, number, number),
        'iscsi_scsi_command_sync': (pointer, number, pointer, pointer),
        'iscsi_readcapacity16_sync': (pointer, number),
        'scsi_datain_unmarshall': (ctypes.POINTER(_Task),),
        'scsi_task_add_data_in_buffer': (pointer, number, pointer),
        'scsi_free_scsi_task': (ctypes.POINTER(_Task),),
    }.items():
        with contextlib.suppress(AttributeError):
            getattr(library, name).argtypes = arguments
    return library
