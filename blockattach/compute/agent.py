"""Agent of one host, which executes calls of the compute API and reports the host's servers."""
import collections
import contextlib
import logging
import os
import threading
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent import futures
from typing import Any

from blockattach.compute import errors
from blockattach.compute import files
from blockattach.compute import interface
from blockattach.compute.hosts import base
from blockattach.platform import context
from blockattach.platform import log
from blockattach.platform.rpc import contract

LOG = logging.getLogger(__name__)

_FIRST = 1
# `spawn_all` has a lease for each server.
_FENCED = frozenset(contract.methods(interface.AgentInterface)) - {'fenced', 'spawn_all'}


class Fence:
    """Register of the newest lease under which the agent was called, for each server.

    The agent rejects calls under older leases. Therefore a process that hung cannot change a
    server after another process has taken its server action over.

    Leases on a server are numbered by generations. A server action gets the next generation when
    it begins, or when a process takes it over. Attaching and detaching actions, which may run at
    the same time, begin with the current generation of the server. When one of these actions is
    taken over, the others continue under the new generation.
    """

    def __init__(self, path: str | None) -> None:
        """
        :param path: file that stores the leases across restarts of the agent, or None if servers
            do not outlive the agent
        """
        self._path = path
        self._kept: dict[str, int] = {} if path is None else files.read(path) or {}
        self._newest = dict(self._kept)
        self._guard = threading.Lock()

    def admit(self, server_id: str, generation: int) -> None:
        """Check that no newer lease on a server was used, and reject older leases from now on.

        :param generation: generation of the lease
        :raises ActTakenOver: a newer lease on the server was used
        """
        with self._guard:
            newest = self._newest.get(server_id, _FIRST)
            if generation < newest:
                raise errors.ActTakenOver(
                    f'lease {generation} on server {server_id} was superseded by lease {newest}')
            # Stored before the call runs, because late calls may follow a restart of the agent.
            # No lease is older than the first, which needs no record.
            if generation > self._kept.get(server_id, _FIRST):
                self._keep({**self._kept, server_id: generation})
            self._newest[server_id] = generation

    def forget(self, server_id: str) -> None:
        """Delete the lease of a server from the file, after the server has left the host.

        The lease stays in memory until the process of the agent ends.
        """
        # The file would otherwise grow with each deleted server.
        with self._guard:
            if server_id in self._kept:
                self._keep({one: generation for one, generation in self._kept.items()
                            if one != server_id})

    def _keep(self, kept: dict[str, int]) -> None:
        if self._path is not None:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            files.write(self._path, kept)
        self._kept = kept


