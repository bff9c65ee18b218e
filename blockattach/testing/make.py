"""Builders: a test names what matters to it, the rest is sensible. They use the real verbs."""
import uuid
from collections.abc import Mapping
from typing import Any

from blockattach import errors
from blockattach.db import attachments
from blockattach.db import engine
from blockattach.db import pools
from blockattach.db import qos_specs
from blockattach.db import volume_queries
from blockattach.db import volume_type_encryptions
from blockattach.db import volume_types
from blockattach.db import volumes
from blockattach.domain import attachment_lifecycle
from blockattach.domain import connection
from blockattach.domain import records
from blockattach.domain import volume_lifecycle

PROJECT = '5cd3bdcbf5904a9c8a9a8a1b33d1a0ee'
USER = 'c7f8ab7c3d1c4c1d9a3ad8a0e1ad1a01'
POOL = 'storage-1@file#pool'
ZONE = 'nova'
DEFAULT_TYPE = '__DEFAULT__'
MULTIATTACH_TYPE = 'multiattach'
LEASE_SECONDS = 60.0

_State = attachment_lifecycle.State
_Event = attachment_lifecycle.Event
_Own = volume_lifecycle.OwnStatus

_TO_ATTACHED = (_Event.CONNECT, _Event.CONNECTED, _Event.COMPLETE)
# From reserved, the usual way.
WAYS: Mapping[attachment_lifecycle.State, tuple[attachment_lifecycle.Event, ...]] = {
    _State.RESERVED: (),
    _State.CONNECTING: (_Event.CONNECT,),
    _State.CONNECTED: (_Event.CONNECT, _Event.CONNECTED),
    _State.ATTACHED: _TO_ATTACHED,
    _State.DISCONNECTING: (*_TO_ATTACHED, _Event.DISCONNECT),
    _State.ERROR_ATTACHING: (_Event.CONNECT, _Event.FAILED),
    _State.ERROR_DETACHING: (*_TO_ATTACHED, _Event.DISCONNECT, _Event.FAILED),
    _State.GONE: (*_TO_ATTACHED, _Event.DISCONNECT, _Event.DISCONNECTED),
}


def pool(db: engine.Database, name: str = POOL, total_gb: float = 1000,
         multiattach: bool = True) -> str:
    """A pool that has reported; returns its name. Reports only this one for its host."""
    pools.report(db, name.split('#', 1)[0], [(name, {
        'total_capacity_gb': total_gb, 'free_capacity_gb': total_gb,
        'provisioned_capacity_gb': 0, 'reserved_percentage': 0,
        'thin_provisioning_support': False, 'multiattach': multiattach})], ZONE)
    return name


def volume_type(db: engine.Database, name: str | None = None, multiattach: bool = False,
                extra_specs: Mapping[str, str] | None = None,
                is_public: bool = True) -> records.VolumeType:
    """A new volume type."""
    specs = {'multiattach': '<is> True'} if multiattach else {}
    return volume_types.create(db, name or f'type-{_new_name()}', None, is_public,
                               {**specs, **(extra_specs or {})})


def encrypted_type(db: engine.Database) -> records.VolumeType:
    """A new volume type whose volumes the storage encrypts."""
    made = volume_type(db)
    volume_type_encryptions.create(db, made.id, 'luks', 'back-end')
    return volume_types.get(db, made.id)


def qos(db: engine.Database, consumer: str = 'front-end',
        specs: Mapping[str, str | None] | None = None) -> records.QosSpecs:
    """New QoS specs."""
    return qos_specs.create(db, f'qos-{_new_name()}', consumer,
                            {'total_iops_sec': '500'} if specs is None else specs)


