"""Executor of server actions (acts), which also resumes interrupted acts and takes agent reports.

An act is a row of the table ``acts``. Its undoable steps are a TaskFlow flow. If a step fails, the
flow undoes this step and all steps before. If an act can neither be undone nor finished now, its
row is kept, and `Conductor.look` of any compute API process takes the act over.
"""
import collections
import dataclasses
import functools
import logging
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent import futures
from typing import Any

from taskflow import engines
from taskflow import states
from taskflow import task
from taskflow.patterns import linear_flow

from blockattach.compute import errors
from blockattach.compute import interface
from blockattach.compute import lifecycle
from blockattach.compute import notices
from blockattach.compute import placement
from blockattach.compute import records
from blockattach.compute import reports
from blockattach.compute import sizes
from blockattach.compute.acts import connections
from blockattach.compute.acts import work
from blockattach.platform import context
from blockattach.platform import log

LOG = logging.getLogger(__name__)

_V = lifecycle.VmState
_REFUSALS = (errors.HostRefused, errors.HostDefect, errors.DeviceBusy, errors.NotFound,
             errors.ServerRequestInvalid)
"""Errors that a retry of the failed call would raise again."""
_TOGETHER = 5
"""Maximum number of servers that one call of an agent builds."""
Plans = Mapping[str, Callable[[work.Work], work.Plan]]


