"""One act under way, and the pieces that acts are made of. Each piece may be repeated."""
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
    """What was to be undone has passed the point of no return, and nobody had heard of it."""


class Step(NamedTuple):
    """A part of an act. ``undo`` None: there is nothing to undo; see also `WentOn`."""

    name: str
    do: Callable[[], None]
    undo: Callable[[], None] | None = None


class Plan(NamedTuple):
    """An act as steps.

    :ivar undoable: those that are undone, the last first, if one of them fails
    :ivar finishing: those that are done until they are done
    :ivar done: what is written of the server in the end, besides its state
    :ivar failed: what the server is after all was undone, besides the reason
    :ivar refused: called with what was refused in a finishing step, which ends the act; None:
        the act goes on later
    """

    undoable: Sequence[Step] = ()
    finishing: Sequence[Step] = ()
    done: Mapping[str, Any] = {}
    failed: Mapping[str, Any] = {}
    refused: Callable[[Exception], None] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Tools:
    """What acts use; one for each process."""

    store: store.Store
    agents: interface.Agents
    attachments: storage.Attachments
    volumes: storage.Volumes
    clock: clocks.Clock


class Work:
    """One act, and the server that it is about."""

    def __init__(self, tools: Tools, act: records.Act, caller: context.RequestContext) -> None:
        self.tools = tools
        self.act = act
        self.caller = caller
        self.store = tools.store.of_act(act)
        self.asked: str | None = None
        """The host whose agent was asked last."""
        self.generation = act.generation
        """By which agents are asked."""

    def check_lease(self) -> int:
        """The number of the lease on the server, if this process is still the one that is at the
        act.

        :raises ActTakenOver: another one is
        """
        generation = self.tools.store.generation(self.act)
        if generation is None:
            raise errors.ActTakenOver(act_id=self.act.id)
        # Another one, if an act that shares the server was taken over.
        self.generation = generation
        return generation

    @property
    def server(self) -> records.Server:
        """The server as it is now."""
        return self.tools.store.server(self.act.server_id)

    @property
    def devices(self) -> list[records.BlockDevice]:
        """Its volumes as they are now."""
        return self.tools.store.devices([self.act.server_id])[self.act.server_id]

    def agent(self, host: str | None) -> interface.AgentInterface:
        """The agent of a host, which is asked by the act's lease if it knows leases.

        :raises HostRefused: there is no host
        """
        found = self.plain_agent(host)
        if host not in self._fencing:
            return found
        return interface.by_lease(found, self.act.server_id, self.generation, self.check_lease)

    @functools.cached_property
    def _fencing(self) -> Collection[str]:
        """The hosts whose agents know leases."""
        return {agent.host for agent in self.tools.store.agents()
                if placement.knows_leases(agent.version)}

    def fence(self) -> None:
        """Have the hosts of the server do no more of what a process before asks for: only then
        what they say of the server stays true. One that is down is locked out of its volumes.
        """
        server = self.server
        for host in {server.host, server.old_host} & set(self._fencing):
            if self.is_up(host):
                self.agent(host).servers(self.caller)

    def plain_agent(self, host: str | None) -> interface.AgentInterface:
        """The agent of a host, for what changes no server or names its lease; see `agent`."""
        if host is None:
            raise errors.HostRefused(reason=f'server {self.act.server_id} has no host')
        self.asked = host
        return self.tools.agents.on(host)

    def is_up(self, host: str | None) -> bool:
        """Whether the agent of a host reports itself."""
        return host in {agent.host for agent in self.tools.store.agents() if agent.up}

    def create(self, device: records.BlockDevice, connector: Mapping[str, Any] | None, key: str,
               kept_as: str, volume_id: str | None = None) -> storage.Attachment:
        """A new attachment of the server, written down.

        :param kept_as: what it is of the device
        :param volume_id: of which volume; None: that of the device
        :raises ActTakenOver: another process is at the act, which may have looked for attachments
            before this one was there: it is removed
        """
        made = self._make(device, connector, key, volume_id)
        self._keep(device, made, kept_as)
        return made

    def _make(self, device: records.BlockDevice, connector: Mapping[str, Any] | None, key: str,
              volume_id: str | None = None) -> storage.Attachment:
        return self.tools.attachments.create(
            self.caller, volume_id or device.volume_id, self.act.server_id, device.mode.value,
            connector, f'{self.act.id}-{key}')

    def _keep(self, device: records.BlockDevice, made: storage.Attachment, kept_as: str) -> None:
        for exc in _keep_all([_Connected(self, device, made)], kept_as).values():
            raise exc

    def guest(self, disks: Iterable[base.Disk]) -> dict[str, Any]:
        """The server as an agent runs it, with these disks."""
        return _guest(self.server, disks)

    @staticmethod
    def disk(device: records.BlockDevice, info: Mapping[str, Any]) -> base.Disk:
        """A volume as its host has it."""
        return base.Disk(device.volume_id, device.device, device.mode, device.shared, info)

    def reserve(self, device: records.BlockDevice) -> None:
        """Hold a volume for the server, unless it is held."""
        if device.attachment_id is None:
            self.create(device, None, device.id, 'attachment_id')

    def release(self, device: records.BlockDevice) -> None:
        """Give back what is held of a volume, the next attachment too."""
        for name in ('next_attachment_id', 'attachment_id'):
            attachment_id = getattr(device, name)
            if attachment_id is not None:
                self.tools.attachments.delete(self.caller, attachment_id)
                self.store.change_device(device.id, **{name: None})
        self.release_unknown(device.volume_id)

    def release_next(self) -> None:
        """Give back what is held of each volume besides the attachment that counts."""
        for device in self.devices:
            if device.next_attachment_id is not None:
                self.tools.attachments.delete(self.caller, device.next_attachment_id)
                self.store.change_device(device.id, next_attachment_id=None)
            self.release_unknown(device.volume_id)

    def release_leftovers(self) -> None:
        """Delete the second attachments that an earlier task left, if any."""
        if any(device.next_attachment_id is not None for device in self.devices):
            self.release_next()

    def release_unknown(self, volume_id: str | None) -> None:
        """Give back what block storage has of a volume for this server, and nobody has written
        down: the answer was lost.

        :param volume_id: None: of any
        :raises ActTakenOver: another process is at the act, which may be about to write it down
        """
        found = self.tools.attachments.of_server(self.caller, self.act.server_id, volume_id)
        known = self.known()
        unknown = [one for one in found if one not in known]
        if unknown:
            self.check_lease()
        for attachment_id in unknown:
            self.tools.attachments.delete(self.caller, attachment_id)

    def known(self) -> set[str | None]:
        """The attachments of the server that are written down."""
        return {attachment_id for device in self.devices
                for attachment_id in (device.attachment_id, device.next_attachment_id)}

    def release_all(self) -> None:
        """Give back every volume."""
        for device in self.devices:
            self.release(device)

    def connector(self, host: str | None) -> dict[str, Any]:
        """What a host says of itself for the server; see `check_modes`."""
        self.check_modes(host)
        return dict(self.plain_agent(host).connector(self.caller, self.act.server_id))

    def check_modes(self, host: str | None) -> None:
        """Return if a host keeps the server from writing to what is read-only for it.

        :raises HostRefused: its agent is too old
        """
        _check_modes(self.tools.store, host, self.devices)

    @staticmethod
    def of_device(connector: Mapping[str, Any], device: records.BlockDevice) -> dict[str, Any]:
        """A connector for a volume of the server."""
        return {**connector, 'mountpoint': device.device, 'mode': device.mode.value}

    def connect(self, connector: Mapping[str, Any],
                device: records.BlockDevice) -> storage.Attachment:
        """Let a host in to a volume, which is held from then on if it was not before.

        :raises ActTakenOver: another process is at the act
        """
        found = self.connect_unkept(connector, device)
        if device.attachment_id != found.id:
            self._keep(device, found, 'attachment_id')
        return found

    def connect_unkept(self, connector: Mapping[str, Any],
                       device: records.BlockDevice) -> storage.Attachment:
        """As `connect`; where the attachment is new it is to be written down."""
        own = self.of_device(connector, device)
        if device.attachment_id is None:
            return self._make(device, own, device.id)
        try:
            found = self.tools.attachments.update(self.caller, device.attachment_id, own)
        except errors.NotFound:
            # The attachment was deleted by somebody else, but the server still has the volume.
            return self._make(device, own, f'{device.id}-{device.attachment_id}-anew')
        try:
            self.check_lease()
        except errors.ActTakenOver:
            # The other one may have said already that it is used, which this has taken back.
            self._complete(device.attachment_id)
            raise
        return found

    def complete(self, device: records.BlockDevice, attachment_id: str) -> None:
        """Say of a volume that it is used. Where somebody has removed the attachment meanwhile,
        there is nothing to say.
        """
        self._complete(attachment_id)
        self.note_attached(device)

    def note_attached(self, device: records.BlockDevice) -> None:
        """Write down that a volume is used."""
        if device.state != 'attached':
            self.store.change_device(device.id, state='attached')

    def _complete(self, attachment_id: str) -> None:
        with contextlib.suppress(errors.NotFound):
            self.tools.attachments.complete(self.caller, attachment_id)

    def complete_all(self) -> None:
        """Say of every volume that it is used."""
        for device in self.devices:
            if device.attachment_id is not None:
                self.complete(device, device.attachment_id)

    def put(self, host: str | None, running: bool = True) -> None:
        """Run the server on a host: connect its volumes there, spawn it, complete.

        :param running: False: it is there, stopped
        """
        for exc in put_all([self], host, running).values():
            raise exc

    def spawn(self, host: str | None, guest: Mapping[str, Any], running: bool) -> None:
        """Have a host run a guest, or have it there without running it."""
        agent = self.agent(host)
        if not running and host in self._fencing:
            agent.define(self.caller, guest)
            return
        agent.spawn(self.caller, guest)
        if not running:
            agent.stop(self.caller, self.act.server_id)

    def shut_down(self, host: str | None) -> None:
        """Let the guest on a host, if it is there, write what it has not written yet, and end."""
        if self.is_up(host):
            with contextlib.suppress(errors.HostRefused):
                self.agent(host).stop(self.caller, self.act.server_id)

    def leave(self, host: str | None) -> None:
        """The server is on a host no more. An agent that is down ends it when it returns: until
        then the host is locked out of the volumes.
        """
        if self.is_up(host):
            self.agent(host).destroy(self.caller, self.act.server_id)

    def choose_host(self, without: Iterable[str] = (), wanted: str | None = None) -> str:
        """A host for the server; see `placement.choose_hosts`."""
        return placement.choose_hosts(self.store, [self.devices], without, wanted)[0]

    def noted(self, key: str) -> str | None:
        """What this act has noted for itself, over restarts."""
        return self.store.notes(self.act.id).get(key)

    def note(self, key: str, value: str | None) -> None:
        """Note it."""
        self.store.note(self.act.id, {key: value})
        log.step(LOG, 'Server action progress recorded', server_id=self.act.server_id,
                 work=self.act.verb, reason=f'{key}: {value}')


