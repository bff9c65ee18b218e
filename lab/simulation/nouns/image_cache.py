"""Image caches in the simulation.

A volume has the bytes that its image had when the volume was requested, cloned from the cache or
not. A cache stays within its limits, and its unused volumes are deleted.
"""
import os
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa

from blockattach.storage.db import models
from blockattach.storage.domain import messages
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.domain.invariants import observed
from blockattach.storage.drivers import base
from lab.simulation import clients
from lab.simulation import deployment
from lab.simulation import glance
from lab.simulation import operations
from lab.simulation import storage
from lab.simulation.nouns import images
from lab.simulation.nouns import volumes

_Own = volume_lifecycle.OwnStatus
_IMAGES = (images.WHOLE, images.SECOND, images.LARGE)
_KIND = 'passing-cached'
# Offset at which `moving` writes to each volume.
_FIRST_PIECE = 0
_WRITTEN = b'written by an administrator'
_NO_ROOM_GB = 4
_ENTRIES = sa.select(models.cached_images)
_FAILED = sa.select(models.messages.c.resource_id, models.messages.c.event_id).where(
    models.messages.c.event_id != messages.NO_VALID_POOL.event_id)


class _Asked(NamedTuple):
    """Volume that was requested in the calm: its image, and the version of the image."""

    image_id: str
    version: int


class ImageCache(clients.Played):
    """Volumes of cached images, and the volumes created from these images."""

    def __init__(self, consumers: clients.Consumers) -> None:
        super().__init__(consumers)
        self._touched: set[str] = set()
        """Volumes of cached images that a client may have changed."""
        self._calm: dict[str, _Asked] = {}

    @property
    def _volumes(self) -> volumes.Volumes:
        return self._all.of(volumes.Volumes)

    @property
    def _of_images(self) -> images.Images:
        return self._all.of(images.Images)

    @property
    def _stores(self) -> list[storage.Storage]:
        return list(self._all.deployed.storages.values())

    def _create(self) -> None:
        """Create a volume from an image. If there are many volumes, delete one instead."""
        if len(self._volumes.kinds) >= volumes.MOST + images.MOST:
            name = self._volumes.any()
            if not self._volumes.changes[name] % 2:
                self._volumes.delete(name)
            return
        image_id, versions = self._chance.choice(_IMAGES), self._all.deployed.glance.versions
        version, in_calm = versions[image_id], not self._disturbed()
        made = self._of_images.make(image_id, 2)
        if made is not None and in_calm:
            self._calm[made] = _Asked(image_id, version)

    def _change(self) -> None:
        """Change the data of an image in Glance, as an operator may do."""
        self._all.deployed.glance.change(self._chance.choice(_IMAGES))

    def _delete(self) -> None:
        """Delete the volume of a cached image."""
        if (found := self._any()) is not None:
            self._all.ask('DELETE', f'/volumes/{found}')

    def _use(self) -> None:
        """Change the bytes of the volume of a cached image, after removing its read-only flag."""
        if (found := self._any()) is None:
            return
        self._touched.add(found)
        answer = self._volumes.action('os-update_readonly_flag', {'readonly': False}, found)
        if answer.status == 202 and (kept := self._holder(found)) is not None:
            kept.store.contents(f'volume-{found}')[glance.MARK] = _WRITTEN

    def _lose(self) -> None:
        """Delete the volume of a cached image on its backend, behind the back of the service."""
        if (found := self._any()) is None or (kept := self._holder(found)) is None:
            return
        self._touched.add(found)
        self._all.rewrite(found)
        kept.store.delete(base.StoredVolume(found, f'volume-{found}', 0, ''))

    def _any(self) -> str | None:
        found = sorted(row.id for row in self._rows(sa.select(models.volumes.c.id).where(
            models.live(models.volumes), models.volumes.c.own_status == _Own.AVAILABLE.value,
            models.volumes.c.project_id == deployment.INTERNAL_PROJECT)))
        return self._chance.choice(found) if found else None

    def _holder(self, volume_id: str) -> storage.Storage | None:
        return next((kept for kept in self._stores
                     if f'volume-{volume_id}' in kept.store.sizes()), None)

    def _rows(self, query: sa.Select[Any]) -> list[Any]:
        with self._all.judge.looking() as database, database.reader() as connection:
            return list(connection.execute(query))

    def _disturbed(self) -> bool:
        return any(kept.faults.active for kept in self._stores)

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the cached images that are incomplete or gone, and the caches beyond a limit."""
        there = {volume.id: volume for volume in facts.volumes if not volume.deleted}
        entries = self._rows(_ENTRIES)
        for entry in entries:
            volume = there.get(entry.volume_id)
            if volume is None or volume.own_status in (_Own.DELETING, _Own.ERROR_DELETING):
                yield (f'P2 cached_images_are_there: image {entry.image_id} is cached as volume '
                       f'{entry.volume_id}, which is gone or being deleted')
            elif volume.own_status == _Own.AVAILABLE and volume.id not in self._touched:
                yield from self._whole(entry, volume)
        for host, kept in self._all.deployed.storages.items():
            sizes = [there[entry.volume_id].size_gb for entry in entries
                     if entry.host == host and entry.volume_id in there]
            bounds = kept.settings
            if 0 < bounds.image_volume_cache_max_count < len(sizes) \
                    or 0 < bounds.image_volume_cache_max_size_gb < sum(sizes):
                yield f'P6 caches_have_bounds: {host} has cached images of {sizes} GiB'
        yield from self._failed(facts, there)

    def _whole(self, entry: Any, volume: observed.VolumeFact) -> Iterator[str]:
        kept = self._all.deployed.storages.get(volume.host or '')
        if kept is None or volume.id in kept.lied:
            return
        contents = kept.store.contents(f'volume-{volume.id}')
        wanted = self._all.deployed.glance.mark_at(entry.image_id, entry.image_updated_at)
        if contents.get(glance.MARK) != wanted or contents.keys() - {
                glance.MARK, _FIRST_PIECE}:
            yield (f'P4 cached_images_are_whole: volume {volume.id} has other bytes than image '
                   f'{entry.image_id} of {entry.image_updated_at}')

    def _failed(self, facts: observed.Facts, there: dict[str, observed.VolumeFact],
                ) -> Iterator[str]:
        """Yield the volumes in error whose creation from an intact image had to succeed.

        Creation must succeed if there were no faults and there was enough room.
        """
        free = [kept.store.total_gb - sum(kept.store.sizes().values()) for kept in self._stores]
        free += [int(pool.limit_gb) - pool.allocated_gb for pool in facts.pools
                 if pool.limit_gb is not None]
        if self._disturbed() or min(free) < _NO_ROOM_GB:
            self._calm.clear()
        versions = self._all.deployed.glance.versions
        wrong = [name for name, asked in self._calm.items()
                 if name in there and there[name].own_status == _Own.ERROR
                 and versions[asked.image_id] == asked.version
                 and self._of_images.is_as_made(name)]
        if wrong:
            for row in self._rows(_FAILED.where(models.messages.c.resource_id.in_(wrong))):
                yield (f'P9 caches_make_nothing_fail: volume {row.resource_id} failed in the '
                       f'calm: {row.event_id}')

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the unused volumes of caches, and the files that remain of images."""
        cached = {entry.volume_id for entry in self._rows(_ENTRIES)}
        for volume in facts.volumes:
            if volume.deleted or volume.project_id != deployment.INTERNAL_PROJECT \
                    or volume.id in self._touched or volume.own_status == _Own.ERROR_DELETING:
                continue
            if volume.id not in cached:
                yield (f'P2 nobody_is_forgotten: volume {volume.id} is {volume.own_status}, but '
                       f'caches no image')
            elif volume.own_status != _Own.AVAILABLE:
                yield (f'P9 caching_ends: cached volume {volume.id} is {volume.own_status} in '
                       f'peace')
        for folder, _, files in os.walk(deployment.images_folder()):
            if files:
                yield f'P2 nothing_is_left: {os.path.basename(folder)} contains files of images'
        self._calm.clear()

    OPERATIONS = {
        'create from an image again': (_create, 30),
        'change image': (_change, 1.5),
        'delete cached image': (_delete, 1),
        'use cached image': (_use, 1),
        'lose cached image': (_lose, 1),
    }