class Conductor(interface.ConductorInterface):
    """Executor of the server actions of one compute API process."""

    def __init__(self, tools: work.Tools, plans: Plans, executor: futures.Executor, owner: str,
                 lease_seconds: float, notifications: notices.ServerNotifications) -> None:
        """
        :param plans: functions that return the plan of a server action, by verb
        :param owner: unique name of this process instance
        :param lease_seconds: time after which other processes take over an action whose lease is
            not renewed
        """
        self._tools = tools
        self._plans = plans
        self._executor = executor
        self._owner = owner
        self._lease_seconds = lease_seconds
        self._notifications = notifications
        self._reports = reports.Reports(
            tools.store, tools.agents, executor, tools.clock,
            lambda caller, server_id, device: self.begin(
                caller, server_id, 'detach', {'volume_id': device.volume_id}, device))
        self._sizes = sizes.Sizes(tools, executor)
        self._under_way: set[str] = set()
        """Leases of the server actions that threads of this process execute or will execute."""

    def create(self, caller: context.RequestContext,
               drafts: Sequence[tuple[records.Server, Sequence[records.BlockDevice]]],
               arguments: Mapping[str, Any]) -> None:
        """Create servers, choose a host for each if possible, and begin to build the servers."""
        hosts: Sequence[str | None]
        try:
            hosts = placement.choose_hosts(
                self._tools.store, [devices for _, devices in drafts],
                only_host=arguments.get('host'))
        except errors.ServerRequestInvalid:
            # Each action chooses a host again, and fails if there is none.
            hosts = [None] * len(drafts)
        placed = [(dataclasses.replace(server, host=host), devices)
                  for host, (server, devices) in zip(hosts, drafts, strict=True)]
        acts = self._tools.store.create(placed, _draft(caller, 'build', arguments),
                                        self._owner, self._lease_seconds)
        for host, group in self._groups(zip(hosts, acts, strict=True)):
            if len(group) == 1:
                self._submit(self._run, group[0], caller)
            else:
                self._submitted(group, self._build, host, group, caller)

    def _groups(self, placed: Iterable[tuple[str | None, records.Act]],
                ) -> Iterator[tuple[str | None, list[records.Act]]]:
        """Yield groups of build actions with their host. One call of the agent builds a group.

        If the host is None, or its agent does not support leases, each group has one action.
        """
        acts = collections.defaultdict(list)
        for host, act in placed:
            acts[host].append(act)
        able = {agent.host for agent in self._tools.store.agents()
                if placement.knows_leases(agent.version)}
        for host, its in acts.items():
            size = _TOGETHER if host in able else 1
            for first in range(0, len(its), size):
                yield host, its[first:first + size]

    def begin(self, caller: context.RequestContext, server_id: str, verb: str,
              arguments: Mapping[str, Any] | None = None,
              device: records.BlockDevice | None = None) -> 'futures.Future[None]':
        """Begin a server action. For the errors, see `store.Store.begin`.

        :param device: block device to record when the action begins, or None
        :returns: future that is done when this process has ended the action, or has left the
            action for a retry
        """
        act = self._tools.store.begin(server_id, _draft(caller, verb, arguments or {}),
                                      self._owner, self._lease_seconds, device)
        return self._submit(self._run, act, caller)

    def attach(self, caller: context.RequestContext, server_id: str,
               device: records.BlockDevice) -> None:
        """Reserve a volume for a server, and begin to attach the volume.

        The volume is reserved before the method returns, so that the caller receives the error if
        block storage rejects the reservation.

        :raises ServerRequestInvalid: block storage rejects the attachment, or the server already
            has the volume. For other errors, see `begin` and `storage.Attachments`
        """
        act = self._tools.store.begin(
            server_id, _draft(caller, 'attach', {'volume_id': device.volume_id}), self._owner,
            self._lease_seconds, device)
        try:
            self._reserve(act, caller, device)
        except errors.ActTakenOver:
            # The process that holds the action undoes or finishes it.
            raise
        except errors.BlockattachError as exc:
            if not exc.final:
                # The volume may be reserved. Undoing the action releases the volume.
                self._submit(self._take_up, act, caller)
                raise
            self._tools.store.withdraw(act, device.id)
            raise
        self._submit(self._run, act, caller)

    def _reserve(self, act: records.Act, caller: context.RequestContext,
                 device: records.BlockDevice) -> None:
        # Reserving runs in the thread of the request, so `_submitted` does not register the lease.
        self._under_way.add(act.lease)
        try:
            work.Work(self._tools, act, caller).reserve(device)
        finally:
            self._under_way.discard(act.lease)

    def detach(self, caller: context.RequestContext, server_id: str,
               device: records.BlockDevice) -> None:
        """Begin to detach a volume from a server."""
        self.begin(caller, server_id, 'detach', {'volume_id': device.volume_id})

    def extended(self, caller: context.RequestContext,
                 events: Sequence[tuple[str, str]]) -> list[bool]:
        """Accept ``volume-extended`` events; see `sizes.Sizes.accept`."""
        return self._sizes.accept(caller, events)

    def look(self) -> int:
        """Take over server actions with expired leases, and compare disks; see `reports.Reports`.

        :returns: number of server actions taken over
        """
        taken = self._tools.store.take_over(self._owner, self._lease_seconds)
        for act in taken:
            LOG.warning('Taking over server action%s', log.fields(
                server_id=act.server_id, work=act.verb))
            self._submit(self._take_up, act, _caller(act))
        self._reports.look()
        return len(taken)

    def renew(self) -> None:
        """Renew the leases of the server actions that this process executes.

        If the thread of an action has ended because the database was unreachable, its lease is
        not renewed. The action is taken over when the lease has expired.
        """
        # Other threads change the set meanwhile.
        self._tools.store.renew(self._under_way.copy(), self._lease_seconds)

    def report(self, ctxt: context.RequestContext, host: str, kind: str, version: str,
               servers: Mapping[str, str]) -> None:
        """Record the report of an agent, and compare the reported servers with the database."""
        returned = self._tools.store.report(host, kind, version)
        self._reports.hear(ctxt, host, version, servers, returned)

    def _submit(self, go_on: Callable[[records.Act, context.RequestContext], None],
                act: records.Act, caller: context.RequestContext) -> 'futures.Future[None]':
        return self._submitted([act], go_on, act, caller)

    def _submitted(self, acts: Iterable[records.Act], go_on: Callable[..., None],
                   *arguments: Any) -> 'futures.Future[None]':
        leases = {act.lease for act in acts}
        # Registered before a thread is free: the lease of a waiting action must not expire.
        self._under_way |= leases
        begun = self._executor.submit(go_on, *arguments)
        begun.add_done_callback(lambda _done: self._under_way.difference_update(leases))
        return begun

    def _run(self, act: records.Act, caller: context.RequestContext) -> None:
        """Execute a server action that has just begun."""
        self._guarded(act, caller, self._do)

    def _take_up(self, act: records.Act, caller: context.RequestContext) -> None:
        """Finish an interrupted action if its ``finishing`` is True, otherwise undo the action."""
        def go_on(execution: work.Work, plan: work.Plan) -> None:
            execution.fence()
            (self._finish if act.finishing else self._undo)(execution, plan)
        self._guarded(act, caller, go_on)

    def _guarded(self, act: records.Act, caller: context.RequestContext,
                 go_on: Callable[[work.Work, work.Plan], None]) -> None:
        """Execute a server action. After an error that may pass, release the lease for a retry."""
        execution = work.Work(self._tools, act, caller)
        if lifecycle.VERBS[act.verb].waits and self._tools.store.waits(act):
            # The end of the other action resumes this one, see `_end`.
            self._tools.store.leave(act)
            return
        try:
            go_on(execution, _fenced(execution, self._plans[act.verb](execution)))
        except errors.ServerNotFound:
            LOG.info('Server deleted during server action%s', log.fields(
                server_id=act.server_id, work=act.verb))
            self._tools.store.drop(act)
        except errors.ActTakenOver as exc:
            LOG.warning('Server action taken over by another process%s', log.fields(
                server_id=act.server_id, work=act.verb, reason=exc))
            # The lease is still held if only an agent rejected it, because actions that share the
            # server were taken over.
            self._tools.store.leave(act)
        except Exception as exc:
            if not self._is_given_up(execution, exc):
                LOG.error('Failed to continue server action, will retry%s', log.fields(
                    server_id=act.server_id, work=act.verb, reason=exc),
                    exc_info=not errors.is_known(exc))
                self._tools.store.leave(act)

    def _is_given_up(self, execution: work.Work, reason: Exception) -> bool:
        """End a failed action that must not be retried. Return False for an action to retry."""
        act = execution.act
        if not self._tools.store.generation(act) or not (
                _is_defect(reason) or self._tools.store.is_waited_for(act)):
            return False
        # Retrying would fail in the same way, or the server is about to be deleted, which releases
        # everything. A guest that may be running keeps its connections.
        try:
            connections.release_second(execution)
        except Exception as exc:
            LOG.warning('Failed to delete replacement attachments of server%s', log.fields(
                server_id=act.server_id, work=act.verb, reason=exc))
        self._end([execution], {'vm_state': _V.ERROR.value}, _reason(execution.act, reason))
        return True

    def _build(self, host: str | None, acts: Sequence[records.Act],
               caller: context.RequestContext) -> None:
        """Build several servers by one call of their host's agent. Failed builds are undone."""
        executions = [work.Work(self._tools, act, caller) for act in acts]
        for execution in executions:
            self._notify(execution, notices.START)
        # No flow, which would undo all servers if one fails.
        failed = work.put_all(executions, host)
        built = [execution for execution in executions if execution.act.server_id not in failed]
        if built:
            self._succeed(built, self._plans[acts[0].verb](built[0]))
        for act in acts:
            exc = failed.get(act.server_id)
            if exc is not None:
                LOG.warning('Failed to build server%s', log.fields(
                    server_id=act.server_id, reason=exc), exc_info=(
                        None if errors.is_known(exc) else exc))
                self._guarded(act, caller, functools.partial(self._undo, reason=_reason(act, exc)))

    def _do(self, execution: work.Work, plan: work.Plan) -> None:
        self._notify(execution, notices.START)
        try:
            _play(execution.act.verb, plan.undoable)
        except work.WentOn:
            pass
        except _Failed as failed:
            self._fail(execution, plan, failed.reason)
            return
        self._finish(execution, plan)

    def _undo(self, execution: work.Work, plan: work.Plan,
              reason: str = 'the compute API was interrupted during the action') -> None:
        failed = plan.failed
        for step in reversed(plan.undoable):
            try:
                if step.undo is not None:
                    step.undo()
            except work.WentOn:
                self._finish(execution, plan)
                return
            except Exception as exc:
                if not _is_refused(execution, exc):
                    raise
                # The other steps have resources of their own to release.
                reason = _reason(execution.act, exc)
                failed = {**plan.failed, 'vm_state': _V.ERROR.value}
        if failed is not plan.failed:
            connections.release_unused(execution)
        self._end([execution], failed, reason)

    def _finish(self, execution: work.Work, plan: work.Plan) -> None:
        try:
            for step in plan.finishing:
                step.do()
        except Exception as exc:
            if plan.refused is None or not _is_refused(execution, exc):
                raise
            # `refused` sets the status of the server, so `_end` sets none.
            plan.refused(exc)
            connections.release_unused(execution)
            self._end([execution], {}, _reason(execution.act, exc))
            return
        if lifecycle.VERBS[execution.act.verb].becomes is _V.DELETED:
            # Notified first, because the notification reads the rows of the server.
            self._notify(execution, notices.END)
            self._tools.store.remove(execution.act)
            log.step(LOG, 'Server deleted', server_id=execution.act.server_id)
        else:
            self._succeed([execution], plan)

    def _succeed(self, executions: Sequence[work.Work], plan: work.Plan) -> None:
        becomes = lifecycle.VERBS[executions[0].act.verb].becomes
        self._end(executions, {**({'vm_state': becomes.value} if becomes else {}), **plan.done},
                  None)

    def _notify(self, execution: work.Work, phase: str, fault: str | None = None) -> None:
        if self._notifications.enabled:
            self._notifications.acted(execution.caller, execution.act.verb, phase,
                                      execution.server, execution.devices, fault)

    def _fail(self, execution: work.Work, plan: work.Plan, reason: BaseException) -> None:
        self._end([execution], plan.failed, _reason(execution.act, reason))

    def _end(self, executions: Sequence[work.Work], values: Mapping[str, Any],
             fault: str | None) -> None:
        ended, others_wait = self._tools.store.end(
            [execution.act for execution in executions], fault=fault, **values)
        for execution in executions:
            act = execution.act
            if act not in ended:
                LOG.warning('Server action taken over by another process%s', log.fields(
                    server_id=act.server_id, work=act.verb))
                continue
            self._notify(execution, notices.END if fault is None else notices.ERROR, fault)
            if fault is None:
                log.step(LOG, 'Server action completed', server_id=act.server_id, work=act.verb)
            else:
                LOG.warning('Failed to complete server action%s', log.fields(
                    server_id=act.server_id, work=act.verb, reason=fault))
        # The waiting action has no lease (`_guarded`), so it can be taken over at once.
        if others_wait:
            self.look()


