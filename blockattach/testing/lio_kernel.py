"""LIO without a kernel: its tree in a folder that behaves as configfs does (seen on Linux 6.1).

    kernel = lio_kernel.FakeLio()
    kernel.add_device('/dev/fake/one')
    with kernel.installed(context.lio):
        ...                                     # rtslib and the driver find LIO there

It stands where the kernel stands, below the calls of the operating system: folders come with their
files and go with them, what is linked to cannot be removed, what is written is judged. Calls on
other paths pass. Every access to the tree is remembered in ``accesses``.
"""
import builtins
import contextlib
import errno
import functools
import io
import os
import re
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from unittest import mock

from oslo_privsep import priv_context
from rtslib_fb import node

_MAJOR = 7
_PAGE = 4096
_MEMORY = '/dev/shm'
_COUNTED = ('stat', 'lstat', 'listdir', 'scandir', 'readlink', 'unlink')
_AUTH = {f'auth/{name}': '' for name in ('userid', 'password', 'userid_mutual', 'password_mutual')}
_NO_HOLDER = 'No SPC-3 Reservation holder'

# What a folder comes with, by its place below the root: files with their text, and folders.
_PLACES: tuple[tuple[str, Mapping[str, str | None]], ...] = (
    (r'iscsi', {'discovery_auth': None, 'lio_version': 'v4.1.0'}),
    (r'core/iblock_\d+', {'hba_info': 'HBA Index: 1 plugin: iblock', 'hba_mode': '0'}),
    (r'core/iblock_\d+/[^/]+', {
        'control': '', 'enable': '0', 'info': 'Status: DEACTIVATED', 'udev_path': '',
        'wwn/vpd_unit_serial': 'T10 VPD Unit Serial Number:', 'alua/default_tg_pt_gp': None,
        'attrib/emulate_tpu': '0', 'attrib/emulate_tpws': '0',
        'attrib/max_write_same_len': '65535', 'pr/res_aptpl_metadata': 'Ready',
        'pr/res_holder': _NO_HOLDER, 'pr/res_pr_type': _NO_HOLDER,
        'pr/res_pr_registered_i_pts': 'SPC-3 PR Registrations:\nNone'}),
    (r'iscsi/[^/]+', {'param': None, 'fabric_statistics': None}),
    (r'iscsi/[^/]+/tpgt_\d+', {
        'acls': None, 'lun': None, 'np': None, 'enable': '0', 'dynamic_sessions': '', **_AUTH,
        'attrib/authentication': '1', 'attrib/generate_node_acls': '0',
        'attrib/demo_mode_discovery': '1', 'attrib/prod_mode_write_protect': '0'}),
    (r'iscsi/[^/]+/tpgt_\d+/np/[^/]+:\d+', {'iser': '0'}),
    (r'iscsi/[^/]+/tpgt_\d+/lun/lun_\d+', {'alua_tg_pt_gp': '', 'statistics': None}),
    (r'iscsi/[^/]+/tpgt_\d+/acls/[^/]+', {
        'attrib/authentication': '-1', 'info': 'No active iSCSI Session', 'tag': '', **_AUTH}),
    (r'iscsi/[^/]+/tpgt_\d+/acls/[^/]+/lun_\d+', {'write_protect': '1', 'statistics': None}),
)
# Folders whose content is made by others, so that it must go before they do.
_MADE = re.compile(r'tpgt_\d+|acls/[^/]+|lun/lun_\d+|np/[^/]+|lun_\d+|[^/]*volume-[^/]+')


