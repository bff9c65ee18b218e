"""``application`` for any WSGI server: built when the first request comes, after a fork.

Connections and threads of the bus must never be opened before a fork. Configuration is read from
the usual places, or from the files named in ``BLOCKATTACH_CONFIG_FILES`` (separated by colons).
"""
import os
import threading
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any

from oslo_config import cfg

from blockattach.policy import enforcer
from blockattach.wiring import api
from blockattach.wiring import foundation

_built: list[Callable[..., Iterable[bytes]]] = []
_lock = threading.Lock()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer one request."""
    if not _built:
        with _lock:
            if not _built:
                _built.append(_build())
    return _built[0](environ, start_response)


def _build() -> Callable[..., Iterable[bytes]]:
    conf = cfg.ConfigOpts()
    files = os.environ.get('BLOCKATTACH_CONFIG_FILES', '')
    foundation.configure(conf, [argument for name in files.split(':') if name
                             for argument in ('--config-file', name)])
    return api.build_api(foundation.build_foundation(conf), enforcer.Enforcer(conf))
