"""A store on plain directories: one for each volume, with its bytes in a sparse file.

Also a `base.Discard`: it has the one method that this asks for.
"""
import contextlib
import os
import shutil
import socket

from blockattach.drivers import base
from blockattach.platform import disks
from blockattach.platform import errors
from blockattach.platform import units
from blockattach.storage.conf import backend


class DirectoryStore(base.VolumeStore):
    """Store with one pool, the folder ``volumes_dir``.

    A directory without the file ``bytes`` is not a volume. Killed processes can leave such
    directories, which a repeat or the deletion of the volume removes.
    """

    def __init__(self, settings: backend.BackendSettings) -> None:
        self._settings = settings
        self._folder = settings.volumes_dir

    def check(self) -> None:
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'volumes_dir = {self._folder} cannot be used: {exc.strerror}; name a '
                       f'folder that this service may write to') from exc

    def create(self, volume: base.StoredVolume) -> None:
        path = self._file(volume)
        if os.path.exists(path):
            return
        self._make_room(volume.size_gb)
        try:
            os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
            with open(f'{path}.new', 'wb') as file:
                file.truncate(units.gib_to_bytes(volume.size_gb))
            os.rename(f'{path}.new', path)
        except OSError as exc:
            shutil.rmtree(os.path.dirname(path), ignore_errors=True)
            raise disks.error_of(exc, volume.size_gb) from exc

    def delete(self, volume: base.StoredVolume) -> None:
        path = self._file(volume)
        with disks.translated():
            # Deleted first: without this file, the directory no longer counts as a volume.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(os.path.dirname(path))

    def extend(self, volume: base.StoredVolume, size_gb: int) -> None:
        path, wanted = self.device(volume), units.gib_to_bytes(size_gb)
        present = os.stat(path).st_size
        if present > wanted:
            raise errors.BackendRefused(reason=f'{volume.name} is larger than {size_gb} GiB')
        self._make_room((wanted - present) / units.GIB)
        with disks.translated(size_gb):
            os.truncate(path, wanted)

    def device(self, volume: base.StoredVolume) -> str:
        path = self._file(volume)
        if not os.path.exists(path):
            raise errors.BackendRefused(reason=f'{volume.name} does not exist')
        return path

    def allocated_bytes(self, volume: base.StoredVolume) -> int:
        """See `base.Discard`: a hole in a sparse file takes no room."""
        return os.stat(self.device(volume)).st_blocks * 512

    def pools(self) -> tuple[base.PoolReport, ...]:
        room, sizes = os.statvfs(self._folder), self._sizes()
        return (base.PoolReport(self._settings.pool_name, {
            'pool_name': self._settings.pool_name,
            'total_capacity_gb': units.bytes_to_gib(room.f_blocks * room.f_frsize),
            'free_capacity_gb': units.bytes_to_gib(room.f_bavail * room.f_frsize),
            'provisioned_capacity_gb': units.bytes_to_gib(sum(sizes)),
            'reserved_percentage': self._settings.reserved_percentage,
            'max_over_subscription_ratio': str(self._settings.max_over_subscription_ratio),
            'thin_provisioning_support': True,
            'thick_provisioning_support': False,
            'total_volumes': len(sizes),
            'QoS_support': False,
            'location_info': f'DirectoryStore:{socket.gethostname()}:{self._folder}',
        }),)

    def _file(self, volume: base.StoredVolume) -> str:
        return os.path.join(self._folder, os.path.basename(volume.name), 'bytes')

    def _sizes(self) -> list[int]:
        """Of each volume; another thread may delete one meanwhile."""
        sizes = []
        for name in os.listdir(self._folder):
            with contextlib.suppress(FileNotFoundError):
                sizes.append(os.stat(f'{self._folder}/{name}/bytes').st_size)
        return sizes

    def _make_room(self, size_gb: float) -> None:
        pool = self.pools()[0].capabilities
        limit = pool['total_capacity_gb'] * self._settings.max_over_subscription_ratio
        if pool['provisioned_capacity_gb'] + size_gb > limit:
            raise errors.BackendFull(size_gb=size_gb, reason=f'the pool may give away {limit} GiB')
