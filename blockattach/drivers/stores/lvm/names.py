"""Names of volumes and snapshots in their volume group. Only volumes are reported."""
import uuid

from blockattach.drivers import base

VOLUME = 'volume-'
DELETED = 'deleted-'


def snapshot(snapshot: base.StoredSnapshot) -> str:
    """A name that begins with ``snapshot`` LVM would keep for itself."""
    return f'_{snapshot.name}'


def unfinished(volume: base.StoredVolume) -> str:
    """While it is made from another one."""
    return f'_unfinished-{_id(volume)}'


def source(volume: base.StoredVolume) -> str:
    """A snapshot that it is copied from."""
    return f'_source-{_id(volume)}'


def deleted(name: str) -> str:
    """A unique name: a volume may be deleted while a former one of its name is still wiped."""
    return f'{DELETED}{name.partition("-")[2]}-{uuid.uuid4().hex[:8]}'


def is_replaced(name: str, volume: base.StoredVolume) -> bool:
    """Whether it was this volume once."""
    return name.startswith(f'{DELETED}{_id(volume)}-')


def _id(volume: base.StoredVolume) -> str:
    return volume.name.removeprefix(VOLUME)
