"""What projects may have, where Keystone keeps that: registered limits, and limits of projects.

Read by oslo.limit. It would also count and enforce, but outside of the transaction that adds, and
it would remember what it has read for ever: neither is used.
"""
import threading
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from keystoneauth1 import exceptions
from openstack import exceptions as client_exceptions
from oslo_limit import exception as limit_exceptions
from oslo_limit import limit
from oslo_log import log as oslo_log

from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.platform import log

LOG = oslo_log.getLogger(__name__)

_MOST_PROJECTS = 4096
_ALL_NAMES: Any = None
"""oslo.limit reads all with one request then; the annotation of its enforcer does not say so."""
_UNREADABLE = (exceptions.ClientException, client_exceptions.SDKException,
               limit_exceptions.SessionInitError, LookupError, TypeError, ValueError)


class _Known(NamedTuple):
    """What was answered, by name, and until when that counts (monotonic seconds)."""

    limits: Mapping[str, int]
    until: float


class UnifiedLimits:
    """The limits of a project, by the names of the resources. Threads share one."""

    def __init__(self, seconds: float, clock: clocks.Clock) -> None:
        """Ask nothing yet.

        :param seconds: how long an answer is used again
        """
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._enforcer: limit.Enforcer | None = None
        self._known: dict[str, _Known] = {}

    def __call__(self, project_id: str) -> Mapping[str, int]:
        """What a project may have; what is not registered is left out.

        :raises LimitsUnavailable: Keystone does not say
        """
        now = self._clock.monotonic()
        with self._lock:
            known = self._known.get(project_id)
        if known is not None and now < known.until:
            return known.limits
        try:
            limits = self._ask(project_id)
        except _UNREADABLE as exc:
            LOG.warning('Failed to read limits from Keystone: %s%s', exc,
                        log.fields(project_id=project_id))
            raise errors.LimitsUnavailable() from exc
        with self._lock:
            if len(self._known) >= _MOST_PROJECTS:
                self._known.clear()
            self._known[project_id] = _Known(limits, now + self._seconds)
        return limits

    def _ask(self, project_id: str) -> Mapping[str, int]:
        # Made when it is needed: it asks Keystone for its model and for our endpoint.
        enforcer = self._enforcer or limit.Enforcer(_count, cache=False)
        try:
            found = {**dict(enforcer.get_registered_limits(_ALL_NAMES)),
                     **dict(enforcer.get_project_limits(project_id, _ALL_NAMES))}
        except NotImplementedError as exc:
            raise ValueError(f'oslo.limit does not support the enforcement model '
                             f'{enforcer.model.name}') from exc
        self._enforcer = enforcer
        return found


def _count(project_id: str | None, names: Any) -> dict[str, int]:
    """What oslo.limit would call to enforce; the database counts in the transaction that adds."""
    raise AssertionError('limits are only read here')
