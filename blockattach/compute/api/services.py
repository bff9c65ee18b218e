"""What the handlers of the compute API may use, put together by the wiring."""
import dataclasses
from collections.abc import Mapping

from blockattach import clock
from blockattach import context
from blockattach import errors
from blockattach.compute import conductor
from blockattach.compute import interface
from blockattach.compute import records
from blockattach.compute import storage
from blockattach.compute.acts import work
from blockattach.compute.store import store
from blockattach.policy import enforcer


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeServices:
    """Reads go to the store, acts to the conductor, questions of right to the policy."""

    database: store.Store
    policy: enforcer.Enforcer
    conductor: conductor.Conductor
    attachments: storage.Attachments
    volumes: storage.Volumes
    flavors: Mapping[str, records.Flavor]
    clock: clock.Clock


def server(caller: context.RequestContext, database: store.Store,
           server_id: str) -> records.Server:
    """A server of the caller's project, or of any for an administrator.

    :raises ServerNotFound: there is none that the caller may see
    """
    found = database.server(server_id)
    if found.project_id != caller.project_id and not caller.is_admin:
        raise errors.ServerNotFound(server_id=server_id)
    return found


def heeds_modes(agent: records.Agent) -> bool:
    """Whether an agent keeps a server from writing to what is read-only for it."""
    return work.heeds_modes(agent)


def too_old(agent: records.Agent) -> errors.AgentTooOld:
    """An agent does not heed modes."""
    return errors.AgentTooOld(host=agent.host, version=agent.version,
                              needed=interface.MODES_SINCE)
