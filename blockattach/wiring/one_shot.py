"""Builders of one-shot reconcilers and of the invariant checker, for commands of operators."""
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
    """Reconcilers of backends, each for one pass (one-shot reconcile).

    :ivar backends: reconcilers by ``host@backend``
    :ivar unseen: ``host@backend`` of each backend whose target is in the memory of its service, so
        that this process cannot read the target
    """

    backends: dict[str, repair.OneShot]
    unseen: list[str]


class Checking(NamedTuple):
    """Checker of the invariants, and the backends to which it applies.

    :ivar seen: ``host@backend`` of each backend whose target the checker reads
    :ivar unseen: see `OneShots`
    """

    checker: checker.Checker
    seen: list[str]
    unseen: list[str]


@contextlib.contextmanager
def open_one_shots(conf: cfg.ConfigOpts, command: str,
                   only: str | None = None) -> Iterator[OneShots]:
    """Build a one-shot reconciler for each backend that is configured on this host.

    :param command: name of the command that runs the reconcilers
    :param only: name of the only backend to reconcile, or None for all backends
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
            # The name of the service is unique, so that a stored lease of another instance does
            # not count as a lease of this process. The backend is shared with its running service.
            instance = base.database.new_id()
            name = f'{command}.{instance[:8]}@{loaded.name}'
            built = backend.build_backend(
                base, loaded, host, leases.owner_of(name, instance), shared=True)
            ending.callback(built.repairer.stop)
            built.recovery.remember(shared=True)
            backends[host] = built.one_shot
        yield OneShots(backends, unseen)


def build_checker(conf: cfg.ConfigOpts, database: storage_db.Database) -> Checking:
    """Build the checker that compares the database and the targets of the configured backends.

    :raises ConfigurationError: a backend is misconfigured
    """
    found, unseen = _load(conf, volume_conf.settings(conf).enabled_backends)
    targets = {host: loaded.target for host, loaded in found.items()}
    return Checking(checker.Checker(database, targets, database.clock), sorted(targets), unseen)


def _load(conf: cfg.ConfigOpts,
          names: Iterable[str]) -> tuple[dict[str, loading.Backend], list[str]]:
    """Load backends, and separate backends whose targets this process cannot read.

    :returns: backends with targets that this process can read, by ``host@backend``, and the
        ``host@backend`` of each other backend
    """
    core, service = core_conf.settings(conf), service_conf.settings(conf)
    found = {service.address(name): backend.load_backend(conf, core, service, name)
             for name in names}
    unseen = [host for host, loaded in found.items() if loaded.settings.target == _IN_MEMORY]
    return {host: found[host] for host in found if host not in unseen}, unseen
