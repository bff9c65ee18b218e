"""Supervision of the target of a backend, either a target process or a target in the kernel.

A target process is started with the service, watched, and left running or stopped with the
service. Any other target is watched by the reconciler, which queries its exports periodically.
"""
from collections.abc import Callable

from oslo_log import log as oslo_log

from blockattach.platform import errors
from blockattach.platform import log
from blockattach.storage.drivers import base

LOG = oslo_log.getLogger(__name__)

_SILENT, _DOWN = 'the target does not answer', 'the target is not running'


class TargetProcess:
    """Supervisor of the target process of one backend.

    The methods do nothing for a target that has no process.
    """

    def __init__(self, target: base.ExportTarget, host: str, restored: Callable[[], None],
                 ends_with_service: bool,
                 changed: Callable[[str | None], None] = lambda wrong: None) -> None:
        """Create the supervisor without starting the target process.

        :param restored: called when the target answers again; it may have lost its exports
        :param ends_with_service: True if the process stops with the service; False if it continues
            with its sessions until the next start of the service finds it
        :param changed: called with the reason why the target does not answer, or with None when it
            answers again
        """
        self._daemon = target if isinstance(target, base.Daemon) else None
        self._host = host
        self._restored = restored
        self._changed = changed
        self._ends_with_service = ends_with_service
        self._ends = False
        self._wrong: str | None = None

    @property
    def there(self) -> bool:
        """True if the target has a process to watch."""
        return self._daemon is not None

    def start(self) -> None:
        """Start the target process unless it is running."""
        if self._daemon is not None:
            # A process that was running before may have sessions, so it must not be stopped if the
            # start of the service fails.
            self._ends = not self._daemon.running()
            self._daemon.start()

    def adopt(self) -> None:
        """Apply ``ends_with_service`` from now on, because the start of the service has succeeded.

        Until then, `stop` ends the process only if this service has started the process.
        """
        self._ends = self._ends_with_service

    def stop(self) -> None:
        """Stop the target process if it ends with the service.

        After a failed start of the service, the process is stopped if the service has started it.
        """
        if self._daemon is not None and self._ends:
            self._daemon.stop()

    def watch(self) -> None:
        """Check the target process, and restart the process if it has died.

        After a restart, the exports are restored. A process that hangs is not restarted, because
        it still has its sessions. If another program starts the process, the supervisor waits.
        """
        if self._daemon is None:
            return
        if self._daemon.running():
            if self._wrong is not None:
                self._is_back()
        elif self._daemon.has_process():
            if self._wrong != _SILENT:
                LOG.error('Target process stalled, waiting%s', log.fields(host=self._host))
                self._wrong = _SILENT
                self._changed(_SILENT)
        else:
            self._start_again(self._daemon, is_logged=self._wrong == _DOWN)

    def _start_again(self, daemon: base.Daemon, is_logged: bool) -> None:
        self._wrong = _DOWN
        if not is_logged:
            LOG.error('Target process died, restarting%s', log.fields(host=self._host))
        try:
            daemon.start()
        except errors.ConfigurationError as exc:
            if not is_logged:
                LOG.error('Failed to start target process, will retry%s',
                          log.fields(host=self._host, reason=exc))
                self._changed(_DOWN)
            return
        self._is_back()

    def _is_back(self) -> None:
        self._wrong = None
        LOG.info('Target process recovered%s', log.fields(host=self._host))
        self._changed(None)
        self._restored()


class TargetAnswers:
    """Watch of a target that has no process, by means of the reconciler that queries the target.

    A target process has a `TargetProcess` instead.
    """

    def __init__(self, compare: Callable[[], object], host: str,
                 changed: Callable[[str | None], None]) -> None:
        """Create the watch of a target.

        :param compare: compares target and rows; raises `errors.BackendError` if the target does
            not answer
        :param changed: called with the reason why the target does not answer, or with None when it
            answers again
        """
        self._compare = compare
        self._host = host
        self._changed = changed
        self._silent = False

    def compare(self) -> None:
        """Compare the target with the rows.

        If the target does not answer, one error is logged until the target answers again.
        """
        try:
            self._compare()
        except errors.BackendError as exc:
            if not self._silent:
                self._silent = True
                LOG.error('Failed to reach target, waiting%s',
                          log.fields(host=self._host, reason=exc))
                self._changed(_SILENT)
            return
        if self._silent:
            self._silent = False
            LOG.info('Target recovered%s', log.fields(host=self._host))
            self._changed(None)
