"""Plans of server actions that do not move a server, such as build, start, attach and delete."""
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
    """Return the function that returns the plan to build a new server.

    :param now: function that returns the launch time
    """
    def plan(item: work.Work) -> work.Plan:
        def put() -> None:
            host = item.server.host
            if host is None:
                # No host was suitable when the server was created.
                host = item.choose_host(only_host=item.act.arguments.get('host'))
                item.store.change(item.act.server_id, host=host)
            item.put(host)

        def leave() -> None:
            item.leave(item.server.host)

        return work.Plan(
            # A separate step releases volumes even if destroying the guest fails.
            undoable=(work.Step('hold', lambda: None, item.release_all),
                      work.Step('put', put, leave)),
            done={'launched_at': now()}, failed={'vm_state': _V.ERROR.value, 'host': None})
    return plan


def start(item: work.Work) -> work.Plan:
    """Return the plan to start a stopped server with all of its volumes."""
    here = connections.HostConnections(item)

    def do() -> None:
        here.run(lambda guest: item.agent(item.server.host).start(item.caller, guest))

    return work.Plan(undoable=(work.Step('connect', here.connect, here.release),),
                     finishing=(work.Step('start', do), work.Step('complete', here.complete)),
                     refused=stays_if_true(item))


def stop(item: work.Work) -> work.Plan:
    """Return the plan to stop a server. Its volumes stay attached.

    If the host has lost the guest of the server, the guest is defined again in the stopped state.
    """
    def do() -> None:
        try:
            item.agent(item.server.host).stop(item.caller, item.act.server_id)
        except errors.HostRefused:
            if not connections.define_lost(item):
                raise

    def release() -> None:
        if item.server.vm_state is _V.ERROR:
            # A failed action may have left connections that were never completed.
            connections.release_unused(item)
        else:
            connections.release_second(item)

    return work.Plan(finishing=(work.Step('stop', do), work.Step('release', release)),
                     refused=_stays)


def reboot(item: work.Work) -> work.Plan:
    """Return the plan to stop a server, and to start it with all of its volumes.

    A hard reboot does not wait for the guest to shut down.
    """
    here = connections.HostConnections(item)

    def go(guest: Mapping[str, Any]) -> None:
        host = item.server.host
        if item.act.arguments.get('type') == 'HARD':
            item.agent(host).destroy(item.caller, item.act.server_id)
            item.agent(host).spawn(item.caller, guest)
        else:
            item.agent(host).reboot(item.caller, guest)

    return work.Plan(undoable=(work.Step('connect', here.connect, here.release),),
                     finishing=(work.Step('reboot', lambda: here.run(go)),
                                work.Step('complete', here.complete)),
                     refused=stays_if_true(item))


def attach(item: work.Work) -> work.Plan:
    """Return the plan to attach a volume, whose block device was recorded when the action began.

    If the server has no host, the volume is only reserved for the server.
    """
    volume_id: str = item.act.arguments['volume_id']

    def device() -> records.BlockDevice:
        return item.store.device(item.act.server_id, volume_id)

    def reserve() -> None:
        item.reserve(device())

    def forget() -> None:
        found = _there(item, volume_id)
        if found is not None:
            item.release(found)
            item.store.remove_device(found.id)

    def plug() -> None:
        host = item.server.host
        if host is not None:
            found = device()
            disk = item.disk(found, item.connect(item.connector(host), found).info)
            try:
                item.agent(host).plug(item.caller, item.act.server_id,
                                      interface.disk_values(disk))
            except errors.HostRefused:
                # An earlier action lost the guest. Defining it again includes the new volume.
                if item.server.vm_state is not _V.STOPPED or not connections.define_lost(item):
                    raise

    def unplug() -> None:
        host = item.server.host
        # If the agent is down, releasing the volume disconnects the host.
        if item.is_up(host):
            item.agent(host).unplug(item.caller, item.act.server_id, volume_id)

    def complete() -> None:
        found = device()
        item.complete(found, str(found.attachment_id))

    return work.Plan(undoable=(work.Step('reserve', reserve, forget),
                               work.Step('plug', plug, unplug),
                               work.Step('complete', complete)))


def detach(item: work.Work) -> work.Plan:
    """Return the plan to detach a volume from a server."""
    volume_id: str = item.act.arguments['volume_id']

    def unplug() -> None:
        host = item.server.host
        if host is not None and _there(item, volume_id) is not None:
            item.agent(host).unplug(item.caller, item.act.server_id, volume_id)

    def release() -> None:
        found = _there(item, volume_id)
        if found is not None:
            try:
                item.release(found)
            except errors.ServerRequestInvalid as exc:
                # The guest has released the disk, so the release is retried until it succeeds.
                raise errors.StorageUnavailable(reason=str(exc)) from exc
            item.store.remove_device(found.id)

    def stays(_reason: Exception) -> None:
        found = _there(item, volume_id)
        if found is None:
            return
        if found.attachment_id is None:
            # The attachment was deleted before the refusal, so the server has lost the volume.
            item.store.remove_device(found.id)
        else:
            item.store.change_device(found.id, state='attached')

    return work.Plan(finishing=(work.Step('unplug', unplug), work.Step('release', release)),
                     refused=stays)


