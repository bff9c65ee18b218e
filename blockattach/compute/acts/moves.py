"""Acts that move a server to another host, or remove it from its host."""
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


def _destination(doing: work.Work) -> str:
    found = doing.noted(_DESTINATION)
    assert found is not None
    return found


def _choose(doing: work.Work, without: tuple[str | None, ...] = ()) -> None:
    """Choose the destination of the server and note it, once per act."""
    if doing.noted(_DESTINATION) is None:
        doing.note(_DESTINATION, doing.choose_host(
            [host for host in without if host is not None],
            wanted=doing.act.arguments.get('host')))


def live_migrate(doing: work.Work) -> work.Plan:
    """Live-migrate a server, whose volumes are connected on both hosts meanwhile."""
    def connect() -> None:
        # The attachment that a failed task left is connected to another host, or to none.
        doing.release_leftovers()
        connector = doing.connector(_destination(doing))
        for device in doing.devices:
            if device.next_attachment_id is None:
                doing.create(device, doing.of_device(connector, device), device.id,
                             'next_attachment_id')

    def receive() -> None:
        disks = [doing.disk(device, doing.tools.attachments.get(
            doing.caller, str(device.next_attachment_id)).info) for device in doing.devices]
        doing.note('address', doing.agent(_destination(doing)).receive(
            doing.caller, doing.guest(disks)))

    def send() -> None:
        doing.agent(doing.server.host).send(doing.caller, doing.act.server_id,
                                            str(doing.noted('address')))
        _arrive(doing)

    def look() -> None:
        if doing.noted('address') is not None and _has_moved(doing):
            _arrive(doing)
            raise work.WentOn

    return work.Plan(
        undoable=(work.Step('choose_host', lambda: _choose(doing, (doing.server.host,))),
                  work.Step('connect', connect, doing.release_next),
                  work.Step('receive', receive, lambda: doing.leave(doing.noted(_DESTINATION))),
                  work.Step('send', send, look)),
        finishing=(work.Step('complete', doing.complete_all),
                   work.Step('release', doing.release_next),
                   work.Step('leave', lambda: doing.leave(doing.noted(_SOURCE)))))


def _arrive(doing: work.Work) -> None:
    """Commit the move, with which the next attachment of each volume becomes the current one."""
    doing.note(_SOURCE, doing.server.host)
    doing.store.commit(doing.act, doing.act.server_id, doing.devices, host=_destination(doing))


def _has_moved(doing: work.Work) -> bool:
    """Return True if a server that may have been sent has arrived at its destination.

    If the agent of the destination is down, the source is asked. A server that is no longer
    there has arrived; one that is still there is sent again, and the result tells.
    """
    server_id, destination = doing.act.server_id, _destination(doing)
    if doing.is_up(destination):
        return doing.agent(destination).servers(doing.caller).get(server_id) == _RUNNING
    source = doing.agent(doing.server.host)
    if server_id in source.servers(doing.caller):
        try:
            source.send(doing.caller, server_id, str(doing.noted('address')))
        except errors.HostRefused:
            # The server still runs on the source.
            return False
    return True


def _moved_cold(doing: work.Work, state: str,
                done: Callable[[str], dict[str, Any]]) -> work.Plan:
    """Return the plan to stop a server, replace its attachments, and run it on another host.

    :param state: state of the server before the move, which is kept
    :param done: function from the former host to the columns of the server that the commit
        updates
    """
    def put_on(host: str) -> None:
        doing.put(host, running=state != _V.STOPPED)

    def leave() -> None:
        # The attachment that a failed task left is connected to another host, or to none.
        doing.release_leftovers()
        doing.note(_SOURCE, doing.server.host)
        doing.shut_down(doing.server.host)
        doing.leave(doing.server.host)

    def come_back() -> None:
        source = doing.noted(_SOURCE)
        if source is not None:
            # A guest that is still there has its former connections.
            doing.leave(source)
            put_on(source)

    def hold_again() -> None:
        # A server that has not left still needs its attachments.
        if doing.noted(_SOURCE) is not None:
            connections.hold_anew(doing)

    def put() -> None:
        destination = _destination(doing)
        put_on(destination)
        doing.store.commit(doing.act, doing.act.server_id, host=destination,
                           **done(str(doing.noted(_SOURCE))))

    return work.Plan(undoable=(
        work.Step('choose_host', lambda: _choose(doing, (doing.server.host,))),
        work.Step('leave', leave, come_back),
        work.Step('hold_anew', lambda: connections.hold_anew(doing), hold_again),
        work.Step('put', put, lambda: doing.leave(doing.noted(_DESTINATION)))))


