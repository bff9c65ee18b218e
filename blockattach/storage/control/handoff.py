"""RPC calls that ask another process to execute work that is stored in the database.

If a call fails, no work is lost, because the other process also finds the work in the database.
"""
from collections.abc import Callable

from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import log
from blockattach.storage import objects
from blockattach.storage.control import volume_parts
from blockattach.storage.db import work
from blockattach.storage.db.volumes import placing_facts
from blockattach.storage.domain import pools
from blockattach.storage.domain import records

LOG = oslo_log.getLogger(__name__)


def start_work(parts: volume_parts.VolumeParts, caller: context.RequestContext,
               claim: records.Claim, host: str | None) -> None:
    """Ask the manager of a backend to execute work.

    If the manager cannot be called, its next recovery pass finds the work.

    :param claim: claim on the work, without an owner
    :param host: ``host@backend`` of the manager
    """
    assert host is not None
    try:
        parts.volume_services.on(host).start_work(
            caller, claim.noun, claim.verb, claim.resource_id, claim.generation)
    except errors.ServiceUnreachable as exc:
        LOG.warning('Failed to call the volume service, will retry soon%s', log.fields(
            work=claim.name, resource_id=claim.resource_id, reason=exc))
        # Without `hasten`, the manager would find the work only after its deadline.
        work.hasten(parts.database, claim)


def place(parts: volume_parts.VolumeParts, caller: context.RequestContext, volume_id: str,
          read: Callable[[], pools.VolumeRequest]) -> None:
    """Ask a scheduler to place the work on a volume.

    If the call fails, a scheduler finds the work after its deadline.

    :param read: function that returns the requirements of the volume. It may raise an error if the
        volume was changed concurrently
    """
    try:
        parts.scheduler.place_volume(caller, objects.VolumeRequest.from_domain(read()))
    except errors.BlockattachError as exc:
        LOG.warning('Failed to call the scheduler, will retry at the deadline%s',
                    log.fields(volume_id=volume_id, reason=exc))


def place_stored(parts: volume_parts.VolumeParts, caller: context.RequestContext,
                 volume_id: str) -> None:
    """Ask a scheduler to place the work on a volume, with the requirements in the database."""
    place(parts, caller, volume_id, lambda: placing_facts.request(parts.database, volume_id))
