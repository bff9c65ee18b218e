"""What ends a call without an answer: a table.

A row says which limit or fault it is, what its caller gets, and whether the work may be done. The
client translates what a transport raises by it, in the order of the rows.
"""
import enum
from typing import NamedTuple

import oslo_messaging
from kombu import exceptions as kombu_errors

from blockattach.platform import errors
from blockattach.platform.rpc import contract


class NotReached(oslo_messaging.MessageDeliveryFailure):
    """No server has received the message: no server is known, none accepts it, or it was rejected.
    Nothing was done, so the caller may try another way.
    """


class Work(enum.StrEnum):
    """What is known of the work that was asked for."""

    NOT_BEGUN = 'not started'
    UNKNOWN = 'may have completed'


class End(NamedTuple):
    """One way to end.

    :ivar limits: the options that say when
    :ivar raised: by the transport; nothing: the error itself, on either side
    :ivar remote: the class of what the other side raised, where that decides
    :ivar text: of the error; None: its own
    :ivar then: what happens before the caller gets it
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
"""What a transport raises in place of an answer."""


def of(error: Exception) -> End:
    """The row of what a transport has raised."""
    remote = error.exc_type if isinstance(error, oslo_messaging.RemoteError) else None
    return next(end for end in ENDS if isinstance(error, end.raised)
                and (not end.remote or remote in end.remote))