def _with_flavor(doing: work.Work, flavor: records.Flavor | None) -> work.Step:
    """Return the step that sets the flavor of the server.

    :param flavor: new flavor, or None to keep the current one
    """
    def change() -> None:
        if doing.noted(_FLAVOR) is None:
            doing.note(_FLAVOR, json.dumps(dataclasses.asdict(doing.server.flavor)))
        if flavor is not None:
            doing.store.change(doing.act.server_id, flavor=flavor)

    def change_back() -> None:
        if doing.noted(_FLAVOR) is not None:
            doing.store.change(doing.act.server_id, flavor=_flavor_before(doing))

    return work.Step('change_flavor', change, change_back)


def _flavor_before(doing: work.Work) -> records.Flavor:
    return records.Flavor(**json.loads(str(doing.noted(_FLAVOR))))


def resize(doing: work.Work) -> work.Plan:
    """Move a server to another host, with the requested flavor if any.

    The move can be reverted until it is confirmed.
    """
    before, wanted = doing.server, doing.act.arguments.get('flavor')
    plan = _moved_cold(doing, before.vm_state, lambda source: {
        'old_host': source, 'old_state': before.vm_state.value,
        'old_flavor': _flavor_before(doing)})
    return plan._replace(undoable=(
        _with_flavor(doing, records.Flavor(**wanted) if wanted else None), *plan.undoable))


def confirm_resize(doing: work.Work) -> work.Plan:
    """Confirm a resize or migration."""
    return work.Plan(done={'vm_state': doing.server.old_state, **_FORGOTTEN})


def revert_resize(doing: work.Work) -> work.Plan:
    """Move a resized server back to its former host, with its former flavor."""
    before = doing.server
    # After the commit, the server already has its state from before the resize.
    state = before.old_state or before.vm_state.value
    plan = _moved_cold(doing, state, lambda _source: {**_FORGOTTEN, 'vm_state': state})

    def choose() -> None:
        if doing.noted(_DESTINATION) is None:
            doing.note(_DESTINATION, before.old_host)

    return plan._replace(
        undoable=(_with_flavor(doing, before.old_flavor),
                  work.Step('choose_host', choose), *plan.undoable[1:]),
        done={'vm_state': state})


def shelve(doing: work.Work) -> work.Plan:
    """Stop a server, so that it can be offloaded later."""
    def do() -> None:
        try:
            doing.agent(doing.server.host).stop(doing.caller, doing.act.server_id)
        except errors.HostRefused:
            if doing.server.vm_state is not _V.STOPPED or not connections.define_lost(doing):
                raise

    return work.Plan(finishing=(work.Step('stop', do), work.Step(
        'release', lambda: connections.release_second(doing))), refused=lambda _reason: None)


def shelve_offload(doing: work.Work) -> work.Plan:
    """Remove a shelved server from its host.

    Each volume stays in use through an attachment without a host.
    """
    def leave() -> None:
        host = doing.server.host
        if host is not None and doing.noted(_LEFT) is None:
            # Volumes may be unreserved if another process began the task.
            connections.hold_next(doing)
            doing.note(_LEFT, host)
        doing.leave(host)

    def hold() -> None:
        if doing.server.host is not None:
            connections.hold_anew(doing)
            doing.store.change(doing.act.server_id, host=None)

    def refused(reason: Exception) -> None:
        if doing.noted(_LEFT) is not None:
            simple.ends_in_error(doing)(reason)

    return work.Plan(undoable=(work.Step('hold', lambda: connections.hold_first(doing),
                                         doing.release_next),),
                     finishing=(work.Step('leave', leave), work.Step('promote', hold),
                                work.Step('complete', doing.complete_all)),
                     refused=refused)


