"""What each operation on volumes does: from the body that asks for a volume to what shall be made,
and from the query string of a list to what the database is asked."""
import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach import errors
from blockattach.api import listing
from blockattach.api import services as api_services
from blockattach.api.resources.volumes import sources
from blockattach.api.resources.volumes import views
from blockattach.db.volumes import volume_queries
from blockattach.domain import records
from blockattach.domain import volume_type
from blockattach.http import operation
from blockattach.http.operation import V
from blockattach.policy import access
from blockattach.policy import volumes as policies

_FORCED = V(3, 23)
_METADATA_SUMMED_UP = V(3, 36)
_LONGEST_TEXT = 255

# What else a volume could be in or made from, its first version, and the error where it is absent.
_SOURCES = (
    ('consistencygroup_id', operation.BASE, 'ConsistencyGroup %s could not be found.'),
    ('group_id', V(3, 13), 'Group %s could not be found.'),
    ('backup_id', V(3, 47), 'Backup %s could not be found.'),
)
_FALSE = frozenset((None, False, 'False', 'FALSE', 'false', '0', 'off', 'Off', 'OFF', 'no', 'No',
                    'NO', 'n', 'f'))
_TIMES = frozenset(('created_at', 'updated_at'))
_BOOLEANS = frozenset(('bootable', 'multiattach'))
# Keys that no volume has a value for: whatever is asked for, nothing has it.
_UNHELD = frozenset(('migration_status', 'group_id'))
_TEXTS = frozenset(('id', 'name', 'display_name', 'status', 'availability_zone', 'host',
                    'project_id', 'user_id', 'volume_type_id', 'attach_status'))
_FALSE_WORDS = frozenset(('False', 'false', 'FALSE'))
_STRICT_BOOLEANS = V(3, 2)
_GROUPS = V(3, 10)

_RULES = listing.FilterRules(
    known=frozenset(('name', 'status', 'metadata', 'size', 'availability_zone',
                     'consumes_quota', *_TIMES, *_UNHELD, 'bootable')),
    more=frozenset(volume_queries.SORT_COLUMNS),
    since={'consumes_quota': V(3, 65)})

View = Callable[[api_services.ApiServices, operation.Call, Sequence[records.Volume]],
                list[dict[str, Any]]]


