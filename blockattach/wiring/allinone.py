"""All services in a single process, with SQLite, an in-process bus and a single backend.

As in separate processes, every message between services is serialized and sent over the bus. Only
the URLs and the backend differ.
"""
import contextlib
import functools
import os
from collections.abc import Callable
from collections.abc import Iterator

import fasteners
from oslo_config import cfg

from blockattach.platform.conf import core as core_conf
from blockattach.platform.conf import locations
from blockattach.platform.webserver import server
from blockattach.storage import errors
from blockattach.storage.conf import embedded
from blockattach.storage.conf import volume as volume_conf
from blockattach.storage.db.types import volume_types
from blockattach.wiring import configuration
from blockattach.wiring import control
from blockattach.wiring import dependencies
from blockattach.wiring import http_service
from blockattach.wiring import processes
from blockattach.wiring import scheduler
from blockattach.wiring import volume

MULTIATTACH_TYPE = 'multiattach'
NAME = 'blockattach-all'


class AllInOne(processes.ServiceProcess):
    """Process that runs all services."""

    def __init__(self, conf: cfg.ConfigOpts, say: Callable[[str], None]) -> None:
        """
        :param say: function that prints a line. It is called after the start and before the stop
        """
        super().__init__(NAME, conf, functools.partial(
            dependencies.build_dependencies, upgrade=True), self._services)
        self._say = say
        self._server: server.Server | None = None
        self._announced = False

    def announce(self) -> None:
        """Start the health monitor, log that the process has started, and print the API's URL."""
        super().announce()
        assert self._server is not None
        state_path = core_conf.settings(self._conf).state_path
        self._announced = True
        self._say(f'blockattach serves at {self._server.url}/v3 (state in {state_path})')

    def stop(self) -> None:
        """Stop the services. If the start was announced, print first that the process stops."""
        if self._announced:
            self._say('Stopping blockattach')
        super().stop()

    def _open(self, starting: contextlib.ExitStack) -> dependencies.Dependencies:
        embedded.set_defaults(self._conf)
        core = core_conf.settings(self._conf)
        with locations.named(self._conf, 'DEFAULT', 'state_path'):
            configuration.make_state_path(core)
            self._lock(starting, core.state_path)
        # Before the dependencies are opened, so that a port in use is reported before anything is
        # started.
        self._server = http_service.listen(self._conf)
        starting.callback(self._server.stop)
        base: dependencies.Dependencies = super()._open(starting)
        self._first_start(base)
        return base

    def _services(self, base: dependencies.Dependencies) -> Iterator[processes.Service]:
        yield from volume.build_volumes(
            base, volume_conf.settings(self._conf).enabled_backends, ends_target=True)
        yield volume.build_own(base)
        yield from scheduler.build_services(base)
        yield control.build_control(base)
        assert self._server is not None
        # Services stop in reverse order. The API is last, so that running requests can complete
        # before the other services stop.
        yield http_service.build_http(base, self._server)

    def _lock(self, starting: contextlib.ExitStack, state_path: str) -> None:
        # A second process would have a bus of its own, and manage the same backend.
        lock = fasteners.InterProcessLock(os.path.join(state_path, 'lock'))
        if not lock.acquire(blocking=False):
            raise errors.ConfigurationError(
                reason=f'cannot start: another blockattach-all uses the state directory '
                       f'{state_path}')
        starting.callback(lock.release)

    def _first_start(self, base: dependencies.Dependencies) -> None:
        """Create a volume type for multiattach volumes, unless an earlier start has created it."""
        mark = os.path.join(base.core.state_path, 'first-start-done')
        # At the first start only, because an operator may delete the type.
        if os.path.exists(mark):
            return
        # An earlier process may have ended before it created the file.
        with contextlib.suppress(errors.VolumeTypeExists):
            volume_types.create(base.database, MULTIATTACH_TYPE, 'Multiattach volumes', True,
                                {'multiattach': '<is> True'})
        with open(mark, 'w', encoding='ascii'):
            pass
