"""Execution context of one server action (act), and the idempotent operations of its steps."""
import contextlib
import dataclasses
import functools
import logging
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from blockattach.compute import errors
from blockattach.compute import interface
from blockattach.compute import placement
from blockattach.compute import records
from blockattach.compute import storage
from blockattach.compute.hosts import base
from blockattach.compute.store import store
from blockattach.platform import clock as clocks
from blockattach.platform import context
from blockattach.platform import log

LOG = logging.getLogger(__name__)


class WentOn(Exception):
    """Signal that a server action has passed its point of no return and must not be undone."""


class Step(NamedTuple):
    """Step of a server action. ``undo`` is None if there is nothing to undo.

    The function ``undo`` raises `WentOn` if the step has taken effect and cannot be undone.
    """

    name: str
    do: Callable[[], None]
    undo: Callable[[], None] | None = None


class Plan(NamedTuple):
    """Steps of a server action, and the columns of the server to update at its end.

    :ivar undoable: steps that are undone in reverse order if one of them fails
    :ivar finishing: steps that run after the undoable steps, and are repeated until they succeed
    :ivar done: columns of the server to update on success. A ``vm_state`` among these columns
        replaces `lifecycle.Verb.becomes`
    :ivar failed: columns of the server to update after all steps were undone, in addition to
        ``fault``
    :ivar refused: function that is called with the error if a finishing step is rejected, before
        the action ends as failed; None to retry the action later
    """

    undoable: Sequence[Step] = ()
    finishing: Sequence[Step] = ()
    done: Mapping[str, Any] = {}
    failed: Mapping[str, Any] = {}
    refused: Callable[[Exception], None] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Tools:
    """Dependencies of all server actions of one process."""

    store: store.Store
    agents: interface.Agents
    attachments: storage.Attachments
    volumes: storage.Volumes
    clock: clocks.Clock


