"""Acts that do not move a server: build, power, volumes, delete."""
import contextlib
import datetime
import logging
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from blockattach.compute import errors
from blockattach.compute import interface
from blockattach.compute import lifecycle
from blockattach.compute import records
from blockattach.compute import storage
from blockattach.compute.acts import connections
from blockattach.compute.acts import work
from blockattach.compute.hosts import base
from blockattach.platform import log

LOG = logging.getLogger(__name__)

_V = lifecycle.VmState


def build(now: Callable[[], datetime.datetime]) -> Callable[[work.Work], work.Plan]:
    """Return the function that plans the build of a new server.

    :param now: function that returns the launch time
    """
    def plan(doing: work.Work) -> work.Plan:
        def put() -> None:
            host = doing.server.host
            if host is None:
                # No host was suitable when the server was created.
                host = doing.choose_host(wanted=doing.act.arguments.get('host'))
                doing.store.change(doing.act.server_id, host=host)
            doing.put(host)

        def leave() -> None:
            doing.leave(doing.server.host)

        return work.Plan(
            # A separate step releases volumes even if destroying the guest fails.
            undoable=(work.Step('hold', lambda: None, doing.release_all),
                      work.Step('put', put, leave)),
            done={'launched_at': now()}, failed={'vm_state': _V.ERROR.value, 'host': None})
    return plan


def start(doing: work.Work) -> work.Plan:
    """Start a stopped server with all of its volumes."""
    here = connections.HostConnections(doing)

    def do() -> None:
        here.run(lambda guest: doing.agent(doing.server.host).start(doing.caller, guest))

    return work.Plan(undoable=(work.Step('connect', here.connect, here.release),),
                     finishing=(work.Step('start', do), work.Step('complete', here.complete)),
                     refused=stays_if_true(doing))


def stop(doing: work.Work) -> work.Plan:
    """Stop the guest and keep its volumes.

    A guest that an earlier task lost is defined again, stopped.
    """
    def do() -> None:
        try:
            doing.agent(doing.server.host).stop(doing.caller, doing.act.server_id)
        except errors.HostRefused:
            if not connections.define_lost(doing):
                raise

    def release() -> None:
        if doing.server.vm_state is _V.ERROR:
            # A failed task may have left connections that were never completed.
            connections.release_unused(doing)
        else:
            connections.release_second(doing)

    return work.Plan(finishing=(work.Step('stop', do), work.Step('release', release)),
                     refused=_stays)


def reboot(doing: work.Work) -> work.Plan:
    """Stop and start the guest with all of its volumes.

    A hard reboot does not wait for the guest to shut down.
    """
    here = connections.HostConnections(doing)

    def go(guest: Mapping[str, Any]) -> None:
        host = doing.server.host
        if doing.act.arguments.get('type') == 'HARD':
            doing.agent(host).destroy(doing.caller, doing.act.server_id)
            doing.agent(host).spawn(doing.caller, guest)
        else:
            doing.agent(host).reboot(doing.caller, guest)

    return work.Plan(undoable=(work.Step('connect', here.connect, here.release),),
                     finishing=(work.Step('reboot', lambda: here.run(go)),
                                work.Step('complete', here.complete)),
                     refused=stays_if_true(doing))


def attach(doing: work.Work) -> work.Plan:
    """Attach the volume that was recorded when the act began.

    A server without a host only reserves the volume.
    """
    volume_id: str = doing.act.arguments['volume_id']

    def device() -> records.BlockDevice:
        return doing.store.device(doing.act.server_id, volume_id)

    def reserve() -> None:
        doing.reserve(device())

    def forget() -> None:
        found = _there(doing, volume_id)
        if found is not None:
            doing.release(found)
            doing.store.remove_device(found.id)

    def plug() -> None:
        host = doing.server.host
        if host is not None:
            found = device()
            disk = doing.disk(found, doing.connect(doing.connector(host), found).info)
            try:
                doing.agent(host).plug(doing.caller, doing.act.server_id,
                                       interface.disk_values(disk))
            except errors.HostRefused:
                if doing.server.vm_state is not _V.STOPPED or not connections.define_lost(doing):
                    raise

    def unplug() -> None:
        host = doing.server.host
        # If the agent is down, releasing the volume disconnects the host.
        if doing.is_up(host):
            doing.agent(host).unplug(doing.caller, doing.act.server_id, volume_id)

    def complete() -> None:
        found = device()
        doing.complete(found, str(found.attachment_id))

    return work.Plan(undoable=(work.Step('reserve', reserve, forget),
                               work.Step('plug', plug, unplug),
                               work.Step('complete', complete)))


def detach(doing: work.Work) -> work.Plan:
    """Detach a volume from a server."""
    volume_id: str = doing.act.arguments['volume_id']

    def unplug() -> None:
        host = doing.server.host
        if host is not None and _there(doing, volume_id) is not None:
            doing.agent(host).unplug(doing.caller, doing.act.server_id, volume_id)

    def release() -> None:
        found = _there(doing, volume_id)
        if found is not None:
            try:
                doing.release(found)
            except errors.ServerRequestInvalid as exc:
                # The guest has released the disk, so the release is retried until it succeeds.
                raise errors.StorageUnavailable(reason=str(exc)) from exc
            doing.store.remove_device(found.id)

    def stays(_reason: Exception) -> None:
        found = _there(doing, volume_id)
        if found is None:
            return
        if found.attachment_id is None:
            # The attachment was deleted before the refusal, so the server has lost the volume.
            doing.store.remove_device(found.id)
        else:
            doing.store.change_device(found.id, state='attached')

    return work.Plan(finishing=(work.Step('unplug', unplug), work.Step('release', release)),
                     refused=stays)


