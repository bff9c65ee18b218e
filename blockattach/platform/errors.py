"""Base classes of all errors, and the errors that are not specific to a resource.

Each class has a stable ``code`` for logs and programs, and a text for people. ``final`` is True if
the error proves that the failed operation had no effect. After an error that is not final, the
operation may have been executed, and the caller must determine the outcome. ``retry_after`` is set
if the condition is temporary and the request may be repeated.

    BlockattachError
    ├── InvalidInput                 invalid request: nothing was changed
    │   ├── InvalidFilter            unknown filter of a list
    │   └── VersionInvalid           malformed microversion
    ├── NotAuthenticated, NotAuthorized   no identity; denied by policy
    ├── NotFound
    │   ├── ProjectNotFound
    │   └── RouteNotFound            also an operation below its microversion
    ├── Conflict
    │   ├── IdempotencyKeyReused, IdempotencyKeyTaken   key of another request; request in progress
    │   └── StaleGeneration          row changed since: a late call has no effect
    ├── PreconditionFailed           ETag differs from If-Match: nothing was changed
    ├── QuotaExceeded                quota of the project is used up
    ├── VersionNotAcceptable, MediaTypeNotSupported
    ├── BackendError
    │   ├── BackendRefused  (final)  nothing happened
    │   │   └── BackendFull          no free space
    │   └── BackendUncertain         may have happened: outcome is reconciled
    ├── ServiceUnreachable           no RPC reply (uncertain)
    ├── ServiceSilent                service is down, and was not called
    ├── DeadlinePassed               caller has stopped waiting: not started
    ├── Overloaded                   no slot was free in time: nothing was started
    │   ├── QueueTimeout, QueueFull   deadline passed in the queue; queue is full
    │   └── BackendBusy              queue of a slow backend is too long
    ├── RequestAbandoned             client has disconnected: nothing was started
    ├── IdentityUnavailable          Keystone does not respond: nothing was started
    │   └── LimitsUnavailable        quota limits cannot be read from Keystone
    ├── DatabaseUnavailable          database cannot be reached (uncertain)
    │   └── DatabaseNotWritable      database is full or read-only
    ├── OutcomeUnknown               connection lost during a commit (uncertain)
    ├── NovaUnavailable              use of an attachment is unknown: not detached
    ├── GlanceUnavailable            request to Glance may have happened (uncertain)
    └── ConfigurationError           configuration must be fixed before the start
"""
from typing import Any

MODULES = ('blockattach.platform.errors', 'blockattach.storage.errors',
           'blockattach.compute.errors')
"""Modules of the error classes that an RPC reply may contain (``allowed_remote_exmods``).

The modules of the other two packages are listed by name, because this package must not import
them.
"""

_LONGEST_VALUE = 200
_COMPOSED = ('reason', 'summary')
"""Names of fields with texts that this service has composed, which are not shortened."""


def shortened(value: Any, most: int = _LONGEST_VALUE) -> Any:
    """Cut a text to ``most`` characters and append ``...``. Return any other value unchanged."""
    return f'{value[:most]}...' if isinstance(value, str) and len(value) > most else value


class BlockattachError(Exception):
    """Base class of all errors.

    The message of an error is ``message`` if given. Otherwise it is ``text`` of the class, with
    the placeholders replaced by ``fields``.
    """

    code = 'internal'
    text = 'An unexpected error occurred.'
    status = 500
    """HTTP status of the response."""
    shown = False
    """True if the response contains the message of the error. Otherwise the client gets a general
    text with status 500.
    """
    final = True
    retry_after: str | None = None
    """Seconds after which the request may succeed; None if repeating the request does not help."""

    def __init__(self, message: str | None = None, **fields: Any) -> None:
        # oslo.messaging rebuilds an error on the other side from ``args`` and ``kwargs``.
        self.kwargs = fields
        self.message = message if message is not None else self.text % {
            name: value if name in _COMPOSED else shortened(value)
            for name, value in fields.items()}
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message


def is_known(error: BaseException) -> bool:
    """Return True if an exception is a `BlockattachError`, which is logged without a traceback."""
    return isinstance(error, BlockattachError)


