"""A small interface, its endpoint and its client, for tests of whatever carries them."""
import abc
import queue
import threading
from typing import Any

from blockattach.platform import context
from blockattach.platform.rpc import contract
from blockattach.storage import errors
from blockattach.tests.fixtures import polling

LIMIT = polling.LIMIT
"""Seconds after which a test gives up on what should come at once."""


class ProbeInterface(contract.Interface):
    """One method of each kind."""

    TOPIC = 'probe'

    @contract.call(since='1.0')
    @abc.abstractmethod
    def echo(self, ctxt: context.RequestContext, value: Any) -> Any:
        """The value, as the server saw it, with the server's name."""

    @contract.call(since='1.0')
    @abc.abstractmethod
    def fail(self, ctxt: context.RequestContext, how: str) -> None:
        """Raise one of the endpoint's errors."""

    @contract.call(since='1.0')
    @abc.abstractmethod
    def meet(self, ctxt: context.RequestContext) -> bool:
        """Answer once the gate is open."""

    @contract.call(since='1.0', repeated=True)
    @abc.abstractmethod
    def persist(self, ctxt: context.RequestContext) -> bool:
        """The same, however often it must be asked."""

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def hurry(self, ctxt: context.RequestContext) -> None:
        """Remembered as 'hurry'."""

    @contract.cast(since='1.0')
    @abc.abstractmethod
    def note(self, ctxt: context.RequestContext, value: Any) -> None:
        """Remembered by one."""

    @contract.cast(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def offer(self, ctxt: context.RequestContext, value: Any) -> None:
        """Remembered by one, if it comes soon."""

    @contract.fanout(since='1.0')
    @abc.abstractmethod
    def announce(self, ctxt: context.RequestContext, value: Any) -> None:
        """Remembered by all."""


class Unforeseen(Exception):
    """An error that the other side knows nothing of."""


class Finer(errors.BackendRefused):
    """An error of a driver's own."""


class ProbeEndpoint(ProbeInterface):
    """Keeps what it hears."""

    def __init__(self, name: str = 'probe') -> None:
        self.name = name
        self.heard: queue.Queue[Any] = queue.Queue()
        self.contexts: list[context.RequestContext] = []
        self.entered = threading.Semaphore(0)
        self.gate: threading.Event | threading.Barrier = threading.Event()
        self.kept: dict[str, Any] = {'list': [1]}
        self.errors: dict[str, Exception] = {
            'stale': errors.StaleGeneration(noun='attachment', id='a1', generation=7),
            'no pool': errors.NoValidPool(volume_id='v1', summary='none',
                                          reasons={'h@b#p': 'no room'}),
            'refused': errors.BackendRefused(reason='the target says no'),
            'finer': Finer(reason='the target says no'),
            'unforeseen': Unforeseen('the password is hunter2'),
            'builtin': KeyError('hunter2'),
        }

    def echo(self, ctxt: context.RequestContext, value: Any) -> Any:
        self.contexts.append(ctxt)
        if isinstance(value, dict) and value.get('keep'):
            self.kept = value
        if value == 'kept':
            return self.kept
        if value == 'no data':
            return object()
        return [self.name, value]

    def fail(self, ctxt: context.RequestContext, how: str) -> None:
        raise self.errors[how]

    def meet(self, ctxt: context.RequestContext) -> bool:
        self.entered.release()
        self.gate.wait(LIMIT)
        return True

    def persist(self, ctxt: context.RequestContext) -> bool:
        return self.meet(ctxt)

    def hurry(self, ctxt: context.RequestContext) -> None:
        self.heard.put('hurry')

    def note(self, ctxt: context.RequestContext, value: Any) -> None:
        if value == 'fail':
            raise Unforeseen(value)
        self.heard.put(value)

    def offer(self, ctxt: context.RequestContext, value: Any) -> None:
        self.heard.put(value)

    def announce(self, ctxt: context.RequestContext, value: Any) -> None:
        self.heard.put(value)

    def secret(self, ctxt: context.RequestContext) -> str:
        """Not in the interface, so nobody may call it."""
        return 'hunter2'


class ProbeClient(ProbeInterface):
    """The probes, seen from afar."""

    def __init__(self, invoke: contract.Invoke) -> None:
        self._invoke = invoke

    def echo(self, ctxt: context.RequestContext, value: Any) -> Any:
        return self._invoke(ctxt, 'echo', value=value)

    def fail(self, ctxt: context.RequestContext, how: str) -> None:
        self._invoke(ctxt, 'fail', how=how)

    def meet(self, ctxt: context.RequestContext) -> bool:
        return bool(self._invoke(ctxt, 'meet'))

    def persist(self, ctxt: context.RequestContext) -> bool:
        return bool(self._invoke(ctxt, 'persist'))

    def hurry(self, ctxt: context.RequestContext) -> None:
        self._invoke(ctxt, 'hurry')

    def note(self, ctxt: context.RequestContext, value: Any) -> None:
        self._invoke(ctxt, 'note', value=value)

    def offer(self, ctxt: context.RequestContext, value: Any) -> None:
        self._invoke(ctxt, 'offer', value=value)

    def announce(self, ctxt: context.RequestContext, value: Any) -> None:
        self._invoke(ctxt, 'announce', value=value)


class YoungInterface(ProbeInterface):
    """The same topic in a newer version."""

    @contract.call(since='1.1')
    @abc.abstractmethod
    def grown(self, ctxt: context.RequestContext) -> str:
        """Only servers of 1.1 know this."""


class YoungEndpoint(ProbeEndpoint, YoungInterface):
    """A server of 1.1."""

    def grown(self, ctxt: context.RequestContext) -> str:
        return self.name


class YoungClient(ProbeClient, YoungInterface):
    """A client that knows 1.1."""

    def grown(self, ctxt: context.RequestContext) -> str:
        return str(self._invoke(ctxt, 'grown'))


class RogueInterface(ProbeInterface):
    """What a client would like to call, though no server offers it."""

    @contract.call(since='1.0')
    @abc.abstractmethod
    def secret(self, ctxt: context.RequestContext) -> str:
        """A public method of the endpoint, but none of its interface."""
