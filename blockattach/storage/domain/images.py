"""Glance images: checks before use, and the image metadata that a volume keeps."""
import dataclasses
import json
import math
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import Self

from blockattach.platform import errors
from blockattach.platform import units

ACTIVE = 'active'
BARE = 'bare'
RAW = 'raw'
PUBLIC = 'public'
VOLUME_TYPE = 'cinder_img_volume_type'
"""Image property that names the type of volumes created from the image."""
DEVICES = 'block_device_mapping'
"""Image property (JSON) that Nova sets on images of servers that boot from volumes.

Cinder reads the property in ``cinder.api.v3.volumes`` (`_get_image_snapshot`).
"""
SIGNATURE = 'img_signature'
RESERVED = ('os_glance', SIGNATURE, 'signature_verified')
"""Prefixes of image properties that are not passed on to images uploaded from a volume."""
GLANCE_KEYS = frozenset((
    'id', 'name', 'status', 'visibility', 'protected', 'owner', 'tags', 'size', 'virtual_size',
    'checksum', 'os_hash_algo', 'os_hash_value', 'os_hidden', 'disk_format', 'container_format',
    'min_disk', 'min_ram', 'created_at', 'updated_at', 'self', 'file', 'schema', 'stores',
    'location', 'locations', 'direct_url', 'deleted', 'deleted_at'))
"""Attributes of an image in the Image API v2 that are not custom properties."""
# The disk formats in Cinder's schema of os-volume_upload_image.
UPLOADED_FORMATS = ('raw', 'vmdk', 'vdi', 'qcow2', 'vhd', 'vhdx', 'ploop')
CONTAINERS = (BARE, 'ovf', 'ami')
"""Container formats whose content is a disk in the format of ``disk_format``."""
_CORE = ('image_id', 'image_name', 'checksum', 'container_format', 'disk_format', 'min_disk',
         'min_ram', 'size')


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """Glance image. Sizes are in bytes, ``min_disk`` is in GiB, ``min_ram`` in MiB."""

    id: str
    status: str
    name: str | None = None
    size: int | None = None
    virtual_size: int | None = None
    checksum: str | None = None
    os_hash_algo: str | None = None
    os_hash_value: str | None = None
    disk_format: str | None = None
    container_format: str | None = None
    min_disk: int = 0
    min_ram: int = 0
    visibility: str | None = None
    protected: bool | None = None
    updated_at: str | None = None
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Self:
        """Return an image built from a mapping of `dataclasses.asdict`."""
        return cls(**stored)

    @property
    def metadata(self) -> dict[str, str]:
        """Image metadata of a volume created from the image."""
        core = (self.id, self.name, self.checksum, self.container_format, self.disk_format,
                self.min_disk, self.min_ram, self.size)
        return {**{key: value for key, value in self.properties.items() if key not in _CORE}, **{
            key: str(value) for key, value in zip(_CORE, core, strict=True) if value is not None}}

    @property
    def signature(self) -> dict[str, str]:
        """Properties of the image that describe its signature."""
        return {key: value for key, value in self.properties.items() if key.startswith(SIGNATURE)}

    @property
    def boot_snapshot(self) -> str | None:
        """Id of the snapshot that the image refers to; None if the image has data of its own.

        Nova creates such images from servers that boot from a volume.
        """
        try:
            found = json.loads(self.properties.get(DEVICES) or '[]')
        except (ValueError, RecursionError):
            # Users write image properties. Without valid JSON the image is an ordinary one.
            return None
        return next((cleaned(str(one['snapshot_id'])) for one in found if isinstance(one, dict)
                     and one.get('source_type') == 'snapshot' and one.get('boot_index') == 0
                     and isinstance(one.get('snapshot_id'), str | int) and one['snapshot_id']),
                    None) if isinstance(found, list) else None


def cleaned(text: str) -> str:
    """Return a text in a form that a database can store.

    NUL characters are removed and lone surrogates are replaced. JSON can contain both.
    """
    return text.replace('\0', '').encode(errors='replace').decode()


def check_fits(image: Image, size_gb: int) -> None:
    """Check that a volume of ``size_gb`` GiB can be created from an image.

    The checks and their texts are those of `check_image_metadata` in
    ``cinder.volume.volume_utils``.

    :raises InvalidInput: if the image is not active or does not fit
    """
    if image.status != ACTIVE:
        raise _refused(f'Image {image.id} is not active.')
    size = math.ceil((image.size or 0) / units.GIB)
    if size > size_gb:
        raise _refused(f'Size of specified image {size}GB is larger than volume size {size_gb}GB.')
    if size_gb < image.min_disk:
        raise _refused(f'Volume size {size_gb}GB cannot be smaller than the image minDisk size '
                       f'{image.min_disk}GB.')
    virtual = math.ceil((image.virtual_size or 0) / units.GIB)
    if virtual > size_gb:
        raise errors.InvalidInput(
            f"Image {image.id} is unacceptable: Image virtual size is {virtual}GB and doesn't fit "
            f'in a volume of size {size_gb}GB.')


def properties_of(metadata: Mapping[str, str], reserved: Iterable[str]) -> dict[str, str]:
    """Return the properties of an image that is uploaded from a volume.

    Users can write any key to the image metadata of a volume. Keys that are attributes of an image
    in Glance are left out.

    :param metadata: image metadata of the volume
    :param reserved: further prefixes of keys to leave out, in addition to `RESERVED`
    """
    reserved = (*RESERVED, *reserved)
    return {key: value for key, value in metadata.items()
            if key not in GLANCE_KEYS and key not in _CORE and not key.startswith(reserved)}


def _refused(sentence: str) -> errors.InvalidInput:
    return errors.InvalidInput(f'Invalid input received: {sentence}')
