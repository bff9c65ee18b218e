"""Declaration of RPC interfaces, and the versions of interfaces that each release knows.

An interface is an abstract class. Each method declares its first version and how it is sent. The
endpoint of the server and the client are both subclasses, so mypy checks that they agree::

    class Interface(contract.Interface):
        TOPIC = 'volume'

        @contract.call(since='1.0')
        @abc.abstractmethod
        def ping(self, ctxt: context.RequestContext) -> bool: ...

A released method keeps its name, its arguments and its meaning. A change needs a new method with a
new ``since``. A test compares the fingerprints of all released versions.

While an upgrade is in progress, processes of two releases share the bus. ``[rpc] release`` names
the older release in the processes of the newer release. These processes then call no method that
the older release does not know, and send objects in a form that the older release knows. They
accept the newer form as well. When the last old process has stopped, the operator clears the
option, and the newest versions are used.
"""
import abc
import dataclasses
import enum
import hashlib
import inspect
import re
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import ClassVar
from typing import Protocol
from typing import TypeVar

from blockattach.platform import errors

Function = TypeVar('Function', bound=Callable[..., Any])

_MARK = '_contract'
_MODULE = re.compile(r'\b(?:[a-z_]+\.)+(?=[A-Z])')
UNFORESEEN = 'cannot determine the result of %(method)s on %(server)s: %(reason)s'
"""Text of the error that replaces an unexpected error, on the server and on the client."""
NEWEST = ('', 'auto')
"""Values of ``[rpc] release`` that select the newest release."""


class Kind(enum.StrEnum):
    """Message pattern of a method."""

    CALL = 'call'
    """Message to one server, for whose reply the caller waits."""
    CAST = 'cast'
    """Message to one server, without a reply.

    The message may be lost, so a deadline in the database must cover the work.
    """
    FANOUT = 'fanout'
    """Message to each server that is listening, without a reply."""


class Timeout(enum.StrEnum):
    """Timeout class of a method. Options of ``[rpc]`` define the seconds.

    When the timeout has passed, the caller stops waiting, and an unhandled message expires.
    """

    SHORT = 'short'
    NORMAL = 'normal'
    LONG = 'long'
    """Timeout of work that may take long. Heartbeats show that the work continues.

    A message whose work was not started expires as with NORMAL.
    """


@dataclasses.dataclass(frozen=True, slots=True)
class Method:
    """Declaration of a method of an interface.

    :ivar since: first version of the interface with the method
    :ivar timeout: timeout class; None if messages never expire. A call always has a timeout
    :ivar signature: text of the signature, for the fingerprint
    :ivar repeated: True for an idempotent call, which is sent again while no heartbeats arrive
    :ivar fast_lane: True for a method that only writes to the database. Dedicated threads handle
        its messages, so that no slow backend delays them
    """

    name: str
    kind: Kind
    since: str
    timeout: Timeout | None
    signature: str
    repeated: bool = False
    fast_lane: bool = False


class Interface(abc.ABC):
    """Base class of RPC interfaces.

    :cvar TOPIC: name of the interface, without the prefix ``[rpc] topic_prefix``
    """

    TOPIC: ClassVar[str]


class Invoke(Protocol):
    """Function by which a generated stub sends the message of a method."""

    def __call__(self, ctxt: Any, name: str, /, **arguments: Any) -> Any:
        """Send the message of the method ``name``.

        :returns: the reply to a call; None for a cast or fanout
        :raises BlockattachError: the server raised this error, which keeps its class and fields
        :raises ServiceUnreachable: the broker did not accept the message, no server was reached,
            or no reply came in time
        :raises DeadlinePassed: the deadline of the caller passed before the work was started
        :raises BackendUncertain: the server failed with an unexpected error
        :raises ConfigurationError: the server, or the release in ``[rpc] release``, does not
            support the method, or the message would leave this host without TLS
        """


def call(since: str, timeout: Timeout = Timeout.NORMAL, repeated: bool = False,
         fast_lane: bool = False) -> Callable[[Function], Function]:
    """Declare a method whose caller waits for the reply of one server.

    :param repeated: see `Method`
    :param fast_lane: see `Method`
    """
    return _marked(Kind.CALL, since, timeout, repeated, fast_lane)


def cast(since: str, timeout: Timeout | None = None,
         fast_lane: bool = False) -> Callable[[Function], Function]:
    """Declare a method that one server handles, and whose caller gets no reply.

    :param timeout: time after which a message expires; None for never
    :param fast_lane: see `Method`
    """
    return _marked(Kind.CAST, since, timeout, fast_lane=fast_lane)


def fanout(since: str, timeout: Timeout | None = None) -> Callable[[Function], Function]:
    """Declare a method that every listening server handles, and whose caller gets no reply.

    :param timeout: time after which a message expires; None for never
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
    """Return the methods of an interface by name.

    :param interface: an interface, or an endpoint or client class of the interface
    """
    declared: dict[str, Method] = {}
    for cls in reversed(interface.__mro__):
        for name, member in vars(cls).items():
            method = getattr(member, _MARK, None)
            if isinstance(method, Method):
                declared[name] = method
    return declared


def portable(error: errors.BlockattachError) -> errors.BlockattachError:
    """Return an error as an instance of its nearest base class that can be sent over the bus.

    Only classes in the modules `errors.MODULES` can be sent, but drivers raise subclasses of these
    classes. For another class, oslo.messaging would create a new class on the client, with a text
    that contains the traceback of the server.
    """
    base = next(cls for cls in type(error).__mro__ if cls.__module__ in errors.MODULES)
    return base(error.message, **error.kwargs)


def unforeseen(name: str, server: str, what: str) -> errors.BackendUncertain:
    """Return the error that replaces an unexpected exception of a server.

    :param what: description of the exception, such as its class
    """
    return errors.BackendUncertain(
        reason=UNFORESEEN % {'method': name, 'server': server, 'reason': what})


def parsed(version: str) -> tuple[int, int]:
    """Parse a version such as '1.10' into major and minor number, for comparisons."""
    major, minor = version.split('.')
    return int(major), int(minor)


def versions(interface: type[Interface]) -> tuple[str, ...]:
    """Return all versions of an interface, oldest first. Each version added methods."""
    return tuple(sorted({method.since for method in methods(interface).values()}, key=parsed))


def version(interface: type[Interface]) -> str:
    """Return the newest version of an interface."""
    return versions(interface)[-1]


def fingerprint(interface: type[Interface], upto: str) -> str:
    """Return a hash of the methods that an interface has in a version.

    Methods of later versions are left out, so the fingerprint of a released version never changes.
    Module names of argument types are left out as well, because they are not sent.
    """
    lines = [interface.TOPIC]
    for name, method in sorted(methods(interface).items()):
        if parsed(method.since) <= parsed(upto):
            signature = _MODULE.sub('', str(method.signature))
            lines.append(f'{method.since} {method.kind} {name}{signature}')
    return hashlib.sha256('\n'.join(lines).encode()).hexdigest()[:16]


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """Release, with the versions of RPC interfaces by topic and of versioned objects by name."""

    name: str
    interfaces: Mapping[str, str]
    objects: Mapping[str, str]


def find_release(name: str, releases: Sequence[Release]) -> Release:
    """Return the release that the option ``[rpc] release`` selects.

    :param releases: all releases, oldest first
    :raises ConfigurationError: ``name`` is not a known release
    """
    if name in NEWEST:
        return releases[-1]
    for release in releases:
        if release.name == name:
            return release
    known = ', '.join(release.name for release in releases)
    raise errors.ConfigurationError(
        reason=f'unknown release {name!r} in [rpc] release: known releases are {known}')
