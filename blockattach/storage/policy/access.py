"""Access of callers to resources: a resource that the caller may not see is reported as missing.

Request handlers load resources only with these functions. Nothing is disclosed, because a resource
of another project and a missing resource raise the same error.
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
    """Return a volume of the caller's project, or of any project for an administrator.

    :raises VolumeNotFound: no such volume is visible to the caller
    """
    found = volume_queries.get(database, volume_id)
    if not is_visible(caller, found.project_id):
        raise errors.VolumeNotFound(volume_id=volume_id)
    return found


def volume_to_attach(caller: context.RequestContext, database: storage_db.Database, volume_id: str,
                     instance_uuid: str | None,
                     connector: Mapping[str, Any] | None) -> pairs.Precondition:
    """Return a volume with the precondition of a new attachment.

    :raises VolumeNotFound: no such volume is visible to the caller
    """
    found = pairs.precondition(database, volume_id, instance_uuid, connector)
    if not is_visible(caller, found.volume.project_id):
        raise errors.VolumeNotFound(volume_id=volume_id)
    return found


def forbidden_by(policy: enforcer.Enforcer, caller: context.RequestContext,
                 volume: records.Volume | records.VolumeFacts) -> str | None:
    """Return the name of the rule that forbids a further attachment of a bootable volume.

    `blockattach.storage.domain.multiattach.admit` checks whether the volume has other attachments,
    together with the rest of the precondition. Cinder checks earlier, and only if the volume is in
    use, so that concurrent requests pass.

    :returns: None if the caller may create the attachment
    """
    if policy.allowed(caller, policies.MULTIATTACH_BOOTABLE, volume.project_id):
        return None
    return policies.MULTIATTACH_BOOTABLE


def attachment(caller: context.RequestContext, database: storage_db.Database,
               attachment_id: str) -> records.Attachment:
    """Return an attachment of the caller's project, or of any project for an administrator.

    :raises AttachmentNotFound: no such attachment is visible to the caller
    """
    return _shown(caller, attachment_queries.get(database, attachment_id))


def attachment_even_gone(caller: context.RequestContext, database: storage_db.Database,
                         attachment_id: str) -> records.Attachment:
    """Return an attachment, even if it was deleted, as long as its row is kept.

    :raises AttachmentNotFound: no such attachment is visible to the caller
    """
    return _shown(caller, attachment_queries.get_even_deleted(database, attachment_id))


def message(caller: context.RequestContext, database: storage_db.Database,
            message_id: str) -> records.Message:
    """Return a user message of the caller's project, or of any project for an administrator.

    :raises MessageNotFound: no such message is visible to the caller
    """
    found = messages.get(database, message_id)
    if not is_visible(caller, found.project_id):
        raise errors.MessageNotFound(message_id=message_id)
    return found


def volume_type(caller: context.RequestContext, database: storage_db.Database,
                type_id: str) -> records.VolumeType:
    """Return a volume type by its id.

    :raises VolumeTypeNotFound: no such type is visible to the caller
    """
    found = volume_types.get(database, type_id)
    if not _type_visible(caller, database, found):
        raise errors.VolumeTypeNotFound(volume_type_id=type_id)
    return found


def find_volume_type(caller: context.RequestContext, database: storage_db.Database,
                     id_or_name: str) -> records.VolumeType:
    """Return a volume type by its id, or else by its name.

    :raises VolumeTypeNotFound: no such type is visible to the caller, and the text looks like an
        id
    :raises VolumeTypeNameNotFound: no such type is visible to the caller, and the text can only be
        a name
    """
    found = volume_types.find(database, id_or_name)
    if _type_visible(caller, database, found):
        return found
    if id_or_name == found.id:
        raise errors.VolumeTypeNotFound(volume_type_id=id_or_name)
    raise errors.VolumeTypeNameNotFound(name=id_or_name)


def find_default_volume_type(caller: context.RequestContext, database: storage_db.Database,
                             name: str) -> records.VolumeType:
    """Return the default type of the caller's project, or else the configured default type.

    Every caller may use the configured type, even if it is private.

    :param name: name of the configured type
    :raises VolumeTypeNotFound: the default type of the project is not visible to the caller
    :raises VolumeTypeNameNotFound: the configured type does not exist
    """
    found = volume_types.default(database, caller.project_id, name)
    if found.name != name and not _type_visible(caller, database, found):
        raise errors.VolumeTypeNotFound(volume_type_id=found.id)
    return found


def default_volume_type(caller: context.RequestContext, database: storage_db.Database,
                        name: str) -> records.VolumeType:
    """Return the type of a volume that is about to be created without a type.

    :param name: name of the configured type
    :raises VolumeTypeNotFound: the default type of the project is not visible to the caller
    :raises ConfigurationError: the configured type does not exist
    """
    # The caller has named no type, so a missing type is an error of the operator (HTTP 500, as in
    # Cinder).
    try:
        return find_default_volume_type(caller, database, name)
    except errors.VolumeTypeNameNotFound as missing:
        raise errors.ConfigurationError(
            reason=f'volume type {name} of [control] default_volume_type does not exist'
        ) from missing


def connection_infos(policy: enforcer.Enforcer, caller: context.RequestContext,
                     database: storage_db.Database, attachments: Sequence[records.Attachment],
                     ) -> dict[str, dict[str, Any] | None]:
    """Return the connection info of attachments by attachment id.

    Credentials are included where the caller may see them.
    """
    # Attachments of one (volume, initiator) pair share a credential, which is decrypted only once.
    opened = functools.cache(functools.partial(grants.opened, database))
    return {row.id: row.connection_info(
        opened(row.sealed) if row.sealed and sees_credential(policy, caller, row) else None)
        for row in attachments}


def sees_credential(policy: enforcer.Enforcer, caller: context.RequestContext,
                    attachment: records.Attachment) -> bool:
    """Return True if the attachment has a credential and the caller may see it."""
    return (attachment.connection is not None and attachment.sealed is not None
            and policy.allowed(caller, policies.SECRETS, attachment.project_id))


def connection_info(database: storage_db.Database, attachment: records.Attachment,
                    with_credential: bool) -> dict[str, Any] | None:
    """Return the connection info of an attachment.

    :param with_credential: result of `sees_credential`; True to include the credential
    :returns: see `blockattach.storage.domain.records.Attachment.connection_info`
    """
    return attachment.connection_info(
        grants.opened(database, attachment.sealed)
        if with_credential and attachment.sealed else None)


def is_visible(caller: context.RequestContext, project_id: str) -> bool:
    """Return True if the caller may see the resources of a project."""
    return bool(caller.is_admin) or caller.project_id == project_id


def _shown(caller: context.RequestContext, row: records.Attachment) -> records.Attachment:
    # In Cinder, os-reserve creates no attachment, so clients must not find the reservation either.
    if row.legacy_reservation or not is_visible(caller, row.project_id):
        raise errors.AttachmentNotFound(attachment_id=row.id)
    return row


def _type_visible(caller: context.RequestContext, database: storage_db.Database,
                  kind: records.VolumeType) -> bool:
    return (kind.is_public or bool(caller.is_admin)
            or volume_types.has_access(database, kind.id, caller.project_id))
