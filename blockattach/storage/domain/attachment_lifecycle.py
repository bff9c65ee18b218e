"""The lifecycle of an attachment: every state, every event, and the one table of moves.

The only place where these are named. The only mover is `move` of `db.attachments.attachments`: it
asks `next_state`, and changes the row and its volume's status together, if both are as it read
them.
"""
import enum
from typing import NamedTuple

from blockattach.storage import errors
from blockattach.storage.domain import messages


class State(enum.StrEnum):
    """What is true of an attachment while it is in a state."""

    RESERVED = 'reserved'
    """The volume is reserved for it; the backend grants nothing on its account."""
    CONNECTING = 'connecting'
    """The connector is stored; the backend was or will be called (owner, deadline)."""
    CONNECTED = 'connected'
    """The target grants the initiator access; the connection is stored; the consumer works."""
    ATTACHED = 'attached'
    """The consumer has completed it."""
    DISCONNECTING = 'disconnecting'
    """It is being detached; the backend was or will be called (owner, deadline)."""
    ERROR_ATTACHING = 'error_attaching'
    """The backend refused finally to connect it; the reason is stored."""
    ERROR_DETACHING = 'error_detaching'
    """The backend refused finally to disconnect it; the reason is stored."""
    GONE = 'gone'
    """Removed; the row is kept as history."""


class Event(enum.StrEnum):
    """What can happen to an attachment."""

    CONNECT = 'connect'
    """There is a connector: the backend shall grant it access."""
    CONNECTED = 'connected'
    """The backend has granted it access."""
    COMPLETE = 'complete'
    """The consumer has finished its own part."""
    ATTACH = 'attach'
    """The legacy os-attach: the consumer has finished, and is named only now."""
    DISCONNECT = 'disconnect'
    """It shall end, and the backend must be called."""
    DISCONNECTED = 'disconnected'
    """The backend has revoked its access."""
    RELEASE = 'release'
    """It shall go, and the backend knows nothing of it (no connector)."""
    REFUSED = 'refused'
    """The backend refused finally: nothing happened, the intent is undone."""
    FAILED = 'failed'
    """An earlier try ended nobody knows how, and the last one was refused finally."""


CREATE = 'create'
"""What the history says of an attachment that is new, which is no move."""


class Writer(enum.StrEnum):
    """Which part of the service makes a move."""

    CONTROL = 'control'
    VOLUME = 'volume'


class Notification(enum.StrEnum):
    """Notifications about attachments."""

    ATTACH_START = 'volume.attach.start'
    ATTACH_END = 'volume.attach.end'
    ATTACH_ERROR = 'volume.attach.error'
    DETACH_START = 'volume.detach.start'
    DETACH_END = 'volume.detach.end'
    DETACH_ERROR = 'volume.detach.error'


class Row(NamedTuple):
    """One legal move. ``target`` None means: back to the state the row remembers."""

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
    # Clients complete without a connector (an offloaded server) and complete twice.
    Row(State.RESERVED, Event.COMPLETE, State.ATTACHED, Writer.CONTROL),
    Row(State.ATTACHED, Event.COMPLETE, State.ATTACHED, Writer.CONTROL),
    # os-attach takes over what os-reserve held, and what os-initialize_connection connected.
    Row(State.RESERVED, Event.ATTACH, State.ATTACHED, Writer.CONTROL),
    Row(State.CONNECTED, Event.ATTACH, State.ATTACHED, Writer.CONTROL),
    # A connector may come again, also while the first is being worked on.
    Row(State.CONNECTED, Event.CONNECT, State.CONNECTING, Writer.CONTROL),
    Row(State.ATTACHED, Event.CONNECT, State.CONNECTING, Writer.CONTROL),
    Row(State.CONNECTING, Event.CONNECT, State.CONNECTING, Writer.CONTROL),
    Row(State.ERROR_ATTACHING, Event.CONNECT, State.CONNECTING, Writer.CONTROL),
    # Refused: back to the former state. A row that began as connecting has none and is deleted.
    Row(State.CONNECTING, Event.REFUSED, None, Writer.VOLUME),
    Row(State.DISCONNECTING, Event.REFUSED, None, Writer.VOLUME),
    # It may be detached at any time, also once more.
    Row(State.CONNECTING, Event.DISCONNECT, State.DISCONNECTING, Writer.CONTROL),
    Row(State.CONNECTED, Event.DISCONNECT, State.DISCONNECTING, Writer.CONTROL),
    Row(State.DISCONNECTING, Event.DISCONNECT, State.DISCONNECTING, Writer.CONTROL),
    Row(State.ERROR_ATTACHING, Event.DISCONNECT, State.DISCONNECTING, Writer.CONTROL),
    Row(State.ERROR_DETACHING, Event.DISCONNECT, State.DISCONNECTING, Writer.CONTROL),
    # Nothing to undo on the backend.
    Row(State.RESERVED, Event.RELEASE, State.GONE, Writer.CONTROL),
    Row(State.ATTACHED, Event.RELEASE, State.GONE, Writer.CONTROL),
    # Refused where nobody waits for the answer any more: see `refusal`.
    Row(State.CONNECTING, Event.FAILED, State.ERROR_ATTACHING, Writer.VOLUME),
    Row(State.DISCONNECTING, Event.FAILED, State.ERROR_DETACHING, Writer.VOLUME),
)