def unshelve(doing: work.Work) -> work.Plan:
    """Run a shelved server, on a newly chosen host if it was offloaded."""
    if doing.server.vm_state is _V.SHELVED:
        here = connections.HostConnections(doing)

        def start() -> None:
            here.run(lambda guest: doing.agent(doing.server.host).start(doing.caller, guest))

        def stop() -> None:
            doing.shut_down(doing.server.host)

        return work.Plan(undoable=(work.Step('connect', here.connect, here.release),
                                   work.Step('start', start, stop),
                                   work.Step('complete', here.complete)))

    def put() -> None:
        destination = _destination(doing)
        doing.put(destination)
        doing.store.commit(doing.act, doing.act.server_id, host=destination)

    def leave() -> None:
        doing.leave(doing.noted(_DESTINATION))
        # A process that lost the task may still connect the old attachments to the destination.
        connections.hold_anew(doing)
        doing.complete_all()

    return work.Plan(undoable=(work.Step('choose_host', lambda: _choose(doing)),
                               work.Step('put', put, leave)))


def _was_off(doing: work.Work) -> bool:
    """Return True if the server must be stopped after the act too."""
    return doing.server.vm_state is _V.STOPPED


def rebuild(doing: work.Work) -> work.Plan:
    """Rebuild the guest of a server on its host. Its volumes keep their data."""
    off = _was_off(doing)

    def hold() -> None:
        doing.connector(doing.server.host)
        connections.hold_first(doing)

    def leave() -> None:
        if doing.noted(_LEFT) is None:
            # Ask host and block storage before anything is taken from the server. The volumes may
            # not all be reserved if another process began the task.
            doing.connector(doing.server.host)
            connections.hold_next(doing)
            doing.shut_down(doing.server.host)
            doing.leave(doing.server.host)
            connections.hold_anew(doing)
            doing.note(_LEFT, doing.server.host)

    def put() -> None:
        doing.put(doing.server.host, running=not off)

    def refused(reason: Exception) -> None:
        if doing.noted(_LEFT) is not None:
            simple.leave_if_possible(doing, doing.server.host)
            connections.release_unused(doing, every=True)
            if not off:
                # Only operations that are allowed in ERROR complete the attachments again.
                simple.ends_in_error(doing)(reason)
                return
        simple.stays_if_true(doing)(reason)

    return work.Plan(undoable=(work.Step('hold', hold, doing.release_next),),
                     finishing=(work.Step('leave', leave), work.Step('put', put)),
                     refused=refused,
                     done={'vm_state': _V.STOPPED.value} if off else {})


def evacuate(doing: work.Work) -> work.Plan:
    """Run a server of a failed host on another host.

    The failed host is disconnected from the volumes first, so that it cannot write to them even
    if it still runs. The guest there is destroyed when its agent returns.
    """
    off = _was_off(doing)

    def hold() -> None:
        # Without a destination, the server keeps its connections.
        _choose(doing, (doing.server.host,))
        connections.hold_first(doing)

    def fence() -> None:
        if doing.noted(_FENCED) is None:
            _choose(doing, (doing.server.host,))
            connections.hold_anew(doing)
            doing.note(_FENCED, doing.server.host)

    def put() -> None:
        _choose(doing, (doing.noted(_FENCED),))
        destination = _destination(doing)
        doing.put(destination, running=not off)
        doing.store.change(doing.act.server_id, host=destination)

    def refused(reason: Exception) -> None:
        if doing.noted(_FENCED) is not None:
            # The server stays on its host and can run there once its volumes are connected again.
            simple.leave_if_possible(doing, doing.noted(_DESTINATION))
            connections.release_unused(doing, every=True)
        simple.ends_in_error(doing)(reason)

    return work.Plan(undoable=(work.Step('hold', hold, doing.release_next),),
                     finishing=(work.Step('fence', fence), work.Step('put', put)),
                     refused=refused,
                     done={'vm_state': _V.STOPPED.value} if off else {})


PLANS: dict[str, Callable[[work.Work], work.Plan]] = {
    'live_migrate': live_migrate, 'resize': resize, 'confirm_resize': confirm_resize,
    'revert_resize': revert_resize, 'shelve': shelve, 'shelve_offload': shelve_offload,
    'unshelve': unshelve, 'rebuild': rebuild, 'evacuate': evacuate}

