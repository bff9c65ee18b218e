"""Run a flow in this thread: each step logged, and what went wrong told by the error itself."""
from collections.abc import Mapping
from typing import Any

from oslo_log import log as oslo_log
from taskflow import engines
from taskflow import exceptions
from taskflow import flow as flows

from blockattach import log

LOG = oslo_log.getLogger(__name__)


def run(flow: flows.Flow, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Run a flow to its end; what its steps provided, by name.

    The inputs are named like the arguments of the steps that want them. A step that fails has what
    came before it undone, as the flow's retry controllers say; then its own error is raised, never
    TaskFlow's wrapping of it.
    """
    engine = engines.load(flow, store=dict(inputs), engine='serial')
    engine.atom_notifier.register('*', _Journal(flow.name).note)
    try:
        engine.run()
    except exceptions.WrappedFailure as wrapped:
        raise _original(wrapped) from wrapped
    results: dict[str, Any] = engine.storage.fetch_all()
    return results


class _Journal:
    """One line for each state that a step of a flow comes to; never what it was given or gave."""

    def __init__(self, flow_name: str) -> None:
        self._flow_name = flow_name

    def note(self, state: str, details: Mapping[str, Any]) -> None:
        LOG.debug('Step of a flow has moved%s', log.fields(
            flow=self._flow_name, step=details.get('task_name') or details.get('retry_name'),
            state=state))


def _original(wrapped: exceptions.WrappedFailure) -> BaseException:
    """The first error that some step raised; others followed from it or came beside it."""
    for failure in wrapped:
        if failure.exception is not None:
            return failure.exception
    return wrapped
