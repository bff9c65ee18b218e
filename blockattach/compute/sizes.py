"""Notification of guests about the new sizes of their volumes."""
import collections
import logging
from collections.abc import Sequence
from concurrent import futures

from blockattach.compute.acts import work
from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import log

LOG = logging.getLogger(__name__)


class Sizes:
    """Notifier of guests whose volumes have become larger."""

    def __init__(self, tools: work.Tools, executor: futures.Executor) -> None:
        """
        :param executor: executor that gets one task per request and host, which calls the agent
        """
        self._tools = tools
        self._executor = executor

    def accept(self, caller: context.RequestContext,
               events: Sequence[tuple[str, str]]) -> list[bool]:
        """Accept ``volume-extended`` events, and notify the guests in other threads.

        If the agent is down, the guest sees the new size when the guest is started, or when the
        volume is attached again.

        :param events: server id and volume id of each event
        :returns: for each event, True if the server has the volume
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
        """Notify guests of one host through its agent. Failures are only logged.

        :param events: server id and volume id of each event
        """
        # The service that sends an event may not be able to see the volume.
        reader = context.admin_context(global_request_id=caller.global_id)
        sizes: dict[str, int] = {}
        for server_id, volume_id in events:
            try:
                if volume_id not in sizes:
                    sizes[volume_id] = self._tools.volumes.get(reader, volume_id).size_gb
                self._tools.agents.on(host).resize(caller, server_id, volume_id,
                                                   sizes[volume_id])
            except errors.ServiceUnreachable as exc:
                # Each further call would wait for its own timeout.
                LOG.warning('Skipping notification of extended volumes%s',
                            log.fields(host=host, reason=exc))
                return
            except errors.BlockattachError as exc:
                LOG.warning('Failed to notify guest of new volume size, guest will see it after '
                            'its next start%s', log.fields(
                                server_id=server_id, volume_id=volume_id, reason=exc))
            except Exception:
                LOG.exception('Failed to notify guest of new volume size%s', log.fields(
                    server_id=server_id, volume_id=volume_id))
