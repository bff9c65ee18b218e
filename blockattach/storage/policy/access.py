"""Access of callers to resources. Resources that the caller may not see are reported as missing.

Request handlers check with these functions whether the caller may see a resource. Callers do not
learn that a resource of another project exists, because the error is that of a missing resource.
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
    """Return a volume of the project of the caller, or of any project for an administrator.

    :raises VolumeNotFound: if no such volume is visible to the caller
    """
    found = volume_queries.get(database, volume_id)
    if not is_visible(caller, found.project_id):
        raise errors.VolumeNotFound(volume_id=volume_id)
    return found


def volume_to_attach(caller: context.RequestContext, database: storage_db.Database, volume_id: str,
                     instance_uuid: str | None,
                     connector: Mapping[str, Any] | None) -> pairs.Precondition:
    """Return the volume and the other facts that decide whether it can be attached.

    :param instance_uuid: server in the request; None if the request names no server
    :param connector: connector in the request; None if the request has no connector
    :raises VolumeNotFound: if no such volume is visible to the caller
    """
    found = pairs.precondition(database, volume_id, instance_uuid, connector)
    if not is_visible(caller, found.volume.project_id):
        raise errors.VolumeNotFound(volume_id=volume_id)
    return found


def forbidden_by(policy: enforcer.Enforcer, caller: context.RequestContext,
                 volume: records.Volume | records.VolumeFacts) -> str | None:
    """Return the policy rule that forbids the caller another attachment of a bootable volume.

    `blockattach.storage.domain.multiattach.admit` applies the result if the volume is bootable and
    has attachments. Cinder checks the rule before it reserves the volume, and only if the volume
    is in use. Concurrent requests can therefore bypass the rule there.

    :returns: None if the rule allows the caller another attachment
    """
    if policy.allowed(caller, policies.MULTIATTACH_BOOTABLE, volume.project_id):
        return None
    return policies.MULTIATTACH_BOOTABLE


def attachment(caller: context.RequestContext, database: storage_db.Database,
               attachment_id: str) -> records.Attachment:
    """Return an attachment of the project of the caller, or of any project for an administrator.

    :raises AttachmentNotFound: if no such attachment is visible to the caller
    """
    return _shown(caller, attachment_queries.get(database, attachment_id))


def attachment_even_gone(caller: context.RequestContext, database: storage_db.Database,
                         attachment_id: str) -> records.Attachment:
    """Return an attachment like `attachment`, also if the attachment is deleted.

    :raises AttachmentNotFound: if no such attachment is visible to the caller, or if its row has
        been purged
    """
    return _shown(caller, attachment_queries.get_even_deleted(database, attachment_id))


def message(caller: context.RequestContext, database: storage_db.Database,
            message_id: str) -> records.Message:
    """Return a user message of the project of the caller, or of any project for an administrator.

    :raises MessageNotFound: if no such message is visible to the caller
    """
    found = messages.get(database, message_id)
    if not is_visible(caller, found.project_id):
        raise errors.MessageNotFound(message_id=message_id)
    return found


def volume_type(caller: context.RequestContext, database: storage_db.Database,
                type_id: str) -> records.VolumeType:
    """Return a volume type by its id.

    :raises VolumeTypeNotFound: if no such type is visible to the caller
    """
    found = volume_types.get(database, type_id)
    if not _type_visible(caller, database, found):
        raise errors.VolumeTypeNotFound(volume_type_id=type_id)
    return found


def find_volume_type(caller: context.RequestContext, database: storage_db.Database,
                     id_or_name: str) -> records.VolumeType:
    """Return a volume type by its id, or by its name if no type has the id.

    :raises VolumeTypeNotFound: if ``id_or_name`` is an id, and no such type is visible to the
        caller
    :raises VolumeTypeNameNotFound: if ``id_or_name`` is a name, and no such type is visible to the
        caller
    """
    found = volume_types.find(database, id_or_name)
    if _type_visible(caller, database, found):
        return found
    if id_or_name == found.id:
        raise errors.VolumeTypeNotFound(volume_type_id=id_or_name)
    raise errors.VolumeTypeNameNotFound(name=id_or_name)


def find_default_volume_type(caller: context.RequestContext, database: storage_db.Database,
                             name: str) -> records.VolumeType:
    """Return the default volume type for the project of the caller.

    The default type of the project takes precedence over the configured default type. Every caller
    may use the configured type, even if the type is private.

    :param name: name of the configured default type
    :raises VolumeTypeNotFound: if the default type of the project is not visible to the caller
    :raises VolumeTypeNameNotFound: if the configured type does not exist
    """
    found = volume_types.default(database, caller.project_id, name)
    if found.name != name and not _type_visible(caller, database, found):
        raise errors.VolumeTypeNotFound(volume_type_id=found.id)
    return found


def default_volume_type(caller: context.RequestContext, database: storage_db.Database,
                        name: str) -> records.VolumeType:
    """Return the volume type for a create request that names no type.

    :param name: name of the configured default type
    :raises VolumeTypeNotFound: if the default type of the project is not visible to the caller
    :raises ConfigurationError: if the configured type does not exist
    """
    # The caller has named no type. A missing type is therefore an error of the operator, which
    # gives HTTP 500 as in Cinder.
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

    A credential is included if the caller may see it (`sees_credential`). `connection_info`
    describes the values.
    """
    # Attachments of one (volume, initiator) pair share a credential, which is decrypted only once.
    opened = functools.cache(functools.partial(grants.opened, database))
    return {row.id: row.connection_info(
        opened(row.sealed) if row.sealed and sees_credential(policy, caller, row) else None)
        for row in attachments}


def sees_credential(policy: enforcer.Enforcer, caller: context.RequestContext,
                    attachment: records.Attachment) -> bool:
    """Return True if an attachment has a credential that the caller may see."""
    return (attachment.connection is not None and attachment.sealed is not None
            and policy.allowed(caller, policies.SECRETS, attachment.project_id))


def connection_info(database: storage_db.Database, attachment: records.Attachment,
                    with_credential: bool) -> dict[str, Any] | None:
    """Return the connection info of an attachment.

    :param with_credential: True to include the credential (see `sees_credential`)
    :returns: result of `blockattach.storage.domain.records.Attachment.connection_info`
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
