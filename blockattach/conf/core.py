"""[DEFAULT]: where a process keeps its state."""
import dataclasses
import os

from oslo_config import cfg

from blockattach.conf import settings as groups


@dataclasses.dataclass(frozen=True, slots=True)
class CoreSettings:
    """Absolute paths, and seconds."""

    state_path: str = groups.option(cfg.StrOpt, required=True, help=(
        'Folder for the embedded database, keys, volumes and sockets. Default: '
        'blockattach in the XDG state directory of the user.'))
    seal_key_file: str = groups.option(cfg.StrOpt, required=True, help=(
        'File with the Fernet keys that seal credentials. Default: seal.key under '
        'state_path, made at first start. All processes need the same.'))
    seal_key_ids: tuple[str, ...] = groups.option(cfg.ListOpt, default=[], mutable=True, help=(
        'What the key manager ([key_manager] of Castellan) calls the keys that seal '
        'credentials; the first one seals, all open. Where any is named there is no '
        'seal_key_file. All processes need the same.'))
    # The name that oslo.service uses.
    graceful_shutdown_timeout: int = groups.option(
        cfg.IntOpt, default=60, min=0, mutable=True, help=(
            'Seconds that what runs may go on after the process was asked to stop. What '
            'then still runs is cut off; its deadline brings it back. 0: no limit.'))


OPTS = groups.options(CoreSettings)


def default_state_path() -> str:
    """The XDG base directory specification's place for state that outlives a restart."""
    base = os.environ.get('XDG_STATE_HOME') or os.path.expanduser('~/.local/state')
    return os.path.join(base, 'blockattach')


def settings(conf: cfg.ConfigOpts) -> CoreSettings:
    """Read them."""
    state_path = os.path.abspath(conf.state_path or default_state_path())
    return groups.read(
        conf, None, CoreSettings, state_path=state_path,
        seal_key_file=conf.seal_key_file or os.path.join(state_path, 'seal.key'))