class Work:
    """Execution context of one server action, with operations on its server."""

    def __init__(self, tools: Tools, act: records.Act, caller: context.RequestContext) -> None:
        self.tools = tools
        self.act = act
        self.caller = caller
        self.store = tools.store.of_act(act)
        self.last_host: str | None = None
        """Name of the host whose agent was called last."""
        self.generation = act.generation
        """Generation of the lease under which agents are called (`blockattach.compute.agent`)."""

    def check_lease(self) -> int:
        """Check that this process still holds the action, and return the server's generation.

        :raises ActTakenOver: another process has taken the server action over
        """
        generation = self.tools.store.generation(self.act)
        if generation is None:
            raise errors.ActTakenOver(act_id=self.act.id)
        # The generation changes if another action on the same server was taken over.
        self.generation = generation
        return generation

    @property
    def server(self) -> records.Server:
        """Record of the server, read from the database at each access."""
        return self.tools.store.server(self.act.server_id)

    @property
    def devices(self) -> list[records.BlockDevice]:
        """Block devices of the server, read from the database at each access."""
        return self.tools.store.devices([self.act.server_id])[self.act.server_id]

    def agent(self, host: str | None) -> interface.AgentInterface:
        """Return the RPC client of a host's agent, with a lease if the agent supports leases.

        :raises HostRefused: the host is None
        """
        found = self.plain_agent(host)
        if host not in self._fencing:
            return found
        return interface.by_lease(found, self.act.server_id, self.generation, self.check_lease)

    @functools.cached_property
    def _fencing(self) -> Collection[str]:
        """Names of the hosts whose agents support leases."""
        return {agent.host for agent in self.tools.store.agents()
                if placement.knows_leases(agent.version)}

    def fence(self) -> None:
        """Invalidate older leases on the server at the agents of its hosts.

        Afterwards the agents reject calls of the process that held the server action before, so
        that their answers stay valid. An agent that is down is not called. In this case, the steps
        of the action disconnect the host from the volumes instead.
        """
        server = self.server
        for host in {server.host, server.old_host} & set(self._fencing):
            if self.is_up(host):
                # An agent records the lease of any call. This call changes nothing.
                self.agent(host).servers(self.caller)

    def plain_agent(self, host: str | None) -> interface.AgentInterface:
        """Return the RPC client of the agent on a host, which sends no lease.

        Use this client only for calls that change no server, or that have leases as an argument.
        Use `agent` for all other calls.

        :raises HostRefused: the host is None
        """
        if host is None:
            raise errors.HostRefused(reason=f'server {self.act.server_id} has no host')
        self.last_host = host
        return self.tools.agents.on(host)

    def is_up(self, host: str | None) -> bool:
        return host in {agent.host for agent in self.tools.store.agents() if agent.up}

    def create(self, device: records.BlockDevice, connector: Mapping[str, Any] | None, key: str,
               kept_as: str, volume_id: str | None = None) -> storage.Attachment:
        """Create an attachment of a volume to the server, and record its id in the block device.

        :param connector: connector properties of the host, or None to only reserve the volume
        :param key: part of the idempotency key, unique among the requests of the server action
        :param kept_as: name of the device column for the attachment id
        :param volume_id: volume to attach, or None for the volume of the block device
        :raises ActTakenOver: another process has taken the server action over. The new attachment
            is deleted, unless that process has recorded the attachment
        """
        attachment = self._make(device, connector, key, volume_id)
        self._keep(device, attachment, kept_as)
        return attachment

    def _make(self, device: records.BlockDevice, connector: Mapping[str, Any] | None, key: str,
              volume_id: str | None = None) -> storage.Attachment:
        # The key is the same after a restart, so that a repeated request creates nothing.
        return self.tools.attachments.create(
            self.caller, volume_id or device.volume_id, self.act.server_id, device.mode.value,
            connector, f'{self.act.id}-{key}')

    def _keep(self, device: records.BlockDevice, attachment: storage.Attachment,
              kept_as: str) -> None:
        for exc in _keep_all([_Connected(self, device, attachment)], kept_as).values():
            raise exc

    def guest(self, disks: Iterable[base.Disk]) -> dict[str, Any]:
        return _guest(self.server, disks)

    @staticmethod
    def disk(device: records.BlockDevice, info: Mapping[str, Any]) -> base.Disk:
        return base.Disk(device.volume_id, device.device, device.mode, device.shared, info)

    def reserve(self, device: records.BlockDevice) -> None:
        """Reserve a volume for the server, unless it is reserved already."""
        if device.attachment_id is None:
            self.create(device, None, device.id, 'attachment_id')

    def release(self, device: records.BlockDevice) -> None:
        """Delete both attachments of a block device, and unrecorded attachments of its volume."""
        for name in ('next_attachment_id', 'attachment_id'):
            attachment_id = getattr(device, name)
            if attachment_id is not None:
                self.tools.attachments.delete(self.caller, attachment_id)
                self.store.change_device(device.id, **{name: None})
        self.release_unknown(device.volume_id)

    def release_next(self) -> None:
        """Delete the additional and the unrecorded attachments of all volumes of the server."""
        for device in self.devices:
            if device.next_attachment_id is not None:
                self.tools.attachments.delete(self.caller, device.next_attachment_id)
                self.store.change_device(device.id, next_attachment_id=None)
            self.release_unknown(device.volume_id)

    def release_leftovers(self) -> None:
        """Call `release_next` if an earlier server action left additional attachments."""
        if any(device.next_attachment_id is not None for device in self.devices):
            self.release_next()

    def release_unknown(self, volume_id: str | None) -> None:
        """Delete unrecorded attachments of the server, which remain if a response was lost.

        :param volume_id: volume of the attachments, or None for all volumes
        :raises ActTakenOver: another process has taken the server action over, and may be about
            to record the attachments
        """
        found = self.tools.attachments.of_server(self.caller, self.act.server_id, volume_id)
        known = self.known()
        unknown = [one for one in found if one not in known]
        if unknown:
            self.check_lease()
        for attachment_id in unknown:
            self.tools.attachments.delete(self.caller, attachment_id)

    def known(self) -> set[str | None]:
        """Return the ids of the recorded attachments of the server. The set may contain None."""
        return {attachment_id for device in self.devices
                for attachment_id in (device.attachment_id, device.next_attachment_id)}

    def release_all(self) -> None:
        for device in self.devices:
            self.release(device)

    def connector(self, host: str | None) -> dict[str, Any]:
        """Return the connector properties of a host for the server, after `check_modes`."""
        self.check_modes(host)
        return dict(self.plain_agent(host).connector(self.caller, self.act.server_id))

    def check_modes(self, host: str | None) -> None:
        """Check that the agent of a host enforces the access modes of the volumes.

        :raises HostRefused: the server has a read-only volume and the agent is too old
        """
        _check_modes(self.tools.store, host, self.devices)

    @staticmethod
    def of_device(connector: Mapping[str, Any], device: records.BlockDevice) -> dict[str, Any]:
        """Return connector properties with the device name and mode of a block device added."""
        return {**connector, 'mountpoint': device.device, 'mode': device.mode.value}

    def connect(self, connector: Mapping[str, Any],
                device: records.BlockDevice) -> storage.Attachment:
        """Connect a host to the volume of a device, and record the attachment if it is new.

        :raises ActTakenOver: another process has taken the server action over
        """
        found = self.connect_unkept(connector, device)
        if device.attachment_id != found.id:
            self._keep(device, found, 'attachment_id')
        return found

    def connect_unkept(self, connector: Mapping[str, Any],
                       device: records.BlockDevice) -> storage.Attachment:
        """Connect a host to a volume like `connect`, but do not record a new attachment."""
        own = self.of_device(connector, device)
        if device.attachment_id is None:
            return self._make(device, own, device.id)
        try:
            found = self.tools.attachments.update(self.caller, device.attachment_id, own)
        except errors.NotFound:
            # The attachment was deleted by another client, but the server still has the volume.
            return self._make(device, own, f'{device.id}-{device.attachment_id}-anew')
        try:
            self.check_lease()
        except errors.ActTakenOver:
            # The update has reverted a completion by the other process.
            self._complete(device.attachment_id)
            raise
        return found

    def complete(self, device: records.BlockDevice, attachment_id: str) -> None:
        """Complete an attachment, and record the volume as attached.

        A missing attachment is not an error.
        """
        self._complete(attachment_id)
        self.note_attached(device)

    def note_attached(self, device: records.BlockDevice) -> None:
        if device.state != 'attached':
            self.store.change_device(device.id, state='attached')

    def _complete(self, attachment_id: str) -> None:
        with contextlib.suppress(errors.NotFound):
            self.tools.attachments.complete(self.caller, attachment_id)

    def complete_all(self) -> None:
        for device in self.devices:
            if device.attachment_id is not None:
                self.complete(device, device.attachment_id)

    def put(self, host: str | None, running: bool = True) -> None:
        """Connect a host to the server's volumes, create the guest, and complete the attachments.

        :param running: True to start the guest, False to leave the server stopped
        """
        for exc in put_all([self], host, running).values():
            raise exc

    def spawn(self, host: str | None, guest: Mapping[str, Any], running: bool) -> None:
        """Create a guest on a host, and start the guest if ``running`` is True."""
        agent = self.agent(host)
        if not running and host in self._fencing:
            agent.define(self.caller, guest)
            return
        # An older agent cannot define a server without running it.
        agent.spawn(self.caller, guest)
        if not running:
            agent.stop(self.caller, self.act.server_id)

    def shut_down(self, host: str | None) -> None:
        """Shut down a guest to flush its writes, if the host's agent is up and has the guest."""
        if self.is_up(host):
            with contextlib.suppress(errors.HostRefused):
                self.agent(host).stop(self.caller, self.act.server_id)

    def leave(self, host: str | None) -> None:
        """Destroy the server on a host, if the agent of the host is up.

        If the agent is down, the server is destroyed when the agent returns. Until then, the
        caller must keep the host disconnected from the volumes.
        """
        if self.is_up(host):
            self.agent(host).destroy(self.caller, self.act.server_id)

    def choose_host(self, without: Iterable[str] = (), only_host: str | None = None) -> str:
        """Return the name of a suitable host for the server; see `placement.choose_hosts`."""
        return placement.choose_hosts(self.store, [self.devices], without, only_host)[0]

    def noted(self, key: str) -> str | None:
        """Return a value that `note` has stored, or None if there is no such value."""
        return self.store.notes(self.act.id).get(key)

    def note(self, key: str, value: str | None) -> None:
        """Store a value with the server action, for a process that takes the action over."""
        self.store.note(self.act.id, {key: value})
        log.step(LOG, 'Server action progress recorded', server_id=self.act.server_id,
                 work=self.act.verb, keys=key, new=value)


