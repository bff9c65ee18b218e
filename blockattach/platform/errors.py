"""Base classes of all errors, and the errors that are not specific to a resource.

Each class has a stable ``code`` for logs and programs, and a text for people. ``final`` is True if
the error proves that nothing happened; only such an error may be returned as a failure at once.
``retry_after`` is set if the condition is temporary and the request may be repeated.

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
"""Modules of the classes, which are part of their names on the bus.

They are listed here because this module imports neither of the other two.
"""

_LONGEST_VALUE = 200
_COMPOSED = ('reason', 'summary')
"""Fields that contain texts of this service and are not shortened."""


def shortened(value: Any, most: int = _LONGEST_VALUE) -> Any:
    """Return a text from a client cut to ``most`` characters; other values are unchanged."""
    return f'{value[:most]}...' if isinstance(value, str) and len(value) > most else value


class BlockattachError(Exception):
    """Base class of all errors. Fields fill the text of the class unless a message is given."""

    code = 'internal'
    text = 'An unexpected error occurred.'
    status = 500
    """HTTP status of the response."""
    shown = False
    """True if the response contains the text, False if only that the request failed."""
    final = True
    retry_after: str | None = None
    """Seconds after which the request may succeed; None if repeating it does not help."""

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
    """Return True if the text explains the error, so that a log needs no traceback."""
    return isinstance(error, BlockattachError)


_DEFECTS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError,
            NotImplementedError, TypeError, ValueError)


def is_defect(error: BaseException) -> bool:
    """Return True if an error shows a programming error, so that retrying fails as well.

    Errors of the environment (files, networks, databases, other programs) have other classes, or
    are OSErrors as well, such as `ssl.SSLCertVerificationError`.
    """
    return isinstance(error, _DEFECTS) and not isinstance(error, OSError)


def in_words(error: BaseException) -> str:
    """Return the user-visible text of a backend failure, or of the error that it caused.

    :returns: an empty text if neither the error nor its cause has one
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
    """Error that a driver may raise, of one of two kinds: refused or uncertain."""

    code = 'backend.error'
    status = 500
    shown = True
    text = '%(reason)s'
    words = ''
    """User-visible text of the error, without names and capacities."""


class BackendRefused(BackendError):
    """Final error of a backend that has changed nothing."""

    code = 'backend.refused'


class BackendFull(BackendRefused):
    code = 'backend.full'
    text = 'Cannot allocate %(size_gb)s GiB: %(reason)s'
    words = 'The backend does not have enough free space.'


class BackendUncertain(BackendError):
    """Error of a backend that may have executed the call in whole or in part.

    A repeated call must be safe.
    """

    code = 'backend.uncertain'
    status = 504
    final = False
    retry_after = '1'


class ServiceUnreachable(BlockattachError):
    """RPC call without a reply. The call may have been executed."""

    code = 'bus.unreachable'
    status = 504
    shown = True
    text = 'Cannot reach %(topic)s: no reply within %(seconds)s seconds'
    final = False
    retry_after = '1'


class ServiceSilent(BlockattachError):
    """Service that is considered down because of missing heartbeats, and was not called."""

    code = 'service.silent'
    status = 502
    shown = True
    text = 'Service %(binary)s on host %(host)s has sent no heartbeat for %(seconds)s seconds'


class DeadlinePassed(BlockattachError):
    """Final error of a message that arrived after its deadline, or would have."""

    code = 'bus.deadline_passed'
    status = 503
    shown = True
    text = ('Cannot run %(method)s: the deadline of the caller has passed. Nothing was changed. '
            'Retry the request later.')
    retry_after = '1'


class Overloaded(BlockattachError):
    """Rejection of a request that exceeds the capacity. Final: the request was not started."""

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
    """Unreachable database. Uncertain: this statement did nothing, earlier ones may have."""

    code = 'database.unavailable'
    status = 503
    shown = True
    text = 'Cannot reach the database. Retry the request later.'
    final = False
    retry_after = '1'


class DatabaseNotWritable(DatabaseUnavailable):
    """Database that can only be read: full disk, read-only, or database file removed."""

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
    """Nova outage before a detach. Final: the detach was not started."""

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
