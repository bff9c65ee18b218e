"""[DEFAULT]: where a process keeps its state."""
import dataclasses
import os

from oslo_config import cfg

CORE_OPTS = (
    cfg.StrOpt('state_path',
               help='Folder for the embedded database, keys, volumes and sockets. Default: '
                    'blockattach in the XDG state directory of the user.'),
    cfg.StrOpt('seal_key_file',
               help='File with the Fernet keys that seal credentials. Default: seal.key under '
                    'state_path, made at first start. All processes need the same.'),
)


@dataclasses.dataclass(frozen=True, slots=True)
class CoreSettings:
    """Absolute paths."""

    state_path: str
    seal_key_file: str


def default_state_path() -> str:
    """The XDG base directory specification's place for state that outlives a restart."""
    base = os.environ.get('XDG_STATE_HOME') or os.path.expanduser('~/.local/state')
    return os.path.join(base, 'blockattach')


def register(conf: cfg.ConfigOpts) -> None:
    """Make the options known."""
    conf.register_opts(CORE_OPTS)


def settings(conf: cfg.ConfigOpts) -> CoreSettings:
    """Read them."""
    state_path = os.path.abspath(conf.state_path or default_state_path())
    return CoreSettings(state_path, conf.seal_key_file or os.path.join(state_path, 'seal.key'))


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For oslo.config's sample generator."""
    return [('DEFAULT', list(CORE_OPTS))]
