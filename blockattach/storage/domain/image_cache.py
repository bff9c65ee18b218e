"""Image cache: rules for caching images, for using cached images, and for their eviction.

Each backend has at most one cached volume of an image, from which further volumes of the image are
cloned. Limits and the order of eviction are those of ``cinder.image.cache``.
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
    """Limits of the image cache of one backend; 0 means unlimited."""

    max_gb: int = 0
    max_count: int = 0

    def allow(self, sizes_gb: Sequence[int]) -> bool:
        """Return True if cached volumes of these sizes in GiB are within the limits."""
        return not (0 < self.max_gb < sum(sizes_gb)) and not (0 < self.max_count < len(sizes_gb))


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the image cache of one backend.

    :ivar project_id: project that owns the cached volumes
    :ivar user_id: user who owns the cached volumes
    :ivar bounds: limits of the number and total size of cached volumes
    :ivar seconds: seconds without a heartbeat after which a cached volume that is being filled may
        be taken over by another process
    """

    project_id: str
    user_id: str
    bounds: Bounds
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """Cached volume with the data of an image.

    :ivar image_updated_at: modification time of the image when it was downloaded
    :ivar used_at: time at which the cached volume was created or last cloned
    :ivar status: status of the cached volume
    :ivar intact: True if nothing has happened to the cached volume since it was filled
    """

    image_id: str
    volume_id: str
    size_gb: int
    image_updated_at: datetime.datetime | None
    used_at: datetime.datetime
    status: str
    intact: bool


def updated_at(image: images.Image) -> datetime.datetime | None:
    """Return the modification time of an image in UTC without zone, or None if it is unknown."""
    try:
        found = datetime.datetime.fromisoformat(image.updated_at or '')
    except ValueError:
        return None
    return found if found.tzinfo is None else found.astimezone(datetime.UTC).replace(tzinfo=None)


def is_cacheable(image: images.Image, volume: records.Volume) -> bool:
    """Return True if the image cache may be used for a volume of an image.

    An encrypted volume, an encrypted image and an image of unknown modification time are not
    cached.
    """
    # A cached volume is outdated if the image was modified later, so the time must be known.
    return (not volume.encrypted and _ENCRYPTED not in image.properties
            and updated_at(image) is not None)


def is_usable(entry: Entry, image: images.Image, size_gb: int) -> bool:
    """Return True if a volume of ``size_gb`` GiB can be cloned from the cached image now."""
    return (_is_current(entry, image) and entry.status == _FILLED
            and entry.size_gb <= size_gb)


def replaced(entries: Sequence[Entry], image: images.Image, size_gb: int,
             bounds: Bounds) -> list[Entry] | None:
    """Return the entries to evict before an image is cached as a volume of ``size_gb`` GiB.

    Unusable entries of the image and modified entries of other images are always evicted. The
    least recently used entries follow until the limits allow the new volume.

    :returns: None if the image is already cached or being cached, or if the new volume alone
        exceeds the limits
    """
    if not bounds.allow([size_gb]) or any(_is_current(entry, image) for entry in entries):
        return None
    gone = [entry for entry in entries if entry.image_id == image.id or not entry.intact]
    # Entries that cannot be used again are already in `gone`, so that none of the others is
    # evicted in their place.
    kept = sorted((entry for entry in entries if entry not in gone),
                  key=lambda entry: entry.used_at)
    while not bounds.allow([size_gb, *(entry.size_gb for entry in kept)]):
        gone.append(kept.pop(0))
    return gone


def _is_current(entry: Entry, image: images.Image) -> bool:
    return (entry.image_id == image.id and entry.image_updated_at == updated_at(image)
            and entry.intact and entry.status in _CURRENT)
