"""Management of the QEMU process of one server: command line, sockets, status and termination.

QEMU runs as a daemon and outlives the agent. The process is identified by its monitor socket in
the directory of the server. Process ids are not stored, because the kernel may reuse them.
"""
import contextlib
import dataclasses
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

from blockattach.compute import errors
from blockattach.compute.hosts import qemu_records
from blockattach.compute.hosts import qmp
from blockattach.compute.hosts.local import processes
from blockattach.platform import clock as clocks

ACT, ASK, CONSOLE = 'act.qmp', 'ask.qmp', 'console'
"""Names of the sockets for commands that change state, for queries, and for the serial console.

A QEMU monitor serves one client at a time. A long command would delay queries on the same socket.
"""
CONSOLE_LOG = 'console.log'
_START_SECONDS = 120.0
_HANG_SECONDS = 2.0
"""Time in seconds after which a QEMU process that does not answer counts as hung.

For example, QEMU hangs when it loses access to a volume while its guest writes. Killing the
process loses no write that QEMU has reported to the guest as complete.
"""
_QUIT_SECONDS = 3.0
"""Time in seconds for a QEMU process that has answered ``quit`` to log out of its targets."""
_KILL_SECONDS = 20.0
_SANDBOX = 'on,obsolete=deny,resourcecontrol=deny'
"""Sandbox options of QEMU. Fork and setsid stay allowed, because QEMU daemonizes itself."""
_MACHINE = 'pc'
"""QEMU machine type. All its PCI slots support hotplug through ACPI, which asks the guest."""


@dataclasses.dataclass(frozen=True, slots=True)
class QemuSettings:
    """Settings of the QEMU host driver.

    :ivar state_dir: directory that only this host driver uses
    :ivar host: host name
    :ivar accelerator: accelerators in QEMU's syntax; the first that works is used
    :ivar kernel: path of the kernel to boot, or None to boot from the first disk
    :ivar append: kernel command line
    :ivar address: IP address of this host, on which it receives live migrations
    :ivar initiator_prefix: prefix of the iSCSI initiator names
    :ivar release_seconds: time in seconds for a guest to release a disk
    :ivar stop_seconds: time in seconds for a guest to shut down before its QEMU process is ended
    :ivar migration_seconds: timeout of a live migration in seconds
    """

    state_dir: str
    host: str
    binary: str = 'qemu-system-x86_64'
    accelerator: str = 'kvm:tcg'
    kernel: str | None = None
    initrd: str | None = None
    append: str = ''
    address: str = '127.0.0.1'
    initiator_prefix: str = 'iqn.2026-01.org.blockattach'
    release_seconds: float = 30.0
    stop_seconds: float = 60.0
    migration_seconds: float = 3600.0


def check(settings: QemuSettings) -> None:
    """Check that QEMU can run with the settings.

    :raises ConfigurationError: a program, a file or the iSCSI driver is missing
    """
    binary = shutil.which(settings.binary)
    if binary is None:
        raise errors.ConfigurationError(reason=f'{settings.binary} is not installed')
    for path in filter(None, (settings.kernel, settings.initrd)):
        if not os.access(path, os.R_OK):
            raise errors.ConfigurationError(
                reason=f'cannot read {path}, the kernel or initrd of guests')
    said = subprocess.run([binary, '-drive', 'format=help'], capture_output=True, text=True,
                          check=False, timeout=_START_SECONDS)
    if 'iscsi' not in said.stdout.split():
        raise errors.ConfigurationError(
            reason=f'{binary} lacks the iSCSI driver of qemu-block-extra: {said.stderr.strip()}')


