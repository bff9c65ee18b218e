"""Handover of stored work to the process that does it.

A call that fails loses no work, because the process also finds the work in the database.
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
    """Ask the manager of a backend to do work. If the call fails, the manager finds the work soon.

    :param host: ``host@backend`` of the pool that has the volume
    """
    assert host is not None
    try:
        parts.volume_services.on(host).start_work(
            caller, claim.noun, claim.verb, claim.resource_id, claim.generation)
    except errors.ServiceUnreachable as exc:
        LOG.warning('Failed to call the volume service, will retry soon%s', log.fields(
            work=claim.name, resource_id=claim.resource_id, reason=exc))
        # Otherwise the manager would find the work only after its deadline.
        work.hasten(parts.database, claim)


def place(parts: volume_parts.VolumeParts, caller: context.RequestContext, volume_id: str,
          read: Callable[[], pools.VolumeRequest]) -> None:
    """Ask the scheduler for a pool. If the call fails, a scheduler finds the work at the deadline.

    :param read: returns the requirements of the volume; may raise an error if the volume was
        changed concurrently
    """
    try:
        parts.scheduler.place_volume(caller, objects.VolumeRequest.from_domain(read()))
    except errors.BlockattachError as exc:
        LOG.warning('Failed to call the scheduler, will retry at the deadline%s',
                    log.fields(volume_id=volume_id, reason=exc))


def place_stored(parts: volume_parts.VolumeParts, caller: context.RequestContext,
                 volume_id: str) -> None:
    """Ask the scheduler for a pool for the work that the database has on a volume."""
    place(parts, caller, volume_id, lambda: placing_facts.request(parts.database, volume_id))
