"""Plans of server actions that move, shelve, unshelve or rebuild a server."""
import dataclasses
import json
from collections.abc import Callable
from typing import Any

from blockattach.compute import errors
from blockattach.compute import lifecycle
from blockattach.compute import records
from blockattach.compute.acts import connections
from blockattach.compute.acts import simple
from blockattach.compute.acts import work
from blockattach.compute.hosts import base

_V = lifecycle.VmState
_DESTINATION = 'destination'
_SOURCE = 'source'
_FLAVOR = 'flavor'
_FENCED = 'fenced'
_LEFT = 'left'
_RUNNING = base.Power.RUNNING.value
_FORGOTTEN: dict[str, Any] = {'old_host': None, 'old_flavor': None, 'old_state': None}


def _destination(item: work.Work) -> str:
    found = item.noted(_DESTINATION)
    assert found is not None
    return found


def _choose(item: work.Work, without: tuple[str | None, ...] = ()) -> None:
    """Choose the destination host of the server, unless the action has already recorded one.

    :param without: hosts that must not be chosen
    """
    if item.noted(_DESTINATION) is None:
        item.note(_DESTINATION, item.choose_host(
            [host for host in without if host is not None],
            only_host=item.act.arguments.get('host')))


def live_migrate(item: work.Work) -> work.Plan:
    """Return the plan to live-migrate a server.

    The volumes of the server are connected on both hosts during the migration.
    """
    def connect() -> None:
        # An attachment that a failed action left is connected to another host, or to none.
        item.release_leftovers()
        connector = item.connector(_destination(item))
        for device in item.devices:
            if device.next_attachment_id is None:
                item.create(device, item.of_device(connector, device), device.id,
                            'next_attachment_id')

    def receive() -> None:
        disks = [item.disk(device, item.tools.attachments.get(
            item.caller, str(device.next_attachment_id)).info) for device in item.devices]
        item.note('address', item.agent(_destination(item)).receive(
            item.caller, item.guest(disks)))

    def send() -> None:
        item.agent(item.server.host).send(item.caller, item.act.server_id,
                                          str(item.noted('address')))
        _arrive(item)

    def look() -> None:
        # The guest may have moved although the answer of `send` was lost.
        if item.noted('address') is not None and _has_moved(item):
            _arrive(item)
            raise work.WentOn

    return work.Plan(
        undoable=(work.Step('choose_host', lambda: _choose(item, (item.server.host,))),
                  work.Step('connect', connect, item.release_next),
                  work.Step('receive', receive, lambda: item.leave(item.noted(_DESTINATION))),
                  work.Step('send', send, look)),
        finishing=(work.Step('complete', item.complete_all),
                   work.Step('release', item.release_next),
                   work.Step('leave', lambda: item.leave(item.noted(_SOURCE)))))


def _arrive(item: work.Work) -> None:
    """Record that the server has arrived at its destination, and cannot be moved back.

    The additional attachment of each volume, to the destination host, becomes its attachment.
    """
    # Noted first, because the commit replaces the host of the server.
    item.note(_SOURCE, item.server.host)
    item.store.commit(item.act, item.act.server_id, item.devices, host=_destination(item))


def _has_moved(item: work.Work) -> bool:
    """Return True if a server, whose migration may have been started, runs at its destination.

    If the agent of the destination is down, the source host is queried. A server that the source
    host no longer has is at the destination. If the source host still has the server, the
    migration is started again, and is successful unless the source host rejects the call.
    """
    server_id, destination = item.act.server_id, _destination(item)
    if item.is_up(destination):
        return item.agent(destination).servers(item.caller).get(server_id) == _RUNNING
    source = item.agent(item.server.host)
    if server_id in source.servers(item.caller):
        try:
            source.send(item.caller, server_id, str(item.noted('address')))
        except errors.HostRefused:
            # The server still runs on the source.
            return False
    return True


