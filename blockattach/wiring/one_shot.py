"""What puts backends right from outside, for a command that runs beside their services."""
import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from oslo_config import cfg

from blockattach import errors
from blockattach.conf import volume as volume_conf
from blockattach.db import leases
from blockattach.volume import one_shot
from blockattach.wiring import checking
from blockattach.wiring import foundation
from blockattach.wiring import volume


class Visits(NamedTuple):
    """``unseen`` are backends whose targets cannot be asked from another process."""

    visits: dict[str, one_shot.OneShot]
    unseen: list[str]


@contextlib.contextmanager
def open_visits(conf: cfg.ConfigOpts, command: str, only: str | None = None) -> Iterator[Visits]:
    """A visit to each backend that is configured here, or to one of them, by its name.

    :raises ConfigurationError: a backend is not configured rightly, or is not there
    """
    base = foundation.build_foundation(conf, command, need_broker=False)
    with contextlib.ExitStack() as ending:
        ending.callback(base.close)
        names = volume_conf.settings(conf).enabled_backends
        if only is not None and only not in names:
            raise errors.ConfigurationError(
                reason=f'cannot reconcile {only}: [volume] enabled_backends does not name it')
        visits, unseen = {}, []
        for name in names if only is None else (only,):
            host = base.service.address(name)
            loaded = volume.load_backend(conf, base.core, base.service, name)
            if checking.is_in_memory(loaded):
                unseen.append(host)
                continue
            # A service that nobody else is, so that no lease is taken for one of an earlier life.
            life = base.database.new_id()
            backend = volume.build_backend(
                base, loaded, host, leases.owner_of(f'{command}.{life[:8]}@{name}', life),
                shared=True)
            ending.callback(backend.repairer.stop)
            visits[host] = one_shot.OneShot(host, backend.reconciler, backend.truth,
                                          backend.repairer)
        yield Visits(visits, unseen)
