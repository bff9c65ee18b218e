"""Configuration of a process: reading at its start, and reloading while the process runs."""
import contextlib
import io
import os
from collections.abc import Callable

from oslo_config import cfg
from oslo_log import log as oslo_log
from oslo_policy import opts as policy_options
from oslo_reports import opts as report_options

from blockattach import version
from blockattach.platform import errors
from blockattach.platform import failpoints
from blockattach.platform import log
from blockattach.platform.conf import account
from blockattach.platform.conf import changing
from blockattach.platform.conf import core as core_conf
from blockattach.platform.conf import failpoints as failpoints_conf
from blockattach.platform.conf import locations
from blockattach.platform.rpc import transport
from blockattach.wiring import options

LOG = oslo_log.getLogger(__name__)


Wrong = Callable[[], str | None]
"""Function that returns the reason why a file could not be read the last time, or None."""


class Reloads:
    """Reload of a process: mutable options, objects that depend on them, and watched files.

    If a file cannot be read, its former content stays in effect. `wrong` reports the reason until
    the file is valid.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._acts: list[Callable[[], None]] = []
        self._watched: list[Wrong] = [log.wrong]
        self._is_behind = False
        self._failed: dict[Callable[[], object], str] = {}

    def add(self, act: Callable[[], None], wrong: Wrong | None = None) -> None:
        """Register a function that each successful reload calls after it has set the new values.

        :param wrong: function that returns the reason why the last call of ``act`` failed, or None
        """
        self._acts.append(act)
        if wrong is not None:
            self.watch(wrong)

    def watch(self, wrong: Wrong) -> None:
        """Register a function whose result `wrong` reports, for files that are watched elsewhere.
        """
        self._watched.append(wrong)

    def wrong(self) -> str | None:
        """Return the reasons why files cannot be reloaded, or None.

        Files that were invalid are checked again. A repaired file is no longer reported, although
        its content only takes effect with the next SIGHUP.
        """
        if self._is_behind:
            self._is_behind = self._find_fault() is not None
        found = [self._find_fault() if self._is_behind else None, *self._failed.values(),
                 *(wrong() for wrong in self._watched)]
        return '; '.join(filter(None, found)) or None

    def __call__(self) -> bool:
        """Reload the configuration files, and call the registered functions.

        An error of a registered function is only logged, and reported by `wrong`.

        :returns: False if a file or a value is invalid, in which case nothing has changed
        """
        self._failed = {}
        reason = self._find_fault()
        self._is_behind = reason is not None
        if reason is None and (reason := self._take_over()) is not None:
            self._failed[self._take_over] = reason
        if reason is not None:
            LOG.error('Failed to reload configuration, keeping the previous one%s',
                      log.fields(reason=reason))
            return False
        for act in self._acts:
            try:
                act()
            except Exception as exc:
                self._failed[act] = str(exc)
                # The other parts still get the new values, which are set already.
                LOG.exception('Failed to apply part of the reloaded configuration%s',
                              log.fields(reason=exc))
        LOG.info('Configuration reloaded')
        return True

    def _find_fault(self) -> str | None:
        """Return the reason why the configuration files cannot be reloaded, or None."""
        # oslo.config applies new values before it validates them, and exits if a file cannot be
        # parsed. The files are therefore read into a copy first.
        trial, words = cfg.ConfigOpts(), io.StringIO()
        # Not copied by the copy module, because the parser would be missing.
        vars(trial).update({**vars(self._conf), '_ConfigOpts__cache': {}})
        try:
            with contextlib.redirect_stderr(words):
                trial._namespace = trial._mutable_ns = trial._reload_config_files()
                locations.check_values(trial)
                log.check(trial)
                options.check_supported(trial)
        except (errors.ConfigurationError, cfg.Error, OSError, ValueError) as exc:
            return str(exc)
        except SystemExit:
            return words.getvalue().strip() or 'a file cannot be parsed'
        return None

    def _take_over(self) -> str | None:
        """Apply the new values of the files. Return the reason of a failure, or None."""
        # Hooks of libraries run here. The hook of oslo.log raises an error if log_config_append
        # cannot be used, and has by then removed all handlers of the loggers.
        former, logs = self._conf._mutable_ns, log.keep()
        try:
            self._conf.mutate_config_files()
            log.adopt(self._conf)
        except (Exception, SystemExit) as exc:
            log.restore(logs)
            self._conf._mutable_ns = former
            vars(self._conf)['_ConfigOpts__cache'].clear()
            return str(exc)
        return None


def configure(conf: cfg.ConfigOpts, arguments: list[str], command: str | None = None,
              text: str | None = None, serves: bool = True, log_unknown: bool = True) -> None:
    """Read the command line and the configuration files, and start logging.

    :param command: name of the process, or None for the name of its program
    :param text: description of the process in the output of ``--help``
    :param serves: True if the process serves requests. Such a process must not start if its files
        or environment set security-related options of Cinder that this service does not support
    :param log_unknown: True to log each unknown or unneeded option
    :raises ConfigurationError: a value is invalid, the log cannot be written, or an option of
        Cinder prevents the start
    :raises oslo_config.cfg.Error: a file cannot be read
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
    for group in options.ACCOUNTS:
        account.register(conf, group)
    locations.check_values(conf, options.ACCOUNTS)
    if serves:
        options.check_supported(conf)
    if log_unknown:
        _log_unread(conf)


def _log_unread(conf: cfg.ConfigOpts) -> None:
    for unknown in options.find_unknown(conf):
        if unknown.name:
            LOG.warning('Ignoring unknown option%s', log.fields(
                path=unknown.path, group=unknown.group, option=unknown.name,
                nearest=unknown.nearest))
        else:
            LOG.warning('Ignoring unknown option group%s', log.fields(
                path=unknown.path, group=unknown.group, nearest=unknown.nearest))
    for path, group, name in options.find_unneeded(conf):
        LOG.info('Ignoring unneeded option of Cinder%s', log.fields(
            path=path, group=group, option=name))


def make_state_path(core: core_conf.CoreSettings) -> None:
    """Create the state folder, accessible to its owner only.

    :raises ConfigurationError: the folder cannot be created or written to, or is accessible to
        other users
    """
    try:
        os.makedirs(core.state_path, mode=0o700, exist_ok=True)
    except OSError as exc:
        raise errors.ConfigurationError(
            reason=f'cannot create the state directory {core.state_path}: {exc.strerror}') from exc
    if not os.access(core.state_path, os.W_OK | os.X_OK):
        raise errors.ConfigurationError(
            reason=f'cannot write to the state directory {core.state_path}')
    changing.check_private(core.state_path)
