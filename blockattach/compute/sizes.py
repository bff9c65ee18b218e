"""New sizes of volumes, as guests are shown them."""
import collections
import logging
from collections.abc import Sequence
from concurrent import futures

from blockattach import context
from blockattach import errors
from blockattach import log
from blockattach.compute.acts import work

LOG = logging.getLogger(__name__)


class Sizes:
    """Shows guests that volumes of their servers have become larger."""

    def __init__(self, tools: work.Tools, executor: futures.Executor) -> None:
        """
        :param executor: asks agents: one thread for each host of a request
        """
        self._tools = tools
        self._executor = executor

    def accept(self, caller: context.RequestContext,
               events: Sequence[tuple[str, str]]) -> list[bool]:
        """Return True for each event whose server has the volume; its guest sees the size
        later.

        A guest whose agent is down sees the size once it is started, or its volume is attached.

        :param events: ids of servers and of their volumes
        """
        rows = self._tools.store
        servers = {server.id: server for server in rows.servers(
            None, ids={server_id for server_id, _ in events})}
        volumes = {(device.server_id, device.volume_id)
                   for devices in rows.devices(servers).values() for device in devices}
        up = {agent.host for agent in rows.agents() if agent.up}
        by_host = collections.defaultdict(list)
        for event in dict.fromkeys(events):
            if event in volumes and servers[event[0]].host in up:
                by_host[str(servers[event[0]].host)].append(event)
        for host, its in by_host.items():
            self._executor.submit(self._show, caller, host, its)
        return [event in volumes for event in events]

    def _show(self, caller: context.RequestContext, host: str,
              events: Sequence[tuple[str, str]]) -> None:
        """Tell the agent of a host, event by event, until it is not reached."""
        # The service that sends an event need not see the volume.
        reader = context.admin_context(global_request_id=caller.global_id)
        sizes: dict[str, int] = {}
        for server_id, volume_id in events:
            try:
                if volume_id not in sizes:
                    sizes[volume_id] = self._tools.volumes.get(reader, volume_id).size_gb
                self._tools.agents.on(host).resize(caller, server_id, volume_id,
                                                   sizes[volume_id])
            except errors.ServiceUnreachable as exc:
                LOG.warning('Skipping new sizes of volumes: the agent is not reached%s',
                            log.fields(host=host, reason=exc))
                return
            except errors.BlockattachError as exc:
                LOG.warning('Server sees the new size of a volume once it is started anew%s',
                            log.fields(server_id=server_id, volume_id=volume_id, reason=exc))
            except Exception:
                LOG.exception('Failed to show a server the new size of a volume%s', log.fields(
                    server_id=server_id, volume_id=volume_id))
