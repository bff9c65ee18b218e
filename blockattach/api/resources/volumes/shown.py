"""Volumes for answers: what the caller may see, and has asked for."""
from collections.abc import Sequence
from typing import Any

from blockattach.api import services as api_services
from blockattach.api.resources.volumes import views
from blockattach.db import attachment_counts
from blockattach.db import volume_types
from blockattach.domain import records
from blockattach.http import operation
from blockattach.policy import volumes as policies

_SERVICE_ROLE = 'service'


def names(services: api_services.ApiServices, call: operation.Call,
          volumes: Sequence[records.Volume]) -> list[dict[str, Any]]:
    """A line each."""
    return [views.name(call, volume) for volume in volumes]


def details(services: api_services.ApiServices, call: operation.Call,
            volumes: Sequence[records.Volume]) -> list[dict[str, Any]]:
    """All that the caller may know of each."""
    rights = {owner: _rights(services, call, owner)
              for owner in {volume.project_id for volume in volumes}}
    shown = [views.detail(call, volume, rights[volume.project_id]) for volume in volumes]
    for one, more in zip(shown, _more(services, call, volumes), strict=False):
        one |= more
    return shown


def made(services: api_services.ApiServices, call: operation.Call,
         volume: records.Volume) -> dict[str, Any]:
    """A volume as the answer to its creation shows it."""
    shown = views.made(call, volume, _rights(services, call, volume.project_id))
    for more in _more(services, call, [volume]):
        shown |= more
    return shown


def encryption(services: api_services.ApiServices, volume: records.Volume) -> dict[str, Any]:
    """How a volume is encrypted. Its type says that; it cannot say another thing meanwhile."""
    return views.encryption(
        volume_types.get(services.database, volume.volume_type_id).encryption
        if volume.encrypted else None)


def _more(services: api_services.ApiServices, call: operation.Call,
          volumes: Sequence[records.Volume]) -> list[dict[str, Any]]:
    """What ``blockattach 1.0`` adds to each, in their order, by one query; none if it was not
    asked for."""
    if call.extension is None:
        return []
    counts = attachment_counts.by_volume(services.database, [one.id for one in volumes])
    return [{'attachment_count': counts.get(one.id, 0)} for one in volumes]


def _rights(services: api_services.ApiServices, call: operation.Call,
            owner: str) -> views.Rights:
    def allowed(rule: str) -> bool:
        return services.policy.allowed(call.context, rule, owner)

    is_admin = bool(call.context.is_admin)
    return views.Rights(
        admin=is_admin, hosts=is_admin or _SERVICE_ROLE in call.context.roles,
        tenant=allowed(policies.TENANT_ATTRIBUTE), pool=allowed(policies.HOST_ATTRIBUTE),
        migration=allowed(policies.MIG_STATUS_ATTRIBUTE))