def _moved_cold(item: work.Work, state: str,
                done: Callable[[str], dict[str, Any]]) -> work.Plan:
    """Return the plan to stop a server, replace its attachments, and run it on another host.

    :param state: VM state of the server before the move; a stopped server stays stopped
    :param done: function that takes the name of the former host, and returns the columns of the
        server to update after the move
    """
    def put_on(host: str) -> None:
        item.put(host, running=state != _V.STOPPED)

    def leave() -> None:
        # An attachment that a failed action left is connected to another host, or to none.
        item.release_leftovers()
        # Noted first, because undoing the step runs the guest again only on a noted source.
        item.note(_SOURCE, item.server.host)
        item.shut_down(item.server.host)
        item.leave(item.server.host)

    def come_back() -> None:
        source = item.noted(_SOURCE)
        if source is not None:
            # A guest that is still there may use connections that `put_on` replaces.
            item.leave(source)
            put_on(source)

    def hold_again() -> None:
        # A server that has not left still needs its attachments.
        if item.noted(_SOURCE) is not None:
            connections.hold_anew(item)

    def put() -> None:
        destination = _destination(item)
        put_on(destination)
        item.store.commit(item.act, item.act.server_id, host=destination,
                          **done(str(item.noted(_SOURCE))))

    return work.Plan(undoable=(
        work.Step('choose_host', lambda: _choose(item, (item.server.host,))),
        work.Step('leave', leave, come_back),
        work.Step('hold_anew', lambda: connections.hold_anew(item), hold_again),
        work.Step('put', put, lambda: item.leave(item.noted(_DESTINATION)))))


def _with_flavor(item: work.Work, flavor: records.Flavor | None) -> work.Step:
    """Return the step that sets the flavor of the server.

    Undoing the step restores the former flavor.

    :param flavor: new flavor, or None to keep the current one
    """
    def change() -> None:
        if item.noted(_FLAVOR) is None:
            item.note(_FLAVOR, json.dumps(dataclasses.asdict(item.server.flavor)))
        if flavor is not None:
            item.store.change(item.act.server_id, flavor=flavor)

    def change_back() -> None:
        if item.noted(_FLAVOR) is not None:
            item.store.change(item.act.server_id, flavor=_flavor_before(item))

    return work.Step('change_flavor', change, change_back)


def _flavor_before(item: work.Work) -> records.Flavor:
    return records.Flavor(**json.loads(str(item.noted(_FLAVOR))))


def resize(item: work.Work) -> work.Plan:
    """Return the plan to move a server to another host, with the new flavor if there is one.

    Without a new flavor, the server action is a cold migration. The move can be reverted until a
    client confirms the move.
    """
    before, flavor = item.server, item.act.arguments.get('flavor')
    plan = _moved_cold(item, before.vm_state, lambda source: {
        'old_host': source, 'old_state': before.vm_state.value,
        'old_flavor': _flavor_before(item)})
    return plan._replace(undoable=(
        _with_flavor(item, records.Flavor(**flavor) if flavor else None), *plan.undoable))


def confirm_resize(item: work.Work) -> work.Plan:
    """Return the plan to confirm a resize or a cold migration."""
    return work.Plan(done={'vm_state': item.server.old_state, **_FORGOTTEN})


def revert_resize(item: work.Work) -> work.Plan:
    """Return the plan to move a resized server back to its former host and flavor."""
    before = item.server
    # After the commit, the server already has its state from before the resize.
    state = before.old_state or before.vm_state.value
    plan = _moved_cold(item, state, lambda _source: {**_FORGOTTEN, 'vm_state': state})

    def choose() -> None:
        if item.noted(_DESTINATION) is None:
            item.note(_DESTINATION, before.old_host)

    return plan._replace(
        # The destination is the former host, so the step that chooses a host is replaced.
        undoable=(_with_flavor(item, before.old_flavor),
                  work.Step('choose_host', choose), *plan.undoable[1:]),
        done={'vm_state': state})


def shelve(item: work.Work) -> work.Plan:
    """Return the plan to shelve a server. The server is stopped, and stays on its host."""
    def do() -> None:
        try:
            item.agent(item.server.host).stop(item.caller, item.act.server_id)
        except errors.HostRefused:
            if item.server.vm_state is not _V.STOPPED or not connections.define_lost(item):
                raise

    return work.Plan(finishing=(work.Step('stop', do), work.Step(
        'release', lambda: connections.release_second(item))), refused=lambda _reason: None)


def shelve_offload(item: work.Work) -> work.Plan:
    """Return the plan to remove a shelved server from its host.

    Each volume stays in use through an attachment without a host.
    """
    def leave() -> None:
        host = item.server.host
        if host is not None and item.noted(_LEFT) is None:
            # Volumes may be unreserved if another process began the action.
            connections.hold_next(item)
            item.note(_LEFT, host)
        item.leave(host)

    def hold() -> None:
        if item.server.host is not None:
            connections.hold_anew(item)
            item.store.change(item.act.server_id, host=None)

    def refused(reason: Exception) -> None:
        if item.noted(_LEFT) is not None:
            simple.ends_in_error(item)(reason)

    return work.Plan(undoable=(work.Step('hold', lambda: connections.hold_first(item),
                                         item.release_next),),
                     finishing=(work.Step('leave', leave), work.Step('promote', hold),
                                work.Step('complete', item.complete_all)),
                     refused=refused)


