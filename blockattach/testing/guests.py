"""Test guests with a Debian kernel, and an initial RAM disk that this module builds.

The init process of a guest executes commands from the serial console. The commands list, read and
write the disks of the guest.

    built = guests.find().build(folder)       # kernel, initrd and command line of the guest
    console = guests.Console(os.path.join(folder_of_the_server, 'console'))
    console.wait()
    console.write(console.disks()[0].name, b'hello')
"""
import binascii
import contextlib
import dataclasses
import gzip
import lzma
import os
import pathlib
import re
import shutil
import socket
import stat
from collections.abc import Iterable
from collections.abc import Iterator

from blockattach.platform import clock as clocks

PLACE = 'BLOCKATTACH_GUEST_KERNEL'
"""Environment variable with the directory of an unpacked Debian package linux-image-*."""
APPEND = 'console=ttyS0 quiet panic=-1'
_MODULES = ('virtio_pci', 'virtio_blk')
_SHELL = '/bin/busybox'
_READY = b'guest is ready'
_DEPENDS = re.compile(rb'\0depends=([^\0]*)\0')
_SECTOR = 512
# Without KVM, QEMU emulates the processor, and a guest takes long to start.
_LIMIT_SECONDS = 300.0
_TICK = 0.1
# The guest bypasses its page cache (``direct``), which would hide the writes of other guests. The
# terminal is raw, so that the guest returns no echo of a command.
_INIT = r"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for module in /modules/*; do insmod "$module"; done
exec </dev/ttyS0 >/dev/ttyS0 2>&1
stty raw -echo
disks() {
    for disk in /sys/block/vd*; do
        [ -e "$disk" ] || continue
        place=$(realpath "$disk/device/..")
        echo "${disk##*/} $(cat "$disk/size") $(cat "$disk/ro") ${place##*/} $(cat "$disk/serial")"
    done
}
read_from() { dd if="/dev/$1" bs=512 count=1 iflag=direct 2>/dev/null | xxd -p; }
write_to() { echo "$2" | xxd -r -p | dd of="/dev/$1" bs=512 conv=sync,fsync oflag=direct 2>&1; }
hold() { exec 9<"/dev/$1"; }
echo guest is ready
while read -r number verb arguments; do
    [ -n "$verb" ] || continue
    $verb $arguments
    echo "$number ended $?"
done
"""


class GuestError(Exception):
    """Error of a guest that has not started, does not respond, or has ended."""


@dataclasses.dataclass(frozen=True, slots=True)
class Built:
    """Paths of kernel and initial RAM disk, and the kernel command line."""

    kernel: str
    initrd: str
    append: str = APPEND


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """Disk as a guest sees it.

    :ivar name: device name, such as ``vdb``
    :ivar size: size in bytes
    :ivar place: bus address of the device
    """

    name: str
    size: int
    read_only: bool
    place: str
    serial: str


class Kernel:
    """Kernel in an unpacked Debian package."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = pathlib.Path(folder)

    def missing(self) -> str | None:
        """Return the reason why no guest can be built, or None if nothing is missing."""
        if shutil.which('busybox') is None:
            return 'busybox is not installed'
        if not any(self._folder.glob('boot/vmlinuz-*')):
            return f'no kernel found in {self._folder} ({PLACE})'
        return None

    def build(self, folder: str) -> Built:
        """Build the initial RAM disk of a guest in a directory, and return the paths."""
        kernel = sorted(self._folder.glob('boot/vmlinuz-*'))[-1]
        release = kernel.name.removeprefix('vmlinuz-')
        busybox = shutil.which('busybox')
        assert busybox is not None
        files = {'init': _INIT.encode(), _SHELL[1:]: pathlib.Path(busybox).read_bytes()}
        for number, module in enumerate(self._modules(release)):
            files[f'modules/{number:02}'] = module
        initrd = os.path.join(folder, 'initrd.gz')
        with gzip.open(initrd, 'wb', compresslevel=1) as file:
            file.write(b''.join(_archive(files, ('dev', 'proc', 'sys'))))
        return Built(str(kernel), initrd)

    def _modules(self, release: str) -> Iterable[bytes]:
        """Return the contents of the required modules, each after its dependencies."""
        found = {path.name.split('.')[0].replace('-', '_'): path
                 for path in (self._folder / 'lib/modules' / release).rglob('*.ko*')}
        loaded: dict[str, bytes] = {}

        def load(name: str) -> None:
            # A name without a file is built into the kernel.
            if name in loaded or name not in found:
                return
            content = found[name].read_bytes()
            if found[name].suffix == '.xz':
                content = lzma.decompress(content)
            depends = _DEPENDS.search(content)
            for dependency in depends.group(1).decode().split(',') if depends else ():
                load(dependency.replace('-', '_'))
            loaded[name] = content

        for name in _MODULES:
            load(name)
        return loaded.values()


