"""How an interface between processes is written down.

An interface is an abstract class: each method says since which version it exists and how it is
sent. The server's endpoint and the client both subclass it, so mypy compares the two ends::

    class Interface(contract.Interface):
        TOPIC = 'volume'

        @contract.call(since='1.0')
        @abc.abstractmethod
        def ping(self, ctxt: context.RequestContext) -> bool: ...

Rules: a method that was released keeps its name, its arguments and its meaning. What must change
becomes a new method with a new ``since``; a fingerprint per version makes a test red otherwise.
"""
import abc
import dataclasses
import enum
import hashlib
import inspect
import re
from collections.abc import Callable
from typing import Any
from typing import ClassVar
from typing import Protocol
from typing import TypeVar

from blockattach.platform import errors

Function = TypeVar('Function', bound=Callable[..., Any])

_MARK = '_contract'
_MODULE = re.compile(r'\b(?:[a-z_]+\.)+(?=[A-Z])')
UNFORESEEN = 'cannot determine the result of %(method)s on %(server)s: %(reason)s'
"""What an error that is not ours becomes, at either end."""


class Kind(enum.StrEnum):
    """How a method is sent."""

    CALL = 'call'
    """One server does it, the caller waits for its answer."""
    CAST = 'cast'
    """One server does it, nobody waits. It may be lost: a state with a deadline backs it up."""
    FANOUT = 'fanout'
    """Each server that listens at the moment gets a copy, nobody waits."""


class Timeout(enum.StrEnum):
    """How long a caller waits, and after what a message expires; the seconds are in ``[rpc]``."""

    SHORT = 'short'
    NORMAL = 'normal'
    LONG = 'long'
    """It is begun in time as others are, and may go on for long; heartbeats show that it does."""


@dataclasses.dataclass(frozen=True, slots=True)
class Method:
    """What an interface says of one method.

    :ivar timeout: None: it never expires; a call always has one
    :ivar signature: its text, for the fingerprint
    :ivar fast_lane: it only writes to the database, so it has threads that no backend can block
    """

    name: str
    kind: Kind
    since: str
    timeout: Timeout | None
    signature: str
    repeated: bool = False
    fast_lane: bool = False


class Interface(abc.ABC):
    """What every interface inherits. ``TOPIC`` is its name without the prefix of ``[rpc]``."""

    TOPIC: ClassVar[str]


class Invoke(Protocol):
    """What a client is made on: sends one method of its interface, by name."""

    def __call__(self, ctxt: Any, name: str, /, **arguments: Any) -> Any:
        """Send it; returns the answer of a call, None otherwise.

        :raises BlockattachError: what the other side raised, with its class and fields
        :raises ServiceUnreachable: the broker took nothing, or no answer came in time
        :raises DeadlinePassed: it was not begun, as its caller waits no longer
        :raises BackendUncertain: the other side failed in a way it did not foresee
        :raises ConfigurationError: the other side, or the release pin, is too old for it
        """


def call(since: str, timeout: Timeout = Timeout.NORMAL, repeated: bool = False,
         fast_lane: bool = False) -> Callable[[Function], Function]:
    """Mark a method that is answered.

    :param repeated: it may be done twice, so it is sent again while nobody sends heartbeats
    :param fast_lane: see `Method`
    """
    return _marked(Kind.CALL, since, timeout, repeated, fast_lane)


def cast(since: str, timeout: Timeout | None = None,
         fast_lane: bool = False) -> Callable[[Function], Function]:
    """Mark a method that one server does and nobody answers.

    :param timeout: when it expires; None: never
    :param fast_lane: see `Method`
    """
    return _marked(Kind.CAST, since, timeout, fast_lane=fast_lane)


def fanout(since: str, timeout: Timeout | None = None) -> Callable[[Function], Function]:
    """Mark a method that every server does and nobody answers.

    :param timeout: when it expires; None: never
    """
    return _marked(Kind.FANOUT, since, timeout)


def _marked(kind: Kind, since: str, timeout: Timeout | None,
            repeated: bool = False, fast_lane: bool = False) -> Callable[[Function], Function]:
    def mark(function: Function) -> Function:
        method = Method(function.__name__, kind, since, timeout,
                        str(inspect.signature(function)), repeated, fast_lane)
        setattr(function, _MARK, method)
        return function
    return mark


def methods(interface: type[Interface]) -> dict[str, Method]:
    """The methods of an interface by name; on an endpoint or a client: of the interface it is."""
    found: dict[str, Method] = {}
    for cls in reversed(interface.__mro__):
        for name, member in vars(cls).items():
            method = getattr(member, _MARK, None)
            if isinstance(method, Method):
                found[name] = method
    return found


def portable(error: errors.BlockattachError) -> errors.BlockattachError:
    """The error as of the nearest class of the service's own: only these can cross the bus.

    A driver may have finer ones, and oslo.messaging makes a class of its own of what arrives,
    whose text holds the other side's traceback.
    """
    known = next(cls for cls in type(error).__mro__ if cls.__module__ in errors.MODULES)
    return known(error.message, **error.kwargs)


def unforeseen(name: str, server: str, what: str) -> errors.BackendUncertain:
    """An error that is not ours: it is unknown how far the other side came."""
    return errors.BackendUncertain(
        reason=UNFORESEEN % {'method': name, 'server': server, 'reason': what})


def parsed(version: str) -> tuple[int, int]:
    """'1.10' as numbers, for comparing."""
    major, minor = version.split('.')
    return int(major), int(minor)


def versions(interface: type[Interface]) -> tuple[str, ...]:
    """Every version in which something was added, oldest first."""
    return tuple(sorted({method.since for method in methods(interface).values()}, key=parsed))


def version(interface: type[Interface]) -> str:
    """What a server of this interface understands."""
    return versions(interface)[-1]


def fingerprint(interface: type[Interface], upto: str) -> str:
    """Return a short text that changes with the methods of the interface up to a version.

    Later methods are left out, so the fingerprint of a released version never changes. Modules of
    types are left out as well, because they are not sent.
    """
    lines = [interface.TOPIC]
    for name, method in sorted(methods(interface).items()):
        if parsed(method.since) <= parsed(upto):
            signature = _MODULE.sub('', str(method.signature))
            lines.append(f'{method.since} {method.kind} {name}{signature}')
    return hashlib.sha256('\n'.join(lines).encode()).hexdigest()[:16]
