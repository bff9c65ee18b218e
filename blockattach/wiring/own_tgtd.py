"""The tgtd under the state directory: which backends use it, and where it listens; its end."""
from collections.abc import Iterable

from oslo_config import cfg
from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.conf import core as core_conf
from blockattach.conf import locations
from blockattach.drivers.targets import tgtd
from blockattach.wiring import dependencies

LOG = oslo_log.getLogger(__name__)

_TARGET = 'tgt'


def check_portals(conf: cfg.ConfigOpts, backends: Iterable[str]) -> None:
    """Its backends must have the same portals: each closes other ones.

    :raises ConfigurationError: two of them differ
    """
    first, *others = _users(conf, backends) or ['']
    for name in others:
        for option in ('target_ip_address', 'target_secondary_ip_addresses', 'target_port'):
            if conf[name][option] != conf[first][option]:
                with locations.named(conf, name, option):
                    raise errors.ConfigurationError(
                        reason=f'it must be the same as of backend {first}, which uses the same '
                               f'tgtd; another one is named by tgt_socket')


def warn_if_unused(base: dependencies.Dependencies, backends: Iterable[str]) -> None:
    """Log that one still runs that none of these backends uses: its exports stay until it is
    ended, and nobody revokes them.
    """
    if _users(base.conf, backends):
        return
    pid = tgtd.Tgtd(base.core.state_path, (), 0).pid()
    if pid is not None:
        LOG.warning('tgtd still serves what it was left with, and no backend uses it: end it with '
                    'blockattach-manage target stop%s',
                    log.fields(pid=pid, path=base.core.state_path))


def stop(conf: cfg.ConfigOpts, force: bool) -> int | None:
    """End the one under the state directory; which process it was, None: there was none.

    :param force: also while hosts are logged in, or if it does not answer
    :raises ConfigurationError: it is left running
    """
    with locations.named(conf, 'DEFAULT', 'state_path'):
        found = tgtd.Tgtd(core_conf.settings(conf).state_path, (), 0)
        try:
            pid = found.pid()
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot look for tgtd: {exc.strerror}: {exc.filename}') from exc
        if pid is None:
            return None
        if not force:
            _refuse_in_use(found, pid)
        found.stop()
        if found.pid() == pid:
            raise errors.ConfigurationError(reason=f'cannot stop tgtd (process {pid})')
    return pid


def _users(conf: cfg.ConfigOpts, backends: Iterable[str]) -> list[str]:
    return [name for name in backends
            if conf[name].target == _TARGET and not conf[name].tgt_socket]


def _refuse_in_use(found: tgtd.Tgtd, pid: int) -> None:
    sessions = found.sessions()
    if sessions is None:
        raise errors.ConfigurationError(
            reason=f'cannot ask tgtd (process {pid}) for its sessions: it does not answer; '
                   f'--force ends it all the same')
    if sessions:
        raise errors.ConfigurationError(
            reason=f'cannot stop tgtd (process {pid}): hosts are logged in, sessions: '
                   f'{sessions}; --force ends it all the same')
