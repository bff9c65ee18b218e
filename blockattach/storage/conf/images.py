"""Options of [images], for copies between images and volumes.

An option that Cinder also has keeps the name in Cinder.
"""
import dataclasses
import os

from oslo_config import cfg

from blockattach.platform import units
from blockattach.platform.conf import core
from blockattach.platform.conf import settings as groups

GROUP = 'images'


@dataclasses.dataclass(frozen=True, slots=True)
class ImageSettings:
    """Settings of copies between images and volumes.

    ``address_space`` is in bytes, times are in seconds.
    """

    conversion_dir: str = groups.option(cfg.StrOpt, 'image_conversion_dir', required=True, help=(
        'Directory for temporary image files during copies between Glance and volumes. Its '
        'content can be lost at any time. The directory needs space for the image, and for a raw '
        'copy if the image is not raw. Defaults to conversion in state_path.'))
    allowed_formats: tuple[str, ...] = groups.option(
        cfg.ListOpt, 'image_formats',
        default=['raw', 'qcow2', 'vmdk', 'vhd', 'vhdx', 'vdi', 'iso'], help=(
            'Image formats (disk_format) from which volumes can be created.'))
    vmdk_allowed_types: tuple[str, ...] = groups.option(
        cfg.ListOpt, default=['streamOptimized', 'monolithicSparse'], help=(
            'VMDK subformats (createType) that are accepted. Subformats other than the two '
            'defaults are always rejected, because their images refer to further files.'))
    conversion_disabled: bool = groups.option(
        cfg.BoolOpt, 'image_conversion_disable', default=False, help=(
            'Accept only images that need no conversion, and upload volumes only as raw.'))
    cpu_seconds: int = groups.option(
        cfg.IntOpt, 'image_conversion_cpu_limit', default=3600, min=1, help=(
            'CPU time limit of one image conversion, in seconds.'))
    address_space: int = groups.option(
        cfg.IntOpt, 'image_conversion_address_space_limit', default=1, min=1,
        read=lambda gib: gib * units.GIB, help=(
            'Address space limit of one image conversion, in GiB.'))
    conversion_seconds: int = groups.option(
        cfg.IntOpt, 'image_conversion_timeout', default=7200, min=1, help=(
            'Timeout of one image conversion, in seconds.'))
    conversion_user: str = groups.option(
        cfg.StrOpt, 'image_conversion_user', default='nobody', help=(
            'User that runs qemu-img if the service runs as root.'))
    verify_signatures: str = groups.option(
        cfg.StrOpt, 'verify_glance_signatures', default='enabled',
        choices=['disabled', 'enabled'], help=(
            'Signature verification of images. With enabled, an image with signature properties '
            '(img_signature...) is used only if the signature is valid for the certificate in the '
            'key manager ([key_manager], blockattach[castellan]). With disabled, signature '
            'properties are ignored.'))
    enable_force_upload: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Allow users to upload volumes that are in use (force).'))
    compress: bool = groups.option(
        cfg.BoolOpt, 'image_compress_on_upload', default=True, help=(
            'Compress volumes that are uploaded as qcow2.'))
    reserved_namespaces: tuple[str, ...] = groups.option(
        cfg.ListOpt, 'reserved_image_namespaces', default=[], help=(
            'Prefixes of image properties that are not uploaded with a volume, in addition to '
            'os_glance, img_signature, and signature_verified.'))
    cache_project_id: str | None = groups.option(
        cfg.StrOpt, 'cinder_internal_tenant_project_id', help=(
            'Project id that owns cached image volumes. Use a dedicated project without users. '
            'Required for backends with image_volume_cache_enabled.'))
    cache_user_id: str | None = groups.option(
        cfg.StrOpt, 'cinder_internal_tenant_user_id', help=(
            'User id that owns cached image volumes.'))


OPTS = groups.options(ImageSettings)


def settings(conf: cfg.ConfigOpts) -> ImageSettings:
    """Return the settings of the group [images]."""
    return groups.read(
        conf, GROUP, ImageSettings,
        conversion_dir=conf[GROUP].image_conversion_dir or os.path.join(
            core.settings(conf).state_path, 'conversion'))
