"""[DEFAULT]: where a process keeps its state."""
import dataclasses
import os

from oslo_config import cfg

from blockattach.conf import settings as groups

OPTS = (
    cfg.StrOpt('state_path',
               help='Folder for the embedded database, keys, volumes and sockets. Default: '
                    'blockattach in the XDG state directory of the user.'),
    cfg.StrOpt('seal_key_file',
               help='File with the Fernet keys that seal credentials. Default: seal.key under '
                    'state_path, made at first start. All processes need the same.'),
    cfg.ListOpt('seal_key_ids', default=[], mutable=True,
                help='What the key manager ([key_manager] of Castellan) calls the keys that seal '
                     'credentials; the first one seals, all open. Where any is named there is no '
                     'seal_key_file. All processes need the same.'),
    # The name that oslo.service uses.
    cfg.IntOpt('graceful_shutdown_timeout', default=60, min=0, mutable=True,
               help='Seconds that what runs may go on after the process was asked to stop. What '
                    'then still runs is cut off; its deadline brings it back. 0: no limit.'),
)


@dataclasses.dataclass(frozen=True, slots=True)
class CoreSettings:
    """Absolute paths, and seconds."""

    state_path: str
    seal_key_file: str
    graceful_shutdown_timeout: int = 60
    seal_key_ids: tuple[str, ...] = ()


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
