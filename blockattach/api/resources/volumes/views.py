"""Volumes as the API shows them, at each version, to each kind of caller: what it may see, and has
asked for."""
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from blockattach.api import services as api_services
from blockattach.api.resources.volumes import schemas
from blockattach.db import attachment_queries
from blockattach.db import volume_types
from blockattach.domain import records
from blockattach.http import operation
from blockattach.http.operation import V
from blockattach.policy import volumes as policies


@dataclasses.dataclass(frozen=True, slots=True)
class _Rights:
    """What the caller may see of the volumes of one project.

    :ivar admin: keys for administrators
    :ivar hosts: on which hosts a volume is attached
    :ivar tenant: the project of the volume
    :ivar pool: where the volume is
    :ivar migration: whether the volume is being moved
    """

    admin: bool
    hosts: bool
    tenant: bool
    pool: bool
    migration: bool


_SERVICE_ROLE = 'service'


@functools.cache
def _added(version: V, admin: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The additions of a version: what all volumes have in common, and what is read of each."""
    rows = [row for row in schemas.ADDED if version >= row.since and (admin or not row.admin)]
    return ({row.key: row.value for row in rows if not row.held},
            tuple(row.key for row in rows if row.held))


def names(services: api_services.ApiServices, call: operation.Call,
          volumes: Sequence[records.Volume]) -> list[dict[str, Any]]:
    """A line each."""
    return [_name(call, volume) for volume in volumes]


def details(services: api_services.ApiServices, call: operation.Call,
            volumes: Sequence[records.Volume]) -> list[dict[str, Any]]:
    """All that the caller may know of each."""
    rights = {owner: _rights(services, call, owner)
              for owner in {volume.project_id for volume in volumes}}
    shown = [_detail(call, volume, rights[volume.project_id]) for volume in volumes]
    for one, more in zip(shown, _more(services, call, volumes), strict=False):
        one |= more
    return shown


def made(services: api_services.ApiServices, call: operation.Call,
         volume: records.Volume) -> dict[str, Any]:
    """A volume as the answer to its creation shows it."""
    shown = _made(call, volume, _rights(services, call, volume.project_id))
    for more in _more(services, call, [volume]):
        shown |= more
    return shown


def encryption(services: api_services.ApiServices, volume: records.Volume) -> dict[str, Any]:
    """How a volume is encrypted. Its type says that; it cannot say another thing meanwhile."""
    return _encryption(
        volume_types.get(services.database, volume.volume_type_id).encryption
        if volume.encrypted else None)


def _more(services: api_services.ApiServices, call: operation.Call,
          volumes: Sequence[records.Volume]) -> list[dict[str, Any]]:
    """What ``blockattach 1.0`` adds to each, in their order, by one query; none if it was not
    asked for."""
    if call.extension is None:
        return []
    counts = attachment_queries.counts(services.database, [one.id for one in volumes])
    return [{'attachment_count': counts.get(one.id, 0)} for one in volumes]


def _rights(services: api_services.ApiServices, call: operation.Call,
            owner: str) -> _Rights:
    def allowed(rule: str) -> bool:
        return services.policy.allowed(call.context, rule, owner)

    is_admin = bool(call.context.is_admin)
    return _Rights(
        admin=is_admin, hosts=is_admin or _SERVICE_ROLE in call.context.roles,
        tenant=allowed(policies.TENANT_ATTRIBUTE), pool=allowed(policies.HOST_ATTRIBUTE),
        migration=allowed(policies.MIG_STATUS_ATTRIBUTE))


def _name(call: operation.Call, volume: records.Volume) -> dict[str, Any]:
    """One line of a list."""
    return {'id': volume.id, 'name': volume.name, 'links': call.links(f'/volumes/{volume.id}')}


def _made(call: operation.Call, volume: records.Volume, rights: _Rights) -> dict[str, Any]:
    """A volume as the answer to its creation shows it."""
    alike, held = _added(call.version, rights.admin)
    shown = {
        **alike,
        'id': volume.id,
        'name': volume.name,
        'description': volume.description,
        'status': volume.status,
        'size': volume.size_gb,
        'availability_zone': volume.availability_zone,
        'created_at': volume.created_at,
        'updated_at': volume.updated_at,
        'user_id': volume.user_id,
        'volume_type': volume.volume_type_name,
        'snapshot_id': None,
        'source_volid': None,
        'consistencygroup_id': None,
        'metadata': volume.metadata,
        'links': call.links(f'/volumes/{volume.id}'),
        'bootable': 'true' if volume.bootable else 'false',
        'encrypted': volume.encrypted,
        'replication_status': None,
        'multiattach': volume.multiattach,
        'attachments': [_server(volume, one, rights) for one in volume.attached],
    }
    for key in held:
        shown[key] = getattr(volume, key)
    return shown


def _detail(call: operation.Call, volume: records.Volume, rights: _Rights) -> dict[str, Any]:
    """All that the caller may know of a volume."""
    shown = _made(call, volume, rights)
    if volume.readonly is not None or volume.attached_mode is not None:
        shown['metadata'] = {**volume.metadata, **_set_by_actions(volume)}
    if rights.tenant:
        shown['os-vol-tenant-attr:tenant_id'] = volume.project_id
    if rights.pool:
        shown['os-vol-host-attr:host'] = volume.pool
    if rights.migration:
        shown['os-vol-mig-status-attr:migstat'] = None
        shown['os-vol-mig-status-attr:name_id'] = None
    return shown


def _encryption(found: records.TypeEncryption | None) -> dict[str, Any]:
    """What a consumer needs to know of a volume's encryption; None: it is plain.

    The storage encrypts by itself, so no volume has a key that a consumer would fetch.
    """
    shown: dict[str, Any] = {'encryption_key_id': None}
    if found is not None:
        shown |= {'provider': found.provider, 'control_location': found.control_location,
                  'cipher': found.cipher, 'key_size': found.key_size}
    return shown


def _set_by_actions(volume: records.Volume) -> dict[str, str]:
    """Metadata that clients expect, though no request on metadata writes it."""
    metadata = {'readonly': None if volume.readonly is None else str(bool(volume.readonly)),
                'attached_mode': volume.attached_mode}
    return {key: value for key, value in metadata.items() if value is not None}


def _server(volume: records.Volume, attached: records.AttachedServer,
            rights: _Rights) -> dict[str, Any]:
    return {
        # Clients expect the volume's id here; the attachment has a key of its own.
        'id': volume.id,
        'attachment_id': attached.attachment_id,
        'volume_id': volume.id,
        'server_id': attached.instance_uuid,
        'host_name': attached.host if rights.hosts else None,
        'device': attached.mountpoint,
        'attached_at': attached.attached_at,
    }



