"""One QEMU process: its command line, its sockets, whether it runs, and its end.

It is a daemon: it goes on when the agent ends. What listens on the socket in the server's folder
is the server's QEMU; so no number of a process is kept, that another one could have later.
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
"""Sockets: for what changes something and may take long; for questions; the serial line."""
CONSOLE_LOG = 'console.log'
_START_SECONDS = 120.0
_HANG_SECONDS = 2.0
"""Time after which a QEMU that does not answer counts as hung.

A QEMU hangs, for example, when it loses access to a volume while its guest writes. Killing the
process loses no write that QEMU has reported to the guest as complete.
"""
_QUIT_SECONDS = 3.0
"""Time for a QEMU that has answered to log out of its targets."""
_KILL_SECONDS = 20.0
_SANDBOX = 'on,obsolete=deny,resourcecontrol=deny'
"""It must be let fork and begin a session, since it becomes a daemon."""
_MACHINE = 'pc'
"""All its slots take and give back disks by ACPI, which asks the guest."""


@dataclasses.dataclass(frozen=True, slots=True)
class QemuSettings:
    """How a host runs guests. A class of values only.

    :ivar state_dir: a folder of this host's own
    :ivar host: its name
    :ivar accelerator: names as QEMU takes them, the first that works
    :ivar kernel: what is booted; None: the first disk
    :ivar append: the kernel's command line
    :ivar address: of this host: where servers that move are received
    :ivar initiator_prefix: the begin of iSCSI names
    :ivar release_seconds: how long a guest may take to release a disk
    :ivar stop_seconds: how long a guest may take to shut down before it is ended
    :ivar migration_seconds: how long a move may take
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
    """Return if QEMU can run as the settings say.

    :raises ConfigurationError: something is missing
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
    """The QEMU of one server."""

    def __init__(self, settings: QemuSettings, folder: str, clock: clocks.Clock) -> None:
        self._settings = settings
        self._folder = folder
        self._clock = clock

    def start(self, record: qemu_records.Record, incoming: bool = False) -> None:
        """Start it without disks; its guest does not run yet.

        :param incoming: the guest comes from another host
        :raises HostRefused: it does not start
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
        """A connection to it.

        :param seconds: how long it may take to answer
        :raises NotRunning: it does not run
        """
        return qmp.Monitor(self._folder, name, self._clock, seconds)

    def ask(self, command: str, seconds: float = qmp.ANSWER_SECONDS) -> Any:
        """The answer to a question, also while something is done to it."""
        with self.monitor(ASK, seconds) as monitor:
            return monitor.call(command)

    def status(self, seconds: float = qmp.ANSWER_SECONDS) -> str | None:
        """What QEMU calls the state of its guest; None: it does not run.

        :raises NoAnswer: it hangs
        """
        try:
            status: str = self.ask('query-status', seconds)['status']
        except qmp.NotRunning:
            return None
        except qmp.NoAnswer:
            # It ended meanwhile, or hangs.
            if self._is_there():
                raise
            return None
        return status

    def end(self, grace: float = 0.0) -> None:
        """End it, whatever its guest does; log out of all targets if it can.

        :param grace: seconds in which the guest may shut down by itself
        """
        try:
            peer = self.monitor(seconds=max(grace, _HANG_SECONDS))
        except qmp.NotRunning:
            return
        except qmp.NoAnswer:
            # The backlog of the socket is full of clients that gave up: QEMU accepts none.
            for pid in self._find():
                with _opened(pid) as descriptor:
                    if descriptor is not None and pid in self._find():
                        _kill(descriptor, pid)
            return
        with contextlib.closing(peer), _opened(peer.pid) as descriptor:
            if descriptor is not None:
                self._end(peer, descriptor, grace)

    def _find(self) -> list[int]:
        """Return the process ids of the QEMU of this server, found by its arguments."""
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
            *(('-incoming', 'defer') if incoming else ('-S',))]
        if settings.kernel is not None:
            # It is started in the server's folder.
            command += ['-kernel', os.path.abspath(settings.kernel), '-append', settings.append]
            if settings.initrd is not None:
                command += ['-initrd', os.path.abspath(settings.initrd)]
        return command


def _is_asked_to_quit(peer: qmp.Monitor, descriptor: int, grace: float) -> bool:
    """Return True if QEMU is ending or has ended, and False if the process hangs."""
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
    """Open a pidfd, which refers to the same process while open; None if the process has ended."""
    try:
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
    """Wait for the end of a process."""
    ready, _, _ = select.select([descriptor], [], [], seconds)
    return bool(ready)


def _quoted(text: str) -> str:
    """A comma ends an option of QEMU's; doubled, it is one."""
    return text.replace(',', ',,')
