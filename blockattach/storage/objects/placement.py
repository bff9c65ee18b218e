"""Requests of volumes for a pool, sent to the scheduler, and reports of pools."""
import json
import math
from collections.abc import Mapping
from typing import Any
from typing import Self

from oslo_versionedobjects import base as ovo_base
from oslo_versionedobjects import fields

from blockattach.platform.rpc import versioned_objects
from blockattach.storage.domain import pools


@ovo_base.VersionedObjectRegistry.register
class VolumeRequest(versioned_objects.BlockattachObject):
    """Requirements of a volume on a pool, see `blockattach.storage.domain.pools.VolumeRequest`."""

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
        """Return the object for a request."""
        return cls.of(request, extra_specs=dict(request.extra_specs), tried=list(request.tried))

    def to_domain(self) -> pools.VolumeRequest:
        """Return the request in the form of the domain."""
        values = {name: getattr(self, name) for name in self.fields}
        return pools.VolumeRequest(**values | {
            'extra_specs': dict(self.extra_specs), 'tried': tuple(self.tried)})


@ovo_base.VersionedObjectRegistry.register
class PoolsReport(versioned_objects.BlockattachObject):
    """Report of the pools of a backend. ``host`` is ``host@backend``.

    ``pools`` maps the name of a pool to its capabilities as JSON text. A backend may report any
    capabilities, so the report has no schema that an upgrade could break.
    """

    VERSION = '1.0'

    fields = {
        'host': fields.StringField(),
        'pools': fields.DictOfStringsField(),
    }

    @classmethod
    def from_capabilities(cls, host: str, capabilities: Mapping[str, Mapping[str, Any]]) -> Self:
        """Return the report of a backend.

        :param capabilities: capabilities by pool, with the keys of Cinder's pool statistics
        :raises TypeError: if a capability is neither text, number, boolean, null, list nor mapping
        """
        return cls(host=host, pools={
            name: json.dumps(_expressible(pool), allow_nan=False, sort_keys=True)
            for name, pool in capabilities.items()})

    def capabilities(self) -> dict[str, dict[str, Any]]:
        """Return the capabilities by pool, with unlimited capacity as the text "infinite"."""
        return {name: json.loads(text) for name, text in self.pools.items()}


def _expressible(value: Any) -> Any:
    """Return a value for JSON, with infinity as "infinite", the word of drivers, and NaN as null.
    """
    if isinstance(value, Mapping):
        return {str(key): _expressible(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_expressible(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return 'infinite' if value > 0 else None
    return value
