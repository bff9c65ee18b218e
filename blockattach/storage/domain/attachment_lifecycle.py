"""Attachment lifecycle: states, events and the transition table.

No other module decides about transitions. After an attachment is created, only `move` of
`db.attachments.attachments` changes its state, to the result of `next_state`. `move` updates the
attachment row and the volume status in one transaction, provided that neither has changed since
they were read.
"""
import enum
from typing import NamedTuple

from blockattach.storage import errors
from blockattach.storage.domain import messages


class State(enum.StrEnum):
    """State of an attachment."""

    RESERVED = 'reserved'
    """Volume reserved for the attachment. No call to the backend has been made."""
    CONNECTING = 'connecting'
    """Connector stored; the call to the backend is pending or in progress."""
    CONNECTED = 'connected'
    """Access granted by the target, and connection stored. The attachment is not completed yet."""
    ATTACHED = 'attached'
    """Attachment completed by the consumer."""
    DISCONNECTING = 'disconnecting'
    """Detach requested; the call to the backend is pending or in progress."""
    ERROR_ATTACHING = 'error_attaching'
    """Connect permanently refused by the backend; the reason is stored."""
    ERROR_DETACHING = 'error_detaching'
    """Disconnect permanently refused by the backend; the reason is stored."""
    GONE = 'gone'
    """Attachment deleted; the row is kept as history."""


class Event(enum.StrEnum):
    """Event that moves an attachment from one state to another."""

    CONNECT = 'connect'
    """Connector provided; the backend must grant access."""
    CONNECTED = 'connected'
    """Access granted by the backend."""
    COMPLETE = 'complete'
    """Attachment completed by the consumer."""
    ATTACH = 'attach'
    """Legacy os-attach, which completes an attachment and names its server or host."""
    DISCONNECT = 'disconnect'
    """Detach that requires a call to the backend."""
    DISCONNECTED = 'disconnected'
    """Access revoked by the backend."""
    RELEASE = 'release'
    """Detach of an attachment that has no access at the backend (no connector)."""
    REFUSED = 'refused'
    """Permanent refusal by the backend, without side effects. The former state is restored."""
    FAILED = 'failed'
    """Permanent refusal by the backend, although an earlier attempt may have had an effect."""


CREATE = 'create'
"""Event recorded in the history when an attachment is created. Creation is not a transition."""


class Writer(enum.StrEnum):
    """Part of the service that performs a transition."""

    CONTROL = 'control'
    VOLUME = 'volume'


class Notification(enum.StrEnum):
    """Event type of a notification about an attachment."""

    ATTACH_START = 'volume.attach.start'
    ATTACH_END = 'volume.attach.end'
    ATTACH_ERROR = 'volume.attach.error'
    DETACH_START = 'volume.detach.start'
    DETACH_END = 'volume.detach.end'
    DETACH_ERROR = 'volume.detach.error'


class Row(NamedTuple):
    """Allowed transition of an attachment.

    :ivar target: state after the event; None for the `previous_state` stored in the attachment row
    """

    source: State
    event: Event
    target: State | None
    writer: Writer


