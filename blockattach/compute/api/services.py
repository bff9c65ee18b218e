"""Dependencies of the handlers of the compute API."""
import dataclasses
import re
from collections.abc import Mapping

from blockattach.compute import conductor
from blockattach.compute import errors
from blockattach.compute import interface
from blockattach.compute import policy as policies
from blockattach.compute import records
from blockattach.compute import storage
from blockattach.compute.store import store
from blockattach.platform import clock
from blockattach.platform import context
from blockattach.platform.http import operation
from blockattach.platform.policy import enforcer

_HIDDEN = '***'
# IPv6 addresses are only found in brackets, as in the portals of targets.
_ADDRESS = re.compile(r'\b\d{1,3}(\.\d{1,3}){3}\b|\[[0-9a-f.]*:[0-9a-f:.]*\]', re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeServices:
    """Dependencies of the handlers of the compute API.

    Handlers read from the store, begin server actions through the conductor, and check the policy.
    """

    database: store.Store
    policy: enforcer.Enforcer
    conductor: conductor.Conductor
    attachments: storage.Attachments
    volumes: storage.Volumes
    flavors: Mapping[str, records.Flavor]
    clock: clock.Clock


def server(caller: context.RequestContext, database: store.Store,
           server_id: str) -> records.Server:
    """Return a server of the caller's project, or of any project for an administrator.

    :raises ServerNotFound: the server does not exist or the caller may not see it
    """
    found = database.server(server_id)
    if found.project_id != caller.project_id and not caller.is_admin:
        raise errors.ServerNotFound(server_id=server_id)
    return found


def too_old(services: ComputeServices, call: operation.Call,
            agent: records.Agent) -> errors.AgentTooOld:
    """Return the error for an agent that does not support the access modes of volumes.

    The host name is hidden from callers who may not see hosts.
    """
    host = agent.host if _may_see_hosts(services, call, call.context.project_id) else _HIDDEN
    return errors.AgentTooOld(host=host, version=agent.version, needed=interface.MODES_SINCE)


def reason(services: ComputeServices, call: operation.Call, server: records.Server,
           text: str) -> str:
    """Return the reason why a server action failed, in the form that the caller may see.

    Host names and IP addresses are replaced for callers who may not see hosts.
    """
    if _may_see_hosts(services, call, server.project_id):
        return text
    # Longest first, because one name may be a part of another.
    for host in sorted((agent.host for agent in services.database.agents()), key=len,
                       reverse=True):
        text = text.replace(host, _HIDDEN)
    return _ADDRESS.sub(_HIDDEN, text)


def _may_see_hosts(services: ComputeServices, call: operation.Call,
                   project_id: str | None) -> bool:
    return services.policy.allowed(call.context, policies.SEE_HOST, project_id)
