"""Access to the database of the compute service. Each method that writes is one transaction."""
import contextlib
import copy
import dataclasses
import json
import threading
import uuid
from collections.abc import Callable
from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as oslo_db_exception

from blockattach.compute import device_names
from blockattach.compute import errors
from blockattach.compute import lifecycle
from blockattach.compute import records
from blockattach.compute.store import agents
from blockattach.compute.store import instance_actions
from blockattach.compute.store import models
from blockattach.platform import clock as clocks
from blockattach.platform.db import clock as db_clock
from blockattach.platform.db import engine
from blockattach.storage.domain import connection

_servers, _devices = models.servers, models.block_devices
_acts = models.acts
# Statements of every action are built once.
_SERVER = sa.select(_servers).where(_servers.c.id == sa.bindparam('server_id'))
_CHANGE_DEVICE = sa.update(_devices).where(_devices.c.id == sa.bindparam('device_id'))
_WAITING = [name for name, verb in lifecycle.VERBS.items() if verb.waits]


class Store:
    """Database of the compute service. The methods are thread-safe.

    Deadlines and times of reports, which several processes compare, are times of the database
    clock. Times that are only displayed are times of the process clock.
    """

    def __init__(self, opened: sa.Engine, clock: clocks.Clock, down_after: float) -> None:
        """
        :param down_after: seconds without a report after which an agent counts as down
        """
        self._engine = opened
        self._clock = clock
        self._down_after = down_after
        self._act: records.Act | None = None
        # A writer of SQLite waits for another by polling. With a lock, the next writer starts
        # at once.
        self._write_lock = (threading.Lock() if self._engine.dialect.name == 'sqlite'
                            else contextlib.nullcontext())

    def of_act(self, act: records.Act) -> 'Store':
        """Return a copy of the store that can only write while this process holds an action.

        Afterwards, writes raise `errors.ActTakenOver`.
        """
        fenced = copy.copy(self)
        fenced._act = act
        return fenced

    def close(self) -> None:
        self._engine.dispose()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        with self._write_lock, self._engine.connect() as connected:
            engine.begin(connected)
            # The lock keeps other processes from taking the action over before the commit.
            if self._act is not None and connected.execute(sa.select(_acts.c.id).where(
                    *_is_held(self._act)).with_for_update()).first() is None:
                raise errors.ActTakenOver(act_id=self._act.id)
            yield connected
            connected.commit()

    def create(self, drafts: Collection[tuple[records.Server, Iterable[records.BlockDevice]]],
               act: records.Act, owner: str, lease_seconds: float) -> list[records.Act]:
        """Insert servers with their volumes, and begin the same server action on each server."""
        written = [models.row(device) for _, devices in drafts for device in devices]
        with self._transaction() as connected:
            connected.execute(_servers.insert(), [models.row(server) for server, _ in drafts])
            if written:
                connected.execute(_devices.insert(), written)
            return self._begin(connected, act, [server.id for server, _ in drafts], owner,
                               lease_seconds)

    def server(self, server_id: str) -> records.Server:
        """Return the record of a server.

        :raises ServerNotFound: the server does not exist
        """
        with self._engine.connect() as connected:
            return models.server_of(self._get(connected, server_id))

    def servers(self, project_id: str | None, host: str | None = None,
                reservation_id: str | None = None,
                ids: Collection[str] | None = None) -> list[records.Server]:
        """Return the servers that match all arguments, newest first. None matches any server."""
        query = sa.select(_servers).order_by(_servers.c.created_at.desc(), _servers.c.id.desc())
        for column, value in ((_servers.c.project_id, project_id), (_servers.c.host, host),
                              (_servers.c.reservation_id, reservation_id)):
            if value is not None:
                query = query.where(column == value)
        if ids is not None:
            query = query.where(_servers.c.id.in_(list(ids)))
        with self._engine.connect() as connected:
            return [models.server_of(row) for row in connected.execute(query)]

    def load(self) -> dict[str, int]:
        """Return the number of servers on each host. Hosts without servers are omitted."""
        query = sa.select(_servers.c.host, sa.func.count().label('servers')).where(
            _servers.c.host.is_not(None)).group_by(_servers.c.host)
        with self._engine.connect() as connected:
            return {row.host: row.servers for row in connected.execute(query)}

    def devices(self, server_ids: Collection[str]) -> dict[str, list[records.BlockDevice]]:
        """Return the volumes of servers, by server id. A root disk is first in its list."""
        found: dict[str, list[records.BlockDevice]] = {one: [] for one in server_ids}
        query = sa.select(_devices).where(_devices.c.server_id.in_(list(server_ids)))
        with self._engine.connect() as connected:
            for row in connected.execute(query):
                found[row.server_id].append(models.device_of(row))
        for devices in found.values():
            devices.sort(key=lambda one: (one.boot_index != 0, len(one.device), one.device))
        return found

    def device(self, server_id: str, volume_id: str) -> records.BlockDevice:
        """Return the block device of a volume of a server.

        :raises ServerVolumeNotFound: the server does not have the volume
        """
        for one in self.devices([server_id])[server_id]:
            if one.volume_id == volume_id:
                return one
        raise errors.ServerVolumeNotFound(volume_id=volume_id)

    def writers(self, volume_id: str) -> int:
        """Return the number of servers with a block device of the volume in mode ``rw``."""
        with self._engine.connect() as connected:
            return connected.execute(sa.select(sa.func.count()).where(
                _devices.c.volume_id == volume_id,
                _devices.c.mode == connection.AccessMode.RW.value)).scalar_one()

    def change(self, server_id: str, **values: Any) -> None:
        """Set columns of a server to the given values.

        :raises ServerNotFound: the server does not exist
        """
        with self._transaction() as connected:
            if not connected.execute(_servers.update().where(_servers.c.id == server_id).values(
                    updated_at=self._clock.utcnow(), **values)).rowcount:
                raise errors.ServerNotFound(server_id=server_id)

    def change_metadata(self, server_id: str, change: Callable[[Mapping[str, str]],
                                                               Mapping[str, str]],
                        ) -> Mapping[str, str]:
        """Update the metadata items of a server, and return the new metadata items.

        :param change: function that takes the old metadata items, and returns the new ones
        :raises ServerNotFound: the server does not exist
        """
        with self._transaction() as connected:
            # The write locks the row, so that no other change happens in between.
            self._touch(connected, server_id)
            changed = change(models.server_of(self._get(connected, server_id)).metadata)
            connected.execute(_servers.update().where(_servers.c.id == server_id).values(
                metadata=changed))
            return changed

    def _touch(self, connected: sa.Connection, server_id: str) -> None:
        connected.execute(_servers.update().where(_servers.c.id == server_id).values(
            updated_at=self._clock.utcnow()))

    def change_device(self, device_id: str, **values: Any) -> None:
        with self._transaction() as connected:
            connected.execute(_CHANGE_DEVICE, {'device_id': device_id, **values})

    def keep(self, attachments: Collection[tuple[records.Act, str, str]],
             kept_as: str) -> Collection[str]:
        """Record attachments that server actions have created.

        :param attachments: server action, device id and attachment id of each attachment
        :param kept_as: name of the device column for the attachment id
        :returns: ids of the server actions that another process has taken over. Their attachments
            are not recorded
        """
        acts = {act.id: act for act, _, _ in attachments}
        with self._transaction() as connected:
            held = _held(connected, acts.values())
            kept = [{'device_id': device_id, kept_as: attachment_id}
                    for act, device_id, attachment_id in attachments if act.id in held]
            if kept:
                connected.execute(_CHANGE_DEVICE, kept)
        return acts.keys() - held

    def remove_device(self, device_id: str) -> None:
        with self._transaction() as connected:
            connected.execute(_devices.delete().where(_devices.c.id == device_id))

    def begin(self, server_id: str, act: records.Act, owner: str, lease_seconds: float,
              device: records.BlockDevice | None = None) -> records.Act:
        """Begin a server action if the state of the server allows the action.

        :param device: block device to insert, or None
        :raises ServerNotFound: the server does not exist
        :raises ServerStateConflict: the state of the server does not allow the action, or the
            volume to detach is not in state ``attached``
        :raises ServerRequestInvalid: the server has the volume already or has the maximum number
            of volumes, or the device name is invalid or in use
        """
        verb = lifecycle.VERBS[act.verb]
        try:
            with self._transaction() as connected:
                # The write locks the row, so that two actions cannot begin at once.
                self._touch(connected, server_id)
                server = models.server_of(self._get(connected, server_id))
                under_way = connected.execute(sa.select(_acts.c.verb).where(
                    _acts.c.server_id == server_id)).scalars().all()
                refused = lifecycle.refusal(act.verb, server.vm_state, under_way)
                if refused is not None:
                    raise errors.ServerStateConflict(
                        action=act.verb, server_id=server_id, attribute=refused[0],
                        state=refused[1])
                if device is not None:
                    self._give(connected, device)
                if act.verb == 'detach':
                    self._detaching(connected, server_id, act.arguments['volume_id'])
                generation = server.generation
                # Actions that share a server must not fence each other.
                if not verb.shares:
                    generation += 1
                    connected.execute(_servers.update().where(_servers.c.id == server_id).values(
                        task_state=verb.task_state, generation=generation))
                return self._begin(connected, act, [server_id], owner, lease_seconds,
                                   generation)[0]
        except oslo_db_exception.DBDuplicateEntry as exc:
            # Not the device name, which `_give` chose under the lock.
            volume_id = device and device.volume_id
            raise errors.ServerRequestInvalid(
                reason=f'Invalid volume: volume {volume_id} is already attached') from exc

    @staticmethod
    def _give(connected: sa.Connection, device: records.BlockDevice) -> None:
        taken = connected.execute(sa.select(_devices.c.device).where(
            _devices.c.server_id == device.server_id)).scalars()
        connected.execute(_devices.insert(), models.row(dataclasses.replace(
            device, device=device_names.chosen(device.device, taken))))

    @staticmethod
    def _detaching(connected: sa.Connection, server_id: str, volume_id: str) -> None:
        """Set the state of the block device of a volume to ``detaching``.

        :raises ServerStateConflict: the volume is not in state ``attached``
        """
        if not connected.execute(_devices.update().where(
                _devices.c.server_id == server_id, _devices.c.volume_id == volume_id,
                _devices.c.state == 'attached').values(state='detaching')).rowcount:
            raise errors.ServerStateConflict(action='detach_volume', server_id=server_id,
                                             attribute='volume', state='detaching')

    def _begin(self, connected: sa.Connection, act: records.Act, server_ids: Iterable[str],
               owner: str, lease_seconds: float, generation: int = 1) -> list[records.Act]:
        now, finishing = self._clock.utcnow(), lifecycle.VERBS[act.verb].finishes
        begun = [records.Act(str(uuid.uuid4()), server_id, act.verb, act.arguments, act.caller,
                             finishing, _lease(owner), generation) for server_id in server_ids]
        # Read the time once: some drivers insert rows with an SQL expression one by one.
        deadline = connected.execute(sa.select(db_clock.now(lease_seconds))).scalar_one()
        same = {'verb': act.verb, 'arguments': json.dumps(act.arguments),
                'caller': json.dumps(act.caller), 'finishing': finishing, 'notes': '{}',
                'created_at': now, 'deadline': deadline}
        connected.execute(_acts.insert(), [
            {'id': one.id, 'server_id': one.server_id, 'owner': one.lease, **same}
            for one in begun])
        instance_actions.begin(connected, begun, now)
        return begun

    def withdraw(self, act: records.Act, device_id: str) -> None:
        """Delete an attach action that block storage rejected, and its block device.

        :raises ActTakenOver: another process has taken the server action over
        """
        with self._transaction() as connected:
            if not connected.execute(_acts.delete().where(*_is_held(act))).rowcount:
                raise errors.ActTakenOver(act_id=act.id)
            connected.execute(_devices.delete().where(_devices.c.id == device_id))
            instance_actions.withdraw(connected, act)

    def actions(self, server_id: str, filters: instance_actions.Wanted) -> list[records.Action]:
        """Return the instance actions of a server that match the filter, newest first."""
        with self._engine.connect() as connected:
            return instance_actions.find(connected, server_id, filters)

    def notes(self, act_id: str) -> dict[str, Any]:
        """Return the values that `note` has stored with a server action, by key."""
        with self._engine.connect() as connected:
            text = connected.execute(sa.select(_acts.c.notes).where(
                _acts.c.id == act_id)).scalar_one_or_none()
            return dict(json.loads(text or '{}'))

    def note(self, act_id: str, values: Mapping[str, Any]) -> None:
        """Store values with a server action, for a process that takes the action over."""
        # Only the process that holds the action writes its notes.
        kept = {**self.notes(act_id), **values}
        with self._transaction() as connected:
            connected.execute(_acts.update().where(_acts.c.id == act_id).values(
                notes=json.dumps(kept)))

    def commit(self, act: records.Act, server_id: str, moved: Iterable[records.BlockDevice] = (),
               volume_id: str | None = None, **values: Any) -> None:
        """Record the point of no return of an action. A repeated call changes nothing.

        :param moved: block devices whose ``attachment_id`` and ``next_attachment_id`` are swapped
        :param volume_id: new volume id of these block devices, or None to keep the volume ids
        :param values: columns of the server to update
        """
        other = {} if volume_id is None else {'volume_id': volume_id}
        with self._transaction() as connected:
            if not connected.execute(_acts.update().where(
                    _acts.c.id == act.id, _acts.c.finishing.is_(False)).values(
                        finishing=True)).rowcount:
                return
            connected.execute(_servers.update().where(_servers.c.id == server_id).values(
                updated_at=self._clock.utcnow(), **values))
            for device in moved:
                connected.execute(_devices.update().where(_devices.c.id == device.id).values(
                    attachment_id=device.next_attachment_id,
                    next_attachment_id=device.attachment_id, **other))

    def end(self, acts: Collection[records.Act], fault: str | None,
            **values: Any) -> tuple[list[records.Act], bool]:
        """End server actions, each on a different server, with success or failure.

        :param fault: reason of the failure, or None on success
        :param values: columns of the servers to update
        :returns: the actions that this process still held, and True if deletions of the servers
            wait for the end of these actions
        """
        now = self._clock.utcnow()
        with self._transaction() as connected:
            held = _held(connected, acts)
            ended = [act for act in acts if act.id in held]
            server_ids = [act.server_id for act in ended]
            connected.execute(_acts.delete().where(_acts.c.id.in_(held)))
            connected.execute(_servers.update().where(_servers.c.id.in_(server_ids)).values(
                updated_at=now, fault=fault, task_state=None, **values))
            waiting = connected.execute(sa.select(_acts.c.server_id, _acts.c.verb).where(
                _acts.c.server_id.in_(server_ids), _acts.c.verb.in_(_WAITING))).all()
            for row in waiting:
                connected.execute(_servers.update().where(_servers.c.id == row.server_id).values(
                    task_state=lifecycle.VERBS[row.verb].task_state))
            instance_actions.end(connected, ended, fault, now)
        return ended, bool(waiting)

    def drop(self, act: records.Act) -> None:
        """Delete a server action whose server no longer exists."""
        with self._transaction() as connected:
            connected.execute(_acts.delete().where(_acts.c.id == act.id))

    def has_stopped(self, server: records.Server) -> bool:
        """Set the state of an active server to stopped, and return True if this was possible.

        The state is kept if an action is in progress, or has begun since the record was read.
        """
        with self._transaction() as connected:
            return bool(connected.execute(_servers.update().where(
                _servers.c.id == server.id, _servers.c.vm_state == lifecycle.VmState.ACTIVE.value,
                _servers.c.generation == server.generation,
                ~sa.exists().where(_acts.c.server_id == server.id)).values(
                    vm_state=lifecycle.VmState.STOPPED.value,
                    updated_at=self._clock.utcnow())).rowcount)

    def remove(self, act: records.Act) -> None:
        """Delete the server of a delete action, with its actions, block devices and history.

        :raises ActTakenOver: another process has taken the server action over
        """
        with self._transaction() as connected:
            if not connected.execute(_acts.delete().where(*_is_held(act))).rowcount:
                raise errors.ActTakenOver(act_id=act.id)
            connected.execute(_acts.delete().where(_acts.c.server_id == act.server_id))
            connected.execute(_devices.delete().where(_devices.c.server_id == act.server_id))
            instance_actions.remove(connected, act.server_id)
            connected.execute(_servers.delete().where(_servers.c.id == act.server_id))

    def is_at_work(self, server_id: str) -> bool:
        """Return True if a server action is in progress on the server."""
        with self._engine.connect() as connected:
            return connected.execute(sa.select(_acts.c.id).where(
                _acts.c.server_id == server_id)).first() is not None

    def waits(self, act: records.Act) -> bool:
        """Return True if a waiting action must still wait for another action on its server."""
        with self._engine.connect() as connected:
            return connected.execute(sa.select(_acts.c.id).where(
                _acts.c.server_id == act.server_id,
                _acts.c.verb.not_in(_WAITING))).first() is not None

    def is_waited_for(self, act: records.Act) -> bool:
        """Return True if another action on the server waits for the end of the given action."""
        with self._engine.connect() as connected:
            return connected.execute(sa.select(_acts.c.id).where(
                _acts.c.server_id == act.server_id, _acts.c.id != act.id,
                _acts.c.verb.in_(_WAITING))).first() is not None

    def is_committed(self, act: records.Act) -> bool:
        """Return True if ``finishing`` of an action is True; see `records.Act`."""
        with self._engine.connect() as connected:
            return bool(connected.execute(sa.select(_acts.c.finishing).where(
                _acts.c.id == act.id)).scalar_one_or_none())

    def generation(self, act: records.Act) -> int | None:
        """Return the generation of an action's server, or None if the lease is no longer held."""
        with self._engine.connect() as connected:
            return connected.execute(sa.select(_servers.c.generation).join(
                _acts, _acts.c.server_id == _servers.c.id).where(
                    *_is_held(act))).scalar_one_or_none()

    def renew(self, leases: Collection[str], lease_seconds: float) -> None:
        """Extend the deadlines of the server actions that are held with the given leases."""
        with self._transaction() as connected:
            connected.execute(_acts.update().where(_acts.c.owner.in_(leases)).values(
                deadline=db_clock.now(lease_seconds)))

    def leave(self, act: records.Act) -> None:
        """Release the lease on an action, so that `take_over` returns the action."""
        with self._transaction() as connected:
            connected.execute(_acts.update().where(*_is_held(act)).values(
                owner=None, deadline=db_clock.now()))

    def take_over(self, owner: str, lease_seconds: float) -> list[records.Act]:
        """Take over all server actions whose deadlines have passed, and return them."""
        taken: list[tuple[sa.Row[Any], str]] = []
        with self._transaction() as connected:
            due = connected.execute(sa.select(_acts).where(
                _acts.c.deadline <= db_clock.now()).order_by(_acts.c.created_at)).all()
            for row in due:
                lease = _lease(owner)
                # Another process may take the action over, or its owner may renew the lease.
                is_mine = connected.execute(_acts.update().where(
                    _acts.c.id == row.id, _acts.c.deadline == row.deadline).values(
                        owner=lease, deadline=db_clock.now(lease_seconds))).rowcount
                if is_mine:
                    taken.append((row, lease))
            # Lock servers after server actions, as in `end`, to avoid deadlocks.
            generations = _next(connected, {row.server_id for row, _ in taken})
        # A generation is missing if the server was deleted as the action began.
        return [models.act_of(row, lease, generations.get(row.server_id, 0))
                for row, lease in taken]

    def report(self, host: str, kind: str, version: str) -> bool:
        """Record the report of an agent. Return True if the agent was down or unknown before."""
        with self._transaction() as connected:
            return agents.report(connected, host, kind, version, self._down_after)

    def agents(self) -> list[records.Agent]:
        """Return all agents that have ever reported, ordered by host."""
        with self._engine.connect() as connected:
            return agents.find(connected, self._down_after)

    @staticmethod
    def _get(connected: sa.Connection, server_id: str) -> sa.Row[Any]:
        row = connected.execute(_SERVER, {'server_id': server_id}).one_or_none()
        if row is None:
            raise errors.ServerNotFound(server_id=server_id)
        return row


def _lease(owner: str) -> str:
    return f'{owner}/{uuid.uuid4()}'


def _is_held(act: records.Act) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """Return the conditions under which a server action is still held with its lease."""
    return _acts.c.id == act.id, _acts.c.owner == act.lease


def _held(connected: sa.Connection, acts: Iterable[records.Act]) -> set[str]:
    """Lock the rows of server actions, and return the ids of actions whose leases still hold."""
    leases = {act.id: act.lease for act in acts}
    return {row.id for row in connected.execute(
        sa.select(_acts.c.id, _acts.c.owner).where(
            _acts.c.id.in_(leases)).with_for_update()) if row.owner == leases[row.id]}


def _next(connected: sa.Connection, server_ids: Collection[str]) -> dict[str, int]:
    """Increment the generations of servers, and return the new generations by server id."""
    if not server_ids:
        return {}
    chosen = _servers.c.id.in_(server_ids)
    connected.execute(_servers.update().where(chosen).values(
        generation=_servers.c.generation + 1))
    return {row.id: row.generation for row in connected.execute(
        sa.select(_servers.c.id, _servers.c.generation).where(chosen))}
