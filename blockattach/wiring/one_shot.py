"""One-shot reconciliation of backends, for a command that runs beside their services."""
import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from oslo_config import cfg

from blockattach import errors
from blockattach.conf import volume as volume_conf
from blockattach.db import leases
from blockattach.volume import repair
from blockattach.wiring import checking
from blockattach.wiring import dependencies
from blockattach.wiring import volume


class OneShots(NamedTuple):
    """``unseen`` are backends whose targets cannot be read from another process."""

    backends: dict[str, repair.OneShot]
    unseen: list[str]


@contextlib.contextmanager
def open_one_shots(conf: cfg.ConfigOpts, command: str,
                   only: str | None = None) -> Iterator[OneShots]:
    """A one-shot reconciler of each backend that is configured here, or of one, by its name.

    :raises ConfigurationError: a backend is misconfigured, or does not exist
    """
    base = dependencies.build_dependencies(conf, command, need_broker=False)
    with contextlib.ExitStack() as ending:
        ending.callback(base.close)
        names = volume_conf.settings(conf).enabled_backends
        if only is not None and only not in names:
            raise errors.ConfigurationError(
                reason=f'cannot reconcile {only}: [volume] enabled_backends does not name it')
        backends, unseen = {}, []
        for name in names if only is None else (only,):
            host = base.service.address(name)
            loaded = volume.load_backend(conf, base.core, base.service, name)
            if checking.is_in_memory(loaded):
                unseen.append(host)
                continue
            # A unique service name, so that no lease counts as one of an earlier instance.
            instance = base.database.new_id()
            built = volume.build_backend(
                base, loaded, host, leases.owner_of(f'{command}.{instance[:8]}@{name}', instance),
                shared=True)
            ending.callback(built.repairer.stop)
            backends[host] = repair.OneShot(host, built.recovery, built.truth,
                                            built.repairer)
        yield OneShots(backends, unseen)
