"""Cached images: on each backend, at most one volume of an image that further volumes of it are
cloned from. Which images may have one, when it is used, and what goes for another one.
"""
import dataclasses
import datetime
from collections.abc import Sequence

from blockattach.storage.domain import images
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle

_ENCRYPTED = 'cinder_encryption_key_id'
_Own = volume_lifecycle.OwnStatus
_FILLED = _Own.AVAILABLE.value
_CURRENT = (_Own.DOWNLOADING.value, _FILLED)


@dataclasses.dataclass(frozen=True, slots=True)
class Bounds:
    """What the cache of one backend may come to; 0: any number."""

    max_gb: int = 0
    max_count: int = 0

    def allow(self, sizes_gb: Sequence[int]) -> bool:
        """Whether volumes of these sizes may be there together."""
        return not (0 < self.max_gb < sum(sizes_gb)) and not (0 < self.max_count < len(sizes_gb))


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the cache on one backend.

    :ivar project_id: of the volumes of cached images
    :ivar user_id: of these volumes
    :ivar bounds: how many volumes there may be
    :ivar seconds: for which a process that fills a volume may send no heartbeat
    """

    project_id: str
    user_id: str
    bounds: Bounds
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A cached image.

    :ivar image_updated_at: of the image when it was downloaded
    :ivar status: of its volume
    :ivar intact: nothing has happened to its volume but that it was filled
    """

    image_id: str
    volume_id: str
    size_gb: int
    image_updated_at: datetime.datetime | None
    used_at: datetime.datetime
    status: str
    intact: bool


def updated_at(image: images.Image) -> datetime.datetime | None:
    """When an image was changed last, in UTC without zone; None: nobody knows."""
    try:
        found = datetime.datetime.fromisoformat(image.updated_at or '')
    except ValueError:
        return None
    return found if found.tzinfo is None else found.astimezone(datetime.UTC).replace(tzinfo=None)


def is_cacheable(image: images.Image, volume: records.Volume) -> bool:
    """Whether a volume of this image may be made of a cached one, or a cached one of it."""
    return (not volume.encrypted and _ENCRYPTED not in image.properties
            and updated_at(image) is not None)


def is_usable(entry: Entry, image: images.Image, size_gb: int) -> bool:
    """Whether a volume of that size can be cloned from it now."""
    return (_is_current(entry, image) and entry.status == _FILLED
            and entry.size_gb <= size_gb)


def replaced(entries: Sequence[Entry], image: images.Image, size_gb: int,
             bounds: Bounds) -> list[Entry] | None:
    """What has to go before an image is cached in so many GiB: what is of no use, then what was
    not used for longest. None: the image is there, or on its way, or is too large.
    """
    if not bounds.allow([size_gb]) or any(_is_current(entry, image) for entry in entries):
        return None
    gone = [entry for entry in entries if entry.image_id == image.id or not entry.intact]
    kept = sorted((entry for entry in entries if entry not in gone),
                  key=lambda entry: entry.used_at)
    while not bounds.allow([size_gb, *(entry.size_gb for entry in kept)]):
        gone.append(kept.pop(0))
    return gone


def _is_current(entry: Entry, image: images.Image) -> bool:
    return (entry.image_id == image.id and entry.image_updated_at == updated_at(image)
            and entry.intact and entry.status in _CURRENT)
