"""Table of the limits and faults that end an RPC call without a result of the method.

A row describes a limit or fault, the error for the caller, and whether the work may have been
done. The client translates an exception of a transport with the first row that matches.
"""
import enum
from typing import NamedTuple

import oslo_messaging
from kombu import exceptions as kombu_errors

from blockattach.platform import errors
from blockattach.platform.rpc import contract


class NotReached(oslo_messaging.MessageDeliveryFailure):
    """Delivery failure which proves that no server has accepted the message.

    No work was done, so the caller may send the message through another transport.
    """


class Work(enum.StrEnum):
    """State of the requested work when a limit or fault ends a call."""

    NOT_BEGUN = 'not started'
    UNKNOWN = 'may have completed'


class End(NamedTuple):
    """Limit or fault that ends a call without a result of the method.

    :ivar when: description of the limit or fault
    :ivar limits: options that set the limit
    :ivar raised: exceptions of transports that this row translates. Empty if the client or the
        server raises ``error`` itself
    :ivar error: error for the caller
    :ivar text: text of ``error``; None for the text of its class
    :ivar remote: class names of the server exceptions to which the row is limited; empty for all
    :ivar then: description of the retries before the caller gets the error
    """

    name: str
    when: str
    limits: tuple[str, ...]
    raised: tuple[type[Exception], ...]
    error: type[errors.BlockattachError]
    work: Work
    text: str | None = None
    remote: frozenset[str] = frozenset()
    then: str = ''


_AGAIN = ('an idempotent call is sent again every ``repeat_interval`` until the limits are '
          'reached')
_SOON = ('an idempotent call is sent again after 0.1 seconds, with a pause that doubles each '
         'time, until the limits are reached')
_OLD = 'cannot send %(method)s of version %(since)s to %(topic)s: '

# The first matching row applies, so special rows are before general ones. `NotReached` is a
# MessageDeliveryFailure, and the row 'unforeseen' matches every RemoteError.
ENDS = (
    End('late', 'the deadline of the caller has passed when the message is sent, or when the '
        'server reads the message',
        (), (), errors.DeadlinePassed, Work.NOT_BEGUN),
    End('unanswered', 'no reply or no heartbeat arrives in time, or the connection is lost before '
        'the reply',
        ('call_timeout', 'short_call_timeout', 'long_call_timeout', 'silence_timeout'),
        (oslo_messaging.MessagingTimeout,), errors.ServiceUnreachable, Work.UNKNOWN, then=_AGAIN),
    End('not reached', 'over HTTP: the address of the server is not known, the connection fails, '
        'or the server has stopped, has too many connections, or does not accept the key of the '
        'caller',
        (), (NotReached,), errors.ServiceUnreachable, Work.NOT_BEGUN,
        'cannot reach %(server)s: %(reason)s',
        then='the call is sent through the broker if a broker is configured; otherwise ' + _SOON),
    End('not taken', 'the broker does not accept the message', ('send_retries',),
        (oslo_messaging.MessageDeliveryFailure, kombu_errors.OperationalError, ConnectionError),
        errors.ServiceUnreachable, Work.NOT_BEGUN,
        'cannot reach %(server)s: the broker does not accept messages'),
    End('pinned', 'the configured release does not have the method', ('release',),
        (oslo_messaging.RPCVersionCapError,), errors.ConfigurationError, Work.NOT_BEGUN,
        _OLD + 'the release in [rpc] release is older'),
    End('too old', 'the server does not support the method, its version, or an object in its '
        'arguments', (),
        (oslo_messaging.RemoteError,), errors.ConfigurationError, Work.NOT_BEGUN,
        _OLD + '%(server)s runs an older release',
        remote=frozenset({'UnsupportedVersion', 'NoSuchMethod', 'IncompatibleObjectVersion'})),
    End('unforeseen', 'the server fails with an unexpected error', (),
        (oslo_messaging.RemoteError,), errors.BackendUncertain, Work.UNKNOWN,
        contract.UNFORESEEN),
)

RAISED = tuple({error for end in ENDS for error in end.raised})
"""Exceptions of transports that `of` translates."""


def of(error: Exception) -> End:
    """Return the row of `ENDS` that translates an exception of a transport."""
    remote = error.exc_type if isinstance(error, oslo_messaging.RemoteError) else None
    return next(end for end in ENDS if isinstance(error, end.raised)
                and (not end.remote or remote in end.remote))
