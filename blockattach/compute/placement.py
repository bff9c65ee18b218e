"""Which host a server goes to, and what the agents of hosts can do by their versions."""
import collections
from collections.abc import Iterable

from blockattach.compute import errors
from blockattach.compute import interface
from blockattach.compute import records
from blockattach.compute.store import store


def choose_hosts(rows: store.Store, servers: Iterable[Iterable[records.BlockDevice]],
                 without: Iterable[str] = (), wanted: str | None = None) -> list[str]:
    """A host for each of these servers: the one with the fewest, of those whose agents are up and
    can do it.

    :param servers: the volumes of each
    :param wanted: the only host in question
    :raises ServerRequestInvalid: there is none for one of them
    """
    busy = collections.Counter(rows.load())
    up = [agent for agent in rows.agents() if agent.up and agent.host not in set(without)
          and wanted in (None, agent.host)]
    chosen = []
    for devices in servers:
        read_only = any(device.mode == 'ro' for device in devices)
        fit = [agent.host for agent in up if not read_only or heeds_modes(agent)]
        if not fit:
            raise errors.ServerRequestInvalid(reason=(
                'No valid host was found. ' + (
                    f'The agent of host {wanted} is down or too old.' if wanted
                    else 'No suitable agent is up.')))
        chosen.append(min(fit, key=lambda host: (busy[host], host)))
        busy[chosen[-1]] += 1
    return chosen


def heeds_modes(agent: records.Agent) -> bool:
    """Whether an agent keeps a server from writing to a volume that is read-only for it."""
    return _number(agent.version) >= _number(interface.MODES_SINCE)


def knows_leases(version: str) -> bool:
    """Whether an agent of this version refuses what is asked for by a lease that is over, and
    spawns several servers at once.
    """
    return _number(version) >= _number(interface.FENCED_SINCE)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split('.'))
