"""What each operation on volumes does."""
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from blockattach import errors
from blockattach.api import listing
from blockattach.api import services as api_services
from blockattach.api.resources.volumes import filters
from blockattach.api.resources.volumes import requests
from blockattach.api.resources.volumes import views
from blockattach.db import volume_queries
from blockattach.domain import records
from blockattach.domain import volume_type
from blockattach.http import operation
from blockattach.policy import volumes as policies

_FORCED = operation.V(3, 23)
_METADATA_SUMMED_UP = operation.V(3, 36)

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
    """Write a volume down; it is made afterwards."""
    if not call.context.project_id:
        raise errors.InvalidInput('The volume must belong to a project: use a token of one.')
    wish = requests.read(services, call)
    if volume_type.is_multiattach(wish.kind.extra_specs):
        services.policy.authorize(call.context, policies.MULTIATTACH)
    made = services.volumes.create(
        call.context, wish.name, wish.description, wish.size_gb, wish.kind,
        wish.availability_zone, wish.metadata, call.named(), wish.hints)
    return {'volume': views.made(services, call, made)}


def delete(services: api_services.ApiServices, call: operation.Call) -> None:
    """Delete a volume. ``cascade`` would delete its snapshots, of which there are none."""
    force = call.version >= _FORCED and listing.flag(call, 'force')
    if force:
        services.policy.authorize(call.context, policies.FORCE_DELETE, call.target.project_id)
    services.volumes.delete(call.context, call.target, force)


def summary(services: api_services.ApiServices, call: operation.Call) -> dict[str, Any]:
    """Count volumes and their GiB; say which values their metadata has."""
    wanted = filters.read(call)
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
    wanted = filters.read(call)
    counted = call.version >= listing.COUNTED and listing.flag(call, 'with_count')
    found = [] if wanted is None else volume_queries.list_page(services.database, wanted, page)
    answer: dict[str, Any] = {'volumes': view(services, call, found),
                              **listing.links(call, 'volumes_links', page, found)}
    if counted:
        answer['count'] = 0 if wanted is None else volume_queries.count(services.database, wanted)
    return answer
