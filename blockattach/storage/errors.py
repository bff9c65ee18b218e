"""Errors about resources of block storage, such as volumes, attachments and volume types.

    BlockattachError
    ├── InvalidInput
    │   ├── InvalidVolume            the state of the volume does not allow the operation
    │   ├── InvalidSnapshot          the state of the snapshot does not allow the operation
    │   ├── NoPoolForVolume          no pool is suitable for the requested volume
    │   ├── VolumeTypeInUse          the type has volumes, so this change is not possible
    │   ├── VolumeTypePublic         every project already has access to the type
    │   ├── VolumeTypeEncryptionExists   the type already has an encryption
    │   ├── EncryptedMultiattach, KeyManagerMissing   the volume cannot be encrypted
    │   ├── QosSpecsInUse            volume types are associated with the QoS specs
    │   ├── QosSpecsTaken            the volume type is associated with other QoS specs
    │   ├── ConnectorUnusable        the connector lacks data that the target needs
    │   ├── TransferKeyWrong         the auth key of the transfer is wrong
    │   ├── GlanceMissing, ImageRefused   Glance is not configured, or rejects the request
    │   └── NotOffered               the service cannot create resources of this kind
    ├── NotFound
    │   ├── VolumeNotFound, AttachmentNotFound, VolumeTypeNotFound, VolumeTypeNameNotFound
    │   ├── ExtraSpecNotFound, VolumeTypeEncryptionNotFound
    │   ├── VolumeTypeAccessNotFound, DefaultTypeNotFound
    │   ├── QosSpecsNotFound, QosSpecsKeyNotFound
    │   ├── VolumeMetadataNotFound, ImageMetadataNotFound, ImageNotFound
    │   ├── SnapshotNotFound, SnapshotMetadataNotFound
    │   ├── ServiceNotFound, ClusterNotFound, HostNotFound, PoolNotFound
    │   ├── MessageNotFound, TransferNotFound, WorkNotFound
    │   └── NoneOffered              the service has no resources of this kind
    ├── Conflict
    │   ├── VolumeTypeExists, VolumeTypeAccessExists, QosSpecsExist
    │   ├── VolumeTypeChanged        the type changed after the request was checked
    │   ├── VolumeInError            attachments of a volume in error cannot be updated
    │   ├── VolumeAtWork             no reset while an operation on the volume is in progress
    │   ├── SnapshotAtWork           no reset while an operation on the snapshot is in progress
    │   ├── NotRevertible            the state of the volume or snapshot does not allow a revert
    │   ├── DuplicateConnectors      a second host on a volume without multiattach
    │   ├── InvalidTransition        the lifecycle has no such transition
    │   ├── AttachmentBusy           another request on the same pair is running
    │   └── AttachmentInUseByServer  the volume must be detached in Nova first (CVE-2023-2088)
    │       └── AttachmentNotNamed   the request does not say which attachment is meant
    ├── QuotaExceeded
    │   ├── VolumeLimitExceeded, SnapshotLimitExceeded, AttachmentLimitExceeded
    │   ├── VolumeSizeExceedsAvailableQuota   the total size of volumes and snapshots
    │   └── VolumeSizeExceedsLimit   the size of one volume
    ├── ImageUnacceptable            the data of the image cannot be used
    │   ├── ImageSignatureWrong      the data does not match the signature
    │   └── ImageTooLarge            the volume or the disk has no space for the image
    ├── ConversionFailed             qemu-img failed to convert an image
    ├── ServerHostUnknown            the host of a server in a scheduler hint is unknown
    └── NoValidPool                  every pool was rejected
"""
from blockattach.platform.errors import *  # noqa: F403
from blockattach.platform.errors import BlockattachError
from blockattach.platform.errors import Conflict
from blockattach.platform.errors import InvalidInput
from blockattach.platform.errors import NotFound
from blockattach.platform.errors import QuotaExceeded


class InvalidVolume(InvalidInput):
    code = 'volume.invalid'
    text = 'Invalid volume: %(reason)s'


