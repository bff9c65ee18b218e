"""Every error of the service, as one tree.

    BlockattachError
    ├── InvalidInput                 the caller's mistake: nothing was changed
    │   ├── InvalidVolume            the volume is not in a state that allows it
    │   ├── NoPoolForVolume          no pool will do for the volume asked for
    │   ├── InvalidFilter            a list was asked for with an unknown filter
    │   ├── VolumeTypeInUse          a type that has volumes cannot be changed so
    │   ├── VolumeTypeEncryptionExists   a type is encrypted in one way
    │   ├── EncryptedMultiattach, KeyManagerMissing   it cannot be encrypted so
    │   ├── QosSpecsInUse, QosSpecsTaken   types have them; a type has one set at most
    │   ├── ConnectorUnusable        the connector lacks what the target needs
    │   ├── TransferKeyWrong         the transfer has another key
    │   └── VersionInvalid           the microversion cannot be read
    ├── NotAuthenticated, NotAuthorized   no identity; policy denies it
    ├── NotFound
    │   ├── RouteNotFound            also: an operation below its microversion
    │   ├── VolumeNotFound, AttachmentNotFound, VolumeTypeNotFound, VolumeTypeNameNotFound
    │   ├── ExtraSpecNotFound, VolumeTypeEncryptionNotFound
    │   ├── QosSpecsNotFound, QosSpecsKeyNotFound
    │   └── MessageNotFound, ServiceNotFound, PoolNotFound, TransferNotFound, WorkNotFound
    ├── Conflict
    │   ├── VolumeTypeExists, QosSpecsExist
    │   ├── VolumeTypeChanged        it has changed since the request was checked
    │   ├── VolumeInError            an attachment cannot be updated on a volume in error
    │   ├── VolumeAtWork             it is being made or removed: its status cannot be reset
    │   ├── DuplicateConnectors      a second host on a plain volume
    │   ├── InvalidTransition        the lifecycle has no such move
    │   ├── AttachmentBusy           another act on the same pair is under way
    │   ├── AttachmentInUseByServer  it must be detached in Nova first (CVE-2023-2088)
    │   │   └── AttachmentNotNamed   it is not known which attachment is meant
    │   ├── IdempotencyKeyReused, IdempotencyKeyTaken   another request's key; it is under way
    │   └── StaleGeneration          the row has moved since: a late call changes nothing
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
    ├── DatabaseUnavailable          rows cannot be read or written now (uncertain)
    │   └── DatabaseNotWritable      its disk is full, or it is read-only
    ├── OutcomeUnknown               lost the database while it committed (uncertain)
    ├── NovaUnavailable              whether a server uses an attachment is unknown: it stays
    ├── ServerHostUnknown            the host of a server that a hint names is unknown
    ├── NoValidPool                  every pool was refused; carries the reasons
    └── ConfigurationError           the operator must change something before we start

Each class has a stable ``code`` for logs and programs and a text for people. ``final`` says
whether a failure proves that nothing happened; only then may it be answered as one at once.
``retry_after`` says that it passes: the request may be repeated.
"""
from typing import Any

_LONGEST_VALUE = 200
_COMPOSED = ('reason', 'summary')
"""Fields that are texts of ours."""


def shortened(value: Any, most: int = _LONGEST_VALUE) -> Any:
    """As much of what a client sent as an error repeats."""
    return f'{value[:most]}...' if isinstance(value, str) and len(value) > most else value


class BlockattachError(Exception):
    """The root. Fields fill the class's text, unless the text is given whole."""

    code = 'internal'
    text = 'cannot do that: an unexpected error'
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


class InvalidInput(BlockattachError):
    code = 'request.invalid'
    text = '%(reason)s'


class InvalidVolume(InvalidInput):
    code = 'volume.invalid'
    text = 'Invalid volume: %(reason)s'


class NoPoolForVolume(InvalidInput):
    code = 'volume.no_pool'
    text = 'Invalid input received: No backend can hold this volume: %(summary)s'