def put_all(doings: Sequence[Work], host: str | None,
            running: bool = True) -> dict[str, Exception]:
    """Run servers on a host: connect their volumes there, spawn them, complete.

    :param doings: an act for each, in the name of one caller; of several only where the host's
        agent knows `AgentInterface.spawn_all`
    :returns: why those failed that did, by their ids: what is left of them is to be undone
    """
    by_id = {doing.act.server_id: doing for doing in doings}
    rows = doings[0].tools.store
    failed: dict[str, Exception] = {}
    connected: dict[str, list[_Connected]] = {server_id: [] for server_id in by_id}
    try:
        found = rows.devices(by_id)
        devices = [device for its in found.values() for device in its]
        connectors = _connectors(doings, host, devices) if devices else {}
        servers = {server.id: server for server in rows.servers(None, ids=by_id)}
    except Exception as exc:
        return dict.fromkeys(by_id, exc)
    for server_id, doing in by_id.items():
        with _noting(failed, server_id):
            if server_id not in servers:
                raise errors.ServerNotFound(server_id=server_id)
            for device in found[server_id]:
                connected[server_id].append(_Connected(
                    doing, device, doing.connect_unkept(connectors[server_id], device)))
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
    """A volume of a server, and the attachment by which its host may use it."""

    doing: Work
    device: records.BlockDevice
    attachment: storage.Attachment