def _fenced(execution: work.Work, plan: work.Plan) -> work.Plan:
    """Return the plan with a check of the lease before each step.

    A process that hung must not continue a server action that another process has taken over. A
    step is undone only if the action has not passed its point of no return.
    """
    def guarded(act: Callable[[], None]) -> Callable[[], None]:
        def checked() -> None:
            execution.check_lease()
            act()
        return checked

    def uncommitted(undo: Callable[[], None] | None) -> Callable[[], None] | None:
        if undo is None or execution.act.finishing:
            # With `Verb.finishes`, `finishing` is set from the start, and does not show whether
            # the action has passed its point of no return.
            return undo and guarded(undo)

        def checked() -> None:
            execution.check_lease()
            if execution.tools.store.is_committed(execution.act):
                # The answer was lost, or arrived after the action had been taken over.
                raise work.WentOn
            undo()
        return checked

    def fenced(steps: Sequence[work.Step]) -> list[work.Step]:
        return [work.Step(step.name, guarded(step.do), uncommitted(step.undo))
                for step in steps]

    return plan._replace(undoable=fenced(plan.undoable), finishing=fenced(plan.finishing))


def _is_defect(exc: BaseException) -> bool:
    return errors.is_defect(exc) or isinstance(exc, errors.HostDefect)