class InvalidFilter(InvalidInput):
    code = 'request.invalid_filter'
    text = 'Invalid filters %(filters)s are found in query options.'


class VolumeTypeInUse(InvalidInput):
    code = 'volume_type.in_use'
    text = 'Volume Type is currently in use.'


class VolumeTypeEncryptionExists(InvalidInput):
    code = 'volume_type.encryption_exists'
    text = 'Volume type encryption for type %(volume_type_id)s already exists.'


class EncryptedMultiattach(InvalidInput):
    code = 'volume.encrypted_multiattach'
    text = 'Invalid volume: Multiattach cannot be used with encrypted volumes.'


class KeyManagerMissing(InvalidInput):
    code = 'volume.key_manager_missing'
    text = ('Invalid volume: Volumes of type %(volume_type)s are encrypted by their consumers '
            '(control_location front-end), and this service has no key manager that would keep '
            'their keys. Use a type that is encrypted in the back-end, or a plain one.')


class QosSpecsInUse(InvalidInput):
    code = 'qos_specs.in_use'
    text = 'Qos specs still in use.'


class QosSpecsTaken(InvalidInput):
    code = 'qos_specs.taken'
    text = ('Invalid volume type: Type %(volume_type_id)s is already associated with another qos '
            'specs: %(qos_specs_id)s')


class ConnectorUnusable(InvalidInput):
    code = 'connector.unusable'
    text = "Invalid input received: Connector doesn't have required information: %(missing)s"


class TransferKeyWrong(InvalidInput):
    code = 'transfer.key_wrong'
    text = 'Invalid auth key: Attempt to transfer %(transfer_id)s with invalid auth key.'


class NotAuthenticated(BlockattachError):
    code = 'auth.required'
    text = 'This request requires authentication.'


class NotAuthorized(BlockattachError):
    code = 'policy.refused'
    text = "Policy doesn't allow %(rule)s to be performed."


class NotFound(BlockattachError):
    code = 'not_found'
    text = 'The resource could not be found.'


class RouteNotFound(NotFound):
    code = 'route.not_found'


class VolumeNotFound(NotFound):
    code = 'volume.not_found'
    text = 'Volume %(volume_id)s could not be found.'


class AttachmentNotFound(NotFound):
    code = 'attachment.not_found'
    text = 'Volume attachment could not be found with filter: attachment_id = %(attachment_id)s.'


class VolumeTypeNotFound(NotFound):
    code = 'volume_type.not_found'
    text = 'Volume type %(volume_type_id)s could not be found.'


class VolumeTypeNameNotFound(NotFound):
    code = 'volume_type.name_not_found'
    text = 'Volume type with name %(name)s could not be found.'


class ExtraSpecNotFound(NotFound):
    code = 'volume_type.extra_spec_not_found'
    text = 'Volume Type %(volume_type_id)s has no extra specs with key %(key)s.'


class VolumeTypeEncryptionNotFound(NotFound):
    code = 'volume_type.encryption_not_found'
    text = 'Volume type encryption for type %(volume_type_id)s does not exist.'


class QosSpecsNotFound(NotFound):
    code = 'qos_specs.not_found'
    text = 'No such QoS spec %(qos_specs_id)s.'


class QosSpecsKeyNotFound(NotFound):
    code = 'qos_specs.key_not_found'
    text = 'QoS spec %(qos_specs_id)s has no spec with key %(key)s.'


class MessageNotFound(NotFound):
    code = 'message.not_found'
    text = 'Message %(message_id)s could not be found.'


class WorkNotFound(NotFound):
    code = 'work.not_found'
    text = 'Work %(work_id)s could not be found.'


class ServiceNotFound(NotFound):
    code = 'service.not_found'
    text = 'Service %(binary)s could not be found on host %(host)s.'


class PoolNotFound(NotFound):
    code = 'pool.not_found'
    text = 'Pool %(pool)s could not be found.'


class TransferNotFound(NotFound):
    code = 'transfer.not_found'
    text = 'Transfer %(transfer_id)s could not be found.'


class Conflict(BlockattachError):
    code = 'conflict'
    text = 'Resource conflict: %(reason)s'


