"""Where Prometheus asks a process: prometheus_client's own server, on the first port that is free.
"""
import errno
import threading
from collections.abc import Iterable
from wsgiref import simple_server

import prometheus_client
from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.conf import telemetry as telemetry_conf
from blockattach.telemetry import counting

LOG = oslo_log.getLogger(__name__)


class Exposition:
    """Serves from `start` to `stop`; a thread for each question, so that none waits for another.
    """

    def __init__(self, counts: counting.Counts, settings: telemetry_conf.MetricsSettings) -> None:
        self._counts = counts
        self._settings = settings
        self._serving: tuple[simple_server.WSGIServer, threading.Thread] | None = None

    def start(self) -> None:
        """Serve.

        :raises ConfigurationError: no port is free, or the address is not ours
        """
        self._serving = self._listen(self._settings.ports)
        LOG.info('Metrics are served%s', log.fields(
            host=self._settings.host, port=self._serving[0].server_port))

    def stop(self) -> None:
        """Serve no longer. A repeat does nothing."""
        if self._serving is None:
            return
        (server, thread), self._serving = self._serving, None
        server.shutdown()
        server.server_close()
        thread.join()

    def _listen(self, ports: Iterable[int]) -> tuple[simple_server.WSGIServer, threading.Thread]:
        for port in ports:
            try:
                return prometheus_client.start_http_server(
                    port, self._settings.host, self._counts.registry)
            except OSError as exc:
                if exc.errno != errno.EADDRINUSE:
                    raise errors.ConfigurationError(
                        reason=f'cannot serve metrics on {self._settings.host}:{port}: '
                               f'{exc.strerror}') from exc
        taken = self._settings.ports
        raise errors.ConfigurationError(
            reason=f'cannot serve metrics on {self._settings.host}: no port from {min(taken)} to '
                   f'{max(taken)} is free')
