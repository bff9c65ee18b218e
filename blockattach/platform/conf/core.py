"""[DEFAULT]: location of the persistent state and the keys, and time limit of a shutdown."""
import dataclasses
import os

from oslo_config import cfg

from blockattach.platform.conf import settings as groups


@dataclasses.dataclass(frozen=True, slots=True)
class CoreSettings:
    """Settings of the ``[DEFAULT]`` group. Paths are absolute, and times are in seconds."""

    state_path: str = groups.option(cfg.StrOpt, required=True, help=(
        'Directory for the embedded database, keys, volumes, and sockets. Defaults to blockattach '
        'in the XDG state directory of the user.'))
    seal_key_file: str = groups.option(cfg.StrOpt, required=True, help=(
        'File with the Fernet keys that encrypt stored credentials. Defaults to seal.key in '
        'state_path, which is created at the first start. All processes must use the same keys.'))
    seal_key_ids: tuple[str, ...] = groups.option(cfg.ListOpt, default=[], mutable=True, help=(
        'Key manager ids ([key_manager] of Castellan) of the keys that encrypt stored '
        'credentials. The first key encrypts, and all keys decrypt. If any id is set, '
        'seal_key_file is not used. All processes must use the same ids.'))
    # Named like the option of oslo.service.
    graceful_shutdown_timeout: int = groups.option(
        cfg.IntOpt, default=60, min=0, mutable=True, help=(
            'Time in seconds for which running operations can continue after the process was '
            'asked to stop. Operations that exceed this time are aborted, and are resumed when '
            'their deadline has passed. 0 means no limit.'))


OPTS = groups.options(CoreSettings)


def default_state_path() -> str:
    """Return the default of ``state_path``, by the XDG Base Directory Specification."""
    base = os.environ.get('XDG_STATE_HOME') or os.path.expanduser('~/.local/state')
    return os.path.join(base, 'blockattach')


def settings(conf: cfg.ConfigOpts) -> CoreSettings:
    """Return the settings of the ``[DEFAULT]`` group."""
    state_path = os.path.abspath(conf.state_path or default_state_path())
    return groups.read(
        conf, None, CoreSettings, state_path=state_path,
        seal_key_file=conf.seal_key_file or os.path.join(state_path, 'seal.key'))
