"""Operations on manageable volumes and snapshots.

Manageable volumes and snapshots are storage that exists on a backend and that the service can take
over.
"""
import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from blockattach.platform.db import paging
from blockattach.platform.http import operation
from blockattach.platform.http import schema
from blockattach.platform.http.operation import V
from blockattach.storage import errors
from blockattach.storage.api import answers
from blockattach.storage.api import services as api_services
from blockattach.storage.control import places
from blockattach.storage.domain import managing

SINCE = V(3, 8)
"""First version with the paths ``/manageable_volumes`` and ``/manageable_snapshots``."""
BY_CLUSTER = V(3, 16)
LISTED_BY_CLUSTER = V(3, 17)

_NAME_KEY = 'source-name'
REFERENCE: schema.Schema = {'type': ['object', 'string', 'null']}

_ITEM = {
    'reference': schema.obj({_NAME_KEY: answers.TEXT}, [_NAME_KEY]),
    'size': answers.INTEGER,
    'safe_to_manage': answers.BOOLEAN,
}
_SOURCE = {'source_reference': {'type': 'object', 'additionalProperties': answers.TEXT}}
_MORE = {'reason_not_safe': answers.NULLABLE_TEXT, 'cinder_id': schema.NULLABLE_UUID,
         'extra_info': answers.NULLABLE_TEXT}
_KEYS = {'volume': _ITEM, 'snapshot': {**_ITEM, **_SOURCE}}


