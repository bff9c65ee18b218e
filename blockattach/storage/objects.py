"""Versioned objects of RPC calls and notifications. They contain data only.

The payloads of notifications about a volume and its attachments have the fields of Cinder, so that
readers of Cinder's notifications can read them. Fields of features that this service does not
have, such as replication, are null or empty. Payloads contain neither the connector nor the
connection, and so disclose no address, no initiator name and no credential.
"""
import json
import math
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Self

from oslo_versionedobjects import base as ovo_base
from oslo_versionedobjects import fields

from blockattach.platform.rpc import serializing
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import pools
from blockattach.storage.domain import records


@ovo_base.VersionedObjectRegistry.register
class Attachment(serializing.BlockattachObject):
    """Attachment in the reply to an RPC call.

    ``attach_status`` has the values of the Block Storage API. ``attach_mode`` is null if no mode
    is set.

    ``connection_info`` contains the data that the host needs to reach the volume. It is empty
    before the host is connected. It is null if the call does not return connection info, or if
    os-attach created the attachment without a connector. It may contain a credential and is never
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
        'connection_info': serializing.UnprintedField(nullable=True),
    }

    @classmethod
    def from_domain(cls, attachment: records.Attachment,
                    connection_info: Mapping[str, Any] | None = None) -> Self:
        """Return the RPC object of an attachment record.

        :param connection_info: connection info for the host; None to leave the field null
        """
        return cls.of(attachment, **_words(attachment), connection_info=(
            None if connection_info is None else dict(connection_info)))


@ovo_base.VersionedObjectRegistry.register
class AttachmentPayload(serializing.BlockattachObject):
    """Attachment in the payload of a notification. ``attach_mode`` is null if no mode is set."""

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
        return cls.of(
            attachment, **_words(attachment), attached_host=attachment.host,
            attach_time=attachment.attached_at, detach_time=attachment.detached_at)


@ovo_base.VersionedObjectRegistry.register
class VolumeAttachmentPayload(serializing.BlockattachObject):
    """Payload of a notification about an attachment.

    It contains the attachment (``attachment``), its volume, and all attachments of the volume
    (``volume_attachment``).
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
        """Return the payload of a notification about an attachment.

        :param volume: volume of the attachment
        :param rows: live attachments of the volume, without legacy reservations
        """
        # In Cinder's payload, `host` is the pool and `volume_type` is the id of the type.
        return cls.of(
            volume, attachment=AttachmentPayload.from_domain(attachment),
            volume_attachment=[AttachmentPayload.from_domain(row) for row in rows],
            tenant_id=volume.project_id, host=volume.pool, volume_id=volume.id,
            volume_type=volume.volume_type_id, display_name=volume.name, size=volume.size_gb,
            metadata=dict(volume.metadata), glance_metadata={})


def _words(attachment: records.Attachment) -> dict[str, str | None]:
    """Return ``attach_status`` and ``attach_mode`` of an attachment in the API."""
    return {'attach_status': attachment_lifecycle.WIRE_STATUS[attachment.state],
            'attach_mode': attachment.mode and attachment.mode.value}


@ovo_base.VersionedObjectRegistry.register
class VolumeRequest(serializing.BlockattachObject):
    """Requirements on a pool for a volume: `blockattach.storage.domain.pools.VolumeRequest`."""

    VERSION = '1.0'

    fields = {
        'volume_id': fields.StringField(),
        'generation': fields.IntegerField(),
        'size_gb': fields.IntegerField(),
        'multiattach': fields.BooleanField(),
        'availability_zone': fields.StringField(nullable=True),
        'extra_specs': fields.DictOfStringsField(),
        'tried': fields.ListOfStringsField(),
        'verb': fields.StringField(),
        'held_gb': fields.IntegerField(),
        'pool': fields.StringField(nullable=True),
        'home': fields.StringField(nullable=True),
    }

    @classmethod
    def from_domain(cls, request: pools.VolumeRequest) -> Self:
        return cls.of(request, extra_specs=dict(request.extra_specs), tried=list(request.tried))

    def to_domain(self) -> pools.VolumeRequest:
        values = {name: getattr(self, name) for name in self.fields}
        return pools.VolumeRequest(**values | {
            'extra_specs': dict(self.extra_specs), 'tried': tuple(self.tried)})


@ovo_base.VersionedObjectRegistry.register
class PoolsReport(serializing.BlockattachObject):
    """Report of the pools of a backend. ``host`` is ``host@backend``.

    ``pools`` maps the name of each pool to its capabilities as JSON text. A driver may report any
    capabilities, so they have no versioned fields.
    """

    VERSION = '1.0'

    fields = {
        'host': fields.StringField(),
        'pools': fields.DictOfStringsField(),
    }

    @classmethod
    def from_capabilities(cls, host: str, capabilities: Mapping[str, Mapping[str, Any]]) -> Self:
        """Return the report of the pools of a backend.

        :param host: ``host@backend`` of the backend
        :param capabilities: capabilities by pool name, with the keys of Cinder's pool statistics
        :raises TypeError: if a capability cannot be expressed in JSON
        """
        # JSON has no infinity. Python writes the word Infinity, which other parsers reject.
        return cls(host=host, pools={
            name: json.dumps(_expressible(pool), allow_nan=False, sort_keys=True)
            for name, pool in capabilities.items()})

    def capabilities(self) -> dict[str, dict[str, Any]]:
        """Return the capabilities by pool name. An unlimited capacity is the text "infinite"."""
        return {name: json.loads(text) for name, text in self.pools.items()}


def _expressible(value: Any) -> Any:
    """Return a value that JSON can express.

    Infinity is replaced by "infinite", as in Cinder's drivers, and NaN by None.
    """
    if isinstance(value, Mapping):
        return {str(key): _expressible(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_expressible(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return 'infinite' if value > 0 else None
    return value
