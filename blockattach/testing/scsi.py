"""A host that sends SCSI commands of its own making, by libiscsi: reservations, and writes that a
kernel would not send.

    with scsi.Session('iqn.2026-01.org.example:host-a', connection_info) as session:
        session.register(0xabc)
        assert session.send(write_10, b'...').key == scsi.DATA_PROTECT

A session that was cut stays cut: nothing is tried again, and every command has a limit.
"""
import contextlib
import ctypes
import ctypes.util
import dataclasses
from collections.abc import Mapping
from typing import Any
from typing import Self

GOOD = 0x00
CHECK_CONDITION = 0x02
RESERVATION_CONFLICT = 0x18
DATA_PROTECT = 0x07
"""The sense key of a write to what is read-only."""

WRITE_EXCLUSIVE = 0x1
WRITE_EXCLUSIVE_ALL_REGISTRANTS = 0x7

_NORMAL_SESSION = 2
_NO_DIGEST = 0
_TO_HOST, _TO_TARGET = 1, 2
_BLOCK = 512


class Lost(Exception):
    """The session could not be made, or was cut."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What the target said: its status and, for CHECK CONDITION, the sense key."""

    status: int
    key: int


class _Sense(ctypes.Structure):
    _fields_ = (('error_type', ctypes.c_ubyte), ('key', ctypes.c_int), ('ascq', ctypes.c_int))


class _Task(ctypes.Structure):
    """The beginning of libiscsi's ``struct scsi_task``."""

    _fields_ = (('status', ctypes.c_int), ('cdb_size', ctypes.c_int), ('direction', ctypes.c_int),
                ('length', ctypes.c_int), ('cdb', ctypes.c_ubyte * 16),
                ('residual_status', ctypes.c_int), ('residual', ctypes.c_size_t),
                ('sense', _Sense))


class _Data(ctypes.Structure):
    _fields_ = (('size', ctypes.c_size_t), ('data', ctypes.c_char_p))


def available() -> bool:
    """Whether libiscsi is installed (Debian package libiscsi7)."""
    return ctypes.util.find_library('iscsi') is not None


class Session:
    """One login. ``connection_info`` is what the Block Storage API answers."""

    def __init__(self, initiator: str, connection_info: Mapping[str, Any],
                 portal: str | None = None, timeout: int = 15) -> None:
        """Log in.

        :param portal: one of several; by default the first
        :raises Lost: it does not let us in, or there is no answer
        """
        info = connection_info.get('data', connection_info)
        self._library = _library()
        self._lun = info['target_lun']
        self._context = self._library.iscsi_create_context(initiator.encode())
        call = self._library
        call.iscsi_set_targetname(self._context, info['target_iqn'].encode())
        call.iscsi_set_session_type(self._context, _NORMAL_SESSION)
        call.iscsi_set_header_digest(self._context, _NO_DIGEST)
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
            said = self._said()
            self.close()
            raise Lost(said)

    def send(self, cdb: bytes, data: bytes = b'', to_host: int = 0) -> Answer:
        """Send one command.

        :param data: what goes to the target
        :param to_host: how many bytes are expected from it; both together are a lie that a target
            must see through
        :raises Lost: the session is cut
        """
        direction = _TO_HOST if to_host else _TO_TARGET if data else 0
        task = self._library.scsi_create_task(
            len(cdb), (ctypes.c_ubyte * len(cdb)).from_buffer_copy(cdb), direction,
            to_host or len(data))
        sent = _Data(len(data), data) if direction == _TO_TARGET else None
        done = self._library.iscsi_scsi_command_sync(
            self._context, self._lun, task, ctypes.byref(sent) if sent else None)
        if not done:
            raise Lost(self._said())
        answer = Answer(done.contents.status, done.contents.sense.key)
        self._library.scsi_free_scsi_task(done)
        if answer.status not in (GOOD, CHECK_CONDITION, RESERVATION_CONFLICT):
            raise Lost(f'status {answer.status:#x}: {self._said()}')
        return answer

    def write(self, block: int, data: bytes) -> Answer:
        """WRITE (10) of whole blocks."""
        count = len(data) // _BLOCK
        return self.send(bytes((0x2a, 0)) + block.to_bytes(4) + b'\0' + count.to_bytes(2) + b'\0',
                         data)

    def register(self, key: int, survives_power_loss: bool = False) -> Answer:
        """PERSISTENT RESERVE OUT, REGISTER AND IGNORE EXISTING KEY; key 0 takes it back."""
        return self._reserve_out(0x06, 0, 0, key, survives_power_loss)

    def reserve(self, key: int, kind: int = WRITE_EXCLUSIVE) -> Answer:
        """PERSISTENT RESERVE OUT, RESERVE."""
        return self._reserve_out(0x01, kind, key, 0, False)

    def release(self, key: int, kind: int = WRITE_EXCLUSIVE) -> Answer:
        """PERSISTENT RESERVE OUT, RELEASE."""
        return self._reserve_out(0x02, kind, key, 0, False)

    def close(self) -> None:
        """Log out; a repeat does nothing."""
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
        # A unit attention (somebody joined, a reset) is told once instead of the answer.
        answer = self.send(cdb, parameters)
        return self.send(cdb, parameters) if answer.key == 0x06 else answer

    def _said(self) -> str:
        said = self._library.iscsi_get_error(self._context)
        return (said or b'').decode(errors='replace')


def _library() -> Any:
    found = ctypes.util.find_library('iscsi')
    if found is None:
        raise Lost('libiscsi is not installed')
    library = ctypes.CDLL(found)
    library.iscsi_create_context.restype = ctypes.c_void_p
    library.iscsi_get_error.restype = ctypes.c_char_p
    library.scsi_create_task.restype = ctypes.c_void_p
    library.iscsi_scsi_command_sync.restype = ctypes.POINTER(_Task)
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
        'scsi_free_scsi_task': (ctypes.POINTER(_Task),),
    }.items():
        with contextlib.suppress(AttributeError):
            getattr(library, name).argtypes = arguments
    return library
