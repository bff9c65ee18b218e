"""An attachment, as a consumer on the bus gets it."""
from collections.abc import Mapping
from typing import Any
from typing import Self

from oslo_versionedobjects import base as ovo_base
from oslo_versionedobjects import fields

from blockattach.domain import attachment_lifecycle
from blockattach.domain import records
from blockattach.objects import base


@ovo_base.VersionedObjectRegistry.register
class Attachment(base.BlockattachObject):
    """One attachment. Values and keys are those of the Block Storage API.

    ``connection_info`` is how its host reaches the volume: empty before a connector came; null
    where it was not asked for. It may hold a credential, and is never printed.
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
        'connection_info': base.UnprintedField(nullable=True),
    }

    @classmethod
    def from_domain(cls, attachment: records.Attachment,
                    connection_info: Mapping[str, Any] | None = None) -> Self:
        """The carrier of an attachment."""
        return cls(
            id=attachment.id, volume_id=attachment.volume_id, project_id=attachment.project_id,
            instance_uuid=attachment.instance_uuid, host=attachment.host,
            mountpoint=attachment.mountpoint,
            attach_status=attachment_lifecycle.WIRE_STATUS[attachment.state],
            attach_mode=attachment.mode.value if attachment.mode else None,
            attached_at=attachment.attached_at,
            connection_info=None if connection_info is None else dict(connection_info))