TRANSITIONS = (
    # The main path.
    Row(State.RESERVED, Event.CONNECT, State.CONNECTING, Writer.CONTROL),
    Row(State.CONNECTING, Event.CONNECTED, State.CONNECTED, Writer.VOLUME),
    Row(State.CONNECTED, Event.COMPLETE, State.ATTACHED, Writer.CONTROL),
    Row(State.ATTACHED, Event.DISCONNECT, State.DISCONNECTING, Writer.CONTROL),
    Row(State.DISCONNECTING, Event.DISCONNECTED, State.GONE, Writer.VOLUME),
    # Nova completes attachments of shelved offloaded servers, which have no connector. Cinder also
    # accepts a repeated os-complete.
    Row(State.RESERVED, Event.COMPLETE, State.ATTACHED, Writer.CONTROL),
    Row(State.ATTACHED, Event.COMPLETE, State.ATTACHED, Writer.CONTROL),
    # os-attach adopts the reservation of os-reserve or the connection of
    # os-initialize_connection.
    Row(State.RESERVED, Event.ATTACH, State.ATTACHED, Writer.CONTROL),
    Row(State.CONNECTED, Event.ATTACH, State.ATTACHED, Writer.CONTROL),
    # Nova repeats an update that failed with HTTP 500 or 504, so the same connector may arrive
    # again while the first one is still being connected. To unshelve a server, Nova also updates
    # attached attachments.
    Row(State.CONNECTED, Event.CONNECT, State.CONNECTING, Writer.CONTROL),
    Row(State.ATTACHED, Event.CONNECT, State.CONNECTING, Writer.CONTROL),
    Row(State.CONNECTING, Event.CONNECT, State.CONNECTING, Writer.CONTROL),
    Row(State.ERROR_ATTACHING, Event.CONNECT, State.CONNECTING, Writer.CONTROL),
    # A refusal restores the former state. A row created as connecting has none and is deleted.
    Row(State.CONNECTING, Event.REFUSED, None, Writer.VOLUME),
    Row(State.DISCONNECTING, Event.REFUSED, None, Writer.VOLUME),
    # A consumer that gives up deletes the attachment in any state, and repeats the deletion.
    Row(State.CONNECTING, Event.DISCONNECT, State.DISCONNECTING, Writer.CONTROL),
    Row(State.CONNECTED, Event.DISCONNECT, State.DISCONNECTING, Writer.CONTROL),
    Row(State.DISCONNECTING, Event.DISCONNECT, State.DISCONNECTING, Writer.CONTROL),
    Row(State.ERROR_ATTACHING, Event.DISCONNECT, State.DISCONNECTING, Writer.CONTROL),
    Row(State.ERROR_DETACHING, Event.DISCONNECT, State.DISCONNECTING, Writer.CONTROL),
    # Without access at the backend there is nothing to revoke.
    Row(State.RESERVED, Event.RELEASE, State.GONE, Writer.CONTROL),
    Row(State.ATTACHED, Event.RELEASE, State.GONE, Writer.CONTROL),
    # Refusal when no caller waits for the answer any more, see `refusal`.
    Row(State.CONNECTING, Event.FAILED, State.ERROR_ATTACHING, Writer.VOLUME),
    Row(State.DISCONNECTING, Event.FAILED, State.ERROR_DETACHING, Writer.VOLUME),
)

TRANSITIONAL = frozenset({State.CONNECTING, State.DISCONNECTING})
"""States in which the service is working; the row has an owner and a deadline."""

ATTACHING = frozenset({State.CONNECTING, State.CONNECTED})
"""States with a connector in which the consumer has not completed the attachment yet."""

GRANTED = frozenset({State.CONNECTING, State.CONNECTED, State.ATTACHED})
"""States in which the initiator of the attachment, if any, needs a grant."""

LIVE = tuple(state for state in State if state is not State.GONE)

# The order is that of Cinder's `_get_statuses_from_attachments` (attached before attaching before
# detaching before reserved). Cinder ignores failed attachments; here they are last.
RANKS = {
    State.ATTACHED: 1,
    State.CONNECTING: 2,
    State.CONNECTED: 2,
    State.DISCONNECTING: 3,
    State.RESERVED: 4,
    State.ERROR_ATTACHING: 5,
    State.ERROR_DETACHING: 5,
}
"""Rank of each state; a deleted attachment has none.

The lowest rank among the attachments of a volume determines the volume status.
"""

HELD_RANK = RANKS[State.CONNECTING]
"""Rank of a legacy reservation. Cinder's os-reserve sets the volume to attaching, not reserved."""

WIRE_STATUS = {
    State.RESERVED: 'reserved',
    State.CONNECTING: 'attaching',
    State.CONNECTED: 'attaching',
    State.ATTACHED: 'attached',
    State.DISCONNECTING: 'detaching',
    State.ERROR_ATTACHING: 'error_attaching',
    State.ERROR_DETACHING: 'error_detaching',
    State.GONE: 'detached',
}
"""Name of each state in the Block Storage API (``attach_status``)."""

_MOVES = {(row.source, row.event): row for row in TRANSITIONS}


def rank_of(state: State, legacy_reservation: bool) -> int | None:
    """Return the rank of an attachment (see `RANKS`), or None for a deleted attachment.

    :param legacy_reservation: True if the attachment was created by os-reserve and has not been
        adopted by os-attach yet
    """
    return HELD_RANK if legacy_reservation and state is State.RESERVED else RANKS.get(state)


