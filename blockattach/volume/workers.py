"""Threads for what goes on after an answer."""
from collections.abc import Callable
from concurrent import futures
from typing import Any

from oslo_log import log as oslo_log

from blockattach import context
from blockattach import errors
from blockattach import log
from blockattach.telemetry import acts

LOG = oslo_log.getLogger(__name__)


class Workers:
    """Threads for what goes on after the answer: volumes made and removed, then a fresh report."""

    def __init__(self, pool: futures.Executor, afterwards: Callable[[], None],
                 telemetry: acts.Telemetry | None = None) -> None:
        """
        :param afterwards: called when a piece of work has ended
        """
        self._telemetry = telemetry or acts.Telemetry()
        self._pool = pool
        self._afterwards = afterwards

    def later(self, act: Callable[..., object], caller: context.RequestContext,
              *arguments: Any) -> None:
        """Do it soon; a failure that the act does not record itself is logged."""
        self._pool.submit(self._run, act, caller, *arguments)

    def stop(self) -> None:
        """Finish what was begun; what still waits is found again by the next start."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, act: Callable[..., object], caller: context.RequestContext,
             *arguments: Any) -> None:
        # Log lines of this thread name the request that the work was asked for in; that has been
        # answered, and nobody waits.
        caller.update_store()
        caller.deadline = None
        try:
            with self._telemetry.work(act.__name__, caller.traceparent):
                act(caller, *arguments)
        except Exception as exc:
            LOG.error('Cannot finish a piece of work; its deadline brings it back%s',
                      log.fields(reason=exc), exc_info=not errors.is_known(exc))
        finally:
            self._afterwards()
