"""The configuration of a process: how it is read, and what is read anew while the process runs."""
import os
from collections.abc import Callable

from oslo_config import cfg
from oslo_log import log as oslo_log
from oslo_policy import opts as policy_options
from oslo_reports import opts as report_options

from blockattach import errors
from blockattach import failpoints
from blockattach import log
from blockattach import version
from blockattach.conf import core as core_conf
from blockattach.conf import failpoints as failpoints_conf
from blockattach.conf import locations
from blockattach.conf import options
from blockattach.conf import permissions
from blockattach.rpc import transport

LOG = oslo_log.getLogger(__name__)


class Reloads:
    """What a process reads anew on SIGHUP: options that may change while it runs, and what is put
    together from them."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._acts: list[Callable[[], None]] = []

    def add(self, act: Callable[[], None]) -> None:
        """Call this at each reload, after the new values are set."""
        self._acts.append(act)

    def __call__(self) -> bool:
        """Read the files again; False: a file or a value is wrong, and all stays as it was."""
        try:
            self._conf.mutate_config_files()
            locations.check_values(self._conf)
        except (errors.ConfigurationError, cfg.Error) as exc:
            LOG.error('Cannot reload the configuration, the former one stays%s',
                      log.fields(reason=exc))
            return False
        for act in self._acts:
            act()
        LOG.info('Configuration is reloaded')
        return True


def configure(conf: cfg.ConfigOpts, arguments: list[str], command: str | None = None,
              text: str | None = None, serves: bool = True, log_unknown: bool = True) -> None:
    """Read the command line and the configuration files, and start logging.

    :param command: what the process is called; default: the name of its program
    :param text: what it does, for its help
    :param serves: the process serves others, so it does not start without safety that its files
        ask for
    :param log_unknown: log each option that is not known or not needed
    :raises ConfigurationError: a value is wrong, the log cannot be written, or an option of
        Cinder stops the start
    """
    own = frozenset(conf) - frozenset(cfg.ConfigOpts())
    log.register(conf)
    options.register(conf)
    transport.register_options(conf)
    policy_options.set_defaults(conf)
    report_options.set_defaults(conf)
    locations.read(conf, arguments, own, project='blockattach', prog=command,
                   version=version.version_string(), description=text)
    with locations.named(conf, failpoints_conf.GROUP, 'armed'):
        failpoints.configure(conf[failpoints_conf.GROUP].armed)
    try:
        log.setup(conf)
    except OSError as exc:
        raise locations.refusal(conf, 'DEFAULT', 'log_file' if conf.log_file else 'log_dir',
                                f'cannot write the log: {exc}') from exc
    if serves:
        options.check_supported(conf)
    if log_unknown:
        _log_unread(conf)


def _log_unread(conf: cfg.ConfigOpts) -> None:
    for unknown in options.find_unknown(conf):
        if unknown.name:
            LOG.warning('Option is not known and has no effect%s', log.fields(
                path=unknown.path, group=unknown.group, option=unknown.name,
                nearest=unknown.nearest))
        else:
            LOG.warning('Group of options is not known and has no effect%s', log.fields(
                path=unknown.path, group=unknown.group, nearest=unknown.nearest))
    for path, group, name in options.find_unneeded(conf):
        LOG.info('Option of Cinder is not needed here%s', log.fields(
            path=path, group=group, option=name))


def make_state_path(core: core_conf.CoreSettings) -> None:
    """Make the state folder, for its owner only.

    :raises ConfigurationError: it cannot be made or written to, or is open to others
    """
    try:
        os.makedirs(core.state_path, mode=0o700, exist_ok=True)
    except OSError as exc:
        raise errors.ConfigurationError(
            reason=f'cannot make the state directory {core.state_path}: {exc.strerror}') from exc
    if not os.access(core.state_path, os.W_OK | os.X_OK):
        raise errors.ConfigurationError(
            reason=f'cannot write to the state directory {core.state_path}')
    permissions.check_private(core.state_path)
