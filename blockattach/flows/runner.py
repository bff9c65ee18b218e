"""Run a flow in this thread: each step logged, and what went wrong told by the error itself.

Steps in a row that all go well need nothing but to be called, for which TaskFlow's engine calls
twelve thousand functions of its own. As soon as one fails, the engine goes on from there, as it
does with a flow that was interrupted: what is undone and tried again is its matter alone.
"""
import dataclasses
import logging
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from oslo_log import log as oslo_log
from taskflow import atom as atoms
from taskflow import engines
from taskflow import exceptions
from taskflow import flow as flows
from taskflow import retry
from taskflow import states
from taskflow import task
from taskflow.patterns import linear_flow
from taskflow.types import failure as failures

from blockattach import log

LOG = oslo_log.getLogger(__name__)


def run(flow: flows.Flow, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Run a flow to its end; what its steps provided, by name.

    The inputs are named like the arguments of the steps that want them. A step that fails has what
    came before it undone, as the flow's retry controllers say; then its own error is raised, never
    TaskFlow's wrapping of it.
    """
    journal = _Journal(flow.name)
    walk = _Walk(dict(inputs), journal)
    if _is_a_row(flow) and all(map(walk.step, _in_turn(flow))):
        return walk.values
    engine = engines.load(flow, store=dict(inputs), engine='serial')
    engine.atom_notifier.register('*', journal.hear)
    try:
        engine.compile()
        engine.prepare()
        for ended in walk.ended:
            engine.storage.save(ended.name, ended.result, ended.state)
        engine.run()
    except exceptions.WrappedFailure as wrapped:
        raise _original(wrapped) from wrapped
    results: dict[str, Any] = engine.storage.fetch_all()
    return results


def _is_a_row(flow: flows.Flow) -> bool:
    return isinstance(flow, linear_flow.Flow) and all(
        isinstance(step, task.Task) and not step.inject for step in flow)


def _in_turn(flow: flows.Flow) -> Iterator[atoms.Atom]:
    if flow.retry is not None:
        yield flow.retry
    yield from flow


@dataclasses.dataclass(frozen=True, slots=True)
class _Ended:
    """A step that was done, and how it went."""

    name: str
    result: Any
    state: str


class _Walk:
    """From one step to the next, as long as all goes well.

    :ivar values: what steps can ask for, by name
    """

    def __init__(self, values: dict[str, Any], journal: '_Journal') -> None:
        self.values = values
        self.ended: list[_Ended] = []
        self._journal = journal

    def step(self, atom: atoms.Atom) -> bool:
        """Whether it went well."""
        given = {name: self.values[source] for name, source in atom.rebind.items()
                 if source in self.values}
        if isinstance(atom, retry.Retry):
            given[retry.EXECUTE_REVERT_HISTORY] = retry.History(())
        try:
            atom.pre_execute()
            result = atom.execute(**given)
            for name, index in atom.save_as.items():
                self.values[name] = result if index is None else result[index]
            atom.post_execute()
        except Exception:
            self._end(_Ended(atom.name, failures.Failure(), states.FAILURE))
            return False
        self._end(_Ended(atom.name, result, states.SUCCESS))
        return True

    def _end(self, ended: _Ended) -> None:
        self.ended.append(ended)
        self._journal.note(ended.name, ended.state)


class _Journal:
    """One line for each state that a step of a flow comes to; never what it was given or gave."""

    def __init__(self, flow_name: str) -> None:
        self._flow_name = flow_name

    def hear(self, state: str, details: Mapping[str, Any]) -> None:
        """What an engine tells."""
        self.note(details.get('task_name') or details.get('retry_name'), state)

    def note(self, step: str | None, state: str) -> None:
        """Write a line."""
        if LOG.isEnabledFor(logging.DEBUG):
            LOG.debug('Step of a flow has moved%s', log.fields(
                flow=self._flow_name, step=step, state=state))


def _original(wrapped: exceptions.WrappedFailure) -> BaseException:
    """The first error that some step raised; others followed from it or came beside it."""
    for failure in wrapped:
        if failure.exception is not None:
            return failure.exception
    return wrapped
