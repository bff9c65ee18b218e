"""The server's side: drop expired messages, call the endpoint, translate failures."""
import contextlib
import inspect
import logging
from collections.abc import Callable
from typing import Any

import oslo_messaging

from blockattach import context
from blockattach import errors
from blockattach import failpoints
from blockattach.log import fields
from blockattach.rpc import contract
from blockattach.rpc import deadlines
from blockattach.telemetry import acts

LOG = logging.getLogger(__name__)

Admit = Callable[[context.RequestContext], contextlib.AbstractContextManager[None]]
"""Surrounds the work for a caller: waits for a slot, or raises one of our errors."""


def at_once(_ctxt: context.RequestContext) -> contextlib.AbstractContextManager[None]:
    """Admit every call at once."""
    return contextlib.nullcontext()


class Exposed:
    """The methods of an endpoint that its interface names, and no others."""

    def __init__(self, endpoint: contract.Interface, deadlines: deadlines.Deadlines,
                 telemetry: acts.Telemetry, admit: Admit = at_once) -> None:
        self.target = oslo_messaging.Target(version=contract.version(type(endpoint)))
        for name, method in contract.methods(type(endpoint)).items():
            function = _watched(endpoint.TOPIC, name, telemetry,
                                _checked(name, getattr(endpoint, name), deadlines, admit))
            if method.kind is contract.Kind.CALL:
                setattr(self, name, _answering(name, endpoint.TOPIC, function))
            else:
                setattr(self, name, _unheard(name, function))


def _watched(topic: str, name: str, telemetry: acts.Telemetry,
             function: Callable[..., Any]) -> Callable[..., Any]:
    """Time it, and continue the caller's trace."""
    before, after = f'rpc.{topic}.{name}.before_work', f'rpc.{topic}.{name}.before_reply'

    def watch(ctxt: context.RequestContext, **arguments: Any) -> Any:
        with telemetry.rpc_server(topic, name, ctxt.traceparent):
            failpoints.point(before)
            answer = function(ctxt, **arguments)
            failpoints.point(after)
            return answer
    return watch


def _checked(name: str, function: Callable[..., Any],
             deadlines: deadlines.Deadlines, admit: Admit) -> Callable[..., Any]:
    """Begin no call that has expired, or that is malformed."""
    signature = inspect.signature(function)
    # The caller comes first, and not by a name.
    usual = frozenset(list(signature.parameters)[1:])

    def check(ctxt: context.RequestContext, **arguments: Any) -> Any:
        if deadlines.passed(ctxt):
            LOG.warning('Message has expired and is dropped: its sender no longer waits%s',
                        fields(method=name))
            raise errors.DeadlinePassed(method=name)
        if arguments.keys() != usual:
            # Some may be left out.
            try:
                signature.bind(ctxt, **arguments)
            except TypeError as error:
                raise errors.InvalidInput(reason=f'cannot do {name}: {error}') from None
        with admit(ctxt):
            return function(ctxt, **arguments)
    return check


def _answering(name: str, topic: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return every failure to the caller as one of our errors."""
    def answer(ctxt: context.RequestContext, **arguments: Any) -> Any:
        try:
            return function(ctxt, **arguments)
        except errors.BlockattachError:
            raise
        except Exception as error:
            LOG.exception('Cannot handle a call: an unexpected error%s', fields(method=name))
            raise unforeseen(name, topic, type(error).__name__) from error
    # Keeps oslo.messaging from logging as an error what the caller gets.
    return oslo_messaging.expected_exceptions(errors.BlockattachError)(answer)


def _unheard(name: str, function: Callable[..., Any]) -> Callable[..., None]:
    """Log every failure: no caller gets it. A deadline in the database brings the work back."""
    def act(ctxt: context.RequestContext, **arguments: Any) -> None:
        try:
            function(ctxt, **arguments)
        except errors.BlockattachError as error:
            LOG.warning('Cannot handle a message: %s%s', error, fields(method=name))
        except Exception:
            LOG.exception('Cannot handle a message: an unexpected error%s', fields(method=name))
    return act


def unforeseen(name: str, server: str, what: str) -> errors.BackendUncertain:
    """An error that is not ours: it is unknown how far the other side came."""
    return errors.BackendUncertain(reason=f'cannot tell how far {name} on {server} came: {what}')