def _keep_all(made: Sequence[_Connected], kept_as: str) -> dict[str, Exception]:
    """Write new attachments down, in one transaction. What was made in an act that another process
    is at, which may have looked for attachments before this one was there, is removed.

    :param kept_as: what they are of the devices
    :returns: why those servers failed that did, by their ids
    """
    failed: dict[str, Exception] = {}
    if not made:
        return failed
    try:
        lost = made[0].doing.tools.store.keep(
            [(one.doing.act, one.device.id, one.attachment.id) for one in made], kept_as)
    except Exception as exc:
        return {one.doing.act.server_id: exc for one in made}
    for doing, _, attachment in made:
        if doing.act.id in lost:
            with _noting(failed, doing.act.server_id):
                if attachment.id not in doing.known():
                    doing.tools.attachments.delete(doing.caller, attachment.id)
                raise errors.ActTakenOver(act_id=doing.act.id)
    return failed


def _complete_all(connected: Sequence[_Connected]) -> dict[str, Exception]:
    """Say of volumes that they are used; why those servers failed that did, by their ids."""
    failed: dict[str, Exception] = {}
    if not connected:
        return failed
    first = connected[0].doing
    try:
        unsaid = first.tools.attachments.complete_all(
            first.caller, [one.attachment.id for one in connected])
    except Exception as exc:
        return {one.doing.act.server_id: exc for one in connected}
    for doing, device, attachment in connected:
        with _noting(failed, doing.act.server_id):
            if attachment.id in unsaid:
                raise unsaid[attachment.id]
            doing.note_attached(device)
    return failed


