"""``application`` for any WSGI server: built when the first request comes, after a fork.

Connections and threads of the bus must never be opened before a fork. The code may be loaded
before it: then all processes of a server share the memory that it takes. Configuration is read
from the usual places, or from the files named in ``BLOCKATTACH_CONFIG_FILES`` (separated by
colons).

A server of processes cannot be told that it should not have started: as long as the application
cannot be built, each request is answered 503, and the reason stands in the server's error log.
"""
import os
import threading
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from oslo_config import cfg

from blockattach import errors
from blockattach.http import faults
from blockattach.wiring import api
from blockattach.wiring import collecting
from blockattach.wiring import foundation

_built: list[Callable[..., Iterable[bytes]]] = []
_lock = threading.Lock()
_NAME = 'blockattach-api'


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer one request."""
    if not _built:
        with _lock:
            if not _built:
                try:
                    _built.append(_build())
                except (errors.ConfigurationError, cfg.Error) as exc:
                    environ['wsgi.errors'].write(f'{_NAME}: {" ".join(str(exc).split())}\n')
                    return faults.response(503, 'The service is not available now.', '1')(
                        environ, start_response)
    return _built[0](environ, start_response)


def _build() -> Callable[..., Iterable[bytes]]:
    conf = cfg.ConfigOpts()
    files = os.environ.get('BLOCKATTACH_CONFIG_FILES', '')
    foundation.configure(conf, [argument for name in files.split(':') if name
                             for argument in ('--config-file', name)], _NAME)
    # What is only read needs no broker.
    base = foundation.build_foundation(conf, _NAME, need_broker=False)
    application = api.build_serving(base)
    base.observation.start()
    base.monitor.start()
    collecting.settle(forked=True)
    return application
