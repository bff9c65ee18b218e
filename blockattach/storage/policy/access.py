"""The only way a caller gets an object: loaded and, where policy denies it, reported as absent.

Nothing is disclosed: another project's object is as absent as one that was never made.
"""
import functools
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from blockattach.platform import context
from blockattach.platform.policy import enforcer
from blockattach.storage import errors
from blockattach.storage.db import messages
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.db.attachments import grants
from blockattach.storage.db.attachments import pairs
from blockattach.storage.db.types import volume_types
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.domain import records
from blockattach.storage.policy import attachments as policies


def volume(caller: context.RequestContext, database: storage_db.Database,
           volume_id: str) -> records.Volume:
    """A volume of the caller's project, or of any for an administrator.

    :raises VolumeNotFound: there is none that the caller may see
    """
    found = volume_queries.get(database, volume_id)
    if not is_visible(caller, found.project_id):
        raise errors.VolumeNotFound(volume_id=volume_id)
    return found


def volume_to_attach(caller: context.RequestContext, database: storage_db.Database, volume_id: str,
                     instance_uuid: str | None,
                     connector: Mapping[str, Any] | None) -> pairs.Precondition:
    """A volume with the precondition of a new attachment.

    :raises VolumeNotFound: there is none that the caller may see
    """
    found = pairs.precondition(database, volume_id, instance_uuid, connector)
    if not is_visible(caller, found.volume.project_id):
        raise errors.VolumeNotFound(volume_id=volume_id)
    return found


def forbidden_by(policy: enforcer.Enforcer, caller: context.RequestContext,
                 volume: records.Volume | records.VolumeFacts) -> str | None:
    """The rule that forbids the caller a further attachment of a bootable volume; None: allowed.

    Whether there are other attachments is decided with the volume's precondition
    (`blockattach.storage.domain.multiattach.admit`). Cinder checks before, and only once the
    volume is in use, so that concurrent requests pass.
    """
    if policy.allowed(caller, policies.MULTIATTACH_BOOTABLE, volume.project_id):
        return None
    return policies.MULTIATTACH_BOOTABLE


def attachment(caller: context.RequestContext, database: storage_db.Database,
               attachment_id: str) -> records.Attachment:
    """An attachment of the caller's project, or of any for an administrator.

    :raises AttachmentNotFound: there is none that the caller may see
    """
    return _shown(caller, attachment_queries.get(database, attachment_id))


def attachment_even_gone(caller: context.RequestContext, database: storage_db.Database,
                         attachment_id: str) -> records.Attachment:
    """The same, live or gone, as long as its row is kept.

    :raises AttachmentNotFound: there is none that the caller may see
    """
    return _shown(caller, attachment_queries.get_even_deleted(database, attachment_id))


def message(caller: context.RequestContext, database: storage_db.Database,
            message_id: str) -> records.Message:
    """A message of the caller's project, or of any for an administrator.

    :raises MessageNotFound: there is none that the caller may see
    """
    found = messages.get(database, message_id)
    if not is_visible(caller, found.project_id):
        raise errors.MessageNotFound(message_id=message_id)
    return found


def volume_type(caller: context.RequestContext, database: storage_db.Database,
                type_id: str) -> records.VolumeType:
    """A type by its id.

    :raises VolumeTypeNotFound: there is none that the caller may see
    """
    found = volume_types.get(database, type_id)
    if not _type_visible(caller, database, found):
        raise errors.VolumeTypeNotFound(volume_type_id=type_id)
    return found


def find_volume_type(caller: context.RequestContext, database: storage_db.Database,
                     id_or_name: str) -> records.VolumeType:
    """A type by its id, else by its name.

    :raises VolumeTypeNotFound: there is none that the caller may see, and it looks like an id
    :raises VolumeTypeNameNotFound: there is none that the caller may see, and it can only be a
        name
    """
    found = volume_types.find(database, id_or_name)
    if _type_visible(caller, database, found):
        return found
    if id_or_name == found.id:
        raise errors.VolumeTypeNotFound(volume_type_id=id_or_name)
    raise errors.VolumeTypeNameNotFound(name=id_or_name)


def find_default_volume_type(caller: context.RequestContext, database: storage_db.Database,
                             name: str) -> records.VolumeType:
    """The type of a volume that names none: the default of the caller's project, else the one
    that is configured, which every caller may use.

    :raises VolumeTypeNotFound: the caller may not see the default of its project
    :raises VolumeTypeNameNotFound: the type that is configured does not exist
    """
    found = volume_types.default(database, caller.project_id, name)
    if found.name != name and not _type_visible(caller, database, found):
        raise errors.VolumeTypeNotFound(volume_type_id=found.id)
    return found


def default_volume_type(caller: context.RequestContext, database: storage_db.Database,
                        name: str) -> records.VolumeType:
    """The same for a volume that is going to be made.

    :raises VolumeTypeNotFound: the caller may not see the default of its project
    :raises ConfigurationError: the type that is configured does not exist
    """
    try:
        return find_default_volume_type(caller, database, name)
    except errors.VolumeTypeNameNotFound as missing:
        raise errors.ConfigurationError(
            reason=f'volume type {name} of [control] default_volume_type does not exist'
        ) from missing


def connection_infos(policy: enforcer.Enforcer, caller: context.RequestContext,
                     database: storage_db.Database, attachments: Sequence[records.Attachment],
                     ) -> dict[str, dict[str, Any] | None]:
    """How hosts reach their volumes, by the attachments' ids, with the credentials that the caller
    may see; these were read with the rows, and each is opened once."""
    opened = functools.cache(functools.partial(grants.opened, database))
    return {one.id: one.connection_info(
        opened(one.sealed) if one.sealed and sees_credential(policy, caller, one) else None)
        for one in attachments}


def sees_credential(policy: enforcer.Enforcer, caller: context.RequestContext,
                    attachment: records.Attachment) -> bool:
    """Whether the attachment has a credential that the caller may see."""
    return (attachment.connection is not None and attachment.sealed is not None
            and policy.allowed(caller, policies.SECRETS, attachment.project_id))


def connection_info(database: storage_db.Database, attachment: records.Attachment,
                    with_credential: bool) -> dict[str, Any] | None:
    """How its host reaches the volume, where it is decided whether the caller sees how it proves
    itself."""
    return attachment.connection_info(
        grants.opened(database, attachment.sealed)
        if with_credential and attachment.sealed else None)


def is_visible(caller: context.RequestContext, project_id: str) -> bool:
    """Whether a caller may know of what belongs to a project."""
    return bool(caller.is_admin) or caller.project_id == project_id


def _shown(caller: context.RequestContext, found: records.Attachment) -> records.Attachment:
    if found.legacy_reservation or not is_visible(caller, found.project_id):
        raise errors.AttachmentNotFound(attachment_id=found.id)
    return found


def _type_visible(caller: context.RequestContext, database: storage_db.Database,
                  kind: records.VolumeType) -> bool:
    """A private type is there for administrators, and for projects that have access to it."""
    return (kind.is_public or bool(caller.is_admin)
            or volume_types.has_access(database, kind.id, caller.project_id))
