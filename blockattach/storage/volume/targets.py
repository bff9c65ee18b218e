"""Whether a target answers: in a process of its own, or somewhere else, as in the kernel.

A process of its own is begun, watched, and left running or ended. Any other target is asked for
all that it exports every few seconds anyway, to be compared with the rows.
"""
from collections.abc import Callable

from oslo_log import log as oslo_log

from blockattach.platform import errors
from blockattach.platform import log
from blockattach.storage.drivers import base

LOG = oslo_log.getLogger(__name__)

_SILENT, _DOWN = 'the target does not answer', 'the target is not running'


class TargetProcess:
    """Of one backend; a target without one needs nothing of this."""

    def __init__(self, target: base.ExportTarget, host: str, restored: Callable[[], None],
                 ends_with_service: bool,
                 changed: Callable[[str | None], None] = lambda wrong: None) -> None:
        """
        :param restored: called when it is back, and has forgotten what it offered
        :param ends_with_service: a stop of the service ends it; False: it goes on with its
            sessions, and the next start finds it
        :param changed: called with what is wrong with it now; None: it answers again
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
        """Whether there is one to watch."""
        return self._daemon is not None

    def start(self) -> None:
        """One that runs already has sessions: it stays up if this start fails."""
        if self._daemon is not None:
            self._ends = not self._daemon.running()
            self._daemon.start()

    def adopt(self) -> None:
        """The service serves: the process ends with it if configured so, whatever began it."""
        self._ends = self._ends_with_service

    def stop(self) -> None:
        """End it, if it ends with the service or was started by a start that failed."""
        if self._daemon is not None and self._ends:
            self._daemon.stop()

    def watch(self) -> None:
        """One that died is started again, and what it forgot is restored.

        One that hangs is waited for: it still has its sessions. So is one of another program.
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
            self._start_again(self._daemon, known=self._wrong == _DOWN)

    def _start_again(self, daemon: base.Daemon, known: bool) -> None:
        self._wrong = _DOWN
        if not known:
            LOG.error('Target process died, restarting%s', log.fields(host=self._host))
        try:
            daemon.start()
        except errors.ConfigurationError as exc:
            if not known:
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
    """Of one backend; a target in a process of its own has a `TargetProcess`."""

    def __init__(self, compare: Callable[[], object], host: str,
                 changed: Callable[[str | None], None]) -> None:
        """
        :param compare: asks the target first; raises `errors.BackendError` if it does not answer
        :param changed: called with what is wrong with it now; None: it answers again
        """
        self._compare = compare
        self._host = host
        self._changed = changed
        self._silent = False

    def compare(self) -> None:
        """One comparison. Where the target does not answer there is none, which is logged once."""
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
