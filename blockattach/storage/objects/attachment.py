"""Attachments as sent to consumers on the bus, and payloads of notifications about attachments.

Payloads have the fields of Cinder's notifications. They contain neither the connector nor the
connection, so that no address, initiator or credential is disclosed. Fields for features that the
notifications of this service do not cover (replication, snapshots, images) are null or empty, so
that readers of Cinder's notifications can read the payloads.
"""
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Self

from oslo_versionedobjects import base as ovo_base
from oslo_versionedobjects import fields

from blockattach.platform.rpc import versioned_objects
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import records


@ovo_base.VersionedObjectRegistry.register
class Attachment(versioned_objects.BlockattachObject):
    """Attachment for a consumer on the bus, with the keys and values of the Block Storage API.

    ``connection_info`` tells the host how to reach the volume. It is empty before the consumer has
    sent a connector, and null if it was not requested. It may contain a credential and is never
    printed.
    """

    VERSION = '1.0'

    fields = {
        'id': fields.StringField(),
        'volume_id': fields.StringField(),
        'project_id': fields.StringField(),
        'instance_uuid': fields.StringField(nullable=True),
        'host': fields.StringField(nullable=True),
        'mountpoint': fields.StringField(nullable=True),
        'attach_status': fields.StringField(),
        'attach_mode': fields.StringField(nullable=True),
        'attached_at': fields.DateTimeField(nullable=True),
        'connection_info': versioned_objects.UnprintedField(nullable=True),
    }

    @classmethod
    def from_domain(cls, attachment: records.Attachment,
                    connection_info: Mapping[str, Any] | None = None) -> Self:
        """Return the object for an attachment.

        :param connection_info: see the class; None if it was not requested
        """
        return cls.of(attachment, **_words(attachment), connection_info=(
            None if connection_info is None else dict(connection_info)))


@ovo_base.VersionedObjectRegistry.register
class AttachmentPayload(versioned_objects.BlockattachObject):
    """Payload of an attachment. ``attach_mode`` is null while the mode is unknown."""

    VERSION = '1.0'

    fields = {
        'id': fields.StringField(),
        'volume_id': fields.StringField(),
        'instance_uuid': fields.StringField(nullable=True),
        'attached_host': fields.StringField(nullable=True),
        'mountpoint': fields.StringField(nullable=True),
        'attach_status': fields.StringField(),
        'attach_mode': fields.StringField(nullable=True),
        'attach_time': fields.DateTimeField(nullable=True),
        'detach_time': fields.DateTimeField(nullable=True),
        'created_at': fields.DateTimeField(),
        'updated_at': fields.DateTimeField(nullable=True),
    }

    @classmethod
    def from_domain(cls, attachment: records.Attachment) -> Self:
        """Return the payload of an attachment."""
        return cls.of(
            attachment, **_words(attachment), attached_host=attachment.host,
            attach_time=attachment.attached_at, detach_time=attachment.detached_at)


@ovo_base.VersionedObjectRegistry.register
class VolumeAttachmentPayload(versioned_objects.BlockattachObject):
    """Payload of a volume with all its attachments (``volume_attachment``).

    ``attachment`` is the attachment that the notification is about.
    """

    VERSION = '1.0'

    fields = {
        'attachment': fields.ObjectField('AttachmentPayload'),
        'volume_attachment': fields.ListOfObjectsField('AttachmentPayload'),
        'tenant_id': fields.StringField(),
        'host': fields.StringField(nullable=True),
        'user_id': fields.StringField(),
        'availability_zone': fields.StringField(),
        'volume_id': fields.StringField(),
        'volume_type': fields.StringField(),
        'display_name': fields.StringField(nullable=True),
        'launched_at': fields.DateTimeField(nullable=True),
        'created_at': fields.DateTimeField(),
        'status': fields.StringField(),
        'snapshot_id': fields.StringField(nullable=True),
        'size': fields.IntegerField(),
        'replication_status': fields.StringField(nullable=True),
        'replication_extended_status': fields.StringField(nullable=True),
        'replication_driver_data': fields.StringField(nullable=True),
        'metadata': fields.DictOfStringsField(),
        'glance_metadata': fields.DictOfStringsField(),
    }

    @classmethod
    def from_domain(cls, attachment: records.Attachment, volume: records.Volume,
                    rows: Sequence[records.Attachment]) -> Self:
        """Return the payload of a volume with its attachments.

        :param attachment: attachment that the notification is about
        :param rows: live attachments of the volume that lists of the API show
        """
        return cls.of(
            volume, attachment=AttachmentPayload.from_domain(attachment),
            volume_attachment=[AttachmentPayload.from_domain(row) for row in rows],
            tenant_id=volume.project_id, host=volume.pool, volume_id=volume.id,
            volume_type=volume.volume_type_id, display_name=volume.name, size=volume.size_gb,
            metadata=dict(volume.metadata), glance_metadata={})


def _words(attachment: records.Attachment) -> dict[str, str | None]:
    """Return the state and the mode of an attachment in the words of the API."""
    return {'attach_status': attachment_lifecycle.WIRE_STATUS[attachment.state],
            'attach_mode': attachment.mode and attachment.mode.value}