class InvalidSnapshot(InvalidInput):
    code = 'snapshot.invalid'
    text = 'Invalid snapshot: %(reason)s'


class NoPoolForVolume(InvalidInput):
    code = 'volume.no_pool'
    text = 'Invalid input received: No backend can host the volume: %(summary)s'


# Cinder answers with HTTP 400, not 409.
class VolumeTypeInUse(InvalidInput):
    code = 'volume_type.in_use'
    text = 'Volume Type is currently in use.'


class VolumeTypePublic(InvalidInput):
    code = 'volume_type.public'
    text = ('Invalid volume type: Type access modification is not applicable to public volume '
            'type.')


class VolumeTypeEncryptionExists(InvalidInput):
    code = 'volume_type.encryption_exists'
    text = 'Volume type encryption for type %(volume_type_id)s already exists.'


class EncryptedMultiattach(InvalidInput):
    code = 'volume.encrypted_multiattach'
    text = 'Invalid volume: Multiattach cannot be used with encrypted volumes.'


class KeyManagerMissing(InvalidInput):
    code = 'volume.key_manager_missing'
    text = ('Invalid volume: Volume type %(volume_type)s requires encryption by the consumer '
            '(control_location front-end), but the service does not manage encryption keys of '
            'volumes. Use a volume type with back-end encryption or without encryption.')


class QosSpecsInUse(InvalidInput):
    code = 'qos_specs.in_use'
    text = 'Qos specs still in use.'


class QosSpecsTaken(InvalidInput):
    code = 'qos_specs.taken'
    text = ('Invalid volume type: Type %(volume_type_id)s is already associated with another qos '
            'specs: %(qos_specs_id)s')


# Cinder answers an update with HTTP 400 too, but a create with 500.
class ConnectorUnusable(InvalidInput):
    code = 'connector.unusable'
    text = "Invalid input received: Connector doesn't have required information: %(missing)s"


class GlanceMissing(InvalidInput):
    code = 'glance.missing'
    text = ('Invalid input received: The image service is not configured. Volumes cannot be '
            'created from images or uploaded to images.')


class ImageRefused(InvalidInput):
    code = 'image.refused'
    text = 'The image service rejected the request: %(reason)s'


class TransferKeyWrong(InvalidInput):
    code = 'transfer.key_wrong'
    text = 'Invalid auth key: Attempt to transfer %(transfer_id)s with invalid auth key.'


class NotOffered(InvalidInput):
    code = 'not_offered'
    text = 'Invalid input received: %(what)s are not supported by this service.'


class VolumeNotFound(NotFound):
    code = 'volume.not_found'
    text = 'Volume %(volume_id)s could not be found.'


class VolumeMetadataNotFound(NotFound):
    code = 'volume.metadata_not_found'
    text = 'Volume %(volume_id)s has no metadata with key %(key)s.'


class ImageMetadataNotFound(NotFound):
    code = 'volume.image_metadata_not_found'
    text = 'Glance metadata for volume/snapshot %(volume_id)s cannot be found.'


class AttachmentNotFound(NotFound):
    code = 'attachment.not_found'
    text = 'Volume attachment could not be found with filter: attachment_id = %(attachment_id)s.'


class VolumeTypeNotFound(NotFound):
    code = 'volume_type.not_found'
    text = 'Volume type %(volume_type_id)s could not be found.'


class VolumeTypeNameNotFound(NotFound):
    code = 'volume_type.name_not_found'
    text = 'Volume type with name %(name)s could not be found.'


class ExtraSpecNotFound(NotFound):
    code = 'volume_type.extra_spec_not_found'
    text = 'Volume Type %(volume_type_id)s has no extra specs with key %(key)s.'


class VolumeTypeAccessNotFound(NotFound):
    code = 'volume_type.access_not_found'
    text = 'Volume type access not found for %(volume_type_id)s / %(project_id)s combination.'


