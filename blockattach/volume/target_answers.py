"""Whether a target answers that has no process to watch, like one in the kernel.

It is asked for all that it offers every few seconds anyway, to be compared with the rows.
"""
from collections.abc import Callable

from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log

LOG = oslo_log.getLogger(__name__)


class TargetAnswers:
    """Of one backend; a target in a process of its own has a `target_process.TargetProcess`."""

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
                LOG.error('Target does not answer, it is waited for%s',
                          log.fields(host=self._host, reason=exc))
                self._changed('its target does not answer')
            return
        if self._silent:
            self._silent = False
            LOG.info('Target answers again%s', log.fields(host=self._host))
            self._changed(None)
