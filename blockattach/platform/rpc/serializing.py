"""Serialization of contexts and objects, and of the deadlines of messages.

These rules apply to deadlines:

====================================  ========================================================
call                                  waits for the timeout of its method, but not longer than
                                      the remaining time of the call that it is part of
call within an expired call           is not sent
cast                                  does not expire, unless its interface sets a timeout
expired message                       is not started; a caller gets ``DeadlinePassed``
message without a timeout             is handled whenever it arrives
====================================  ========================================================

The clocks of two hosts may differ, so no wall-clock time is sent. A message contains the seconds
until it expires, and the monotonic time of the sender. The receiver subtracts the time of the
sender from its own monotonic time. The result is the offset of the two clocks plus the delay of
the message, so the smallest result of a sender belongs to its fastest message. Any excess over the
smallest result is time that a message has waited, in the broker or for a thread. The first message
of a sender counts as not delayed. The broker drops calls that have expired in its queue.

An object changes only together with its ``VERSION``, and ``obj_make_compatible`` converts it to an
older version. A test compares the fingerprints of all objects.
"""
import threading
import types
import uuid
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import Self

import cachetools
from oslo_versionedobjects import base as ovo_base
from oslo_versionedobjects import fields

from blockattach.platform import clock as clocks
from blockattach.platform import context
from blockattach.platform.telemetry import acts

SENDERS = 10_000
"""Maximum number of senders whose smallest clock difference is stored."""
REMEMBERED_SECONDS = 3600.0
"""Time in seconds for which the smallest clock difference of a sender is used.

Two clocks drift apart by less than one second in this time.
"""

_DEADLINE = 'blockattach_deadline'
_SERVICE_ROLES = 'service_roles'
# Most arguments have these types, which need no conversion.
_PLAIN = frozenset((str, int, float, bool, types.NoneType))


class BlockattachObject(ovo_base.VersionedObject):
    """Base class of versioned objects, which only hold values and never access the database."""

    OBJ_SERIAL_NAMESPACE = 'blockattach_object'
    OBJ_PROJECT_NAMESPACE = 'blockattach'

    @classmethod
    def of(cls, record: object, **values: Any) -> Self:
        """Return an object with the values of a record.

        Fields that are not in ``values`` are read from the attributes of the record. A field is
        None if the record has no such attribute.
        """
        return cls(**{name: getattr(record, name, None) for name in cls.fields} | values)

    def to_body(self) -> dict[str, Any]:
        """Return the object as the payload of a notification, with its fields at the top level.

        oslo.versionedobjects nests the fields in ``blockattach_object.data``, which readers of
        OpenStack notifications do not expect.
        """
        return _flat(self.obj_to_primitive())


_NAME, _VERSION, _DATA = (f'{BlockattachObject.OBJ_SERIAL_NAMESPACE}.{part}'
                          for part in ('name', 'version', 'data'))


def _flat(value: Any) -> Any:
    """Return a serialized value in which each object contains its fields instead of ``data``."""
    if isinstance(value, list):
        return [_flat(item) for item in value]
    if not isinstance(value, dict) or _DATA not in value:
        return value
    return {_NAME: value[_NAME], _VERSION: value[_VERSION],
            **{name: _flat(item) for name, item in value[_DATA].items()}}


class _Unprinted(fields.FieldType[dict[str, Any]]):
    """Field type of a mapping of plain data."""

    def stringify(self, value: dict[str, Any]) -> str:
        """Return a placeholder, because the value may contain a secret."""
        return '***'


class UnprintedField(fields.Field[dict[str, Any]]):
    """Field of plain data that may contain a secret. It is sent unchanged and never printed."""

    def __init__(self, nullable: bool = False) -> None:
        super().__init__(_Unprinted(), nullable=nullable)


class _ObjectSerializer(ovo_base.VersionedObjectSerializer):
    """Serializer of versioned objects. Objects of an unknown newer version are rejected."""

    OBJ_BASE_CLASS = BlockattachObject


def registered() -> dict[str, type[BlockattachObject]]:
    """Return the classes of all versioned objects by name, in their newest versions."""
    classes = ovo_base.VersionedObjectRegistry.obj_classes()
    return {name: versions[0] for name, versions in classes.items()
            if issubclass(versions[0], BlockattachObject)}


class Outgoing(NamedTuple):
    """Context of a message to send.

    :ivar caller: context of the caller
    :ivar seconds: seconds until the message expires; None for never
    """

    caller: context.RequestContext
    seconds: float | None


class Serializer(_ObjectSerializer):
    """Serializer of contexts and objects. Objects are sent in the versions of a release."""

    def __init__(self, object_versions: Mapping[str, str], clock: clocks.Clock,
                 telemetry: acts.Telemetry | None = None) -> None:
        """
        :param object_versions: versions of the release by object name
        :param telemetry: None to send no trace context
        """
        self._versions = dict(object_versions)
        self._clock = clock
        self._telemetry = telemetry
        self._sender = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._fastest: cachetools.TTLCache[str, float] = cachetools.TTLCache(
            SENDERS, REMEMBERED_SECONDS, clock.monotonic)

    def serialize_entity(self, ctxt: Any, entity: Any) -> Any:
        if type(entity) in _PLAIN:
            return entity
        if isinstance(entity, BlockattachObject):
            return entity.obj_to_primitive(self._versions.get(entity.obj_name(), entity.VERSION),
                                           self._versions)
        return super().serialize_entity(ctxt, entity)

    def deserialize_entity(self, ctxt: Any, entity: Any) -> Any:
        return entity if type(entity) in _PLAIN else super().deserialize_entity(ctxt, entity)

    def serialize_context(self, ctxt: context.RequestContext | Outgoing) -> dict[str, Any]:
        """Return the context of the caller as plain data.

        The token is left out, because no RPC server uses it.
        """
        caller, seconds = ctxt if isinstance(ctxt, Outgoing) else (ctxt, None)
        values = caller.to_dict()
        values.pop('auth_token', None)
        values[_SERVICE_ROLES] = caller.service_roles
        if seconds is not None:
            values[_DEADLINE] = {'sender': self._sender, 'sent': self._clock.monotonic(),
                                 'seconds': seconds}
        if self._telemetry is not None:
            self._telemetry.inject(values)
        return values

    def deserialize_context(self, ctxt: dict[str, Any]) -> context.RequestContext:
        """Return the context of the caller from plain data.

        The context also becomes the log context of this thread.
        """
        caller = context.RequestContext.from_dict(ctxt)
        stamp = ctxt.get(_DEADLINE)
        if stamp is not None:
            caller.deadline = self._expires(stamp)
        if self._telemetry is not None:
            caller.traceparent = self._telemetry.extract(ctxt)
        return caller

    def _expires(self, stamp: Mapping[str, Any]) -> float:
        """Return the deadline of a message on the monotonic clock of this process."""
        now = self._clock.monotonic()
        sender, difference = str(stamp['sender']), now - float(stamp['sent'])
        with self._lock:
            fastest = self._fastest.get(sender)
            if fastest is None or difference < fastest:
                self._fastest[sender] = fastest = difference
        # The message was delayed by `difference - fastest` (see the docstring of the module).
        return now + float(stamp['seconds']) - (difference - fastest)
