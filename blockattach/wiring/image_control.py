"""Builder of the API operations that need Glance."""
from typing import TYPE_CHECKING

from blockattach.storage.conf import glance as glance_conf
from blockattach.storage.conf import images as images_conf
from blockattach.storage.conf import service_user
from blockattach.storage.control import images
from blockattach.storage.control import volume_parts
from blockattach.wiring import dependencies

if TYPE_CHECKING:
    from blockattach.storage.images import client


def build(base: dependencies.Dependencies,
          parts: volume_parts.VolumeParts) -> images.ImageControl:
    """Build the operations on volumes that concern images."""
    return images.ImageControl(parts, _user_images(base), images_conf.settings(base.conf))


def _user_images(base: dependencies.Dependencies) -> 'client.UserImages | None':
    """Return a client of Glance with the token of the caller, or None without Glance."""
    settings = glance_conf.settings(base.conf)
    if not settings.configured:
        return None
    # Imported only if needed, because keystoneauth is large.
    from blockattach.platform import identity
    from blockattach.storage.images import client

    service = service_user.settings(base.conf)
    return client.UserImages(settings, base.outgoing,
                             None if service is None else identity.own(service))