def unshelve(item: work.Work) -> work.Plan:
    """Return the plan to start a shelved server. An offloaded server gets a newly chosen host."""
    if item.server.vm_state is _V.SHELVED:
        here = connections.HostConnections(item)

        def start() -> None:
            here.run(lambda guest: item.agent(item.server.host).start(item.caller, guest))

        def stop() -> None:
            item.shut_down(item.server.host)

        return work.Plan(undoable=(work.Step('connect', here.connect, here.release),
                                   work.Step('start', start, stop),
                                   work.Step('complete', here.complete)))

    def put() -> None:
        destination = _destination(item)
        item.put(destination)
        item.store.commit(item.act, item.act.server_id, host=destination)

    def leave() -> None:
        item.leave(item.noted(_DESTINATION))
        # A process that lost the action may still connect the old attachments to the destination.
        connections.hold_anew(item)
        item.complete_all()

    return work.Plan(undoable=(work.Step('choose_host', lambda: _choose(item)),
                               work.Step('put', put, leave)))


def _was_off(item: work.Work) -> bool:
    # As in Nova, rebuild and evacuate do not start a stopped server.
    return item.server.vm_state is _V.STOPPED


def rebuild(item: work.Work) -> work.Plan:
    """Return the plan to create the guest of a server again on the same host.

    The volumes keep their data.
    """
    off = _was_off(item)

    def hold() -> None:
        # Fails before anything is changed if the agent does not answer or is too old.
        item.connector(item.server.host)
        connections.hold_first(item)

    def leave() -> None:
        if item.noted(_LEFT) is None:
            # Call the host and block storage before anything is taken from the server. Volumes may
            # be unreserved if another process began the action.
            item.connector(item.server.host)
            connections.hold_next(item)
            item.shut_down(item.server.host)
            item.leave(item.server.host)
            connections.hold_anew(item)
            item.note(_LEFT, item.server.host)

    def put() -> None:
        item.put(item.server.host, running=not off)

    def refused(reason: Exception) -> None:
        if item.noted(_LEFT) is not None:
            simple.leave_if_possible(item, item.server.host)
            connections.release_unused(item, every=True)
            if not off:
                # Only operations that are allowed in ERROR complete the attachments again.
                simple.ends_in_error(item)(reason)
                return
        simple.stays_if_true(item)(reason)

    return work.Plan(undoable=(work.Step('hold', hold, item.release_next),),
                     finishing=(work.Step('leave', leave), work.Step('put', put)),
                     refused=refused,
                     done={'vm_state': _V.STOPPED.value} if off else {})


def evacuate(item: work.Work) -> work.Plan:
    """Return the plan to run a server of a failed host on another host.

    First, the failed host is disconnected from the volumes, so that a guest that still runs there
    cannot write to them. When the agent of the failed host returns, that guest is destroyed.
    """
    off = _was_off(item)

    def hold() -> None:
        # Without a destination, the server keeps its connections.
        _choose(item, (item.server.host,))
        connections.hold_first(item)

    def fence() -> None:
        if item.noted(_FENCED) is None:
            _choose(item, (item.server.host,))
            connections.hold_anew(item)
            item.note(_FENCED, item.server.host)

    def put() -> None:
        _choose(item, (item.noted(_FENCED),))
        destination = _destination(item)
        item.put(destination, running=not off)
        item.store.change(item.act.server_id, host=destination)

    def refused(reason: Exception) -> None:
        if item.noted(_FENCED) is not None:
            # The server stays on its host and can run there once its volumes are connected again.
            simple.leave_if_possible(item, item.noted(_DESTINATION))
            connections.release_unused(item, every=True)
        simple.ends_in_error(item)(reason)

    return work.Plan(undoable=(work.Step('hold', hold, item.release_next),),
                     finishing=(work.Step('fence', fence), work.Step('put', put)),
                     refused=refused,
                     done={'vm_state': _V.STOPPED.value} if off else {})


PLANS: dict[str, Callable[[work.Work], work.Plan]] = {
    'live_migrate': live_migrate, 'resize': resize, 'confirm_resize': confirm_resize,
    'revert_resize': revert_resize, 'shelve': shelve, 'shelve_offload': shelve_offload,
    'unshelve': unshelve, 'rebuild': rebuild, 'evacuate': evacuate}

