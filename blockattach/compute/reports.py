"""Comparison of agent reports with the database.

The comparison finds servers that are deleted or on a wrong host, guests that stopped by
themselves, and disks whose volumes were released while an agent was down.
"""
import contextlib
import logging
import threading
import uuid
from collections.abc import Callable
from collections.abc import Mapping
from concurrent import futures

from blockattach.compute import errors
from blockattach.compute import interface
from blockattach.compute import lifecycle
from blockattach.compute import placement
from blockattach.compute import records
from blockattach.compute.hosts import base
from blockattach.compute.store import store
from blockattach.platform import clock as clocks
from blockattach.platform import context
from blockattach.platform import log
from blockattach.storage.domain import connection

LOG = logging.getLogger(__name__)

_END_SECONDS = 60.0
"""Timeout in seconds of a call that destroys a server on a wrong host.

After the timeout, the next report of the server causes another call.
"""


class Reports:
    """Consumer of agent reports, which removes differences between hosts and the database."""

    def __init__(self, rows: store.Store, agents: interface.Agents, executor: futures.Executor,
                 clock: clocks.Clock,
                 detach: Callable[[context.RequestContext, str, records.BlockDevice],
                                  object]) -> None:
        """
        :param executor: executor for calls of agents
        :param detach: function that records a block device of a server, and begins to detach
            its volume
        """
        self._store = rows
        self._agents = agents
        self._executor = executor
        self._clock = clock
        self._detach = detach
        self._returned: set[tuple[str, str]] = set()
        """Host names and server ids of servers whose disks must be compared.

        The agents of these hosts were down.
        """
        self._ending: set[tuple[str, str]] = set()
        """Host names and server ids of servers that are being destroyed on wrong hosts."""
        self._guard = threading.Lock()

    def hear(self, ctxt: context.RequestContext, host: str, version: str,
             servers: Mapping[str, str], returned: bool) -> None:
        """Compare the servers in a report of an agent with the database.

        :param servers: power states by server id
        :param returned: True if the agent was down or unknown before this report
        """
        for server_id, power in servers.items():
            if self._is_stray(host, server_id):
                self._begin_to_end(ctxt, host, version, server_id)
                continue
            if returned:
                # Kept until the disks are compared, because only one report has ``returned`` set.
                self._returned.add((host, server_id))
            if power == base.Power.STOPPED:
                self._executor.submit(self._compare_power, ctxt, host, server_id)

    def look(self) -> None:
        """Compare the disks of the servers on hosts whose agents have returned."""
        for host, server_id in self._returned.copy():
            self._executor.submit(self._compare_disks, host, server_id)

    def _is_stray(self, host: str, server_id: str) -> bool:
        # Check for actions before the host, because an action may end in between.
        if self._store.is_at_work(server_id):
            return False
        try:
            server = self._store.server(server_id)
        except errors.ServerNotFound:
            return True
        # The guest of a resized server has left its old host.
        return host != server.host

    def _begin_to_end(self, ctxt: context.RequestContext, host: str, version: str,
                      server_id: str) -> None:
        """Begin to destroy a server on a wrong host, unless an earlier call is still running."""
        with self._guard:
            if (host, server_id) in self._ending:
                return
            self._ending.add((host, server_id))
        LOG.warning('Guest found on wrong host%s', log.fields(
            server_id=server_id, host=host))
        ended = self._executor.submit(self._end, ctxt, host, version, server_id)
        ended.add_done_callback(lambda _done: self._ending.discard((host, server_id)))

    def _end(self, ctxt: context.RequestContext, host: str, version: str,
             server_id: str) -> None:
        agent = self._agents.on(host)
        if placement.knows_leases(version):
            with contextlib.suppress(errors.ServerNotFound):
                # The lease from before the check, so that the agent rejects the call for a server
                # that returns after the check.
                agent = interface.by_lease(
                    agent, server_id, self._store.server(server_id).generation)
        if not self._is_stray(host, server_id):
            # The server has moved to this host since the report.
            return
        caller = context.admin_context(request_id=ctxt.request_id)
        caller.deadline = self._clock.monotonic() + _END_SECONDS
        try:
            agent.destroy(caller, server_id)
        except errors.BlockattachError as exc:
            LOG.warning('Failed to destroy server on host, will retry%s', log.fields(
                server_id=server_id, host=host, reason=exc))

    def _compare_power(self, ctxt: context.RequestContext, host: str, server_id: str) -> None:
        """Record that a guest has stopped by itself, if its host still reports this state.

        The host is queried because the report may be older than the last server action.
        """
        try:
            server = self._store.server(server_id)
            if (server.vm_state is lifecycle.VmState.ACTIVE and server.host == host
                    and self._agents.on(host).servers(ctxt).get(server_id) == base.Power.STOPPED
                    and self._store.has_stopped(server)):
                LOG.warning('Server stopped unexpectedly%s', log.fields(server_id=server_id))
        except errors.BlockattachError as exc:
            LOG.warning('Failed to compare server state with host, will retry%s', log.fields(
                server_id=server_id, host=host, reason=exc))

    def _compare_disks(self, host: str, server_id: str) -> None:
        """Detach the disks of a server that are not recorded in the database.

        Nothing is done while a server action is in progress, because the action may be attaching
        or detaching a disk. A later call of `look` compares the disks.
        """
        if self._store.is_at_work(server_id):
            return
        try:
            server = self._store.server(server_id)
            if server.host == host:
                self._detach_strays(server, self._agents.on(host).disks(
                    context.admin_context(), server_id))
        except errors.NotFound:
            # The server or its volume was deleted, so there is nothing to detach.
            pass
        except errors.BlockattachError as exc:
            LOG.warning('Failed to compare server volumes with host, will retry%s', log.fields(
                server_id=server_id, host=host, reason=exc))
            return
        self._returned.discard((host, server_id))

    def _detach_strays(self, server: records.Server, disks: Mapping[str, str]) -> None:
        known = {one.volume_id for one in self._store.devices([server.id])[server.id]}
        caller = context.RequestContext(project_id=server.project_id, user_id=server.user_id,
                                        is_admin=True, overwrite=False)
        for volume_id in disks.keys() - known:
            LOG.warning('Detaching volume from server%s', log.fields(
                server_id=server.id, volume_id=volume_id, host=server.host,
                reason='no attachment recorded'))
            # Recorded until detached, so that the volume cannot be attached again meanwhile.
            self._detach(caller, server.id, records.BlockDevice(
                str(uuid.uuid4()), server.id, volume_id, '',
                connection.AccessMode(disks[volume_id]), 'attached'))
