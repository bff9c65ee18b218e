"""Host driver for QEMU guests (`doc/source/admin/compute_qemu.rst`).

QEMU logs in to the targets of disks itself, and each server has its own initiator name. The QEMU
process of a server reports the actual disks and power state of the server. The intended state is
in the description of the server (`qemu_records`). A disk is added to the description before QEMU
gets the disk, and removed from the description after QEMU has released the disk.
"""
import contextlib
import platform
import threading
import weakref
from collections.abc import Callable
from collections.abc import Iterator
from concurrent import futures
from typing import Any

from blockattach.compute import errors
from blockattach.compute.hosts import base
from blockattach.compute.hosts import qemu_disks
from blockattach.compute.hosts import qemu_process
from blockattach.compute.hosts import qemu_records
from blockattach.compute.hosts import qmp
from blockattach.platform import clock as clocks
from blockattach.storage.domain import connection

QemuSettings = qemu_process.QemuSettings
_RUNNING = ('running', 'paused', 'io-error', 'suspended', 'watchdog', 'guest-panicked',
            'finish-migrate')
_MOVED = 'postmigrate'
_OVER = ('completed', 'failed', 'cancelled')
_CANCEL_SECONDS = 60.0
_LOOK_SECONDS = 2.0
"""Timeout in seconds of a QEMU process that is queried for a report.

A QEMU process that does not answer counts as running.
"""
_LOOKS = 32
"""Number of QEMU processes that are queried in parallel, so that hung ones do not delay a report.
"""
_TICK = 0.05


