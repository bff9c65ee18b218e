"""``application`` for any WSGI server: built after a fork, at the latest by the first request.

Connections and threads of the bus must never be opened before a fork. The code may be loaded
before it, by `load`: then all processes of a server share the memory that it takes. Configuration
is read from the usual places, or from the files named in ``BLOCKATTACH_CONFIG_FILES`` (separated
by colons).

uWSGI makes its many threads right after the fork. An application that is built meanwhile would
compete with each of them, for seconds, so it is built before them.

A process server cannot be stopped from here: as long as the application cannot be built, each
request is answered 503, and the server's error log has the reason.
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
    """Answer one request."""
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
    """Before a fork, load what each process would load for itself; nothing is opened."""
    api.load()
    # Each process tries again, and reports the error.
    with contextlib.suppress(errors.ConfigurationError, cfg.Error):
        dependencies.load(_arguments())
    # A collection would write to each object, and so each process would have its own.
    gc.freeze()


def _build_once() -> None:
    """Signals are for the threads of the server: its handlers do not work in one of ours."""
    with _lock:
        if not _built:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                _built.append(_build())
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _after_fork() -> None:
    # uWSGI handles signals only after this: a process that is stopped before, ends.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # The first request tries again, and reports the error.
    with contextlib.suppress(errors.ConfigurationError, cfg.Error):
        _build_once()


def _build() -> Callable[..., Iterable[bytes]]:
    conf = cfg.ConfigOpts()
    configuration.configure(conf, _arguments(), _NAME)
    # What is only read needs no broker.
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


# The module exists under uWSGI only, and has no other hook for it.
with contextlib.suppress(ImportError):
    _server: Any = importlib.import_module('uwsgi')
    _server.post_fork_hook = _after_fork