_DEFECTS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError,
            NotImplementedError, TypeError, ValueError)


def is_defect(error: BaseException) -> bool:
    """Return True if an exception indicates a programming error, which a retry cannot fix.

    Failures of files, networks, databases and other programs raise other classes. An OSError is
    never a programming error, even if it is a ValueError as well (`ssl.SSLCertVerificationError`).
    """
    return isinstance(error, _DEFECTS) and not isinstance(error, OSError)


def in_words(error: BaseException) -> str:
    """Return the text for user messages (``words``) of an error, or else of its ``__cause__``.

    :returns: an empty text if neither exception has such a text
    """
    said = (getattr(one, 'words', '') for one in (error, error.__cause__))
    return next(filter(None, said), '')


class InvalidInput(BlockattachError):
    code = 'request.invalid'
    status = 400
    shown = True
    text = '%(reason)s'


class InvalidFilter(InvalidInput):
    code = 'request.invalid_filter'
    text = 'Invalid filters %(filters)s are found in query options.'


class NotAuthenticated(BlockattachError):
    code = 'auth.required'
    status = 401
    shown = True
    text = 'This request requires authentication.'


class NotAuthorized(BlockattachError):
    code = 'policy.refused'
    status = 403
    shown = True
    text = "Policy doesn't allow %(rule)s to be performed."


class NotFound(BlockattachError):
    code = 'not_found'
    status = 404
    shown = True
    text = 'The resource could not be found.'


class ProjectNotFound(NotFound):
    code = 'project.not_found'
    text = 'Project with id %(project_id)s not found.'


class RouteNotFound(NotFound):
    code = 'route.not_found'


class Conflict(BlockattachError):
    code = 'conflict'
    status = 409
    shown = True
    text = 'Resource conflict: %(reason)s'


class IdempotencyKeyReused(Conflict):
    code = 'idempotency.reused'
    text = ('Resource conflict: The Idempotency-Key was already used for a request with a '
            'different body. Use a new key.')


class IdempotencyKeyTaken(Conflict):
    code = 'idempotency.taken'
    text = ('Resource conflict: A request with the same Idempotency-Key is in progress. Retry the '
            'request later.')
    retry_after = '1'


class StaleGeneration(Conflict):
    code = 'generation.stale'
    text = ('Resource conflict: %(noun)s %(id)s was changed by another process since generation '
            '%(generation)s')


class PreconditionFailed(BlockattachError):
    code = 'request.precondition'
    status = 412
    shown = True
    text = ('The resource does not match the ETag in If-Match. Nothing was changed. Read the '
            'resource again before retrying the request.')


class VersionInvalid(InvalidInput):
    code = 'version.invalid'
    text = ('API Version String %(version)s is of invalid format. Must be of format '
            'MajorNum.MinorNum.')


class VersionNotAcceptable(BlockattachError):
    code = 'version.not_acceptable'
    status = 406
    shown = True
    text = ('Version %(requested)s is not supported by the API. Minimum is %(minimum)s and '
            'maximum is %(maximum)s.')


class MediaTypeNotSupported(BlockattachError):
    code = 'request.media_type'
    status = 415
    shown = True
    text = 'Unsupported Content-Type'


class QuotaExceeded(BlockattachError):
    code = 'quota.exceeded'
    status = 413
    shown = True
    text = '%(reason)s'
    retry_after = '0'


class BackendError(BlockattachError):
    """Error that a driver may raise, as a `BackendRefused` or a `BackendUncertain`."""

    code = 'backend.error'
    status = 500
    shown = True
    text = '%(reason)s'
    words = ''
    """Text for user messages, which names no backend and no capacity. Empty if there is none."""


class BackendRefused(BackendError):
    """Failure of a backend call that changed nothing."""

    code = 'backend.refused'


class BackendFull(BackendRefused):
    code = 'backend.full'
    text = 'Cannot allocate %(size_gb)s GiB: %(reason)s'
    words = 'The backend does not have enough free space.'


class BackendUncertain(BackendError):
    """Failure of a backend call that may have been executed in whole or in part.

    Repeating the call must be safe.
    """

    code = 'backend.uncertain'
    status = 504
    final = False
    retry_after = '1'