class VolumeTypeExists(Conflict):
    code = 'volume_type.exists'
    text = 'Volume Type %(name)s already exists.'


class QosSpecsExist(Conflict):
    code = 'qos_specs.exist'
    text = 'QoS Specs %(name)s already exists.'


class VolumeTypeChanged(Conflict):
    code = 'volume_type.changed'
    text = ('Resource conflict: Volume type %(volume_type_id)s was changed while the volume was '
            'asked for; repeat the request.')
    retry_after = '1'


class VolumeInError(Conflict):
    code = 'volume.in_error'
    text = ('Resource conflict: Volume attachments can not be updated if the volume is in an '
            'error state. The Volume %(volume_id)s currently has a status of: %(status)s ')


class VolumeAtWork(Conflict):
    code = 'volume.at_work'
    text = ('Resource conflict: volume %(volume_id)s is %(own_status)s: this work ends by itself. '
            'Repeat the request then; only a volume being made can be given up (status error).')
    retry_after = '1'


class DuplicateConnectors(Conflict):
    code = 'attachment.duplicate_connectors'
    text = 'Resource conflict: duplicate connectors detected on volume %(volume_id)s'


class InvalidTransition(Conflict):
    code = 'attachment.invalid_transition'
    text = ('Resource conflict: cannot %(event)s an attachment that is %(state)s: '
            'allowed there: %(allowed)s')


class AttachmentBusy(Conflict):
    code = 'attachment.busy'
    text = ('Resource conflict: attachment %(attachment_id)s is being worked on by another '
            'request; repeat the request when it has ended')
    retry_after = '1'


class AttachmentInUseByServer(Conflict):
    """Clients know the sentence's first half from Cinder."""

    code = 'attachment.in_use_by_server'
    text = ('ConflictNovaUsingAttachment: Detach volume from instance %(instance_id)s using the '
            'Compute API. A service that has detached it there already sends its service token '
            'along (X-Service-Token).')


class AttachmentNotNamed(AttachmentInUseByServer):
    """The instance's id in the text is empty, as in Cinder."""

    code = 'attachment.not_named'
    text = ('ConflictNovaUsingAttachment: Detach volume from instance  using the Compute API, or '
            'name by attachment_id which of the %(count)s attachments of the volume is meant.')


class IdempotencyKeyReused(Conflict):
    code = 'idempotency.reused'
    text = 'Resource conflict: this Idempotency-Key was used for a request with another body'


class IdempotencyKeyTaken(Conflict):
    code = 'idempotency.taken'
    text = 'Resource conflict: a request with this Idempotency-Key is under way'
    retry_after = '1'


class StaleGeneration(Conflict):
    code = 'generation.stale'
    text = 'cannot go on with %(noun)s %(id)s: it has moved on since generation %(generation)s'


class VersionInvalid(InvalidInput):
    code = 'version.invalid'
    text = ('API Version String %(version)s is of invalid format. Must be of format '
            'MajorNum.MinorNum.')


class VersionNotAcceptable(BlockattachError):
    code = 'version.not_acceptable'
    text = ('Version %(requested)s is not supported by the API. Minimum is %(minimum)s and '
            'maximum is %(maximum)s.')


class MediaTypeNotSupported(BlockattachError):
    code = 'request.media_type'
    text = 'Unsupported Content-Type'


class QuotaExceeded(BlockattachError):
    code = 'quota.exceeded'
    text = ("%(kind)sLimitExceeded: Maximum number of %(resource)s allowed (%(limit)s) exceeded "
            "for quota '%(resource)s'.")
    retry_after = '0'


class BackendError(BlockattachError):
    """What a driver may raise; the core knows nothing finer than its two kinds."""

    code = 'backend.error'
    text = '%(reason)s'


class BackendRefused(BackendError):
    """Final: the backend is as it was before."""

    code = 'backend.refused'


class BackendFull(BackendRefused):
    code = 'backend.full'
    text = 'cannot place %(size_gb)s GiB: %(reason)s'


