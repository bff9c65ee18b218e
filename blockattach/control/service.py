"""A control service: start, serve consumers on the bus, stop."""
from oslo_log import log as oslo_log

from blockattach import log
from blockattach.rpc import serving

LOG = oslo_log.getLogger(__name__)


class ControlService:
    """One control process, or its part of a process that holds several services."""

    def __init__(self, server: serving.Server, host: str) -> None:
        self._server = server
        self._host = host

    def start(self) -> None:
        """Serve. Not before a fork: threads and connections begin here."""
        self._server.start()
        LOG.info('Control serves%s', log.fields(host=self._host))

    def stop(self) -> None:
        """Take nothing new; returns when what was begun has ended."""
        self._server.stop()
        LOG.info('Control has stopped%s', log.fields(host=self._host))
