"""Quotas: limited resources, the usage that a request adds, and the checks against limits.

A limit is stored under a key, which is the name of a resource or ``<resource>_<type id>``. In the
API, the name of a limit is the name of the resource or ``<resource>_<type name>``, as in Cinder's
quota API. A volume type therefore keeps its limits when it is renamed.
"""
import collections
import dataclasses
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import NamedTuple

from blockattach.storage import errors

UNLIMITED = -1
VOLUMES, SNAPSHOTS, GIGABYTES = 'volumes', 'snapshots', 'gigabytes'
ATTACHMENTS = 'attachments'
VOLUME_SIZE = 'per_volume_gigabytes'


class Resource(NamedTuple):
    """Limited resource.

    :ivar option: option of ``[quota]`` with the default limit
    :ivar exceeded: error raised when a request exceeds the limit; None if the limit is never
        checked
    :ivar per_type: True if each volume type may have an additional limit
    :ivar grain: amount that a typical request adds. A process may check such a request against an
        earlier count of the usage. For a request that adds more, the usage is always counted again
    """

    name: str
    option: str
    exceeded: type[errors.QuotaExceeded] | None = None
    per_type: bool = False
    grain: int = 1


RESOURCES: Mapping[str, Resource] = {row.name: row for row in (
    Resource(VOLUMES, 'quota_volumes', errors.VolumeLimitExceeded, per_type=True),
    Resource(SNAPSHOTS, 'quota_snapshots', errors.SnapshotLimitExceeded, per_type=True),
    Resource(GIGABYTES, 'quota_gigabytes', errors.VolumeSizeExceedsAvailableQuota, per_type=True,
             grain=64),
    Resource(VOLUME_SIZE, 'per_volume_size_limit', errors.VolumeSizeExceedsLimit),
    # Clients expect the limits of all resources of Cinder, also of those that are not supported.
    Resource('backups', 'quota_backups'),
    Resource('backup_gigabytes', 'quota_backup_gigabytes'),
    Resource('groups', 'quota_groups'),
    Resource(ATTACHMENTS, 'quota_attachments', errors.AttachmentLimitExceeded),
)}
"""Limited resources by name."""
OF_TYPES = tuple(row.name for row in RESOURCES.values() if row.per_type)


def key_of(resource: str, type_id: str) -> str:
    """Return the key of the limit of a resource for a volume type."""
    return f'{resource}_{type_id}'


def split(key: str) -> tuple[str, str | None]:
    """Return the resource and the volume type id in a key. The id is None for all types."""
    if key in RESOURCES:
        return key, None
    # The names of resources with limits per type contain no underscore.
    resource, _, type_id = key.partition('_')
    return resource, type_id


def names(type_names: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of all limits by the names of the limits in the API.

    The limits of all types are first, in the order of `RESOURCES`.

    :param type_names: names of all volume types by id
    """
    return {**{name: name for name in RESOURCES},
            **{f'{resource}_{name}': key_of(resource, type_id)
               for type_id, name in type_names.items() for resource in OF_TYPES}}


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """Usage that a request adds to a project.

    :ivar added: added amount by key of a limit
    :ivar size_gb: size in GiB of the volume that the request creates, extends or accepts; None for
        other requests
    """

    added: Mapping[str, int]
    size_gb: int | None = None


class Used(NamedTuple):
    """Usage of one limited resource by a project, and the amount that pending requests reserve."""

    in_use: int = 0
    reserved: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaSet:
    """Limits and usage of a project, by the names of the limits in the API."""

    project_id: str
    limits: Mapping[str, int]
    used: Mapping[str, Used]
    own: frozenset[str]
    """Names of the limits set for the project. The other limits are defaults."""


def volume(type_id: str, size_gb: int, snapshots: Iterable[tuple[str, int]] = (),
           count_gigabytes: bool = True) -> Asked:
    """Return the usage that a new or transferred volume adds to its project.

    :param size_gb: size of the volume in GiB
    :param snapshots: type id and size in GiB of each transferred snapshot. The type of a snapshot
        may differ from the type of its volume, because a retype changes only the volume
    :param count_gigabytes: True if the size of a snapshot counts as ``gigabytes``
    """
    added = collections.Counter(_by_type(type_id, {VOLUMES: 1, GIGABYTES: size_gb}))
    for of_type, gigabytes in snapshots:
        added.update(snapshot(of_type, gigabytes, count_gigabytes).added)
    return Asked(added, size_gb)


def snapshot(type_id: str, size_gb: int, count_gigabytes: bool = True) -> Asked:
    """Return the usage that a new snapshot adds.

    :param count_gigabytes: True if the size of a snapshot counts as ``gigabytes``
    """
    return Asked(_by_type(type_id, {SNAPSHOTS: 1, GIGABYTES: size_gb if count_gigabytes else 0}))


def growth(type_id: str, size_gb: int, added_gb: int) -> Asked:
    """Return the usage that the extension of a volume adds.

    :param size_gb: new size in GiB
    :param added_gb: difference between the new and the old size in GiB
    """
    return Asked(_by_type(type_id, {GIGABYTES: added_gb}), size_gb)


def retype(type_id: str, size_gb: int) -> Asked:
    """Return the usage that a retype adds. Only the limits of the new type are affected.

    :param type_id: id of the new type
    :param size_gb: size of the volume in GiB
    """
    return Asked({key_of(VOLUMES, type_id): 1, key_of(GIGABYTES, type_id): size_gb})


def attachment() -> Asked:
    """Return the usage that a new attachment adds."""
    return Asked({ATTACHMENTS: 1})


def _by_type(type_id: str, added: Mapping[str, int]) -> dict[str, int]:
    # A project that exceeds the limit of one resource may still use other resources. A resource of
    # which nothing is added is therefore left out, so that its limit is not checked.
    return {key: number for name, number in added.items() if number
            for key in (name, key_of(name, type_id))}


def check_size(usage: Asked, limit: int) -> None:
    """Check the size of a volume against the limit ``per_volume_gigabytes``.

    :param limit: maximum size in GiB, or `UNLIMITED`
    :raises VolumeSizeExceedsLimit: if the volume is larger than the limit
    """
    if usage.size_gb is not None and limit != UNLIMITED and usage.size_gb > limit:
        raise errors.VolumeSizeExceedsLimit(size=usage.size_gb, limit=limit)


def limited(usage: Asked, limits: Mapping[str, int]) -> dict[str, int]:
    """Return the entries of ``limits`` that apply to a request, without unlimited entries."""
    return {key: limits[key] for key in usage.added
            if limits.get(key, UNLIMITED) != UNLIMITED}


def check(usage: Asked, limits: Mapping[str, int], used: Mapping[str, Used],
          shown: Callable[[str], str]) -> None:
    """Check that a request does not exceed the limits of a project.

    :param limits: limits that apply to the request (see `limited`)
    :param used: usage before the request, by key
    :param shown: function that returns the name of a volume type for its id. It is called only if
        a limit is exceeded
    :raises QuotaExceeded: if the request exceeds a limit. The subclass is `Resource.exceeded`
    """
    for key in sorted(limits):
        have = sum(used.get(key, Used()))
        if have + usage.added[key] <= limits[key]:
            continue
        name, type_id = split(key)
        exceeded = RESOURCES[name].exceeded
        assert exceeded is not None
        raise exceeded(name=name if type_id is None else f'{name}_{shown(type_id)}',
                       requested=usage.added[key], limit=limits[key], in_use=have)