def _guest(server: records.Server, disks: Iterable[base.Disk]) -> dict[str, Any]:
    return interface.guest_values(base.Guest(
        server.id, server.name, server.flavor.vcpus, server.flavor.memory_mb, tuple(disks)))


def _connectors(doings: Sequence[Work], host: str | None,
                devices: Iterable[records.BlockDevice]) -> Mapping[str, Mapping[str, Any]]:
    """What a host says of itself for servers that get these volumes, by their ids."""
    first, ids = doings[0], [doing.act.server_id for doing in doings]
    _check_modes(first.tools.store, host, devices)
    if len(ids) == 1:
        return {ids[0]: first.plain_agent(host).connector(first.caller, ids[0])}
    return first.plain_agent(host).connectors(first.caller, ids)


def _spawn(doings: Mapping[str, Work], host: str | None,
           guests: Sequence[Mapping[str, Any]], running: bool) -> dict[str, Exception]:
    """Spawn guests on a host; why those failed that did, by the ids of their servers."""
    doing = doings[guests[0]['server_id']]
    try:
        if len(guests) == 1:
            doing.spawn(host, guests[0], running)
            return {}
        # Whatever it was: it is undone.
        return {server_id: errors.HostRefused(reason=text)
                for server_id, text in doing.plain_agent(host).spawn_all(
                    doing.caller, guests, {one.act.server_id: one.generation
                                           for one in doings.values()}).items()}
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
    """What is raised is why a server failed; the others go on."""
    try:
        yield
    except Exception as exc:
        failed[server_id] = exc