def swap(doing: work.Work) -> work.Plan:
    """Copy a volume of a server to another volume, which replaces it with the same mode."""
    old_id: str = doing.act.arguments['volume_id']
    new_id: str = doing.act.arguments['new_volume_id']

    def device() -> records.BlockDevice:
        return doing.store.device(doing.act.server_id, old_id)

    def attach_new() -> None:
        # The attachment that a failed task left is of another volume, or of another host.
        doing.release_leftovers()
        if doing.server.vm_state is _V.STOPPED:
            connections.define_lost(doing)
        found = device()
        connector = doing.of_device(doing.connector(doing.server.host), found)
        doing.create(found, connector, found.id, 'next_attachment_id', new_id)

    def release_new() -> None:
        found = device()
        if found.next_attachment_id is not None:
            doing.tools.attachments.delete(doing.caller, found.next_attachment_id)
            doing.store.change_device(found.id, next_attachment_id=None)
        doing.release_unknown(new_id)

    def copy() -> None:
        found = device()
        info = doing.tools.attachments.get(doing.caller, str(found.next_attachment_id)).info
        disk = doing.disk(found, info)
        doing.agent(doing.server.host).swap(
            doing.caller, doing.act.server_id, old_id,
            {**interface.disk_values(disk), 'volume_id': new_id})
        doing.store.commit(doing.act, doing.act.server_id, [found], new_id)

    def look() -> None:
        found = device()
        if found.next_attachment_id is not None and new_id in doing.agent(
                doing.server.host).disks(doing.caller, doing.act.server_id):
            doing.store.commit(doing.act, doing.act.server_id, [found], new_id)
            raise work.WentOn

    def finish() -> None:
        found = doing.store.device(doing.act.server_id, new_id)
        doing.complete(found, str(found.attachment_id))
        if found.next_attachment_id is not None:
            doing.tools.attachments.delete(doing.caller, found.next_attachment_id)
            doing.store.change_device(found.id, next_attachment_id=None)

    return work.Plan(undoable=(work.Step('attach_new', attach_new, release_new),
                               work.Step('copy', copy, look)),
                     finishing=(work.Step('finish', finish),))


def delete(doing: work.Work) -> work.Plan:
    """Delete a server and release its volumes.

    If the agent of its host is down, the guest is destroyed when the agent returns.
    """
    def destroy() -> None:
        for host in (doing.server.host, doing.server.old_host):
            doing.leave(host)

    def remove_volumes() -> None:
        for device in doing.devices:
            if device.delete_on_termination:
                try:
                    doing.tools.volumes.delete(doing.caller, device.volume_id)
                except (errors.ServerRequestInvalid, storage.Forbidden) as exc:
                    # Not retried with the service account, which has more rights than the caller.
                    LOG.warning('Failed to delete volume on server termination%s', log.fields(
                        server_id=device.server_id, volume_id=device.volume_id, reason=exc))

    def release() -> None:
        doing.release_all()
        # An earlier act may have left an attachment of a volume that is not recorded.
        doing.release_unknown(None)

    return work.Plan(finishing=(work.Step('destroy', destroy), work.Step('release', release),
                                work.Step('remove_volumes', remove_volumes)))


def _there(doing: work.Work, volume_id: str) -> records.BlockDevice | None:
    try:
        return doing.tools.store.device(doing.act.server_id, volume_id)
    except errors.ServerVolumeNotFound:
        return None


def leave_if_possible(doing: work.Work, host: str | None) -> None:
    """Destroy the guest on a host, or only detach its volumes if the host rejects that."""
    with contextlib.suppress(errors.HostError, errors.ServiceUnreachable):
        doing.leave(host)


def _runs(doing: work.Work) -> bool:
    """Return True if the agent of the host reports the guest as running."""
    host = doing.server.host
    if not doing.is_up(host):
        return False
    try:
        found = doing.agent(host).servers(doing.caller).get(doing.act.server_id)
    except (errors.HostError, errors.ServiceUnreachable):
        return False
    return found == base.Power.RUNNING


def _stays(_reason: Exception) -> None:
    """Restore the status of the server. Nothing has changed on its host."""


def stays_if_true(doing: work.Work) -> Callable[[Exception], None]:
    """Restore the status of the server, unless the task has stopped or started the guest."""
    def refused(reason: Exception) -> None:
        state = doing.server.vm_state
        if state is not _V.ERROR and (state is _V.ACTIVE) != _runs(doing):
            ends_in_error(doing)(reason)
    return refused


def ends_in_error(doing: work.Work) -> Callable[[Exception], None]:
    """Return the function that sets the server to ERROR when a finishing step is rejected."""
    def refused(_reason: Exception) -> None:
        doing.store.change(doing.act.server_id, vm_state=_V.ERROR.value)
    return refused


PLANS: dict[str, Callable[[work.Work], Any]] = {
    'start': start, 'stop': stop, 'reboot': reboot, 'attach': attach, 'detach': detach,
    'swap': swap, 'delete': delete}
