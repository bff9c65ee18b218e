"""Quotas: what of a project is limited, what a request would add to it, and when that is too much.

A limit is kept under a key: the name of a resource, or that name and the id of a volume type. So
a type that is renamed keeps its limits; they are shown under its name.
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
    """What is limited.

    :ivar option: of ``[quota]``, which says the default
    :ivar exceeded: the error of a request for too much; None: nothing ever is
    :ivar per_type: each volume type may have a limit besides
    :ivar grain: how much of it one request asks for as a rule
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
    Resource('backups', 'quota_backups'),
    Resource('backup_gigabytes', 'quota_backup_gigabytes'),
    Resource('groups', 'quota_groups'),
    Resource(ATTACHMENTS, 'quota_attachments', errors.AttachmentLimitExceeded),
)}
"""By name."""
OF_TYPES = tuple(row.name for row in RESOURCES.values() if row.per_type)


def key_of(resource: str, type_id: str) -> str:
    """Under which the limit of a volume type is kept."""
    return f'{resource}_{type_id}'


def split(key: str) -> tuple[str, str | None]:
    """The resource that a key is of, and the volume type; None: of all types."""
    if key in RESOURCES:
        return key, None
    resource, _, type_id = key.partition('_')
    return resource, type_id


def names(type_names: Mapping[str, str]) -> dict[str, str]:
    """Every key by the name under which it is shown, in the order of the table.

    :param type_names: of the volume types, by id
    """
    return {**{name: name for name in RESOURCES},
            **{f'{resource}_{name}': key_of(resource, type_id)
               for type_id, name in type_names.items() for resource in OF_TYPES}}


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What a request would add to a project, by key; and the size of the volume that it makes
    larger than it was.
    """

    added: Mapping[str, int]
    size_gb: int | None = None


class Used(NamedTuple):
    """How much a project has, and how much what is under way will add."""

    in_use: int = 0
    reserved: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaSet:
    """What a project may have and has, by the names under which that is shown."""

    project_id: str
    limits: Mapping[str, int]
    used: Mapping[str, Used]
    own: frozenset[str]
    """Those that it was given; the others are the default ones."""


def volume(type_id: str, size_gb: int, snapshots: Iterable[tuple[str, int]] = (),
           count_gigabytes: bool = True) -> Asked:
    """Return what a volume adds to the usage of a project that receives it.

    :param snapshots: type and GiB of each snapshot; a snapshot keeps its type if its volume is
        retyped
    :param count_gigabytes: whether the GiB of snapshots count
    """
    added = collections.Counter(_by_type(type_id, {VOLUMES: 1, GIGABYTES: size_gb}))
    for of_type, gigabytes in snapshots:
        added.update(snapshot(of_type, gigabytes, count_gigabytes).added)
    return Asked(added, size_gb)


def snapshot(type_id: str, size_gb: int, count_gigabytes: bool = True) -> Asked:
    """A snapshot of a volume."""
    return Asked(_by_type(type_id, {SNAPSHOTS: 1, GIGABYTES: size_gb if count_gigabytes else 0}))


def growth(type_id: str, size_gb: int, added_gb: int) -> Asked:
    """A volume that gets larger.

    :param size_gb: afterwards
    """
    return Asked(_by_type(type_id, {GIGABYTES: added_gb}), size_gb)


def retype(type_id: str, size_gb: int) -> Asked:
    """A volume that gets another type: only the limits of that one matter."""
    return Asked({key_of(VOLUMES, type_id): 1, key_of(GIGABYTES, type_id): size_gb})


def attachment() -> Asked:
    """One attachment."""
    return Asked({ATTACHMENTS: 1})


def _by_type(type_id: str, added: Mapping[str, int]) -> dict[str, int]:
    return {key: number for name, number in added.items() if number
            for key in (name, key_of(name, type_id))}


def check_size(asked: Asked, limit: int) -> None:
    """Refuse a volume that is larger than any may be.

    :raises VolumeSizeExceedsLimit: it is
    """
    if asked.size_gb is not None and limit != UNLIMITED and asked.size_gb > limit:
        raise errors.VolumeSizeExceedsLimit(size=asked.size_gb, limit=limit)


def limited(asked: Asked, limits: Mapping[str, int]) -> dict[str, int]:
    """What of a request has a limit: the limit by key."""
    return {key: limits[key] for key in asked.added
            if limits.get(key, UNLIMITED) != UNLIMITED}


def check(asked: Asked, limits: Mapping[str, int], used: Mapping[str, Used],
          shown: Callable[[str], str]) -> None:
    """Refuse what would be more than a project may have.

    :param limits: as of `limited`
    :param used: before
    :param shown: the name of a volume type by its id; asked where something is refused only
    :raises QuotaExceeded: it would
    """
    for key in sorted(limits):
        have = sum(used.get(key, Used()))
        if have + asked.added[key] <= limits[key]:
            continue
        name, type_id = split(key)
        exceeded = RESOURCES[name].exceeded
        assert exceeded is not None
        raise exceeded(name=name if type_id is None else f'{name}_{shown(type_id)}',
                       requested=asked.added[key], limit=limits[key], in_use=have)