def swap(item: work.Work) -> work.Plan:
    """Return the plan to copy a server's volume to a new volume, which replaces the old volume."""
    old_id: str = item.act.arguments['volume_id']
    new_id: str = item.act.arguments['new_volume_id']

    def device() -> records.BlockDevice:
        return item.store.device(item.act.server_id, old_id)

    def attach_new() -> None:
        # An attachment that a failed action left may belong to another volume or another host.
        item.release_leftovers()
        if item.server.vm_state is _V.STOPPED:
            connections.define_lost(item)
        found = device()
        connector = item.of_device(item.connector(item.server.host), found)
        item.create(found, connector, found.id, 'next_attachment_id', new_id)

    def release_new() -> None:
        found = device()
        if found.next_attachment_id is not None:
            item.tools.attachments.delete(item.caller, found.next_attachment_id)
            item.store.change_device(found.id, next_attachment_id=None)
        item.release_unknown(new_id)

    def copy() -> None:
        found = device()
        info = item.tools.attachments.get(item.caller, str(found.next_attachment_id)).info
        disk = item.disk(found, info)
        item.agent(item.server.host).swap(
            item.caller, item.act.server_id, old_id,
            {**interface.disk_values(disk), 'volume_id': new_id})
        item.store.commit(item.act, item.act.server_id, [found], new_id)

    def look() -> None:
        found = device()
        if found.next_attachment_id is not None and new_id in item.agent(
                item.server.host).disks(item.caller, item.act.server_id):
            item.store.commit(item.act, item.act.server_id, [found], new_id)
            raise work.WentOn

    def finish() -> None:
        found = item.store.device(item.act.server_id, new_id)
        item.complete(found, str(found.attachment_id))
        if found.next_attachment_id is not None:
            item.tools.attachments.delete(item.caller, found.next_attachment_id)
            item.store.change_device(found.id, next_attachment_id=None)

    return work.Plan(undoable=(work.Step('attach_new', attach_new, release_new),
                               work.Step('copy', copy, look)),
                     finishing=(work.Step('finish', finish),))


def delete(item: work.Work) -> work.Plan:
    """Return the plan to delete a server and release its volumes.

    Released volumes are deleted if their ``delete_on_termination`` is True.
    If the agent of the host is down, the guest is destroyed when the agent returns.
    """
    def destroy() -> None:
        for host in (item.server.host, item.server.old_host):
            item.leave(host)

    def remove_volumes() -> None:
        for device in item.devices:
            if device.delete_on_termination:
                try:
                    item.tools.volumes.delete(item.caller, device.volume_id)
                except (errors.ServerRequestInvalid, storage.Forbidden) as exc:
                    # Not retried with the service account, which has more rights than the caller.
                    LOG.warning('Failed to delete volume on server termination%s', log.fields(
                        server_id=device.server_id, volume_id=device.volume_id, reason=exc))

    def release() -> None:
        item.release_all()
        # An earlier action may have left an attachment of a volume that is not recorded.
        item.release_unknown(None)

    return work.Plan(finishing=(work.Step('destroy', destroy), work.Step('release', release),
                                work.Step('remove_volumes', remove_volumes)))


def _there(item: work.Work, volume_id: str) -> records.BlockDevice | None:
    try:
        return item.tools.store.device(item.act.server_id, volume_id)
    except errors.ServerVolumeNotFound:
        return None


def leave_if_possible(item: work.Work, host: str | None) -> None:
    """Destroy the guest of a server on a host. Errors of the host are ignored.

    The caller releases the connections of the host afterwards, so that a guest that was not
    destroyed loses its volumes.
    """
    with contextlib.suppress(errors.HostError, errors.ServiceUnreachable):
        item.leave(host)


def _runs(item: work.Work) -> bool:
    """Return True if the agent of the server's host reports that the guest is running."""
    host = item.server.host
    if not item.is_up(host):
        return False
    try:
        found = item.agent(host).servers(item.caller).get(item.act.server_id)
    except (errors.HostError, errors.ServiceUnreachable):
        return False
    return found == base.Power.RUNNING


def _stays(_reason: Exception) -> None:
    """Keep the status of the server, because nothing has changed on its host."""


def stays_if_true(item: work.Work) -> Callable[[Exception], None]:
    """Return the function that sets the server to ERROR if its status is no longer true.

    The function is called when a finishing step is rejected. The server keeps its status if the
    guest is running or stopped according to the status. Otherwise the server action may have
    stopped or started the guest. If the agent does not answer, the guest counts as stopped.
    """
    def refused(reason: Exception) -> None:
        state = item.server.vm_state
        if state is not _V.ERROR and (state is _V.ACTIVE) != _runs(item):
            ends_in_error(item)(reason)
    return refused


def ends_in_error(item: work.Work) -> Callable[[Exception], None]:
    """Return the function that sets the server to ERROR after the rejection of a finishing step.
    """
    def refused(_reason: Exception) -> None:
        item.store.change(item.act.server_id, vm_state=_V.ERROR.value)
    return refused


PLANS: dict[str, Callable[[work.Work], Any]] = {
    'start': start, 'stop': stop, 'reboot': reboot, 'attach': attach, 'detach': detach,
    'swap': swap, 'delete': delete}