def find() -> Kernel:
    """Return the kernel in the directory that the environment variable `PLACE` names."""
    return Kernel(os.environ.get(PLACE, '/nonexistent'))


def _archive(files: dict[str, bytes], folders: Iterable[str]) -> Iterator[bytes]:
    """Yield the parts of a cpio archive in the newc format of an initial RAM disk."""
    made = dict.fromkeys([*folders, *(os.path.dirname(name) for name in files)])
    entries = [(name, stat.S_IFDIR | 0o755, b'') for name in made if name]
    entries += [(name, stat.S_IFREG | 0o755, content) for name, content in files.items()]
    entries.append(('TRAILER!!!', 0, b''))
    for number, (name, mode, content) in enumerate(entries, 1):
        path = name.encode() + b'\0'
        fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
        head = b'070701' + b''.join(b'%08X' % field for field in fields) + path
        yield head + bytes(-len(head) % 4) + content + bytes(-len(content) % 4)


class Console:
    """Client of a guest's serial console. Each command uses its own connection."""

    def __init__(self, path: str, seconds: float = _LIMIT_SECONDS) -> None:
        """Create the client without connecting.

        :param path: path of the socket. The console log has the same path with ``.log`` appended.
        :param seconds: timeout in seconds of the start and of each command
        """
        self._path = path
        self._seconds = seconds
        self._clock = clocks.Clock()
        self._asked = 0

    def wait(self) -> None:
        """Wait until the guest accepts commands.

        The method is not for a guest that was live-migrated to this host. Such a guest accepts
        commands at once, but its console log on this host lacks the ready message.

        :raises GuestError: if the guest does not start in time
        """
        def is_ready() -> bool:
            with contextlib.suppress(FileNotFoundError), open(f'{self._path}.log', 'rb') as file:
                return _READY in file.read()
            return False

        if not self._clock.until(is_ready, self._seconds, _TICK):
            raise GuestError(f'the guest did not start: {self.said()}')

    def said(self) -> str:
        """Return the complete console log of the guest."""
        return pathlib.Path(f'{self._path}.log').read_text(encoding='utf-8', errors='replace')

    def disks(self) -> list[Seen]:
        return [Seen(name, int(sectors) * _SECTOR, read_only == '1', place, serial)
                for name, sectors, read_only, place, serial in map(
                    str.split, self._run('disks')[0])]

    def read(self, name: str) -> bytes:
        """Return the first sector of a disk, without trailing zeros.

        :param name: name of the disk in the guest
        """
        lines, _status = self._run(f'read_from {name}')
        return binascii.unhexlify(''.join(lines)).rstrip(b'\0')

    def write(self, name: str, data: bytes) -> bool:
        """Write data to the first sector of a disk, and return True if the write succeeds."""
        return self._run(f'write_to {name} {data.hex()}')[1] == 0

    def hold(self, name: str) -> None:
        """Open a disk in the guest, and keep it open."""
        self._run(f'hold {name}')

    def _run(self, command: str) -> tuple[list[str], int]:
        self._asked += 1
        deadline = self._clock.monotonic() + self._seconds
        end = re.compile(rf'^{self._asked} ended (\d+)\r?\n', re.M)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(self._seconds)
            line.connect(self._path)
            # End a partial command that a live migration may have cut off.
            line.sendall(f'\n{self._asked} {command}\n'.encode())
            output = ''
            while (ended := end.search(output)) is None:
                line.settimeout(max(deadline - self._clock.monotonic(), _TICK))
                try:
                    part = line.recv(65536)
                except TimeoutError:
                    raise GuestError(f'no response to {command}: {output}') from None
                if not part:
                    raise GuestError(f'the guest ended: {output}')
                output += part.decode(errors='replace')
        return output[:ended.start()].splitlines(), int(ended.group(1))