def volume(db: engine.Database, multiattach: bool = False, size_gb: int = 1,
           own_status: volume_lifecycle.OwnStatus = _Own.AVAILABLE, name: str | None = None,
           project_id: str = PROJECT, kind: records.VolumeType | None = None,
           on_pool: str = POOL, metadata: Mapping[str, str] | None = None) -> records.Volume:
    """A new volume, by default available on a pool (which is made if nobody reported it)."""
    made = volumes.create(db, volumes.Draft(
        project_id=project_id, user_id=USER, name=name, description=None, size_gb=size_gb,
        kind=kind or _usual_type(db, multiattach), availability_zone=ZONE,
        metadata=metadata or {}), LEASE_SECONDS)
    if own_status is not _Own.CREATING:
        _lead(db, made, own_status, on_pool)
    if own_status is _Own.GONE:
        return made
    return volume_queries.get(db, made.id)


def connector(initiator: str | None = None, host: str | None = None,
              **more: Any) -> dict[str, Any]:
    """What a consumer's host says of itself; a new host where none is named."""
    name = _new_name()
    return {'initiator': initiator or f'iqn.2016-04.com.example:{name}',
            'host': host or f'compute-{name}', 'ip': '127.0.0.1', 'multipath': False, **more}


def attachment(db: engine.Database, of: records.Volume | None = None,
               state: attachment_lifecycle.State = _State.ATTACHED,
               instance_uuid: str | None = None, mode: connection.AccessMode | None = None,
               with_connector: Mapping[str, Any] | None = None) -> records.Attachment:
    """An attachment in a state, of a new volume where none is named, for a new instance."""
    held = of or volume(db)
    made = attachments.reserve(db, attachments.Wish(
        held.id, held.project_id, instance_uuid or str(uuid.uuid4()), mode), LEASE_SECONDS)
    for event in WAYS[state]:
        made = move(db, made, event, with_connector=with_connector)
    return made


def move(db: engine.Database, of: records.Attachment, event: attachment_lifecycle.Event,
         with_connector: Mapping[str, Any] | None = None,
         owner: str = POOL.split('#', 1)[0]) -> records.Attachment:
    """Let an event happen to an attachment, with whatever facts the event needs."""
    facts = attachments.Facts(
        connector=with_connector or of.connector or connector(),
        lease=attachments.Lease(owner, LEASE_SECONDS), connection=_connection(of),
        error='refused by the test' if event in (_Event.REFUSED, _Event.FAILED) else None,
        attached=attachments.Attached(of.instance_uuid, 'host', '/dev/vdb',
                                      of.mode or connection.AccessMode.RW))
    return attachments.move(db, of.volume_id, of.id, event, facts).new


def _new_name() -> str:
    return uuid.uuid4().hex[:8]


def _connection(of: records.Attachment) -> dict[str, Any]:
    return connection.Connection(
        'iscsi', ('127.0.0.1:3260',), f'iqn.2010-10.org.openstack:volume-{of.volume_id}',
        1).to_dict()


def _usual_type(db: engine.Database, multiattach: bool) -> records.VolumeType:
    name = MULTIATTACH_TYPE if multiattach else DEFAULT_TYPE
    try:
        return volume_types.get_by_name(db, name)
    except errors.VolumeTypeNameNotFound:
        return volume_type(db, name, multiattach)


def _lead(db: engine.Database, made: records.Volume, own_status: volume_lifecycle.OwnStatus,
          on_pool: str) -> None:
    """Let a new volume live until it is in a state."""
    if own_status is _Own.ERROR:
        volumes.failed(db, made.id, made.generation)
        return
    try:
        pools.get(db, on_pool, LEASE_SECONDS)
    except errors.PoolNotFound:
        pool(db, on_pool)
    claimed = volumes.claim(db, made.id, made.generation, on_pool, str(uuid.uuid4()),
                            LEASE_SECONDS)
    assert claimed is not None, f'no room on {on_pool}'
    volumes.own(db, made.id, claimed, on_pool.split('#', 1)[0], LEASE_SECONDS)
    volumes.created(db, made.id, claimed, shared_targets=False)
    if own_status is _Own.AVAILABLE:
        return
    told = volumes.start_delete(db, made.id, LEASE_SECONDS)
    if own_status is _Own.ERROR_DELETING:
        volumes.delete_failed(db, made.id, told.generation)
    elif own_status is _Own.GONE:
        volumes.deleted(db, made.id, told.generation)