@dataclasses.dataclass(frozen=True, slots=True)
class Noun:
    """Type of resource that can be managed.

    :ivar name: ``volume`` or ``snapshot``
    :ivar manage: handler of the manage request
    :ivar body: request schemas by version
    :ivar answer: response schemas by version
    :ivar extended: functions that change the response schema, by version of the extension; None if
        the extension does not change the response
    :ivar list_rule: policy rule of the lists
    :ivar manage_rule: policy rule of the manage request
    """

    name: str
    manage: operation.Handler
    body: Mapping[V, schema.Schema]
    answer: Mapping[V, schema.Schema]
    extended: Mapping[V, Callable[[schema.Schema], schema.Schema]] | None = None
    _: dataclasses.KW_ONLY
    list_rule: str
    manage_rule: str

    def operations(self) -> tuple[operation.Operation, ...]:
        """Return the operations of the resource under the new and the old path.

        For volumes, the paths are ``/manageable_volumes`` and ``/os-volume-manage``.
        """
        return tuple(row for path, since in (
            (f'/manageable_{self.name}s', SINCE), (f'/os-{self.name}-manage', operation.BASE))
            for row in self._under(path, since))

    def index(self, services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
        """List the manageable resources of a backend."""
        return _list(services, call, self.name, detail=False)

    def detail(self, services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
        """List the manageable resources of a backend with details."""
        return _list(services, call, self.name, detail=True)

    def _under(self, path: str, since: V) -> tuple[operation.Operation, ...]:
        rows = [operation.Operation(
            'POST', path, self.manage, since=since, policy=self.manage_rule, status=202,
            body=self.body, answer=self.answer, extended=self.extended,
            faults=(errors.VolumeTypeNotFound, errors.VolumeTypeChanged, errors.VolumeNotFound,
                    errors.QuotaExceeded),
            summary=f'Manage an existing {self.name}. The {self.name} stays in place on the '
                    f'backend.')]
        for end, handler, more in (('', self.index, ''),
                                   ('/detail', self.detail, ', with details')):
            keys = {**_KEYS[self.name], **(_MORE if end else {})}
            rows.append(operation.Operation(
                'GET', f'{path}{end}', handler, since=since, policy=self.list_rule,
                answer={operation.BASE: schema.wrapped(
                    f'manageable-{self.name}s', schema.array(answers.whole(keys)))},
                faults=(errors.BackendRefused, errors.BackendUncertain,
                        errors.ServiceUnreachable),
                summary=f'List {self.name}s on a backend that are available to manage{more}.'))
        return tuple(rows)


def place(call: operation.Call, requested: Mapping[str, Any], since: V) -> places.Place:
    """Return the backend that a request names by its host or cluster.

    :param requested: parameters of the request
    :param since: first version in which the request can name a cluster
    :raises InvalidInput: if the request names neither a host nor a cluster, or both
    """
    host = requested.get('host')
    cluster = requested.get('cluster') if call.version >= since else None
    if bool(host) == bool(cluster):
        raise errors.InvalidInput('Invalid input received: ' + (
            'One and only one of cluster and host must be set.' if call.version >= since
            else 'Host field is missing.'))
    return places.Place('Host', host) if host else places.Place('Cluster', str(cluster))


def reference(requested: Any) -> str:
    """Return the name of existing storage from the reference in a manage request.

    :raises InvalidInput: if the reference has no valid ``source-name``
    """
    name = requested.get(_NAME_KEY) if isinstance(requested, Mapping) else None
    if not isinstance(name, str) or not name or len(name) > 255:
        raise errors.InvalidInput(
            f'Invalid input received: ref must be an object whose key {_NAME_KEY} contains the '
            f'name of the existing volume or snapshot on the backend.')
    return name


def _list(services: api_services.ApiServices, call: operation.Call, noun: str,
          detail: bool) -> dict[str, Any]:
    """List the manageable volumes or snapshots of a backend.

    :param noun: ``volume`` or ``snapshot``
    :raises InvalidInput: if the backend does not exist, or a parameter is malformed
    """
    where = place(call, call.query, LISTED_BY_CLUSTER)
    order, page = _order(call), _page(services, call)
    # The backend returns all resources at once, so they are sorted and paged here.
    stored, known = services.managing.stored(call.context, where, noun)
    # Sorting is stable, so the last sort is by the first key.
    for key, direction in reversed(order):
        stored.sort(key=lambda one, key=key: one.name if key == 'reference'  # type: ignore[misc]
                    else one.size_bytes, reverse=direction == paging.DESCENDING)
    marker, limit, offset = page
    if marker is not None:
        names = [one.name for one in stored]
        if marker not in names:
            raise errors.InvalidInput(
                f'Invalid input received: marker not found: {errors.shortened(marker)}')
        stored = stored[names.index(marker) + 1:]
    return {f'manageable-{noun}s': [
        _shown(one, known.get(one.name), noun, detail)
        for one in stored[offset:offset + limit]]}


def _shown(stored: managing.Stored, known_as: str | None, noun: str,
           detail: bool) -> dict[str, Any]:
    reason = 'already managed' if known_as else 'in use' if stored.in_use else None
    shown: dict[str, Any] = {'reference': {_NAME_KEY: stored.name}, 'size': stored.size_gb,
                             'safe_to_manage': reason is None}
    if noun == 'snapshot':
        shown['source_reference'] = {} if stored.origin is None else {_NAME_KEY: stored.origin}
    if detail:
        shown |= {'reason_not_safe': reason, 'cinder_id': known_as, 'extra_info': None}
    return shown


def _order(call: operation.Call) -> list[tuple[str, str]]:
    query = call.query
    if 'sort' in query:
        if 'sort_key' in query or 'sort_dir' in query:
            raise errors.InvalidInput(
                "The 'sort_key' and 'sort_dir' parameters are deprecated and cannot be used with "
                "the 'sort' parameter.")
        pairs = [part.strip().partition(':')[::2] for part in query['sort'].split(',')]
    else:
        pairs = [(query.get('sort_key', 'reference'), query.get('sort_dir', ''))]
    order = [(key, direction or paging.DESCENDING) for key, direction in pairs]
    for what, position, allowed in (('keys', 0, ('reference', 'size')),
                                    ('dirs', 1, (paging.ASCENDING, paging.DESCENDING))):
        wrong = [pair[position] for pair in order if pair[position] not in allowed]
        if wrong:
            raise errors.InvalidInput(f'Invalid sort {what} passed: '
                                      f'{errors.shortened(", ".join(wrong))}')
    return order


def _page(services: api_services.ApiServices,
          call: operation.Call) -> tuple[str | None, int, int]:
    """Return the marker (None if absent), the limit and the offset of a list request.

    :raises InvalidInput: if the limit or the offset is not a number
    """
    marker = call.query.get('marker')
    most = services.settings.osapi_max_limit
    return marker, min(_number(call, 'limit', most), most), _number(call, 'offset', 0)


def _number(call: operation.Call, name: str, default: int) -> int:
    text = call.query.get(name)
    if text is None:
        return default
    # isdigit() alone accepts characters that int() rejects, such as a superscript two.
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise errors.InvalidInput(f'{name} param must be a non-negative integer')
    return int(text)