class DefaultTypeNotFound(NotFound):
    code = 'default_type.not_found'
    text = 'Default type for project %(project_id)s not found.'


class VolumeTypeEncryptionNotFound(NotFound):
    code = 'volume_type.encryption_not_found'
    text = 'Volume type encryption for type %(volume_type_id)s does not exist.'


class QosSpecsNotFound(NotFound):
    code = 'qos_specs.not_found'
    text = 'No such QoS spec %(qos_specs_id)s.'


class QosSpecsKeyNotFound(NotFound):
    code = 'qos_specs.key_not_found'
    text = 'QoS spec %(qos_specs_id)s has no spec with key %(key)s.'


class SnapshotNotFound(NotFound):
    code = 'snapshot.not_found'
    text = 'Snapshot %(snapshot_id)s could not be found.'


class SnapshotMetadataNotFound(NotFound):
    code = 'snapshot.metadata_not_found'
    text = 'Snapshot %(snapshot_id)s has no metadata with key %(key)s.'


class MessageNotFound(NotFound):
    code = 'message.not_found'
    text = 'Message %(message_id)s could not be found.'


class WorkNotFound(NotFound):
    code = 'work.not_found'
    text = 'Work %(work_id)s could not be found.'


class ServiceNotFound(NotFound):
    code = 'service.not_found'
    text = 'Service %(binary)s could not be found on host %(host)s.'


class ClusterNotFound(NotFound):
    code = 'cluster.not_found'
    text = 'Cluster %(id)s could not be found.'


class HostNotFound(NotFound):
    code = 'host.not_found'
    text = 'Host %(host)s could not be found.'


class PoolNotFound(NotFound):
    code = 'pool.not_found'
    text = 'Pool %(pool)s could not be found.'


class TransferNotFound(NotFound):
    code = 'transfer.not_found'
    text = 'Transfer %(transfer_id)s could not be found.'


# The service has no resources of the kind. The error is that of Cinder for an unknown id.
class NoneOffered(NotFound):
    code = 'not_offered.not_found'
    text = '%(kind)s %(id)s could not be found.'


class ImageNotFound(NotFound):
    code = 'image.not_found'
    text = 'Image %(image_id)s could not be found.'


class VolumeTypeExists(Conflict):
    code = 'volume_type.exists'
    text = 'Volume Type %(name)s already exists.'


class VolumeTypeAccessExists(Conflict):
    code = 'volume_type.access_exists'
    text = ('Volume type access for %(volume_type_id)s / %(project_id)s combination already '
            'exists.')


class QosSpecsExist(Conflict):
    code = 'qos_specs.exist'
    text = 'QoS Specs %(name)s already exists.'


class VolumeTypeChanged(Conflict):
    code = 'volume_type.changed'
    text = ('Resource conflict: Volume type %(volume_type_id)s was changed during the request. '
            'Retry the request.')
    retry_after = '1'


# Cinder answers an update with HTTP 409 but a create with 400 (`multiattach.admit`). Both texts
# end with a blank.
class VolumeInError(Conflict):
    code = 'volume.in_error'
    text = ('Resource conflict: Volume attachments can not be updated if the volume is in an '
            'error state. The Volume %(volume_id)s currently has a status of: %(status)s ')


class VolumeAtWork(Conflict):
    code = 'volume.at_work'
    text = ('Resource conflict: Volume %(volume_id)s is %(own_status)s. Retry when the operation '
            'has finished. A volume that is creating can only be reset to status error.')
    retry_after = '1'


class SnapshotAtWork(Conflict):
    code = 'snapshot.at_work'
    text = ('Resource conflict: Snapshot %(snapshot_id)s is %(status)s. Retry when the operation '
            'has finished.')
    retry_after = '1'


class NotRevertible(Conflict):
    code = 'volume.not_revertible'
    text = ("Invalid %(noun)s: Can't revert volume %(volume_id)s to its latest snapshot "
            "%(snapshot_id)s. %(which)s's status must be 'available'.")


