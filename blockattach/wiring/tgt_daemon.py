"""Administration of the tgtd under the state directory, which several backends may share."""
from collections.abc import Iterable

from oslo_config import cfg
from oslo_log import log as oslo_log

from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform.conf import core as core_conf
from blockattach.platform.conf import locations
from blockattach.storage.drivers.targets import tgtd
from blockattach.wiring import dependencies

LOG = oslo_log.getLogger(__name__)


def check_portals(conf: cfg.ConfigOpts, backends: Iterable[str]) -> None:
    """Check that backends that use the tgtd under the state directory have the same portals.

    Otherwise, each backend would close the portals of the other backends.

    :raises ConfigurationError: the portals of two backends differ
    """
    first, *others = _users(conf, backends) or ['']
    for name in others:
        for option in ('target_ip_address', 'target_secondary_ip_addresses', 'target_port'):
            if conf[name][option] != conf[first][option]:
                raise locations.refusal(
                    conf, name, option, f'the value must be the same as in backend {first}, which '
                    'uses the same tgtd. To use another tgtd, set tgt_socket')


def warn_if_unused(base: dependencies.Dependencies, backends: Iterable[str]) -> None:
    """Log a warning if the tgtd under the state directory is running, but no backend uses it.

    Hosts keep access to the exports of this tgtd until it is stopped.
    """
    if _users(base.conf, backends):
        return
    pid = tgtd.Tgtd(base.core.state_path, (), 0).pid()
    if pid is not None:
        LOG.warning('Orphaned tgtd found running; stop tgtd with blockattach-manage target stop%s',
                    log.fields(pid=pid, path=base.core.state_path))


def stop(conf: cfg.ConfigOpts, force: bool) -> int | None:
    """Stop the tgtd under the state directory.

    :param force: True to stop tgtd even if hosts are logged in, or if it does not respond
    :returns: process id of the stopped tgtd, or None if no tgtd was running
    :raises ConfigurationError: tgtd was not stopped
    """
    with locations.named(conf, 'DEFAULT', 'state_path'):
        daemon = tgtd.Tgtd(core_conf.settings(conf).state_path, (), 0)
        try:
            pid = daemon.pid()
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot find tgtd: {exc.strerror}: {exc.filename}') from exc
        if pid is None:
            return None
        if not force:
            _refuse_in_use(daemon, pid)
        daemon.stop()
        # A running volume manager restarts tgtd at once, with another process ID.
        if daemon.pid() == pid:
            raise errors.ConfigurationError(reason=f'cannot stop tgtd (process {pid})')
    return pid


def _users(conf: cfg.ConfigOpts, backends: Iterable[str]) -> list[str]:
    return [name for name in backends
            if conf[name].target == 'tgt' and not conf[name].tgt_socket]


def _refuse_in_use(daemon: tgtd.Tgtd, pid: int) -> None:
    sessions = daemon.sessions()
    if sessions is None:
        raise errors.ConfigurationError(
            reason=f'cannot list the sessions of tgtd (process {pid}): no response. To stop tgtd '
                   f'anyway, use --force')
    if sessions:
        raise errors.ConfigurationError(
            reason=f'cannot stop tgtd (process {pid}): hosts are logged in, sessions: '
                   f'{sessions}. To stop tgtd anyway, use --force')
