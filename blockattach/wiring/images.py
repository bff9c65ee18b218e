"""Builders of the objects of a backend that download, upload, cache and verify images."""
import functools
import os
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

from blockattach.platform import errors
from blockattach.platform.conf import locations
from blockattach.storage.conf import glance as glance_conf
from blockattach.storage.conf import images as images_conf
from blockattach.storage.conf import nova as nova_conf
from blockattach.storage.conf import volume as volume_conf
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.domain import image_cache
from blockattach.storage.drivers import base as driver_base
from blockattach.storage.drivers import loading
from blockattach.wiring import dependencies

if TYPE_CHECKING:
    from blockattach.storage.images import moving


def build_mover(base: dependencies.Dependencies, owner: str) -> 'moving.ImageMover | None':
    """Build the object that downloads images to volumes and uploads volumes as images.

    :param owner: name of this process instance (`leases.owner_of`). The part before the first
        slash is also the name of the folder for temporary files
    :returns: None if Glance is not configured
    """
    glance = glance_conf.settings(base.conf)
    if not glance.configured:
        return None
    from blockattach.storage.images import client
    from blockattach.storage.images import moving

    settings = images_conf.settings(base.conf)
    return moving.ImageMover(
        client.ServiceImages(glance, base.outgoing), settings,
        _folder(settings, owner.partition('/')[0]),
        functools.partial(_certificate, base))


def cache_settings(base: dependencies.Dependencies,
                   loaded: loading.Backend) -> image_cache.Settings | None:
    """Return the settings of the image cache of a backend, or None if the cache is disabled.

    :raises ConfigurationError: the store cannot clone volumes, or the project or user for cached
        images is not configured
    """
    chosen, whose = loaded.settings, images_conf.settings(base.conf)
    if not chosen.image_volume_cache_enabled:
        return None
    if not isinstance(loaded.store, driver_base.Clone):
        raise locations.refusal(base.conf, loaded.name, 'image_volume_cache_enabled',
                                'the store of this backend cannot clone volumes')
    for option, value in (('project', whose.cache_project_id), ('user', whose.cache_user_id)):
        if value is None:
            raise locations.refusal(
                base.conf, images_conf.GROUP, f'cinder_internal_tenant_{option}_id',
                f'image_volume_cache_enabled of backend {loaded.name} requires a {option} for '
                f'cached images')
    return image_cache.Settings(
        str(whose.cache_project_id), str(whose.cache_user_id), image_cache.Bounds(
            chosen.image_volume_cache_max_size_gb, chosen.image_volume_cache_max_count),
        volume_conf.settings(base.conf).create_seconds)


def sweep(base: dependencies.Dependencies, name: str) -> None:
    """Delete the temporary image files of an earlier process of a backend.

    Nothing is deleted if Glance is not configured.

    :param name: ``host@backend`` with the host name of this process
    """
    if glance_conf.settings(base.conf).configured:
        shutil.rmtree(_folder(images_conf.settings(base.conf), name), ignore_errors=True)


def _folder(settings: images_conf.ImageSettings, name: str) -> str:
    return os.path.join(settings.conversion_dir, name)


def build_event(base: dependencies.Dependencies) -> Callable[[str, bool], None]:
    """Build the function that notifies Nova about the end of a reimage of a volume.

    The function takes the volume id, and True if the reimage was successful. It does nothing if
    this service cannot send requests to Nova without the token of a user.
    """
    settings = nova_conf.settings(base.conf)
    if not settings.knows_hosts:
        return lambda volume_id, done: None
    from blockattach.storage import nova as nova_client

    events = nova_client.ServerEvents(settings)

    def send(volume_id: str, done: bool) -> None:
        for row in attachment_queries.of_volume(base.database, volume_id):
            if row.instance_uuid is not None:
                events.volume_reimaged(row.instance_uuid, volume_id, done)
    return send


def _certificate(base: dependencies.Dependencies, certificate_id: str) -> bytes:
    try:
        # Castellan is an optional dependency that takes long to import.
        from blockattach.platform.secrets import key_manager
    except ImportError as exc:
        raise errors.ConfigurationError(
            reason=f'cannot verify signatures: {exc}. Install blockattach[castellan]') from exc
    return key_manager.certificate(base.conf, certificate_id)