def _pinned(client, image_id=images.WHOLE):
    """Create a volume from an image on the backend that caches the image."""
    volumes.made(client, {'size': 2, 'imageRef': image_id, 'volume_type': _KIND})


def _again(client, _):
    _pinned(client)


def _third(client, _):
    _pinned(client, images.LARGE)


def _kind(client):
    client.sure((200, 409), 'POST', '/types', {'volume_type': {
        'name': _KIND, 'extra_specs': {'volume_backend_name': storage.NAME}}})


def _cached(client, *image_ids):
    """Cache images on one backend, and return the IDs of their volumes."""
    _kind(client)
    for image_id in image_ids or (images.WHOLE,):
        client.volume(size=2, imageRef=image_id, volume_type=_KIND)
    for found in _internal(client):
        client.settled(found)
    return _internal(client)


def _two(client):
    return _cached(client, images.WHOLE, images.SECOND)


def _used(client):
    """Cache an image, and make its volume writable."""
    [found] = _cached(client)
    client.sure((202,), 'POST', f'/volumes/{found}/action',
                {'os-update_readonly_flag': {'readonly': False}})


def _internal(client):
    listed = client.sure((200,), 'GET', '/volumes/detail?all_tenants=1')['volumes']
    return [one['id'] for one in listed
            if one['os-vol-tenant-attr:tenant_id'] == deployment.INTERNAL_PROJECT]


def _clear(client):
    for found in _internal(client):
        client.remove(found)


def _left(client):
    return [f'volume {found} of a cached image' for found in _internal(client)]


_MANAGER = operations.MANAGER

NOUN = operations.Noun(
    'image_cache',
    played=ImageCache,
    operations=(
        operations.Operation('create from cached image', _again, _cached),
        operations.Operation('evict cached image', _third, _two),
        operations.Operation('forget cached image', _again, _used),
        operations.Operation('refused clone of cached image', _again, _cached, hindered=(
            (_MANAGER, 'backend.store.clone.before=refuse'),)),
        operations.Operation('refused cached image', _again, _kind, hindered=(
            (_MANAGER, 'volume.images.after_create=refuse'),)),
        operations.Operation('half cached', _again, _kind, hindered=(
            (_MANAGER, 'volume.images.after_create=raise*1'),)),
    ),
    clear=_clear,
    left=_left,
    passed=('volume.image_cache.', 'db.cached_images.', 'db.volume_images.cloned.'),
    # These are passed if a backend refuses, which operations of their own cover.
    rare=('db.cached_images.failed.', 'db.cached_images.release.'),
    seeds=((104, 600),),
    needs=(images.NOUN.name,),
    in_memory='images come from a Glance in memory: tests/functional/test_image_cache_faults.py',
)