TRANSITIONAL = frozenset({State.CONNECTING, State.DISCONNECTING})
"""The service itself is at work: such a row has an owner and a deadline."""

ATTACHING = frozenset({State.CONNECTING, State.CONNECTED})
"""It has a connector, and its consumer has not completed it yet."""

GRANTED = frozenset({State.CONNECTING, State.CONNECTED, State.ATTACHED})
"""A row in one of these needs a grant for its initiator, if it has one."""

LIVE = tuple(state for state in State if state is not State.GONE)

RANKS = {
    State.ATTACHED: 1,
    State.CONNECTING: 2,
    State.CONNECTED: 2,
    State.DISCONNECTING: 3,
    State.RESERVED: 4,
    State.ERROR_ATTACHING: 5,
    State.ERROR_DETACHING: 5,
}
"""The lowest rank among a volume's rows decides its status; a deleted row has none."""

HELD_RANK = RANKS[State.CONNECTING]
"""A row that os-reserve holds for nobody yet shows its volume as attaching, as clients expect."""

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
"""What the Block Storage API calls each state (``attach_status``)."""

_MOVES = {(row.source, row.event): row for row in TRANSITIONS}


def rank_of(state: State, legacy_reservation: bool) -> int | None:
    """What a row weighs in its volume's status; None once gone.

    :param legacy_reservation: made by a legacy action and not adopted by os-attach yet
    """
    return HELD_RANK if legacy_reservation and state is State.RESERVED else RANKS.get(state)


def states_on_wire(status: str) -> tuple[State, ...]:
    """The live states that the API shows as ``status``; none for an unknown one."""
    return tuple(state for state in LIVE if WIRE_STATUS[state] == status)


def allowed_events(state: State) -> tuple[Event, ...]:
    """The events that may happen in a state, in the table's order."""
    return tuple(row.event for row in TRANSITIONS if row.source is state)


def next_state(state: State, event: Event, came_from: State | None = None) -> State:
    """Where an event leads.

    :param came_from: the state that the row remembers; None for a row that began as connecting
    :raises InvalidTransition: the table has no such move
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
    """Which state a row remembers on entering ``target``: where a refusal takes it back to.

    A row that is entered again while the service works on it keeps what it remembered. One that is
    detached while connecting cannot go back to connecting, as no work would be under way.
    """
    if target not in TRANSITIONAL:
        return None
    if state is target:
        return came_from
    return State.ERROR_DETACHING if state is State.CONNECTING else state


def refusal(state: State, came_from: State | None, awaited: bool) -> Event:
    """The event for a row whose work the backend refuses finally.

    ==============  =======================  ==============================================
    waits           the row                  the refusal
    ==============  =======================  ==============================================
    the caller      any                      undoes the intent: nothing happened
    nobody          connecting, in use by    undoes the intent: its use goes on as before
                    its host before
    nobody          any other                fails: an earlier try may have done its part
    ==============  =======================  ==============================================

    :param came_from: the state that the row remembers
    :param awaited: a caller waits for the answer; else it has timed out or ended
    """
    if awaited or (state is State.CONNECTING and came_from in GRANTED):
        return Event.REFUSED
    return Event.FAILED


FAILURES = {State.CONNECTING: messages.ATTACH_FAILED,
            State.DISCONNECTING: messages.DETACH_FAILED}
"""The message to the user about a row whose work the backend refuses finally."""


def notifications_of(before: State | None, after: State) -> tuple[Notification, ...]:
    """The notifications of a move: each start has one end, in success or in error.

    :param before: None: the row was not visible
    """
    found = []
    if before in ATTACHING and after not in ATTACHING:
        well = (before, after) == (State.CONNECTED, State.ATTACHED)
        found.append(Notification.ATTACH_END if well else Notification.ATTACH_ERROR)
    if before is State.DISCONNECTING and after is not State.DISCONNECTING:
        found.append(Notification.DETACH_END if after is State.GONE else Notification.DETACH_ERROR)
    if after in ATTACHING and before not in ATTACHING:
        found.append(Notification.ATTACH_START)
    if after is State.DISCONNECTING and before is not State.DISCONNECTING:
        found.append(Notification.DETACH_START)
    if before in (None, State.RESERVED) and after is State.ATTACHED:
        found += [Notification.ATTACH_START, Notification.ATTACH_END]
    if before in (State.RESERVED, State.ATTACHED) and after is State.GONE:
        found += [Notification.DETACH_START, Notification.DETACH_END]
    return tuple(found)
