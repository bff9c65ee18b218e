"""The checker of a deployment, for a command that runs beside its services."""
from typing import NamedTuple

from oslo_config import cfg

from blockattach.conf import core as core_conf
from blockattach.conf import service as service_conf
from blockattach.conf import volume as volume_conf
from blockattach.db import engine
from blockattach.drivers import base
from blockattach.drivers import loading
from blockattach.volume import checker
from blockattach.wiring import volume

_IN_MEMORY = 'fake'


class Checking(NamedTuple):
    """``seen`` are backends whose targets it reads, ``unseen`` those whose targets cannot be read
    from another process.
    """

    checker: checker.Checker
    seen: list[str]
    unseen: list[str]


def is_in_memory(loaded: loading.Backend) -> bool:
    """Whether the target is in the memory of its service, and of no other process."""
    return loaded.settings.target == _IN_MEMORY


def build_checker(conf: cfg.ConfigOpts, database: engine.Database) -> Checking:
    """Over the database, and the targets of the backends configured here.

    :raises ConfigurationError: a backend is not configured rightly
    """
    service = service_conf.settings(conf)
    targets: dict[str, base.ExportTarget] = {}
    unseen = []
    for name in volume_conf.settings(conf).enabled_backends:
        loaded = volume.load_backend(conf, core_conf.settings(conf), service, name)
        host = service.address(name)
        if is_in_memory(loaded):
            unseen.append(host)
        else:
            targets[host] = loaded.target
    return Checking(checker.Checker(database, targets, database.clock), sorted(targets), unseen)