def _reason(act: records.Act, exc: BaseException) -> str:
    """Return the reason that clients see for the failure of a server action."""
    if not errors.is_defect(exc):
        return str(exc)
    LOG.error('Failed to complete server action%s', log.fields(
        server_id=act.server_id, work=act.verb,
        reason=f'programming error ({type(exc).__name__})'), exc_info=exc)
    return (f'the action failed because of a programming error ({type(exc).__name__}). The '
            'traceback is in the log of the compute API')


def _is_refused(execution: work.Work, exc: Exception) -> bool:
    """Return True if a server action that failed with the exception must not be retried."""
    if errors.is_defect(exc):
        return True
    if isinstance(exc, errors.ServerNotFound):
        # `_guarded` deletes the action.
        return False
    if isinstance(exc, errors.NotAuthorized):
        # The next attempt is made without the caller's token, which may have expired.
        return execution.caller.auth_token is None
    if isinstance(exc, errors.ServiceUnreachable):
        # Waiting for an agent that is down would keep the server from being evacuated.
        return not execution.is_up(execution.last_host)
    return isinstance(exc, _REFUSALS)


class _Failed(Exception):
    """Failure of a step. The step and all steps before have been undone."""

    def __init__(self, reason: BaseException) -> None:
        super().__init__(str(reason))
        self.reason = reason


