"""What any process behind the API can be asked of itself: `ProcessInterface`, its client and its
endpoint.

Each process has a server of its own for it, also where several share other work: its name is the
one under which it reports itself, ``cinder-volume.storage-1``, without a backend.
"""
import abc

from blockattach.platform import context
from blockattach.platform import log
from blockattach.platform.rpc import calling
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import serving
from blockattach.platform.rpc import transport

# What is asked is answered from memory.
_THREADS = 1


class ProcessInterface(contract.Interface):
    """A single process of any kind."""

    TOPIC = 'process'

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def get_log_levels(self, ctxt: context.RequestContext, prefix: str) -> dict[str, str]:
        """Return the levels of the loggers with a name prefix, by name."""

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def set_log_levels(self, ctxt: context.RequestContext, prefix: str, level: str) -> None:
        """Set the level of the loggers with a name prefix, until the process ends."""


class ProcessEndpoint(ProcessInterface):
    """Answers for this process."""

    def get_log_levels(self, ctxt: context.RequestContext, prefix: str) -> dict[str, str]:
        """What its loggers let through."""
        return log.levels(prefix)

    def set_log_levels(self, ctxt: context.RequestContext, prefix: str, level: str) -> None:
        """Change that."""
        log.set_levels(prefix, level)


def client(bus: transport.Bus, binary: str, host: str) -> ProcessInterface:
    """A process; whether it is there shows when it is asked.

    :param host: without a backend
    """
    return calling.stub(ProcessInterface, bus.client(ProcessInterface, f'{binary}.{host}'))


def server(bus: transport.Bus, binary: str, host: str) -> serving.Server:
    """What listens for this process; `start` begins."""
    return bus.server(ProcessEndpoint(), f'{binary}.{host}', threads=_THREADS)
