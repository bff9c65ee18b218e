"""Choice of hosts for servers, and features of agents by their versions."""
import collections
from collections.abc import Iterable

from blockattach.compute import errors
from blockattach.compute import interface
from blockattach.compute import records
from blockattach.compute.store import store


def choose_hosts(rows: store.Store, servers: Iterable[Iterable[records.BlockDevice]],
                 without: Iterable[str] = (), only_host: str | None = None) -> list[str]:
    """Return a host for each server.

    The host has the fewest servers of all hosts with a suitable agent that is up.

    :param servers: block devices of each server
    :param without: names of hosts to exclude
    :param only_host: name of the only host to consider, or None to consider all hosts
    :raises ServerRequestInvalid: no host is suitable for one of the servers
    """
    busy = collections.Counter(rows.load())
    up = [agent for agent in rows.agents() if agent.up and agent.host not in set(without)
          and only_host in (None, agent.host)]
    chosen = []
    for devices in servers:
        read_only = any(device.mode == 'ro' for device in devices)
        fit = [agent.host for agent in up if not read_only or heeds_modes(agent)]
        if not fit:
            raise errors.ServerRequestInvalid(reason=(
                'No valid host was found. ' + (
                    f'The agent of host {only_host} is down or too old.' if only_host
                    else 'No suitable agent is up.')))
        chosen.append(min(fit, key=lambda host: (busy[host], host)))
        # The servers of one request are not stored yet.
        busy[chosen[-1]] += 1
    return chosen


def heeds_modes(agent: records.Agent) -> bool:
    """Return True if an agent prevents writes to volumes that are attached read-only."""
    return _number(agent.version) >= _number(interface.MODES_SINCE)


def knows_leases(version: str) -> bool:
    """Return True if agents of this version support leases and spawn several servers at once."""
    return _number(version) >= _number(interface.FENCED_SINCE)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split('.'))
