"""A target that lives in a process of its own: begun, watched and ended with the service."""
from collections.abc import Callable

from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.drivers import base
from blockattach.drivers import capabilities

LOG = oslo_log.getLogger(__name__)


class TargetProcess:
    """Of one backend; a target without one needs nothing of this."""

    def __init__(self, target: base.ExportTarget, host: str, restored: Callable[[], None]) -> None:
        """
        :param restored: called when it is back, and has forgotten what it offered
        """
        self._daemon = target if isinstance(target, capabilities.Daemon) else None
        self._host = host
        self._restored = restored
        self._ends = False
        self._away = False

    @property
    def there(self) -> bool:
        """Whether there is one to watch."""
        return self._daemon is not None

    def start(self) -> None:
        """What an earlier life left running still has sessions: it outlives a start that fails."""
        if self._daemon is not None:
            self._ends = not self._daemon.running()
            self._daemon.start()

    def adopt(self) -> None:
        """The service serves: from now on it ends with the service, whoever has started it."""
        self._ends = True

    def stop(self) -> None:
        """End it, unless it was found running by a start that failed."""
        if self._daemon is not None and self._ends:
            self._daemon.stop()

    def watch(self) -> None:
        """One that died is started again, and what it forgot is restored.

        One that somebody else runs is waited for: he starts it again.
        """
        if self._daemon is None:
            return
        if self._daemon.running():
            if self._away:
                self._is_back()
            return
        if not self._away:
            LOG.error('Target process has died and is started again%s',
                      log.fields(host=self._host))
        try:
            self._daemon.start()
        except errors.ConfigurationError as exc:
            if not self._away:
                LOG.error('Cannot start the target process, it is waited for: %s%s', exc,
                          log.fields(host=self._host))
            self._away = True
            return
        self._is_back()

    def _is_back(self) -> None:
        self._away = False
        LOG.info('Target process is back%s', log.fields(host=self._host))
        self._restored()