class DuplicateConnectors(Conflict):
    code = 'attachment.duplicate_connectors'
    text = 'Resource conflict: duplicate connectors detected on volume %(volume_id)s'


class InvalidTransition(Conflict):
    code = 'attachment.invalid_transition'
    text = ('Resource conflict: Cannot %(event)s an attachment in state %(state)s. Allowed '
            'operations: %(allowed)s')


class AttachmentBusy(Conflict):
    code = 'attachment.busy'
    text = ('Resource conflict: Attachment %(attachment_id)s is in use by another request. Retry '
            'when the other request has finished.')
    retry_after = '1'


class AttachmentInUseByServer(Conflict):
    """Error about an attachment that a Nova server uses.

    The text begins with the text of Cinder, because clients parse that text.
    """

    code = 'attachment.in_use_by_server'
    text = ('ConflictNovaUsingAttachment: Detach volume from instance %(instance_id)s using the '
            'Compute API. A service that has already detached the volume there must send a '
            'service token (X-Service-Token).')


class AttachmentNotNamed(AttachmentInUseByServer):
    """Error about a request without attachment id for a volume with several attachments.

    As in Cinder, the instance id in the text is empty.
    """

    code = 'attachment.not_named'
    text = ('ConflictNovaUsingAttachment: Detach volume from instance  using the Compute API, or '
            'specify attachment_id: the volume has %(count)s attachments.')


class VolumeLimitExceeded(QuotaExceeded):
    code = 'quota.volumes'
    text = ("VolumeLimitExceeded: Maximum number of volumes allowed (%(limit)s) exceeded for "
            "quota '%(name)s'.")


class SnapshotLimitExceeded(QuotaExceeded):
    code = 'quota.snapshots'
    text = 'SnapshotLimitExceeded: Maximum number of snapshots allowed (%(limit)s) exceeded'


# Cinder has no quota of attachments. The text is formed like that of volumes.
class AttachmentLimitExceeded(QuotaExceeded):
    code = 'quota.attachments'
    text = ("AttachmentLimitExceeded: Maximum number of attachments allowed (%(limit)s) exceeded "
            "for quota '%(name)s'.")


class VolumeSizeExceedsAvailableQuota(QuotaExceeded):
    code = 'quota.gigabytes'
    text = ('VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed '
            '%(name)s quota. Requested %(requested)sG, quota is %(limit)sG and %(in_use)sG has '
            'been consumed.')


class VolumeSizeExceedsLimit(QuotaExceeded):
    code = 'quota.volume_size'
    text = ('VolumeSizeExceedsLimit: Requested volume size %(size)sG is larger than maximum '
            'allowed limit %(limit)sG.')


class ImageUnacceptable(BlockattachError):
    """Error about an image whose data cannot be used. A retry does not help."""

    code = 'image.unacceptable'
    status = 500
    text = 'Image %(image_id)s is unacceptable: %(reason)s'

    @property
    def words(self) -> str:
        """Full message. The user who chose the image may read the message."""
        return self.message


class ImageSignatureWrong(ImageUnacceptable):
    code = 'image.signature_wrong'


class ImageTooLarge(ImageUnacceptable):
    code = 'image.too_large'


class ConversionFailed(BlockattachError):
    """Error of qemu-img: the conversion of an image failed or exceeded a limit."""

    code = 'image.conversion_failed'
    status = 500
    text = 'Failed to convert the image: %(reason)s'


class ServerHostUnknown(BlockattachError):
    """Error about a server in a scheduler hint whose host cannot be determined."""

    code = 'nova.server_host_unknown'
    status = 500
    text = 'Cannot determine the host of server %(server_id)s: %(reason)s'


class NoValidPool(BlockattachError):
    """Error about a volume for which every pool was rejected.

    The argument ``reasons`` maps the name of each pool to the reason for its rejection.
    """

    code = 'scheduler.no_valid_pool'
    status = 500
    text = 'No valid pool found for volume %(volume_id)s: %(summary)s'
