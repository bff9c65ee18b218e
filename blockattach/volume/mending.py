"""Many small repairs side by side; one that fails is said and comes again on the next pass."""
from collections.abc import Callable
from collections.abc import Iterable
from concurrent import futures
from typing import Any

from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import metrics
from blockattach.telemetry import acts

LOG = oslo_log.getLogger(__name__)


class Menders:
    """A few threads for repairs."""

    def __init__(self, threads: int, telemetry: acts.Telemetry | None = None) -> None:
        self._telemetry = telemetry or acts.Telemetry()
        self._pool = futures.ThreadPoolExecutor(threads, thread_name_prefix='mender')

    def each(self, drift: metrics.Drift, act: Callable[..., None],
             cases: Iterable[tuple[Any, ...]]) -> int:
        """Do the act for each case of drift; returns how many it was done for."""
        done = 0
        begun = [self._pool.submit(act, *case) for case in cases]
        self._telemetry.drift(drift, found=len(begun))
        for running in begun:
            try:
                running.result()
                done += 1
            except (errors.StaleGeneration, errors.NotFound, errors.InvalidTransition):
                LOG.info('Somebody else went on with it first')
            except Exception:
                LOG.exception('Cannot put one thing right; it is tried again')
        self._telemetry.drift(drift, mended=done)
        return done

    def stop(self) -> None:
        """End the threads after what they are doing."""
        self._pool.shutdown(wait=True, cancel_futures=True)
