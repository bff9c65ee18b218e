"""What projects may have, where Keystone keeps that: registered limits, and limits of projects.

Asked by keystoneauth, which other parts need anyway: oslo.limit reads the global configuration,
asks for each resource alone, and its enforcement counts outside of the transaction that adds.
"""
import threading
import urllib.parse
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from keystoneauth1 import adapter
from keystoneauth1 import exceptions
from oslo_log import log as oslo_log

from blockattach import clock as clocks
from blockattach import errors
from blockattach import log

LOG = oslo_log.getLogger(__name__)

_MOST_PROJECTS = 4096


class _Known(NamedTuple):
    """What was answered, by name, and until when that counts (monotonic seconds)."""

    limits: Mapping[str, int]
    until: float


class UnifiedLimits:
    """The limits of a project, by the names of the resources. Threads share one."""

    def __init__(self, keystone: adapter.Adapter, endpoint_id: str, seconds: float,
                 clock: clocks.Clock) -> None:
        """Ask nothing yet.

        :param keystone: with an account that may read endpoints, and the limits of all projects
        :param endpoint_id: of this service, in Keystone's catalog
        :param seconds: how long an answer is used again
        """
        self._keystone = keystone
        self._endpoint_id = endpoint_id
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._ours: dict[str, str] | None = None
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
        except (exceptions.ClientException, LookupError, TypeError, ValueError) as exc:
            LOG.warning('Cannot read limits from Keystone: %s%s', exc,
                        log.fields(project_id=project_id))
            raise errors.LimitsUnavailable() from exc
        with self._lock:
            if len(self._known) >= _MOST_PROJECTS:
                self._known.clear()
            self._known[project_id] = _Known(limits, now + self._seconds)
        return limits

    def _ask(self, project_id: str) -> Mapping[str, int]:
        if self._ours is None:
            endpoint = self._get(f'/endpoints/{urllib.parse.quote(self._endpoint_id)}')['endpoint']
            self._ours = {name: endpoint[name] for name in ('service_id', 'region_id')
                          if endpoint[name]}
        registered = self._rows('registered_limits', self._ours)
        of_project = self._rows('limits', {**self._ours, 'project_id': project_id})
        return {**{row['resource_name']: int(row['default_limit']) for row in registered},
                # Those of domains are listed too where a Keystone does not know the filter.
                **{row['resource_name']: int(row['resource_limit']) for row in of_project
                   if row['project_id'] == project_id}}

    def _rows(self, what: str, filters: Mapping[str, str]) -> Iterable[Mapping[str, Any]]:
        rows: Iterable[Mapping[str, Any]] = self._get(
            f'/{what}?{urllib.parse.urlencode(filters)}')[what]
        return rows

    def _get(self, path: str) -> Mapping[str, Any]:
        body: Mapping[str, Any] = self._keystone.get(path).json()
        return body