class AgentEndpoint(interface.AgentInterface):
    """RPC endpoint of the agent. Calls that change the same server are executed one by one."""

    def __init__(self, host: base.Host, executor: futures.Executor,
                 fence: Fence) -> None:
        """
        :param executor: executor in which `spawn_all` creates several servers in parallel
        """
        self._host = host
        self._executor = executor
        self._fence = fence
        self._locks: dict[str, threading.RLock] = {}
        self._ending: collections.Counter[str] = collections.Counter()
        """Number of waiting and running destroy calls, by server id."""
        self._guard = threading.Lock()

    def connector(self, ctxt: context.RequestContext, server_id: str) -> Mapping[str, Any]:
        with _foreseen('connector', server_id):
            return self._host.connector(server_id)

    def spawn(self, ctxt: context.RequestContext, guest: Mapping[str, Any]) -> None:
        with self._acting('spawn', guest['server_id']):
            self._host.spawn(interface.guest_of(guest))

    def define(self, ctxt: context.RequestContext, guest: Mapping[str, Any]) -> None:
        with self._acting('define', guest['server_id']):
            self._host.define(interface.guest_of(guest))

    def connectors(self, ctxt: context.RequestContext,
                   server_ids: Sequence[str]) -> Mapping[str, Any]:
        return {server_id: self.connector(ctxt, server_id) for server_id in server_ids}

    def spawn_all(self, ctxt: context.RequestContext,
                  guests: Sequence[Mapping[str, Any]],
                  generations: Mapping[str, int]) -> Mapping[str, str]:
        spawned = {guest['server_id']: self._executor.submit(
            self._spawn, ctxt, guest, generations[guest['server_id']]) for guest in guests}
        failed = {}
        for server_id, one in spawned.items():
            try:
                one.result()
            except Exception as exc:
                failed[server_id] = str(exc)
        return failed

    def _spawn(self, ctxt: context.RequestContext, guest: Mapping[str, Any],
               generation: int) -> None:
        # Log lines of this worker thread have the request id of the stored context.
        ctxt.update_store()
        self.fenced(ctxt, guest['server_id'], generation, 'spawn', [guest])

    def fenced(self, ctxt: context.RequestContext, server_id: str, generation: int, name: str,
               arguments: Sequence[Any]) -> Any:
        """Run another method under a lease.

        :raises ActTakenOver: a newer lease on the server was used before
        :raises InvalidInput: the method does not accept a lease
        """
        if name not in _FENCED:
            raise errors.InvalidInput(reason=f'method {name} does not accept a lease')
        # Calls under older leases on the server end first.
        with self._lock(server_id):
            self._fence.admit(server_id, generation)
            return getattr(self, name)(ctxt, *arguments)

    def start(self, ctxt: context.RequestContext, guest: Mapping[str, Any]) -> None:
        with self._acting('start', guest['server_id']):
            self._host.start(interface.guest_of(guest))

    def stop(self, ctxt: context.RequestContext, server_id: str) -> None:
        with self._acting('stop', server_id):
            self._host.stop(server_id)

    def reboot(self, ctxt: context.RequestContext, guest: Mapping[str, Any]) -> None:
        with self._acting('reboot', guest['server_id']):
            self._host.reboot(interface.guest_of(guest))

    def destroy(self, ctxt: context.RequestContext, server_id: str) -> None:
        with self._noted_as_ending(server_id), self._acting('destroy', server_id):
            self._host.destroy(server_id)
            self._fence.forget(server_id)

    def reported(self) -> Mapping[str, str]:
        """Return the power state of each server that the agent reports, by server id.

        Servers that are being destroyed are omitted, because their reports would cause further
        destroy calls.
        """
        found = self._host.servers()
        with self._guard:
            return {server_id: power.value for server_id, power in found.items()
                    if server_id not in self._ending}

    @contextlib.contextmanager
    def _noted_as_ending(self, server_id: str) -> Iterator[None]:
        with self._guard:
            self._ending[server_id] += 1
        try:
            yield
        finally:
            with self._guard:
                self._ending[server_id] -= 1
                # Unary plus drops the servers without pending calls.
                self._ending = +self._ending

    def plug(self, ctxt: context.RequestContext, server_id: str, disk: Mapping[str, Any]) -> None:
        with self._acting('plug', server_id, disk['volume_id']):
            self._host.plug(server_id, interface.disk_of(disk))

    def unplug(self, ctxt: context.RequestContext, server_id: str, volume_id: str) -> None:
        with self._acting('unplug', server_id, volume_id):
            self._host.unplug(server_id, volume_id)

    def resize(self, ctxt: context.RequestContext, server_id: str, volume_id: str,
               size_gb: int) -> None:
        with self._acting('resize', server_id, volume_id):
            self._host.resize(server_id, volume_id, size_gb)

    def swap(self, ctxt: context.RequestContext, server_id: str, volume_id: str,
             disk: Mapping[str, Any]) -> None:
        with self._acting('swap', server_id, volume_id):
            self._host.swap(server_id, volume_id, interface.disk_of(disk))

    def receive(self, ctxt: context.RequestContext, guest: Mapping[str, Any]) -> str:
        with self._acting('receive', guest['server_id']):
            return self._host.receive(interface.guest_of(guest))

    def send(self, ctxt: context.RequestContext, server_id: str, address: str) -> None:
        with self._acting('send', server_id):
            self._host.send(server_id, address)
            self._fence.forget(server_id)

    def servers(self, ctxt: context.RequestContext) -> Mapping[str, str]:
        with _foreseen('servers'):
            return {server_id: power.value for server_id, power in self._host.servers().items()}

    def disks(self, ctxt: context.RequestContext, server_id: str) -> Mapping[str, str]:
        with _foreseen('disks', server_id):
            return {volume_id: mode.value
                    for volume_id, mode in self._host.disks(server_id).items()}

    def _lock(self, server_id: str) -> threading.RLock:
        with self._guard:
            # Reentrant, because `fenced` holds the lock around a method that locks again.
            return self._locks.setdefault(server_id, threading.RLock())

    @contextlib.contextmanager
    def _acting(self, act: str, server_id: str, volume_id: str | None = None) -> Iterator[None]:
        """Serialize the block with other calls on the server, and log its success.

        :raises HostError: see `_foreseen`
        """
        with self._lock(server_id), _foreseen(act, server_id, volume_id):
            yield
        log.step(LOG, 'Server operation completed on host', server_id=server_id,
                 volume_id=volume_id, work=act)


@contextlib.contextmanager
def _foreseen(act: str, server_id: str | None = None,
              volume_id: str | None = None) -> Iterator[None]:
    """Translate unexpected exceptions of the host driver to errors for the compute API.

    :raises HostDefect: programming error; a retry would fail in the same way
    :raises HostError: any other exception; the call may have taken effect, and is retried
    """
    try:
        yield
    except errors.BlockattachError:
        raise
    except Exception as exc:
        LOG.exception('Failed to run operation on host%s', log.fields(
            server_id=server_id, volume_id=volume_id, work=act))
        if errors.is_defect(exc):
            raise errors.HostDefect(act=act, error=type(exc).__name__) from exc
        raise errors.HostError(reason=f'{act}: {exc}') from exc


class Reporter:
    """Sender of the agent's periodic reports, which contain the power states of its servers."""

    def __init__(self, name: str, kind: str, servers: Callable[[], Mapping[str, str]],
                 conductor: interface.ConductorInterface, pinned: str | None) -> None:
        """
        :param kind: kind of the host driver
        :param servers: function that returns the power state of each server by id
        :param pinned: older `AgentInterface` version to report, or None for the newest
        """
        self._name = name
        self._kind = kind
        self._servers = servers
        self._conductor = conductor
        self._version = pinned or contract.version(interface.AgentInterface)

    def report(self) -> None:
        """Send a report. If the compute API cannot be reached, only a warning is logged."""
        try:
            self._conductor.report(
                context.admin_context(), self._name, self._kind, self._version, self._servers())
        except errors.ServiceUnreachable as exc:
            LOG.warning('Failed to send agent report to the compute API%s', log.fields(reason=exc))
