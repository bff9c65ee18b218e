"""All options of the service: registered for a process, and listed for oslo.config's generator.

The libraries list theirs themselves: ``etc/blockattach/config-generator.conf`` names them.
"""
from collections.abc import Sequence

from oslo_config import cfg

from blockattach.conf import api
from blockattach.conf import attachments
from blockattach.conf import backend
from blockattach.conf import control
from blockattach.conf import core
from blockattach.conf import database
from blockattach.conf import failpoints
from blockattach.conf import health
from blockattach.conf import nova
from blockattach.conf import rpc
from blockattach.conf import scheduler
from blockattach.conf import service
from blockattach.conf import telemetry
from blockattach.conf import volume

OPTIONS: tuple[tuple[str | None, Sequence[cfg.Opt]], ...] = (
    (None, core.OPTS),
    *((group.GROUP, group.OPTS) for group in (
        service, api, control, attachments, scheduler, volume, nova, rpc, database, health)),
    (telemetry.METRICS_GROUP, telemetry.METRICS_OPTS),
    (telemetry.TRACING_GROUP, telemetry.TRACING_OPTS),
    (failpoints.GROUP, failpoints.OPTS))


def register(conf: cfg.ConfigOpts) -> None:
    """Make every group known; the group of a backend is, when the backend is enabled."""
    for group, opts in OPTIONS:
        conf.register_opts(opts, group=group)
    database.set_defaults(conf)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Groups with their options; the group of a backend stands for any such group."""
    return [(group or 'DEFAULT', list(opts))
            for group, opts in (*OPTIONS, ('file', backend.OPTS))]
