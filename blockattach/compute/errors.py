"""Errors of servers and of the hosts that run them, with Nova's texts for clients.

    BlockattachError
    ├── InvalidInput
    │   └── ServerRequestInvalid     invalid request for a server or one of its volumes
    ├── NotAuthorized
    │   └── MetadataLimitExceeded    the metadata quota of a server is exceeded
    ├── NotFound
    │   └── ServerNotFound, FlavorNotFound, ServerVolumeNotFound
    ├── Conflict
    │   ├── ActTakenOver             another process has taken the server action over
    │   ├── ServerStateConflict      the server's state does not allow the action
    │   └── AgentTooOld              the agent of the host does not support the request
    ├── StorageUnavailable           block storage failed, and a retry may succeed
    └── HostError                    operation failed on the host with unknown outcome
        ├── HostRefused              nothing has changed on the host
        ├── HostDefect               programming error, a retry would fail in the same way
        └── DeviceBusy               the guest does not release a disk, which stays attached
"""
# Handlers and server actions catch the errors of the platform through this module as well.
from blockattach.platform.errors import *  # noqa: F403
from blockattach.platform.errors import BlockattachError
from blockattach.platform.errors import Conflict
from blockattach.platform.errors import InvalidInput
from blockattach.platform.errors import NotAuthorized
from blockattach.platform.errors import NotFound


class ServerRequestInvalid(InvalidInput):
    code = 'server.invalid'
    text = '%(reason)s'


class MetadataLimitExceeded(NotAuthorized):
    """Metadata quota exceeded. Nova responds with 403."""

    code = 'server.metadata_limit'
    text = 'Maximum number of metadata items exceeds %(limit)s'


class ServerNotFound(NotFound):
    code = 'server.not_found'
    text = 'Instance %(server_id)s could not be found.'


class FlavorNotFound(NotFound):
    code = 'flavor.not_found'
    text = 'Flavor %(flavor_id)s could not be found.'


class ServerVolumeNotFound(NotFound):
    code = 'server.volume_not_found'
    text = 'volume_id not found: %(volume_id)s'


class ServerStateConflict(Conflict):
    code = 'server.state_conflict'
    text = ("Cannot '%(action)s' instance %(server_id)s while it is in %(attribute)s "
            '%(state)s')


class AgentTooOld(Conflict):
    code = 'server.agent_too_old'
    text = ('Cannot use attach_mode: the agent on host %(host)s supports version %(version)s, but '
            'version %(needed)s is required. Upgrade the agent first.')


class ActTakenOver(Conflict):
    """Server action taken over by another process, because its lease was not renewed in time."""

    code = 'server.act_taken_over'
    text = 'Action %(act_id)s was taken over by another process'


class StorageUnavailable(BlockattachError):
    """Block storage failure after which a retry may succeed.

    For example, the outcome of the request is unknown, or block storage reported a conflict.
    """

    code = 'server.storage_unavailable'
    status = 503
    shown = True
    text = 'Cannot reach the block storage service: %(reason)s'
    final = False
    retry_after = '5'


class HostError(BlockattachError):
    code = 'host.error'
    status = 500
    shown = True
    text = 'Operation on the host failed: %(reason)s'


class HostRefused(HostError):
    """Rejection of an operation that has changed nothing on the host."""

    code = 'host.refused'
    text = '%(reason)s'


class HostDefect(HostError):
    """Programming error on the host. A retry would fail in the same way."""

    code = 'host.defect'
    text = ('Operation %(act)s on the host failed with an internal error (%(error)s). See the log '
            'of the agent for the traceback.')


class DeviceBusy(HostError):
    """Detach rejected because the guest does not release the disk, which stays attached."""

    code = 'host.device_busy'
    text = ('Cannot detach volume %(volume_id)s from server %(server_id)s: the guest is using the '
            'volume')
