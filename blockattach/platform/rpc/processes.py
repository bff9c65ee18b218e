"""RPC interface that every process behind the API serves, with its client and endpoint.

Each process has its own server for the interface, even if it shares other work with other
processes. The name of the server consists of the binary and host of the process, without a
backend, such as ``cinder-volume.storage-1``.
"""
import abc

from blockattach.platform import context
from blockattach.platform import log
from blockattach.platform.rpc import calling
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import serving
from blockattach.platform.rpc import transport

# All methods only read or change memory, so no message waits long for the thread.
_THREADS = 1


class ProcessInterface(contract.Interface):
    """RPC interface of a single process of any kind."""

    TOPIC = 'process'

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def get_log_levels(self, ctxt: context.RequestContext, prefix: str) -> dict[str, str]:
        """Return the levels of the loggers whose names start with ``prefix``, by name."""

    @contract.call(since='1.0', timeout=contract.Timeout.SHORT)
    @abc.abstractmethod
    def set_log_levels(self, ctxt: context.RequestContext, prefix: str, level: str) -> None:
        """Set the level of the loggers whose names start with ``prefix``, until the process ends.

        :param level: one of `log.LEVELS`
        """


class ProcessEndpoint(ProcessInterface):
    """Endpoint of `ProcessInterface` for this process."""

    def get_log_levels(self, ctxt: context.RequestContext, prefix: str) -> dict[str, str]:
        return log.levels(prefix)

    def set_log_levels(self, ctxt: context.RequestContext, prefix: str, level: str) -> None:
        log.set_levels(prefix, level)


def client(bus: transport.Bus, binary: str, host: str) -> ProcessInterface:
    """Return a client for the process of a binary on a host.

    No message is sent yet. If the process is not running, the first call fails.

    :param host: host of the process, without a backend
    """
    return calling.stub(ProcessInterface, bus.client(ProcessInterface, f'{binary}.{host}'))


def server(bus: transport.Bus, binary: str, host: str) -> serving.Server:
    """Return the RPC server of this process, which `serving.Server.start` starts.

    :param host: host of the process, without a backend
    """
    return bus.server(ProcessEndpoint(), f'{binary}.{host}', threads=_THREADS)