class BackendUncertain(BackendError):
    """The act may have happened, wholly or in part. A repeat must be safe."""

    code = 'backend.uncertain'
    final = False
    retry_after = '1'


class ServiceUnreachable(BlockattachError):
    """Called without an answer: the act may have happened."""

    code = 'bus.unreachable'
    text = 'cannot reach %(topic)s: no answer within %(seconds)s seconds'
    final = False
    retry_after = '1'


class ServiceSilent(BlockattachError):
    """Nobody was asked: it has sent no heartbeat for so long that it counts as down."""

    code = 'service.silent'
    text = 'Service %(binary)s on host %(host)s has sent no heartbeat for %(seconds)s seconds'


class DeadlinePassed(BlockattachError):
    """Final: a message that came too late, or would have, was not acted upon."""

    code = 'bus.deadline_passed'
    text = ('cannot %(method)s in time: the caller no longer waits. Nothing was changed by this '
            'request; repeat it later.')
    retry_after = '1'


class Overloaded(BlockattachError):
    """There are more requests than can be served. Final: nothing was begun."""

    code = 'queue.overloaded'
    text = ('cannot do that now: too much is asked for at once. Nothing was changed by this '
            'request; repeat it later.')
    retry_after = '5'


class QueueTimeout(Overloaded):
    code = 'queue.timeout'
    text = ('cannot do that in time: this request has waited in the queue for as long as it may. '
            'Nothing was changed by it; repeat it later.')


class QueueFull(Overloaded):
    code = 'queue.full'
    text = ('cannot let this request wait: too many do already. Nothing was changed by it; repeat '
            'it later.')


class BackendBusy(Overloaded):
    code = 'queue.backend_busy'
    text = ('cannot ask the backend of the volume in time: it is slow, and many wait for it. '
            'Nothing was changed by this request; repeat it later.')


class RequestAbandoned(BlockattachError):
    code = 'queue.abandoned'
    retry_after = '5'
    text = 'cannot answer: the client has hung up while the request waited. Nothing was begun.'


class IdentityUnavailable(BlockattachError):
    """Keystone did not check the token, which may be valid."""

    code = 'auth.unavailable'
    text = ('cannot authenticate the request: the identity service does not answer. Repeat the '
            'request later.')
    retry_after = '1'


class DatabaseUnavailable(BlockattachError):
    """Uncertain: this statement has done nothing; what was asked for may have begun before."""

    code = 'database.unavailable'
    text = 'cannot reach the database. Repeat the request later.'
    final = False
    retry_after = '1'


class DatabaseNotWritable(DatabaseUnavailable):
    """Read it can be: its disk is full, it is read-only, or its file was taken away."""

    code = 'database.not_writable'
    text = 'cannot write into the database: it is full or read-only. Repeat the request later.'
    retry_after = '10'


class OutcomeUnknown(BlockattachError):
    """The database was lost while it committed, and did not come back in time to be asked."""

    code = 'database.outcome_unknown'
    text = ('cannot tell whether the change is stored: the connection to the database was lost. '
            'Check whether it is there before you repeat the request.')
    final = False
    retry_after = '1'


class NovaUnavailable(BlockattachError):
    """Asked Nova and learnt nothing. Final: whatever was to be done was not begun."""

    code = 'nova.unavailable'
    text = ('cannot detach: Nova does not say whether server %(server_id)s still uses volume '
            '%(volume_id)s (%(reason)s). Nothing was changed; repeat the request later.')
    retry_after = '1'


class ServerHostUnknown(BlockattachError):
    """Nobody can say where a server runs: no pool counts as near it."""

    code = 'nova.server_host_unknown'
    text = 'cannot find the host of server %(server_id)s: %(reason)s'


class NoValidPool(BlockattachError):
    """Every pool was refused. ``reasons`` maps a pool's name to why."""

    code = 'scheduler.no_valid_pool'
    text = 'cannot find a pool for volume %(volume_id)s: %(summary)s'


class ConfigurationError(BlockattachError):
    code = 'configuration'
    text = '%(reason)s'