class Process:
    """QEMU process of one server."""

    def __init__(self, settings: QemuSettings, folder: str, clock: clocks.Clock) -> None:
        self._settings = settings
        self._folder = folder
        self._clock = clock

    def start(self, record: qemu_records.Record, incoming: bool = False) -> None:
        """Start QEMU without disks, and with the guest paused.

        :param incoming: True if the guest will be received from another host
        :raises HostRefused: QEMU did not start
        """
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(self._folder, CONSOLE_LOG))
        try:
            subprocess.run(
                self._command(record, incoming), cwd=self._folder, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, check=True, timeout=_START_SECONDS)
        except OSError as exc:
            raise errors.HostRefused(reason=f'cannot start QEMU: {exc}') from exc
        except subprocess.CalledProcessError as exc:
            raise errors.HostRefused(
                reason=f'cannot start QEMU: {exc.stderr.strip() or exc}') from exc

    def monitor(self, name: str = ACT, seconds: float = qmp.ANSWER_SECONDS) -> qmp.Monitor:
        """Open a monitor connection to QEMU.

        :param name: name of the socket, `ACT` or `ASK`
        :param seconds: timeout for each answer of QEMU
        :raises NotRunning: QEMU is not running
        :raises NoAnswer: QEMU hangs
        """
        return qmp.Monitor(self._folder, name, self._clock, seconds)

    def ask(self, command: str, seconds: float = qmp.ANSWER_SECONDS) -> Any:
        """Return the result of a query, which QEMU answers even while another command runs."""
        with self.monitor(ASK, seconds) as monitor:
            return monitor.call(command)

    def status(self, seconds: float = qmp.ANSWER_SECONDS) -> str | None:
        """Return QEMU's run state of the guest, such as ``paused``, or None if QEMU has ended.

        :raises NoAnswer: QEMU hangs
        """
        try:
            status: str = self.ask('query-status', seconds)['status']
        except qmp.NotRunning:
            return None
        except qmp.NoAnswer:
            # QEMU has ended meanwhile, or hangs.
            if self._is_there():
                raise
            return None
        return status

    def end(self, grace: float = 0.0) -> None:
        """End the QEMU process. If QEMU answers, QEMU first logs out of its targets.

        :param grace: seconds for the guest to shut down before the process is ended
        :raises HostError: the process did not end after SIGKILL
        """
        try:
            peer = self.monitor(seconds=max(grace, _HANG_SECONDS))
        except qmp.NotRunning:
            return
        except qmp.NoAnswer:
            # A hung QEMU accepts no clients, and the backlog of its socket is full.
            for pid in self._find():
                with _opened(pid) as descriptor:
                    # The kernel may have reused the id before the pidfd was opened.
                    if descriptor is not None and pid in self._find():
                        _kill(descriptor, pid)
            return
        with contextlib.closing(peer), _opened(peer.pid) as descriptor:
            if descriptor is not None:
                self._end(peer, descriptor, grace)

    def _find(self) -> list[int]:
        return processes.find(os.path.basename(self._settings.binary),
                              os.path.basename(self._folder))

    def _end(self, peer: qmp.Monitor, descriptor: int, grace: float) -> None:
        if _is_asked_to_quit(peer, descriptor, grace) and _has_ended(descriptor, _QUIT_SECONDS):
            return
        _kill(descriptor, peer.pid)

    def _is_there(self) -> bool:
        try:
            self.monitor(ASK).close()
        except qmp.NotRunning:
            return False
        return True

    def _command(self, record: qemu_records.Record, incoming: bool) -> list[str]:
        settings = self._settings
        command = [
            settings.binary, '-name', f'guest={_quoted(record.name)}', '-uuid', record.server_id,
            '-machine', f'{_MACHINE},accel={settings.accelerator}', '-cpu', 'max',
            '-smp', str(record.vcpus), '-m', f'{record.memory_mb}M',
            '-nodefaults', '-no-user-config', '-display', 'none', '-daemonize',
            '-sandbox', _SANDBOX,
            '-chardev', f'socket,id=console,path={CONSOLE},server=on,wait=off,'
                        f'logfile={CONSOLE_LOG}',
            '-serial', 'chardev:console',
            '-qmp', f'unix:{ACT},server=on,wait=off', '-qmp', f'unix:{ASK},server=on,wait=off',
            # Disks are added before the guest runs, or before the migration is received.
            *(('-incoming', 'defer') if incoming else ('-S',))]
        if settings.kernel is not None:
            # QEMU is started in the server's directory.
            command += ['-kernel', os.path.abspath(settings.kernel), '-append', settings.append]
            if settings.initrd is not None:
                command += ['-initrd', os.path.abspath(settings.initrd)]
        return command


def _is_asked_to_quit(peer: qmp.Monitor, descriptor: int, grace: float) -> bool:
    """Ask the guest to shut down, and QEMU to quit. Return False if the process hangs.

    :param grace: seconds for the guest to shut down, or 0 to not ask the guest
    """
    try:
        peer.greet()
        if grace:
            peer.call('system_powerdown')
            if _has_ended(descriptor, grace):
                return True
        peer.call('quit')
    except qmp.Ended:
        return True
    except errors.HostError:
        return False
    return True


@contextlib.contextmanager
def _opened(pid: int) -> Iterator[int | None]:
    """Yield a pidfd of a process, or None if the process has ended."""
    try:
        # Unlike a process id, an open pidfd never comes to refer to another process.
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _kill(descriptor: int, pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    if not _has_ended(descriptor, _KILL_SECONDS):
        raise errors.HostError(reason=f'QEMU process {pid} did not end after SIGKILL')


def _has_ended(descriptor: int, seconds: float) -> bool:
    # A pidfd becomes readable when its process ends.
    ready, _, _ = select.select([descriptor], [], [], seconds)
    return bool(ready)


def _quoted(text: str) -> str:
    # A single comma would start another option of QEMU.
    return text.replace(',', ',,')
