"""WSGI application of the Block Storage API, for servers such as uWSGI and granian.

The application is built after a fork, because processes must not share its connections and bus
threads. Without uWSGI, the first request builds the application. `load` loads the code before the
fork, so that all processes of a server share the memory of the code. Configuration is read from
the default files, or from the files in ``BLOCKATTACH_CONFIG_FILES`` (separated by colons).

uWSGI starts its many threads right after the fork. The application is built before these threads
start, because a build that competes with them takes seconds.

While the application cannot be built, its server keeps running. Each request is answered with
503, and the error log of the server contains the reason.
"""
import contextlib
import gc
import importlib
import os
import signal
import threading
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from oslo_config import cfg

from blockattach.platform import errors
from blockattach.platform.http import responses
from blockattach.wiring import api
from blockattach.wiring import configuration
from blockattach.wiring import dependencies
from blockattach.wiring import processes

_built: list[Callable[..., Iterable[bytes]]] = []
_lock = threading.Lock()
_NAME = 'blockattach-api'


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Respond to a WSGI request. The status is 503 if the application cannot be built."""
    if not _built:
        try:
            _build_once()
        except (errors.ConfigurationError, cfg.Error) as exc:
            environ['wsgi.errors'].write(f'{_NAME}: {" ".join(str(exc).split())}\n')
            return responses.failure(503, 'The service is not available. Repeat the request '
                                     'later.', '1')(
                environ, start_response)
    return _built[0](environ, start_response)


def load() -> None:
    """Load the code and the configuration before a fork. No connection is opened."""
    api.load()
    # Each process repeats this, and reports the error.
    with contextlib.suppress(errors.ConfigurationError, cfg.Error):
        dependencies.load(_arguments())
    # A garbage collection writes to each object, so each process would get its own copy.
    gc.freeze()


def _build_once() -> None:
    with _lock:
        # Another thread may have built the application while this thread waited for the lock.
        if not _built:
            # Threads that are started here inherit this mask. Signals must only reach the threads
            # of the server, because its signal handlers do not work in other threads.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                _built.append(_build())
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _after_fork() -> None:
    # uWSGI installs its signal handlers after this hook. With the default action, a process that
    # is stopped earlier ends at once.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # The first request repeats this, and reports the error.
    with contextlib.suppress(errors.ConfigurationError, cfg.Error):
        _build_once()


def _build() -> Callable[..., Iterable[bytes]]:
    conf = cfg.ConfigOpts()
    configuration.configure(conf, _arguments(), _NAME)
    # Requests that only read data are served even if no broker responds.
    base = dependencies.build_dependencies(conf, _NAME, need_broker=False)
    application = api.build_serving(base)
    base.observation.start()
    base.monitor.start()
    processes.settle(forked=True)
    return application


def _arguments() -> list[str]:
    files = os.environ.get('BLOCKATTACH_CONFIG_FILES', '')
    return [argument for name in files.split(':') if name
            for argument in ('--config-file', name)]


# The module ``uwsgi`` exists only under uWSGI, which calls this function after each fork.
with contextlib.suppress(ImportError):
    _server: Any = importlib.import_module('uwsgi')
    _server.post_fork_hook = _after_fork
