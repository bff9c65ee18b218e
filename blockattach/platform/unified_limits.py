"""Quota limits of projects, read from the unified limits of Keystone.

The limits are read with oslo.limit. The enforcement of oslo.limit is not used, because it counts
resources outside of the transaction that adds rows. The cache of oslo.limit is not used either,
because cached limits never expire.
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
"""Value that makes oslo.limit read all limits in one request.

The type annotation of its enforcer does not allow None.
"""
_UNREADABLE = (exceptions.ClientException, client_exceptions.SDKException,
               limit_exceptions.SessionInitError, LookupError, TypeError, ValueError)


class _Known(NamedTuple):
    """Cached limits of a project by name, and their expiry in monotonic seconds."""

    limits: Mapping[str, int]
    until: float


class UnifiedLimits:
    """Cache of the quota limits of projects. Threads share an instance."""

    def __init__(self, seconds: float, clock: clocks.Clock) -> None:
        """Create an empty cache without sending a request.

        :param seconds: lifetime of cached limits in seconds
        """
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._enforcer: limit.Enforcer | None = None
        self._known: dict[str, _Known] = {}

    def __call__(self, project_id: str) -> Mapping[str, int]:
        """Return the limits of a project by resource name.

        Resources without a registered limit are left out.

        :raises LimitsUnavailable: the limits cannot be read from Keystone
        """
        now = self._clock.monotonic()
        with self._lock:
            known = self._known.get(project_id)
        if known is not None and now < known.until:
            return known.limits
        # Requested without the lock, so that a slow Keystone does not delay callers whose limits
        # are cached. Two threads may request the same limits.
        try:
            limits = self._ask(project_id)
        except _UNREADABLE as exc:
            LOG.warning('Failed to read limits from Keystone%s', log.fields(
                project_id=project_id, reason=exc))
            raise errors.LimitsUnavailable() from exc
        with self._lock:
            if len(self._known) >= _MOST_PROJECTS:
                self._known.clear()
            self._known[project_id] = _Known(limits, now + self._seconds)
        return limits

    def _ask(self, project_id: str) -> Mapping[str, int]:
        # Created at the first use, because the constructor requests the enforcement model and the
        # endpoint from Keystone.
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
    """Raise AssertionError. oslo.limit requires this callback to enforce limits only."""
    raise AssertionError('limits are only read here')
