"""[images]: what volume services do with images, and within which limits. Names are Cinder's."""
import dataclasses
import os

from oslo_config import cfg

from blockattach import units
from blockattach.conf import core
from blockattach.conf import settings as groups

GROUP = 'images'


@dataclasses.dataclass(frozen=True, slots=True)
class ImageSettings:
    """The group; sizes in bytes, times in seconds."""

    conversion_dir: str = groups.option(cfg.StrOpt, 'image_conversion_dir', required=True, help=(
        'Folder for images on their way between Glance and volumes; what is in it can be lost. '
        'It needs room for the image, and once more for its raw form unless it is raw. Default: '
        'conversion under state_path.'))
    allowed_formats: tuple[str, ...] = groups.option(
        cfg.ListOpt, 'image_formats',
        default=['raw', 'qcow2', 'vmdk', 'vhd', 'vhdx', 'vdi', 'iso'], help=(
            'Formats that images may have (disk_format) of which volumes are made.'))
    vmdk_allowed_types: tuple[str, ...] = groups.option(
        cfg.ListOpt, default=['streamOptimized', 'monolithicSparse'], help=(
            'Kinds of VMDK images (createType) that are accepted. No others than these two are, '
            'whatever stands here: they name further files.'))
    conversion_disabled: bool = groups.option(
        cfg.BoolOpt, 'image_conversion_disable', default=False, help=(
            'Accept images only that need no conversion, and upload volumes only as raw.'))
    cpu_seconds: int = groups.option(
        cfg.IntOpt, 'image_conversion_cpu_limit', default=3600, min=1, help=(
            'Seconds of processor time that one conversion may take.'))
    address_space: int = groups.option(
        cfg.IntOpt, 'image_conversion_address_space_limit', default=1, min=1,
        read=lambda gib: gib * units.GIB, help='GiB of address space that a conversion may have.')
    conversion_seconds: int = groups.option(
        cfg.IntOpt, 'image_conversion_timeout', default=7200, min=1, help=(
            'Seconds that one conversion may take.'))
    conversion_user: str = groups.option(
        cfg.StrOpt, 'image_conversion_user', default='nobody', help=(
            'Account that qemu-img runs as where the service runs as root.'))
    verify_signatures: str = groups.option(
        cfg.StrOpt, 'verify_glance_signatures', default='enabled',
        choices=['disabled', 'enabled'], help=(
            'enabled: an image with signature properties (img_signature...) is used only if the '
            'signature is right, by the certificate in the key manager ([key_manager], '
            'blockattach[castellan]); disabled: those properties are ignored.'))
    enable_force_upload: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Let users upload volumes that are in use (force).'))
    compress: bool = groups.option(
        cfg.BoolOpt, 'image_compress_on_upload', default=True, help=(
            'Compress what is uploaded as qcow2.'))
    reserved_namespaces: tuple[str, ...] = groups.option(
        cfg.ListOpt, 'reserved_image_namespaces', default=[], help=(
            'Beginnings of names of image properties that are not uploaded with a volume, '
            'besides os_glance, img_signature and signature_verified.'))
    cache_project_id: str | None = groups.option(
        cfg.StrOpt, 'cinder_internal_tenant_project_id', help=(
            'Id of the project that volumes of cached images belong to: one that no user works '
            'in. Needed where a backend has image_volume_cache_enabled.'))
    cache_user_id: str | None = groups.option(
        cfg.StrOpt, 'cinder_internal_tenant_user_id', help=(
            'Id of the user that those volumes are shown to be of.'))


OPTS = groups.options(ImageSettings)


def settings(conf: cfg.ConfigOpts) -> ImageSettings:
    """Read the group."""
    return groups.read(
        conf, GROUP, ImageSettings,
        conversion_dir=conf[GROUP].image_conversion_dir or os.path.join(
            core.settings(conf).state_path, 'conversion'))
