"""Contexts and objects as plain data, and deadlines that travel with messages.

The rule:

====================================  ========================================================
a call                                waits as long as its method's timeout, and no longer than
                                      what remains of the call within which it is made
a call within one that has expired    is not sent
a cast                                does not expire, unless its interface says so
a message that has expired            is not begun; a caller gets ``DeadlinePassed``
a message that does not expire        is done whenever it comes
====================================  ========================================================

Clocks of two hosts need not agree, so no time of day is sent: a message carries the seconds until
it expires and what the sender's monotonic clock showed. The difference to the receiver's clock is
least for the fastest message; what a later one shows beyond that, it has waited, in the broker or
for a thread. The first message of a sender has nothing to compare with, but the broker drops calls
that have expired.
"""
import threading
import types
import uuid
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import cachetools

from blockattach.platform import clock as clocks
from blockattach.platform import context
from blockattach.platform.rpc import versioned_objects
from blockattach.platform.telemetry import acts

SENDERS = 10_000
"""How many senders are remembered at most."""
REMEMBERED_SECONDS = 3600.0
"""How long the fastest message of a sender counts: meanwhile two clocks drift by less than 1 s."""

_DEADLINE = 'blockattach_deadline'
_SERVICE_ROLES = 'service_roles'
# Types that both sides have: those of most arguments.
_PLAIN = frozenset((str, int, float, bool, types.NoneType))


class Outgoing(NamedTuple):
    """A caller, and the seconds until the message expires; None: never."""

    caller: context.RequestContext
    seconds: float | None


class Serializer(versioned_objects.ObjectSerializer):
    """Contexts and objects to plain data and back; objects in the versions of a release."""

    def __init__(self, object_versions: Mapping[str, str], clock: clocks.Clock,
                 telemetry: acts.Telemetry | None = None) -> None:
        """
        :param telemetry: None for no trace
        """
        self._versions = dict(object_versions)
        self._clock = clock
        self._telemetry = telemetry
        self._sender = uuid.uuid4().hex
        self._lock = threading.Lock()
        self._fastest: cachetools.TTLCache[str, float] = cachetools.TTLCache(
            SENDERS, REMEMBERED_SECONDS, clock.monotonic)

    def serialize_entity(self, ctxt: Any, entity: Any) -> Any:
        """Plain data for an argument or an answer."""
        if type(entity) in _PLAIN:
            return entity
        if isinstance(entity, versioned_objects.BlockattachObject):
            return entity.obj_to_primitive(self._versions.get(entity.obj_name(), entity.VERSION),
                                           self._versions)
        return super().serialize_entity(ctxt, entity)

    def deserialize_entity(self, ctxt: Any, entity: Any) -> Any:
        """An argument or an answer from plain data."""
        return entity if type(entity) in _PLAIN else super().deserialize_entity(ctxt, entity)

    def serialize_context(self, ctxt: context.RequestContext | Outgoing) -> dict[str, Any]:
        """The caller as plain data, without its token: no server acts with it."""
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
        """The caller on the other side; also what this thread logs by from now on."""
        caller = context.RequestContext.from_dict(ctxt)
        stamp = ctxt.get(_DEADLINE)
        if stamp is not None:
            caller.deadline = self._expires(stamp)
        if self._telemetry is not None:
            caller.traceparent = self._telemetry.extract(ctxt)
        return caller

    def _expires(self, stamp: Mapping[str, Any]) -> float:
        """When a message expires, on this process's monotonic clock."""
        now = self._clock.monotonic()
        sender, difference = str(stamp['sender']), now - float(stamp['sent'])
        with self._lock:
            fastest = self._fastest.get(sender)
            if fastest is None or difference < fastest:
                self._fastest[sender] = fastest = difference
        return now + float(stamp['seconds']) - (difference - fastest)