class _Lock:
    """Lock on the operations of one server.

    `QemuHost` only has a weak reference to the lock, so that the locks of idle servers do not
    accumulate.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()


class QemuHost(base.Host):
    """Host driver that runs each server as a QEMU process.

    A stopped server has no QEMU process and no sessions. The connection information of its disks
    is only tried when the server is started.
    """

    def __init__(self, settings: QemuSettings, clock: clocks.Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or clocks.Clock()
        self._records = qemu_records.Records(settings.state_dir)
        self._guard = threading.Lock()
        self._locks: weakref.WeakValueDictionary[str, _Lock] = weakref.WeakValueDictionary()

    def check(self) -> None:
        qemu_process.check(self._settings)
        try:
            self._records.make_folder()
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot use the directory {self._settings.state_dir}: '
                       f'{exc.strerror}') from exc

    def connector(self, server_id: str) -> dict[str, Any]:
        """See `base.Host`. Each QEMU process logs in with an initiator name of its own."""
        return {'host': self._settings.host, 'initiator': self._initiator(server_id),
                'ip': self._settings.address, 'multipath': False,
                'platform': platform.machine(), 'os_type': 'linux'}

    def spawn(self, guest: base.Guest) -> None:
        with self._locked(guest.server_id):
            if self._runs(guest.server_id):
                return
            with _or_back(lambda: self.destroy(guest.server_id)):
                self._run(guest)

    def define(self, guest: base.Guest) -> None:
        with self._locked(guest.server_id):
            if not self._runs(guest.server_id):
                self._records.write(qemu_records.record_of(guest))

    def stop(self, server_id: str) -> None:
        """Shut down the guest. After the shutdown timeout, end its QEMU process.

        :raises HostRefused: the server does not exist on this host
        """
        with self._locked(server_id):
            self._known(server_id)
            grace = self._settings.stop_seconds
            try:
                running = self._process(server_id).status(grace) in _RUNNING
            except qmp.NoAnswer:
                # The shutdown timeout has expired, and a hung QEMU cannot be asked to quit.
                running = False
            self._process(server_id).end(grace if running else 0.0)

    def start(self, guest: base.Guest) -> None:
        with self._locked(guest.server_id):
            if self._runs(guest.server_id):
                return
            with _or_back(self._process(guest.server_id).end):
                self._run(guest)

    def reboot(self, guest: base.Guest) -> None:
        with self._locked(guest.server_id):
            self.stop(guest.server_id)
            self.start(guest)

    def destroy(self, server_id: str) -> None:
        with self._locked(server_id):
            self._process(server_id).end()
            self._records.remove(server_id)

    def plug(self, server_id: str, disk: base.Disk) -> None:
        with self._locked(server_id):
            record = self._known(server_id)
            # Rejects an unsupported device name before the disk is recorded.
            qemu_disks.slot(disk.device)
            self._records.write(record.having(qemu_records.disk_of(disk)))
            try:
                with self._monitor(server_id) as monitor:
                    qemu_disks.Disks(monitor, self._clock).add(disk, self._initiator(server_id))
            except qmp.NotRunning:
                # The disk of a stopped server is connected at the next start.
                if record.has_other(disk.volume_id, disk.device):
                    self._records.write(record)
                    raise errors.HostRefused(
                        reason=f'device name {disk.device} is in use by another disk') from None
            except errors.HostRefused:
                self._records.write(record)
                raise

    def unplug(self, server_id: str, volume_id: str) -> None:
        with self._locked(server_id):
            record = self._records.read(server_id)
            disk = record.disk(volume_id) if record is not None else None
            if record is None or disk is None:
                return
            with contextlib.suppress(qmp.NotRunning), self._monitor(server_id) as monitor:
                disks = qemu_disks.Disks(monitor, self._clock)
                # The target of a copy that an earlier agent began.
                if disk.copying:
                    disks.cancel(disk.device)
                if not disks.remove(volume_id, disk.device, self._settings.release_seconds):
                    raise errors.DeviceBusy(volume_id=volume_id, server_id=server_id)
            self._records.write(record.without(volume_id))

    def resize(self, server_id: str, volume_id: str, size_gb: int) -> None:
        """See `base.Host`. A stopped guest sees the new size when it is started."""
        with self._locked(server_id):
            self._disk(self._known(server_id), volume_id)
            with contextlib.suppress(qmp.NotRunning), self._monitor(server_id) as monitor:
                qemu_disks.Disks(monitor, self._clock).resize(volume_id, size_gb)

    def swap(self, server_id: str, volume_id: str, disk: base.Disk) -> None:
        """See `base.Host`.

        A running guest sees the serial number of the old volume until the server is restarted.
        """
        with self._locked(server_id):
            record = self._known(server_id)
            if record.disk(volume_id) is None and record.disk(disk.volume_id) is not None:
                # A repeated call after the copy.
                return
            old = self._disk(record, volume_id)
            new = qemu_records.Disk(disk.volume_id, old.device, disk.mode, copying=True)
            self._records.write(record.having(new))
            try:
                with self._monitor(server_id) as monitor:
                    qemu_disks.Disks(monitor, self._clock).copy(
                        volume_id, old.device, disk, self._initiator(server_id))
            except qmp.NotRunning:
                self._records.write(record.without(disk.volume_id))
                raise errors.HostRefused(reason=f'server {server_id} is not running') from None
            except errors.HostRefused:
                self._records.write(record.without(disk.volume_id))
                raise
            self._records.write(record.without(volume_id).having(
                qemu_records.Disk(disk.volume_id, old.device, disk.mode)))

    def servers(self) -> dict[str, base.Power]:
        """See `base.Host`. A server whose QEMU process hangs is reported as running."""
        server_ids = list(self._records.ids())
        if not server_ids:
            return {}
        with futures.ThreadPoolExecutor(min(len(server_ids), _LOOKS), 'qemu-look') as looks:
            return dict(zip(server_ids, looks.map(self._power, server_ids), strict=True))

    def _power(self, server_id: str) -> base.Power:
        try:
            status = self._process(server_id).status(_LOOK_SECONDS)
            return base.Power.RUNNING if status in _RUNNING else base.Power.STOPPED
        except qmp.NoAnswer:
            # A hung QEMU must not hide the other servers from the report.
            return base.Power.RUNNING

    def disks(self, server_id: str) -> dict[str, connection.AccessMode]:
        """See `base.Host`. The disks of a stopped server come from its description."""
        record = self._known(server_id)
        try:
            given = qemu_disks.given(self._process(server_id).ask('query-block'))
        except qmp.NotRunning:
            return {disk.volume_id: disk.mode for disk in record.disks if not disk.copying}
        found = {}
        for disk in record.disks:
            name, readonly = given.get(qemu_disks.device_id(disk.device), ('', False))
            if name == qemu_disks.node(disk.volume_id):
                found[disk.volume_id] = (connection.AccessMode.RO if readonly
                                         else connection.AccessMode.RW)
        return found

    def receive(self, guest: base.Guest) -> str:
        """See `base.Host`. The address is a migration URI of QEMU."""
        server_id = guest.server_id
        with self._locked(server_id):
            if self._runs(server_id):
                raise errors.HostRefused(
                    reason=f'server {server_id} is already running on this host')
            with _or_back(lambda: self.destroy(server_id)):
                self._run(guest, incoming=True)
                with self._monitor(server_id) as monitor:
                    return self._listen(monitor)

    def send(self, server_id: str, address: str) -> None:
        with self._locked(server_id):
            self._known(server_id)
            try:
                with self._monitor(server_id) as monitor:
                    if monitor.call('query-status')['status'] != _MOVED:
                        self._move(monitor, address)
            except qmp.NotRunning:
                # An agent may have ended before it could report the migration.
                raise errors.HostError(
                    reason=f'server {server_id} is not, or no longer, running on this host'
                ) from None
            self.destroy(server_id)

    def _run(self, guest: base.Guest, incoming: bool = False) -> None:
        """Start QEMU with the disks of the guest, and run the guest.

        :param incoming: True to wait for the guest to be received from another host instead
        """
        disks = sorted(guest.disks, key=lambda disk: qemu_disks.slot(disk.device))
        process = self._process(guest.server_id)
        # A failed start may have left a QEMU whose guest does not run.
        process.end()
        self._records.write(qemu_records.record_of(guest))
        process.start(self._known(guest.server_id), incoming)
        with self._monitor(guest.server_id) as monitor:
            added = qemu_disks.Disks(monitor, self._clock)
            boots = self._settings.kernel is None
            for number, disk in enumerate(disks, 1):
                added.add(disk, self._initiator(guest.server_id), number if boots else None)
            if not incoming:
                monitor.call('cont')

    def _listen(self, monitor: qmp.Monitor) -> str:
        _set_up(monitor)
        host = self._settings.address
        host = f'[{host}]' if ':' in host else host
        monitor.call('migrate-incoming', {'uri': f'tcp:{host}:0'})
        listens = monitor.call('query-migrate')['socket-address'][0]
        return f'tcp:{host}:{listens["port"]}'

    def _move(self, monitor: qmp.Monitor, address: str) -> None:
        """Send the guest to the host that listens on an address.

        :raises HostRefused: the migration failed, and the guest keeps running on this host
        :raises HostError: the migration did not end after its cancellation
        """
        # QEMU continues a migration whose agent has ended.
        if monitor.call('query-migrate').get('status', _OVER[0]) in _OVER:
            _set_up(monitor)
            try:
                monitor.call('migrate', {'uri': address})
            except qmp.Refused as exc:
                raise errors.HostRefused(
                    reason=f'cannot migrate the server: {exc.description}') from exc
        monitor.wait(_is_over, self._settings.migration_seconds)
        # A finished migration ignores the cancellation.
        monitor.call('migrate_cancel')
        if not self._clock.until(lambda: monitor.call('query-migrate')['status'] in _OVER,
                                 _CANCEL_SECONDS, _TICK):
            raise errors.HostError(
                reason='the migration of the server did not end after its cancellation')
        found = monitor.call('query-migrate')
        if found['status'] != 'completed':
            if monitor.call('query-status')['status'] != 'running':
                monitor.call('cont')
            reason = found.get('error-desc', 'the migration timed out')
            raise errors.HostRefused(reason=f'cannot migrate the server: {reason}')

    def _runs(self, server_id: str) -> bool:
        return self._process(server_id).status() in _RUNNING

    def _known(self, server_id: str) -> qemu_records.Record:
        record = self._records.read(server_id)
        if record is None:
            raise errors.HostRefused(reason=f'server {server_id} does not exist on this host')
        return record

    def _disk(self, record: qemu_records.Record, volume_id: str) -> qemu_records.Disk:
        disk = record.disk(volume_id)
        if disk is None:
            raise errors.HostRefused(
                reason=f'server {record.server_id} has no volume {volume_id}')
        return disk

    def _process(self, server_id: str) -> qemu_process.Process:
        return qemu_process.Process(self._settings, self._records.folder(server_id), self._clock)

    def _monitor(self, server_id: str) -> qmp.Monitor:
        return self._process(server_id).monitor()

    def _initiator(self, server_id: str) -> str:
        return f'{self._settings.initiator_prefix}:{self._settings.host}-{server_id}'

    @contextlib.contextmanager
    def _locked(self, server_id: str) -> Iterator[None]:
        with self._guard:
            held = self._locks.setdefault(server_id, _Lock())
        with held.lock:
            yield


@contextlib.contextmanager
def _or_back(undo: Callable[[], None]) -> Iterator[None]:
    """Call ``undo`` if the block raises an exception, and replace `HostError` by `HostRefused`."""
    try:
        yield
    except Exception as exc:
        undo()
        if isinstance(exc, errors.HostError) and not isinstance(exc, errors.HostRefused):
            raise errors.HostRefused(reason=str(exc)) from exc
        raise


def _set_up(monitor: qmp.Monitor) -> None:
    """Enable migration capabilities of QEMU: events, return-path and auto-converge.

    With ``return-path``, the migration completes after the receiver has confirmed it.
    ``auto-converge`` slows down a guest that writes faster than QEMU can send its memory.
    """
    monitor.call('migrate-set-capabilities', {'capabilities': [
        {'capability': name, 'state': True} for name in ('events', 'return-path',
                                                         'auto-converge')]})


def _is_over(event: qmp.Event) -> bool:
    return event['event'] == 'MIGRATION' and event['data']['status'] in _OVER