def put_all(items: Sequence[Work], host: str | None,
            running: bool = True) -> dict[str, Exception]:
    """Connect a host to the volumes of servers, create the guests, and complete the attachments.

    :param items: server action of each server. All actions have the same caller. More than one
        action requires an agent that supports `AgentInterface.spawn_all`
    :param running: True to start the guests, False to leave the servers stopped
    :returns: error of each failed server, by server id. The caller must undo the server action of
        each failed server
    """
    by_id = {item.act.server_id: item for item in items}
    rows = items[0].tools.store
    failed: dict[str, Exception] = {}
    connected: dict[str, list[_Connected]] = {server_id: [] for server_id in by_id}
    try:
        found = rows.devices(by_id)
        devices = [device for its in found.values() for device in its]
        connectors = _connectors(items, host, devices) if devices else {}
        servers = {server.id: server for server in rows.servers(None, ids=by_id)}
    except Exception as exc:
        return dict.fromkeys(by_id, exc)
    for server_id, item in by_id.items():
        with _noting(failed, server_id):
            if server_id not in servers:
                raise errors.ServerNotFound(server_id=server_id)
            for device in found[server_id]:
                connected[server_id].append(_Connected(
                    item, device, item.connect_unkept(connectors[server_id], device)))
    failed |= _keep_all([one for its in connected.values() for one in its
                         if one.device.attachment_id != one.attachment.id], 'attachment_id')
    guests = [_guest(servers[server_id], (Work.disk(one.device, one.attachment.info)
                                          for one in its))
              for server_id, its in connected.items() if server_id not in failed]
    if guests:
        failed |= _spawn(by_id, host, guests, running)
    return failed | _complete_all([one for server_id, its in connected.items()
                                   if server_id not in failed for one in its])