class FakeLio:
    """The tree, the devices, and who is logged in."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(
            prefix='fake-lio-', dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None)
        self.root = os.path.join(self._folder.name, 'target')
        self.database = os.path.join(self._folder.name, 'database')
        self.accesses: list[str] = []
        self._devices: dict[str, int] = {}
        # By backstore: the device that it holds.
        self._claimed: dict[str, int] = {}
        # By target: who is registered, who holds the reservation, and its kind.
        self._reserved: dict[str, tuple[list[str], str | None, str]] = {}
        self._faults: list[tuple[re.Pattern[str], int]] = []
        self._lock = threading.RLock()
        self._own = threading.local()
        self._real = {name: getattr(os, name)
                      for name in ('mkdir', 'rmdir', 'symlink', *_COUNTED)}
        os.makedirs(f'{self.root}/core')
        with open(f'{self.root}/dbroot', 'w', encoding='ascii') as file:
            file.write(f'{self.database}\n')

    def add_device(self, path: str) -> None:
        """Let there be a block device of this name; the same again for the same name."""
        self._devices.setdefault(path, len(self._devices))

    def fail(self, pattern: str, number: int) -> None:
        """Let the next change of a path that matches fail with an error number."""
        self._faults.append((re.compile(pattern), number))

    def reboot(self) -> None:
        """As after a power cut: nothing is there but what LIO wrote to the disk."""
        with self._working():
            self._claimed.clear()
            for name in ('core', 'iscsi'):
                shutil.rmtree(f'{self.root}/{name}', ignore_errors=True)
            self._real['mkdir'](f'{self.root}/core')

    @contextlib.contextmanager
    def installed(self, *contexts: priv_context.PrivContext) -> Iterator[None]:
        """Be the kernel of this process; these contexts need no daemon meanwhile."""
        with self._folder, contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(node.CFSNode, 'configfs_dir', self.root))
            for context in contexts:
                stack.enter_context(mock.patch.object(context, 'client_mode', False))
            for name in _COUNTED:
                stack.enter_context(mock.patch.object(os, name, self._counted(name)))
            for name in ('mkdir', 'rmdir', 'symlink'):
                stack.enter_context(mock.patch.object(os, name, getattr(self, f'_{name}')))
            opened = functools.partial(self._open, builtins.open)
            stack.enter_context(mock.patch.object(builtins, 'open', opened))
            stack.enter_context(mock.patch.object(io, 'open', opened))
            yield

    # ---- What initiators do -----------------------------------------------------------------

    def log_in(self, name: str, initiator: str, account: str, password: str) -> bool:
        """Play an initiator: whether it is let in."""
        group = f'{self.root}/iscsi/{name}/tpgt_1'
        entry = f'{group}/acls/{initiator}'
        with self._working():
            if not os.path.isdir(entry) or self._read(f'{group}/enable') != '1' \
                    or not self._read(f'{entry}/auth/password') \
                    or (account, password) != (self._read(f'{entry}/auth/userid'),
                                               self._read(f'{entry}/auth/password')):
                return False
            self._write(f'{entry}/info', f'InitiatorName: {initiator}')
        return True

    def set_reservations(self, name: str, registered: list[str], holder: str | None = None,
                         kind: str = 'Write Exclusive Access') -> None:
        """Play clustered hosts: who holds a registration, and the reservation."""
        with self._working():
            self._reserved[name] = (registered, holder, kind)
            self._tell_reservations(name)

    def keep_reservations(self, serial: str, registered: list[str]) -> None:
        """What LIO writes when hosts register to survive a power loss."""
        with open(f'{self.database}/pr/aptpl_{serial}', 'w', encoding='ascii') as file:
            for number, one in enumerate(registered):
                file.write(f'PR_REG_START: {number}\ninitiator_fabric=iSCSI\n'
                           f'initiator_node={one}\nsa_res_key=2748\nmapped_lun=0\n'
                           f'PR_REG_END: {number}\n')

    # ---- Calls ------------------------------------------------------------------------------

    def _counted(self, name: str) -> Callable[..., Any]:
        real = self._real[name]

        def call(path: Any = '.', *arguments: Any, **options: Any) -> Any:
            if name == 'stat' and isinstance(path, str) and path in self._devices:
                return os.stat_result((stat.S_IFBLK | 0o600, *[0] * 9),
                                      {'st_rdev': os.makedev(_MAJOR, self._devices[path])})
            self._remember(path)
            return real(path, *arguments, **options)
        return call

    def _mkdir(self, path: Any, *arguments: Any, **options: Any) -> None:
        place = self._place(path)
        if place is None:
            self._real['mkdir'](path, *arguments, **options)
            return
        with self._working(path):
            self._changing(place)
            if os.path.lexists(path):
                raise _error(errno.EEXIST, path)
            if not os.path.isdir(os.path.dirname(path)):
                raise _error(errno.ENOENT, path)
            found = next((content for pattern, content in _PLACES
                          if re.fullmatch(pattern, place)), None)
            if found is None:
                raise _error(errno.EPERM, path)
            made = tempfile.mkdtemp(dir=os.path.dirname(self.root))
            for name, text in found.items():
                os.makedirs(os.path.dirname(f'{made}/{name}') if text is not None
                            else f'{made}/{name}', exist_ok=True)
                if text is not None:
                    self._write(f'{made}/{name}', text)
            os.rename(made, path)

    def _rmdir(self, path: Any, *arguments: Any, **options: Any) -> None:
        place = self._place(path)
        if place is None:
            self._real['rmdir'](path, *arguments, **options)
            return
        path = os.fspath(path)
        with self._working(path):
            self._changing(place)
            if not os.path.isdir(path):
                raise _error(errno.ENOENT, path)
            if path in self._links().values():
                raise _error(errno.EBUSY, path)
            inside = [os.path.relpath(os.path.join(folder, name), path)
                      for folder, names, _ in os.walk(path) for name in names]
            if any(_MADE.fullmatch(name) for name in inside) or any(
                    os.path.dirname(one) == path for one in self._links()):
                raise _error(errno.ENOTEMPTY, path)
            gone = tempfile.mkdtemp(dir=os.path.dirname(self.root))
            os.rename(path, f'{gone}/gone')
            self._claimed.pop(path, None)
            entry = re.fullmatch(r'iscsi/([^/]+)/tpgt_1/acls/([^/]+)', place)
            if entry is not None:
                self._forget_initiator(entry[1], entry[2])
        shutil.rmtree(gone)

    def _symlink(self, source: Any, path: Any, *arguments: Any, **options: Any) -> None:
        place = self._place(path)
        if place is not None:
            with self._working(path):
                self._changing(place)
                if '/core/' in str(source) and self._read(f'{source}/enable') != '1':
                    raise _error(errno.ENODEV, path)
        self._real['symlink'](source, path, *arguments, **options)

    def _open(self, real: Callable[..., Any], path: Any, mode: str = 'r', *arguments: Any,
              **options: Any) -> Any:
        place = self._place(path)
        if place is None:
            return real(path, mode, *arguments, **options)
        if 'r' in mode:
            self._remember(path)
            return real(path, mode, *arguments, **options)
        if not os.path.isfile(path):
            raise _error(errno.EPERM, path)
        return _Written(functools.partial(self._judge, os.fspath(path), place))

    # ---- What is written --------------------------------------------------------------------

    def _judge(self, path: str, place: str, text: str) -> None:
        with self._working(path):
            self._changing(place)
            text = text.strip()
            store, _, name = path.rpartition('/')
            if re.fullmatch(r'core/iblock_\d+/[^/]+/enable', place):
                self._enable(store)
            elif place.startswith('iscsi/') and name == 'enable' and text == '0':
                for initiator in os.listdir(f'{store}/acls'):
                    self._write(f'{store}/acls/{initiator}/info', 'No active iSCSI Session')
                self._write(f'{store}/dynamic_sessions', '')
            elif name == 'vpd_unit_serial':
                text = f'T10 VPD Unit Serial Number: {text}'
            elif name == 'res_aptpl_metadata':
                text = f'{self._read(path)}\n{text}'
            self._write(path, text)

    def _enable(self, store: str) -> None:
        device = self._read(f'{store}/control').removeprefix('udev_path=')
        if not device:
            raise _error(errno.EINVAL, store)
        if device not in self._devices:
            raise _error(errno.ENOTBLK if os.path.exists(device) else errno.ENOENT, store)
        number = self._devices[device]
        if number in self._claimed.values():
            raise _error(errno.EBUSY, store)
        self._claimed[store] = number
        self._write(f'{store}/info', f'Status: ACTIVATED\n'
                                     f'        Major: {_MAJOR} Minor: {number} CLAIMED: IBLOCK')

    def _tell_reservations(self, name: str) -> None:
        registered, holder, kind = self._reserved[name]
        store = self._store(name)
        text = 'SPC-3 PR Registrations:\n'
        for one in registered:
            line = f'iSCSI Node: {one},i,0x801a47350000 Key: 0x0000000000000abc PRgen: 0x00000000'
            # As the kernel: what does not fit into a page is left out.
            if len(text) + len(line) + 1 >= _PAGE:
                break
            text += f'{line}\n'
        self._write(f'{store}/pr/res_pr_registered_i_pts', text if registered else f'{text}None')
        self._write(f'{store}/pr/res_holder', f'SPC-3 Reservation: iSCSI Initiator: {holder}'
                    if holder else _NO_HOLDER)
        self._write(f'{store}/pr/res_pr_type',
                    f'SPC-3 Reservation Type: {kind}' if holder else _NO_HOLDER)

    def _forget_initiator(self, name: str, initiator: str) -> None:
        """With its entry goes what an initiator held."""
        if name in self._reserved:
            registered, holder, kind = self._reserved[name]
            self._reserved[name] = ([one for one in registered if one != initiator],
                                    None if holder == initiator else holder, kind)
            self._tell_reservations(name)

    def _changing(self, place: str) -> None:
        for fault in self._faults:
            if fault[0].search(place):
                self._faults.remove(fault)
                raise _error(fault[1], place)

    # ---- The tree ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def _working(self, path: Any = None) -> Iterator[None]:
        """One act of the kernel's at a time; what it looks at itself is no access."""
        self._remember(path)
        with self._lock:
            before = getattr(self._own, 'working', False)
            self._own.working = True
            try:
                yield
            finally:
                self._own.working = before

    def _remember(self, path: Any) -> None:
        if self._place(path) is not None and not getattr(self._own, 'working', False):
            self.accesses.append(str(os.fspath(path)))

    def _place(self, path: Any) -> str | None:
        """A path below the root; None: elsewhere."""
        if not isinstance(path, str | os.PathLike):
            return None
        text = str(os.fspath(path))
        return text[len(self.root) + 1:] if text.startswith(f'{self.root}/') else None

    def _links(self) -> dict[str, str]:
        """Every link in the tree, and where it leads."""
        return {os.path.join(folder, name): os.readlink(os.path.join(folder, name))
                for folder, names, _ in os.walk(f'{self.root}/iscsi') for name in names
                if os.path.islink(os.path.join(folder, name))}

    def _store(self, name: str) -> str:
        [found] = [f'{self.root}/core/{hba}/{name}' for hba in os.listdir(f'{self.root}/core')
                   if os.path.isdir(f'{self.root}/core/{hba}/{name}')]
        return found

    def _read(self, path: str) -> str:
        try:
            with open(path, encoding='utf-8') as file:
                return file.read().strip()
        except OSError:
            return ''

    def _write(self, path: str, text: str) -> None:
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, 'w', encoding='utf-8') as file:
            file.write(f'{text}\n')


class _Written(io.StringIO):
    """A file that the kernel is told of when it is closed; it may refuse."""

    def __init__(self, judge: Callable[[str], None]) -> None:
        super().__init__()
        self._judge = judge

    def close(self) -> None:
        if not self.closed:
            text = self.getvalue()
            super().close()
            self._judge(text)


def _error(number: int, path: Any) -> OSError:
    return OSError(number, os.strerror(number), str(path))