def index(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List volumes, a line each."""
    return _list(services, call, views.names)


def detail(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """List volumes with all that is known of them."""
    return _list(services, call, views.details)


def show(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Show one volume."""
    return {'volume': views.details(services, call, [call.target])[0]}


def create(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Write a volume down; it is made afterwards.

    :raises InvalidInput: a value cannot be used
    :raises NotFound: it names something that is not there
    """
    if not call.context.project_id:
        raise errors.InvalidInput('The volume must belong to a project: use a token of one.')
    asked: Mapping[str, Any] = call.body['volume']
    if asked.get('multiattach') not in _FALSE:
        raise errors.InvalidInput(
            'multiattach parameter has been removed. The default behavior is to use multiattach '
            'enabled volume types. Contact your administrator to create a multiattach enabled '
            'volume type and use it to create multiattach volumes.')
    name = _text(asked, 'name')
    description = _text(asked, 'description')
    before = sources.made_before(services, call, asked)
    if before is not None:
        return {'volume': views.made(services, call, before)}
    image, asked = sources.of_image(services, call, asked)
    source = sources.find(services, call, asked)
    kind = _kind(services, call, asked.get('volume_type') or (
        None if source is None else source.volume_type_id))
    volume_type.check_usable(kind)
    _refuse_sources(asked, call.version)
    size_gb = _size(asked.get('size') or (None if source is None else source.size_gb))
    progress = sources.progress_of(image, size_gb)
    zone = sources.zone(services, asked.get('availability_zone'), source)
    sources.check(services, source, kind, size_gb, zone)
    if volume_type.is_multiattach(kind.extra_specs):
        services.policy.authorize(call.context, policies.MULTIATTACH)
    made = services.volumes.create(
        call.context, name, description, size_gb, kind, zone, asked.get('metadata') or {},
        call.named(), call.body.get(views.HINTS), source, progress)
    return {'volume': views.made(services, call, made)}


def delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Delete a volume. ``cascade`` would delete its snapshots, of which there are none."""
    force = call.version >= _FORCED and listing.flag(call, 'force')
    if force:
        services.policy.authorize(call.context, policies.FORCE_DELETE, call.target.project_id)
    services.volumes.delete(call.context, call.target, force)


def summary(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Count volumes and their GiB; say which values their metadata has."""
    wanted = _filters(call)
    totals = volume_queries.Totals(0, 0) if wanted is None else volume_queries.totals(
        services.database, wanted)
    answer: dict[str, Any] = {'total_count': totals.count, 'total_size': totals.size_gb}
    if call.version >= _METADATA_SUMMED_UP:
        answer['metadata'] = {} if wanted is None else volume_queries.metadata_values(
            services.database, wanted)
    return {'volume-summary': answer}


def encryption(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Clients ask for this before they attach a volume, whether it is encrypted or not."""
    return views.encryption(services, call.target)


def encryption_key(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """One of these facts."""
    key = call.path['key']
    found = views.encryption(services, call.target)
    if key not in found:
        raise errors.NotFound()
    return {key: found[key]}


def _list(services: api_services.ApiServices, call: operation.Call, view: View) -> dict[str, Any]:
    page = listing.page(call, volume_queries.SORT_COLUMNS, services.settings.osapi_max_limit)
    wanted = _filters(call)
    counted = call.version >= listing.COUNTED and listing.flag(call, 'with_count')
    found = [] if wanted is None else volume_queries.list_page(services.database, wanted, page)
    answer: dict[str, Any] = {'volumes': view(services, call, found),
                              **listing.links(call, 'volumes_links', page, found)}
    if counted:
        answer['count'] = 0 if wanted is None else volume_queries.count(services.database, wanted)
    return answer


def _text(asked: Mapping[str, Any], key: str) -> str | None:
    text: str | None = asked.get(key, asked.get(f'display_{key}'))
    if text is None:
        return None
    text = text.strip()
    if len(text) > _LONGEST_TEXT:
        raise errors.InvalidInput(
            f'{key} has {len(text)} characters, more than {_LONGEST_TEXT}.')
    return text


def _kind(services: api_services.ApiServices, call: operation.Call,
          id_or_name: str | None) -> records.VolumeType:
    if not id_or_name:
        return access.default_volume_type(services.database, services.default_volume_type)
    return access.find_volume_type(call.context, services.database, id_or_name)


def _refuse_sources(asked: Mapping[str, Any], version: V) -> None:
    """There are none of these yet."""
    for key, since, absent in _SOURCES:
        if version >= since and asked.get(key) is not None:
            raise errors.NotFound(absent % errors.shortened(asked[key]))


def _size(size: int | str | None) -> int:
    if size is None or int(size) < 1:
        raise errors.InvalidInput(
            f'Invalid input received: Invalid volume size provided for create request: '
            f'{errors.shortened(size)} (size argument must be an integer (or string '
            f'representation of an integer) and greater than zero).')
    return int(size)


def _filters(call: operation.Call) -> volume_queries.Filters | None:
    """What shall be listed; None: nothing can match.

    :raises InvalidFilter: a filter is unknown, see `listing.asked`
    :raises InvalidInput: a value is malformed
    """
    asked = listing.asked(call, _rules(call.version))
    nothing = asked.nothing or not asked.like.keys() <= _TEXTS
    equal: dict[str, Any] = {}
    metadata: dict[str, str] = {}
    compared: list[tuple[str, str, Any]] = []
    for key, text in asked.equal.items():
        if key == 'metadata':
            metadata = listing.structure(key, text)
        elif key in _TIMES:
            compared += listing.comparisons(key, text)
        elif key in _BOOLEANS:
            equal[key] = _boolean(call.version, key, text)
        elif key == 'consumes_quota':
            nothing |= not _boolean(call.version, key, text)
        elif key == 'size' and text.isascii() and text.isdigit() and len(text) < 10:
            equal[key] = int(text)
        elif key == 'size' or key in _UNHELD:
            nothing = True
        else:
            equal[key] = text
    if nothing:
        return None
    project_id = None if asked.all_projects else call.context.project_id
    return volume_queries.Filters(project_id, equal, asked.like, metadata, compared)


def _rules(version: V) -> listing.FilterRules:
    """The filters at a version: some are not refused below theirs but mean nothing there."""
    own: set[str] = set()
    if version < _GROUPS:
        own.add('group_id')
    if version < listing.STRICT_FILTERS:
        # Documented from 3.60 on; clients use them since filters are strict.
        own |= _TIMES
    if version >= listing.COUNTED:
        own.add('with_count')
    return dataclasses.replace(_RULES, own=frozenset(own))


def _boolean(version: V, key: str, text: str) -> bool:
    if version < _STRICT_BOOLEANS:
        return text not in _FALSE_WORDS
    value = listing.boolean(text)
    if value is None:
        raise errors.InvalidInput(f"Invalid input received: '{key} = {text}'")
    return value
