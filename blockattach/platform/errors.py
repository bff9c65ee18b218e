"""The root of all errors, their kinds, and the errors that concern no resource.

Each class has a stable ``code`` for logs and programs, and a text for people. ``final`` tells
whether an error proves that nothing happened; only then may it be answered as a failure at once.
``retry_after`` is set if the condition is temporary: the request may be repeated.

    BlockattachError
    ├── InvalidInput                 the caller's mistake: nothing was changed
    │   ├── InvalidFilter            a list was asked for with an unknown filter
    │   └── VersionInvalid           the microversion cannot be read
    ├── NotAuthenticated, NotAuthorized   no identity; policy denies it
    ├── NotFound
    │   ├── ProjectNotFound
    │   └── RouteNotFound            also: an operation below its microversion
    ├── Conflict
    │   ├── IdempotencyKeyReused, IdempotencyKeyTaken   another request's key; it is under way
    │   └── StaleGeneration          the row has moved since: a late call changes nothing
    ├── PreconditionFailed           it is not what If-Match names: nothing was changed
    ├── QuotaExceeded                the project has as much as it may
    ├── VersionNotAcceptable, MediaTypeNotSupported
    ├── BackendError
    │   ├── BackendRefused  (final)  nothing happened
    │   │   └── BackendFull          no room
    │   └── BackendUncertain         it may have happened: never guessed, always reconciled
    ├── ServiceUnreachable           no answer over the bus (uncertain)
    ├── ServiceSilent                counts as down, and was not asked
    ├── DeadlinePassed               the caller no longer waits: it was not begun
    ├── Overloaded                   no slot was free in time: nothing was begun
    │   ├── QueueTimeout, QueueFull   its deadline came first; too many wait already
    │   └── BackendBusy              too many wait for one slow backend
    ├── RequestAbandoned             the client has hung up: nothing was begun
    ├── IdentityUnavailable          Keystone does not answer: nothing was begun
    │   └── LimitsUnavailable        Keystone keeps the quotas, and does not say them
    ├── DatabaseUnavailable          rows cannot be read or written now (uncertain)
    │   └── DatabaseNotWritable      its disk is full, or it is read-only
    ├── OutcomeUnknown               lost the database while it committed (uncertain)
    ├── NovaUnavailable              whether a server uses an attachment is unknown: it stays
    ├── GlanceUnavailable            what it was asked for may have happened (uncertain)
    └── ConfigurationError           the operator must change something before we start
"""
from typing import Any

MODULES = ('blockattach.platform.errors', 'blockattach.storage.errors',
           'blockattach.compute.errors')
"""Modules of the classes, which are part of their names on the bus. They are named here because
nothing here imports the other two.
"""

_LONGEST_VALUE = 200
_COMPOSED = ('reason', 'summary')
"""Fields that are texts of ours."""


def shortened(value: Any, most: int = _LONGEST_VALUE) -> Any:
    """As much of what a client sent as an error repeats."""
    return f'{value[:most]}...' if isinstance(value, str) and len(value) > most else value


class BlockattachError(Exception):
    """The root. Fields fill the class's text, unless the text is given whole."""

    code = 'internal'
    text = 'An unexpected error occurred.'
    status = 500
    """HTTP status of the response."""
    shown = False
    """Whether the response contains the text, or only that the request failed."""
    final = True
    retry_after: str | None = None
    """Seconds after which the request may succeed; None: repeating it does not help."""

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
    """Whether its text says everything, so that a log needs no traceback."""
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
    """What a user reads of a failure of a backend, or of one that it has caused."""
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
    """What a driver may raise; the core knows nothing finer than its two kinds."""

    code = 'backend.error'
    status = 500
    shown = True
    text = '%(reason)s'
    words = ''
    """What a user reads of it in a message: no name and no capacity."""


class BackendRefused(BackendError):
    """Final: the backend is as it was before."""

    code = 'backend.refused'


class BackendFull(BackendRefused):
    code = 'backend.full'
    text = 'Cannot allocate %(size_gb)s GiB: %(reason)s'
    words = 'The backend does not have enough free space.'


class BackendUncertain(BackendError):
    """The act may have happened, wholly or in part. A repeat must be safe."""

    code = 'backend.uncertain'
    status = 504
    final = False
    retry_after = '1'


class ServiceUnreachable(BlockattachError):
    """Called without an answer: the act may have happened."""

    code = 'bus.unreachable'
    status = 504
    shown = True
    text = 'Cannot reach %(topic)s: no reply within %(seconds)s seconds'
    final = False
    retry_after = '1'


class ServiceSilent(BlockattachError):
    """Nobody was asked: it has sent no heartbeat for so long that it counts as down."""

    code = 'service.silent'
    status = 502
    shown = True
    text = 'Service %(binary)s on host %(host)s has sent no heartbeat for %(seconds)s seconds'


class DeadlinePassed(BlockattachError):
    """Final: a message that came too late, or would have, was not acted upon."""

    code = 'bus.deadline_passed'
    status = 503
    shown = True
    text = ('Cannot run %(method)s: the deadline of the caller has passed. Nothing was changed. '
            'Retry the request later.')
    retry_after = '1'


class Overloaded(BlockattachError):
    """There are more requests than can be served. Final: nothing was begun."""

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
    """Keystone did not check the token, which may be valid."""

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
    """Uncertain: this statement has done nothing; what was asked for may have begun before."""

    code = 'database.unavailable'
    status = 503
    shown = True
    text = 'Cannot reach the database. Retry the request later.'
    final = False
    retry_after = '1'


class DatabaseNotWritable(DatabaseUnavailable):
    """Read it can be: its disk is full, it is read-only, or its file was taken away."""

    code = 'database.not_writable'
    text = ('Cannot write to the database: the database is full or read-only. Retry the request '
            'later.')
    retry_after = '10'


class OutcomeUnknown(BlockattachError):
    """The database was lost while it committed, and did not come back in time to be asked."""

    code = 'database.outcome_unknown'
    status = 504
    shown = True
    text = ('The outcome of the request is unknown: the connection to the database was lost '
            'during a commit. Check the state of the resource before retrying the request.')
    final = False
    retry_after = '1'


class NovaUnavailable(BlockattachError):
    """Asked Nova and learnt nothing. Final: whatever was to be done was not begun."""

    code = 'nova.unavailable'
    status = 503
    shown = True
    text = ('Cannot detach volume %(volume_id)s: Nova did not report whether server '
            '%(server_id)s still uses the volume (%(reason)s). Nothing was changed. Retry the '
            'request later.')
    retry_after = '1'


class GlanceUnavailable(BlockattachError):
    """Glance was asked and did not answer, or not as it should."""

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
