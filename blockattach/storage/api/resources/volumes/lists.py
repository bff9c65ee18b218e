"""Handlers of the lists and of the summary of volumes."""
import dataclasses
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from blockattach.platform import errors
from blockattach.platform.http import operation
from blockattach.platform.http.operation import V
from blockattach.storage.api import listing
from blockattach.storage.api import services as api_services
from blockattach.storage.api.resources.volumes import views
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import records

_METADATA_SUMMED_UP = V(3, 36)
_TIMES = frozenset(('created_at', 'updated_at'))
_BOOLEANS = frozenset(('bootable', 'multiattach', 'shared_targets'))
_METADATA = frozenset(('metadata', 'glance_metadata'))
# The name of a volume may itself begin and end with a quote.
_RAW = frozenset(('name', 'display_name'))
_TEXTS = frozenset(volume_queries.SORT_COLUMNS) - _TIMES - _BOOLEANS - {'size'}
_FALSE_WORDS = frozenset(('False', 'false', 'FALSE'))
_STRICT_BOOLEANS = V(3, 2)
_OF_IMAGES = V(3, 4)
_GROUPS = V(3, 10)

_RULES = listing.FilterRules(
    known=frozenset(listing.BUILT_IN['volume']),
    more=frozenset((*volume_queries.SORT_COLUMNS, 'glance_metadata')),
    since={'consumes_quota': V(3, 65)})

View = Callable[[api_services.ApiServices, operation.Call, Sequence[records.Volume]],
                list[dict[str, Any]]]


def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List volumes."""
    return _list(services, call, views.names)


def detail(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List volumes with details."""
    return _list(services, call, views.details)


def summary(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Return the number of volumes, their total size in GiB and, from 3.36 on, their metadata."""
    wanted = _filters(services, call)
    totals = volume_queries.Totals(0, 0) if wanted is None else volume_queries.totals(
        services.database, wanted)
    answer: dict[str, Any] = {'total_count': totals.count, 'total_size': totals.size_gb}
    if call.version >= _METADATA_SUMMED_UP:
        answer['metadata'] = {} if wanted is None else volume_queries.metadata_values(
            services.database, wanted)
    return {'volume-summary': answer}


def _list(services: api_services.ApiServices, call: operation.Call, view: View) -> dict[str, Any]:
    page = listing.page(call, volume_queries.SORT_COLUMNS, services.settings.osapi_max_limit)
    wanted = _filters(services, call)
    counted = call.version >= listing.COUNTED and listing.flag(call, 'with_count')
    found = [] if wanted is None else volume_queries.list_page(services.database, wanted, page)
    answer: dict[str, Any] = {'volumes': view(services, call, found),
                              **listing.links(call, 'volumes_links', page, found)}
    if counted:
        answer['count'] = 0 if wanted is None else volume_queries.count(services.database, wanted)
    return answer


def _filters(services: api_services.ApiServices,
             call: operation.Call) -> volume_queries.Filters | None:
    """Return the filters of a list request, or None if no volume can match.

    :raises InvalidFilter: if a filter is unknown, see `listing.asked`
    :raises InvalidInput: if a value is malformed
    """
    asked = listing.asked(call, _rules(services, call.version))
    nothing = asked.nothing or not asked.like.keys() <= _TEXTS
    equal: dict[str, Any] = {}
    pairs: dict[str, dict[str, str]] = {}
    compared: list[tuple[str, str, Any]] = []
    for key, text in asked.equal.items():
        if key in _METADATA:
            pairs[key] = listing.structure(key, text)
        elif key in _TIMES:
            compared += listing.comparisons(key, text)
        elif key in _BOOLEANS:
            equal[key] = _boolean(call.version, key, text)
        elif key == 'consumes_quota':
            # Every volume counts against the quotas.
            nothing |= not _boolean(call.version, key, text)
        elif key == 'size':
            equal[key] = _sizes(text)
        elif key == 'group_id':
            # No volume is in a group.
            nothing = True
        else:
            equal[key] = text if key in _RAW else listing.literal(text)
    if nothing:
        return None
    project_id = None if asked.all_projects else call.context.project_id
    return volume_queries.Filters(
        project_id, equal, asked.like, pairs.get('metadata', {}),
        pairs.get('glance_metadata', {}), bool(call.context.is_admin), compared)


def _sizes(text: str) -> list[int]:
    # A value that is not a size matches no volume, and is not an error.
    found = listing.literal(text)
    return [int(one) for one in (found if isinstance(found, list) else [found or ''])
            if one.isascii() and one.isdigit() and len(one) < 10]


def _rules(services: api_services.ApiServices, version: V) -> listing.FilterRules:
    # `listing.asked` skips the parameters in `own`. Below their first version, these filters are
    # ignored instead of rejected.
    own: set[str] = set()
    if version < _OF_IMAGES:
        own.add('glance_metadata')
    if version < _GROUPS:
        own.add('group_id')
    if version < listing.STRICT_FILTERS:
        # Cinder documents these filters from 3.60 on, but applies them from 3.31 on.
        own |= _TIMES
    if version >= listing.COUNTED:
        own.add('with_count')
    return dataclasses.replace(_RULES.allowed_by(services.filters, 'volume'),
                               own=frozenset(own))


def _boolean(version: V, key: str, text: str) -> bool:
    if version < _STRICT_BOOLEANS:
        # Any other text is true, as in Cinder.
        return text not in _FALSE_WORDS
    value = listing.boolean(text)
    if value is None:
        raise errors.InvalidInput(f"Invalid input received: '{key} = {text}'")
    return value
