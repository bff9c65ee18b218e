"""Everything in one process: SQLite, the bus inside the process, one backend. The same code path.

Only URLs and the backend differ from separate processes; every message goes over the bus and is
serialised there.
"""
import contextlib
import os
from collections.abc import Callable
from typing import Any

import fasteners
from oslo_config import cfg

from blockattach import errors
from blockattach.conf import api as api_conf
from blockattach.conf import core as core_conf
from blockattach.conf import volume as volume_conf
from blockattach.db import volume_types
from blockattach.http import server
from blockattach.policy import enforcer
from blockattach.wiring import api
from blockattach.wiring import foundation
from blockattach.wiring import scheduler
from blockattach.wiring import volume

MULTIATTACH_TYPE = 'multiattach'


class AllInOne:
    """Started in order, stopped in the other; `start` leaves nothing running when it fails."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._running = contextlib.ExitStack()
        self._reload: Callable[[], None] | None = None
        self.url = ''
        self.state_path = ''

    def start(self) -> None:
        """Serve.

        :raises ConfigurationError: with one line that says what to change
        """
        with contextlib.ExitStack() as starting:
            core = core_conf.settings(self._conf)
            foundation.make_state_path(core)
            self._lock(starting, core.state_path)
            listener = self._listen(starting)
            base = foundation.build_foundation(self._conf, upgrade=True)
            starting.callback(base.close)
            self._first_start(base)
            for name in volume_conf.settings(self._conf).enabled_backends:
                self._begin(starting, volume.build_volume(base, name))
            self._begin(starting, scheduler.build_scheduler(base))
            rules = enforcer.Enforcer(self._conf)
            listener.serve(api.build_api(base, rules))
            # The first to stop: what was asked is answered while those who do it are still there.
            starting.callback(listener.stop)
            self._reload = rules.reload
            self.url = listener.url
            self.state_path = core.state_path
            self._running = starting.pop_all()

    def stop(self) -> None:
        """Let what runs end; the last to start is the first to stop."""
        self._running.close()

    def reload(self) -> None:
        """Read the policy files again."""
        if self._reload is not None:
            self._reload()

    def _listen(self, starting: contextlib.ExitStack) -> 'Listener':
        """Take the address first: a port in use is told before anything is begun."""
        settings = api_conf.settings(self._conf)
        listener = Listener(settings)
        api.warn_if_open(settings)
        starting.callback(listener.stop)
        return listener

    def _begin(self, starting: contextlib.ExitStack, service: Any) -> None:
        starting.callback(service.stop)
        service.start()

    def _lock(self, starting: contextlib.ExitStack, state_path: str) -> None:
        lock = fasteners.InterProcessLock(os.path.join(state_path, 'lock'))
        if not lock.acquire(blocking=False):
            raise errors.ConfigurationError(
                reason=f'cannot start: another blockattach-all uses the state directory '
                       f'{state_path}')
        starting.callback(lock.release)

    def _first_start(self, base: foundation.Foundation) -> None:
        """A type for shared volumes, once: an operator may remove it."""
        mark = os.path.join(base.core.state_path, 'first-start-done')
        if os.path.exists(mark):
            return
        with contextlib.suppress(errors.VolumeTypeExists):
            volume_types.create(base.database, MULTIATTACH_TYPE, 'May be attached to many hosts',
                                True, {'multiattach': '<is> True'})
        with open(mark, 'w', encoding='ascii'):
            pass


class Listener:
    """The address, taken before there is an application to answer."""

    def __init__(self, settings: api_conf.ApiSettings) -> None:
        self._application: Callable[..., Any] | None = None
        host = settings.host
        self._server = server.Server(self._answer, host, settings.port, settings.threads,
                                     settings.max_request_body_size)
        self._server.bind()
        shown = f'[{host}]' if ':' in host else host
        self.url = f'http://{shown}:{self._server.port}'

    def serve(self, application: Callable[..., Any]) -> None:
        """Answer with this application from now on; connections have waited."""
        self._application = application
        self._server.start()

    def stop(self) -> None:
        """Take no more connections."""
        self._server.stop()

    def _answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        assert self._application is not None
        return self._application(environ, start_response)