def _play(name: str, steps: Sequence[work.Step]) -> None:
    """Run steps in order. If a step fails, undo this step and all steps before.

    :raises _Failed: a step failed, and the steps were undone
    :raises WentOn: a step failed, but the server action has passed its point of no return
    :raises Exception: a step failed, and undoing a step failed too
    """
    if not steps:
        return
    gone: list[work.WentOn] = []
    flow = linear_flow.Flow(name).add(*(
        task.FunctorTask(step.do, step.name, revert=_reverting(step, gone)) for step in steps))
    playing = engines.load(flow, engine='serial')
    try:
        playing.run()
    except Exception as exc:
        if playing.storage.get_flow_state() != states.REVERTED:
            raise
        if gone:
            raise gone[0] from exc
        raise _Failed(exc) from exc


def _reverting(step: work.Step, gone: list[work.WentOn]) -> Callable[..., None]:
    """Return the function that undoes a step.

    A step that failed is undone too, because it may have taken effect. After an undo function has
    raised `work.WentOn`, no further steps are undone.

    :param gone: list that receives the exception `work.WentOn`
    """
    def revert(*_arguments: Any, **_more: Any) -> None:
        if step.undo is None or gone:
            return
        try:
            step.undo()
        except work.WentOn as went_on:
            gone.append(went_on)
    return revert


def _draft(caller: context.RequestContext, verb: str,
           arguments: Mapping[str, Any]) -> records.Act:
    # Without the token, which would be a secret in the database and expires.
    kept = {'project_id': caller.project_id, 'user_id': caller.user_id,
            'roles': list(caller.roles or ()), 'request_id': caller.request_id}
    # The store assigns the ids and the lease.
    return records.Act('', '', verb, arguments, kept, lifecycle.VERBS[verb].finishes)


def _caller(act: records.Act) -> context.RequestContext:
    """Return the request context of the caller of a server action, without a token."""
    return context.RequestContext(overwrite=False, **act.caller)