class ServiceUnreachable(BlockattachError):
    """RPC message that could not be sent, or call without a reply. Its work may have been done."""

    code = 'bus.unreachable'
    status = 504
    shown = True
    text = 'Cannot reach %(topic)s: no reply within %(seconds)s seconds'
    final = False
    retry_after = '1'


class ServiceSilent(BlockattachError):
    """RPC call that was not sent because the service has missed its heartbeats."""

    code = 'service.silent'
    status = 502
    shown = True
    text = 'Service %(binary)s on host %(host)s has sent no heartbeat for %(seconds)s seconds'


class DeadlinePassed(BlockattachError):
    """RPC message that was not executed because the deadline of its caller has passed.
    """

    code = 'bus.deadline_passed'
    status = 503
    shown = True
    text = ('Cannot run %(method)s: the deadline of the caller has passed. Nothing was changed. '
            'Retry the request later.')
    retry_after = '1'


class Overloaded(BlockattachError):
    """Rejection of a request for lack of capacity, before the request was started."""

    code = 'queue.overloaded'
    status = 503
    shown = True
    text = 'The service is overloaded. Nothing was changed. Retry the request later.'
    retry_after = '5'


class QueueTimeout(Overloaded):
    code = 'queue.timeout'
    text = ('The service is overloaded: the request timed out in the queue. Nothing was changed. '
            'Retry the request later.')


class QueueFull(Overloaded):
    code = 'queue.full'
    text = ('The service is overloaded: the request queue is full. Nothing was changed. Retry the '
            'request later.')


class BackendBusy(Overloaded):
    code = 'queue.backend_busy'
    text = ('The backend of the volume is slow and too many requests are waiting for the backend. '
            'Nothing was changed. Retry the request later.')


class RequestAbandoned(BlockattachError):
    code = 'queue.abandoned'
    status = 503
    shown = True
    retry_after = '5'
    text = 'The client disconnected before the request was started. Nothing was changed.'


class IdentityUnavailable(BlockattachError):
    """Keystone outage during the check of a token. The token may be valid."""

    code = 'auth.unavailable'
    status = 503
    shown = True
    text = ('Cannot authenticate the request: the identity service does not respond. Retry the '
            'request later.')
    retry_after = '1'


class LimitsUnavailable(IdentityUnavailable):
    code = 'quota.limits_unavailable'
    text = ('Cannot read the quota limits of the project from the identity service. Nothing was '
            'changed. Retry the request later.')


class DatabaseUnavailable(BlockattachError):
    """Unreachable database.

    The failed statement had no effect, but earlier statements of the operation may have had an
    effect.
    """

    code = 'database.unavailable'
    status = 503
    shown = True
    text = 'Cannot reach the database. Retry the request later.'
    final = False
    retry_after = '1'


class DatabaseNotWritable(DatabaseUnavailable):
    """Database that cannot be written: full disk, read-only database, or removed database file."""

    code = 'database.not_writable'
    text = ('Cannot write to the database: the database is full or read-only. Retry the request '
            'later.')
    retry_after = '10'


class OutcomeUnknown(BlockattachError):
    """Database connection lost during a commit whose outcome could not be determined in time."""

    code = 'database.outcome_unknown'
    status = 504
    shown = True
    text = ('The outcome of the request is unknown: the connection to the database was lost '
            'during a commit. Check the state of the resource before retrying the request.')
    final = False
    retry_after = '1'


class NovaUnavailable(BlockattachError):
    """Nova outage before a detach, which was therefore not started."""

    code = 'nova.unavailable'
    status = 503
    shown = True
    text = ('Cannot detach volume %(volume_id)s: Nova did not report whether server '
            '%(server_id)s still uses the volume (%(reason)s). Nothing was changed. Retry the '
            'request later.')
    retry_after = '1'


class GlanceUnavailable(BlockattachError):
    """Missing or invalid response of Glance."""

    code = 'glance.unavailable'
    status = 503
    shown = True
    text = 'Cannot use the image service: %(reason)s. Retry the request later.'
    final = False
    retry_after = '1'


class ConfigurationError(BlockattachError):
    code = 'configuration'
    status = 500
    text = '%(reason)s'
