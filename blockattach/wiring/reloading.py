"""What a process reads anew on SIGHUP: options that may change while it runs, and what is put
together from them."""
from collections.abc import Callable

from oslo_config import cfg
from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.conf import locations

LOG = oslo_log.getLogger(__name__)


class Reloads:
    """Acts that take over what has changed."""

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
