"""What a command needs that runs beside the services: one-shot reconciliation, and a checker."""
import contextlib
from collections.abc import Iterable
from collections.abc import Iterator
from typing import NamedTuple

from oslo_config import cfg

from blockattach.platform import errors
from blockattach.platform.conf import core as core_conf
from blockattach.platform.conf import service as service_conf
from blockattach.storage.conf import volume as volume_conf
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import leases
from blockattach.storage.drivers import loading
from blockattach.storage.volume import checker
from blockattach.storage.volume import repair
from blockattach.wiring import backend
from blockattach.wiring import dependencies

_IN_MEMORY = 'fake'


class OneShots(NamedTuple):
    """``unseen`` are backends whose targets are in the memory of their services: no other process
    can read them.
    """

    backends: dict[str, repair.OneShot]
    unseen: list[str]


class Checking(NamedTuple):
    """``seen`` are backends whose targets it reads; ``unseen`` as above."""

    checker: checker.Checker
    seen: list[str]
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
                reason=f'cannot reconcile {only}: not a backend in [volume] enabled_backends')
        found, unseen = _load(conf, names if only is None else (only,))
        backends = {}
        for host, loaded in found.items():
            # A unique service name, so that no lease counts as one of an earlier instance.
            instance = base.database.new_id()
            name = f'{command}.{instance[:8]}@{loaded.name}'
            built = backend.build_backend(
                base, loaded, host, leases.owner_of(name, instance), shared=True)
            ending.callback(built.repairer.stop)
            built.recovery.remember(shared=True)
            backends[host] = built.one_shot
        yield OneShots(backends, unseen)


def build_checker(conf: cfg.ConfigOpts, database: storage_db.Database) -> Checking:
    """Over the database, and the targets of the backends configured here.

    :raises ConfigurationError: a backend is not configured rightly
    """
    found, unseen = _load(conf, volume_conf.settings(conf).enabled_backends)
    targets = {host: loaded.target for host, loaded in found.items()}
    return Checking(checker.Checker(database, targets, database.clock), sorted(targets), unseen)


def _load(conf: cfg.ConfigOpts,
          names: Iterable[str]) -> tuple[dict[str, loading.Backend], list[str]]:
    """The backends by host whose targets can be read from here, and the hosts of the others."""
    core, service = core_conf.settings(conf), service_conf.settings(conf)
    found = {service.address(name): backend.load_backend(conf, core, service, name)
             for name in names}
    unseen = [host for host, loaded in found.items() if loaded.settings.target == _IN_MEMORY]
    return {host: found[host] for host in found if host not in unseen}, unseen