def states_on_wire(status: str) -> tuple[State, ...]:
    """Return the states, except `State.GONE`, that the API shows as the given ``attach_status``.

    The result is empty for an unknown status.
    """
    return tuple(state for state in LIVE if WIRE_STATUS[state] == status)


def allowed_events(state: State) -> tuple[Event, ...]:
    """Return the events allowed in a state, in the order of the transition table."""
    return tuple(row.event for row in TRANSITIONS if row.source is state)


def next_state(state: State, event: Event, came_from: State | None = None) -> State:
    """Return the state of an attachment after an event.

    :param came_from: stored `previous_state` of the attachment; None for an attachment that was
        created as connecting
    :returns: the target of the transition. A transition without a target leads to ``came_from``,
        or to `State.GONE` if ``came_from`` is None
    :raises InvalidTransition: if `TRANSITIONS` has no row for the state and the event
    """
    row = _MOVES.get((state, event))
    if row is None:
        raise errors.InvalidTransition(
            state=state.value, event=event.value,
            allowed=', '.join(allowed_events(state)) or 'none')
    if row.target is not None:
        return row.target
    return came_from if came_from is not None else State.GONE


def remembered(state: State, target: State, came_from: State | None) -> State | None:
    """Return the `previous_state` to store when an attachment goes from ``state`` to ``target``.

    A refusal by the backend restores the stored state. If an attachment enters the same
    transitional state again, ``came_from`` remains stored. A refusal never restores connecting,
    because a connecting attachment must have work in progress. If an attachment is detached while
    connecting, error_detaching is therefore stored.

    :param came_from: `previous_state` stored so far
    :returns: None if ``target`` is not transitional
    """
    if target not in TRANSITIONAL:
        return None
    if state is target:
        return came_from
    return State.ERROR_DETACHING if state is State.CONNECTING else state


def refusal(state: State, came_from: State | None, awaited: bool) -> Event:
    """Return the event that follows a permanent refusal by the backend.

    ==============  =======================  ==============================================
    who waits       attachment               event and its effect
    ==============  =======================  ==============================================
    caller          any                      REFUSED: the request is undone, nothing happened
    nobody          connecting, in use by    REFUSED: the request is undone, the earlier use
                    its host before          continues
    nobody          any other                FAILED: an earlier attempt may have had an effect
    ==============  =======================  ==============================================

    :param came_from: stored `previous_state` of the attachment
    :param awaited: True if a caller waits for the answer; False if the caller has timed out or
        ended
    """
    if awaited or (state is State.CONNECTING and came_from in GRANTED):
        return Event.REFUSED
    return Event.FAILED


FAILURES = {State.CONNECTING: messages.ATTACH_FAILED,
            State.DISCONNECTING: messages.DETACH_FAILED}
"""User message for each state in which the backend may refuse permanently."""


def notifications_of(before: State | None, after: State) -> tuple[Notification, ...]:
    """Return the notifications of a transition. Each start has one end, in success or in error.

    :param before: state before the transition; None if the transition created the attachment, or
        if the attachment was a legacy reservation
    """
    found = []
    # The end of the former state is notified before the start of the new state.
    if before in ATTACHING and after not in ATTACHING:
        well = (before, after) == (State.CONNECTED, State.ATTACHED)
        found.append(Notification.ATTACH_END if well else Notification.ATTACH_ERROR)
    if before is State.DISCONNECTING and after is not State.DISCONNECTING:
        found.append(Notification.DETACH_END if after is State.GONE else Notification.DETACH_ERROR)
    if after in ATTACHING and before not in ATTACHING:
        found.append(Notification.ATTACH_START)
    if after is State.DISCONNECTING and before is not State.DISCONNECTING:
        found.append(Notification.DETACH_START)
    # Without a call to the backend, start and end are the same moment: os-attach, the completion
    # of an attachment without connector, and a release.
    if before in (None, State.RESERVED) and after is State.ATTACHED:
        found += [Notification.ATTACH_START, Notification.ATTACH_END]
    if before in (State.RESERVED, State.ATTACHED) and after is State.GONE:
        found += [Notification.DETACH_START, Notification.DETACH_END]
    return tuple(found)