class _Connected(NamedTuple):
    """Volume of a server with its connected attachment."""

    item: Work
    device: records.BlockDevice
    attachment: storage.Attachment


def _keep_all(connected: Sequence[_Connected], kept_as: str) -> dict[str, Exception]:
    """Record new attachments in one transaction.

    If another process has taken a server action over, the new attachment is deleted, unless that
    process has recorded the attachment.

    :param kept_as: name of the device column for the attachment id
    :returns: error of each failed server, by server id
    """
    failed: dict[str, Exception] = {}
    if not connected:
        return failed
    try:
        lost = connected[0].item.tools.store.keep(
            [(one.item.act, one.device.id, one.attachment.id) for one in connected], kept_as)
    except Exception as exc:
        return {one.item.act.server_id: exc for one in connected}
    for item, _, attachment in connected:
        if item.act.id in lost:
            with _noting(failed, item.act.server_id):
                if attachment.id not in item.known():
                    item.tools.attachments.delete(item.caller, attachment.id)
                raise errors.ActTakenOver(act_id=item.act.id)
    return failed


def _complete_all(connected: Sequence[_Connected]) -> dict[str, Exception]:
    """Complete attachments, and return the error of each failed server, by server id."""
    failed: dict[str, Exception] = {}
    if not connected:
        return failed
    first = connected[0].item
    try:
        unsaid = first.tools.attachments.complete_all(
            first.caller, [one.attachment.id for one in connected])
    except Exception as exc:
        return {one.item.act.server_id: exc for one in connected}
    for item, device, attachment in connected:
        with _noting(failed, item.act.server_id):
            if attachment.id in unsaid:
                raise unsaid[attachment.id]
            item.note_attached(device)
    return failed


def _guest(server: records.Server, disks: Iterable[base.Disk]) -> dict[str, Any]:
    return interface.guest_values(base.Guest(
        server.id, server.name, server.flavor.vcpus, server.flavor.memory_mb, tuple(disks)))


def _connectors(items: Sequence[Work], host: str | None,
                devices: Iterable[records.BlockDevice]) -> Mapping[str, Mapping[str, Any]]:
    """Return the connector properties of a host for servers, by server id.

    :param devices: block devices of all servers
    """
    first, ids = items[0], [item.act.server_id for item in items]
    _check_modes(first.tools.store, host, devices)
    if len(ids) == 1:
        return {ids[0]: first.plain_agent(host).connector(first.caller, ids[0])}
    return first.plain_agent(host).connectors(first.caller, ids)


def _spawn(items: Mapping[str, Work], host: str | None,
           guests: Sequence[Mapping[str, Any]], running: bool) -> dict[str, Exception]:
    """Create guests on a host, and return the error of each failed server, by server id."""
    item = items[guests[0]['server_id']]
    try:
        if len(guests) == 1:
            item.spawn(host, guests[0], running)
            return {}
        # The class of the error is lost, and any class leads to undoing the action.
        return {server_id: errors.HostRefused(reason=text)
                for server_id, text in item.plain_agent(host).spawn_all(
                    item.caller, guests, {one.act.server_id: one.generation
                                          for one in items.values()}).items()}
    except Exception as exc:
        return {guest['server_id']: exc for guest in guests}


def _check_modes(rows: store.Store, host: str | None,
                 devices: Iterable[records.BlockDevice]) -> None:
    if any(device.mode == 'ro' for device in devices) and any(
            agent.host == host and not placement.heeds_modes(agent) for agent in rows.agents()):
        raise errors.HostRefused(
            reason=f'the agent of host {host} is too old to attach volumes read-only')


@contextlib.contextmanager
def _noting(failed: dict[str, Exception], server_id: str) -> Iterator[None]:
    """Suppress an exception of the block, and record the exception as the error of a server."""
    try:
        yield
    except Exception as exc:
        failed[server_id] = exc
