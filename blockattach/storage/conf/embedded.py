"""Command line options of ``blockattach-all``, and its defaults of other options.

A configuration file can override these defaults.
"""
import re

from oslo_config import cfg

from blockattach.platform import errors
from blockattach.storage.conf import backend

CLI_OPTS = (
    cfg.StrOpt('state-dir', metavar='DIR',
               help='Directory for all persistent data. Defaults to blockattach in the XDG state '
                    'directory.'),
    cfg.StrOpt('listen', default='127.0.0.1:8776', metavar='HOST:PORT',
               help='Address of the API. Without Keystone, use a loopback address.'),
    cfg.StrOpt('backend', default='file', choices=['file', 'fake'],
               help='Backend of the volumes: file (sparse files, exported over iSCSI) or fake (in '
                    'memory, to try the API).'),
)

TRANSPORT_URL = 'inproc://blockattach/'
_PORT = re.compile(r'[0-9]{1,5}')


def register(conf: cfg.ConfigOpts) -> None:
    """Register the command line options of ``blockattach-all``."""
    conf.register_cli_opts(CLI_OPTS)


def set_defaults(conf: cfg.ConfigOpts) -> None:
    """Set defaults of other options according to the command line of ``blockattach-all``.

    :raises ConfigurationError: if the address in ``--listen`` is invalid
    """
    backend_name = conf.backend
    host, port = split_address(conf.listen)
    conf.set_default('host', host, group='api')
    conf.set_default('port', port, group='api')
    conf.set_default('enabled', True, group='watch')
    conf.set_default('transport_url', TRANSPORT_URL)
    # Volumes store the host, and the host name of a laptop changes with the network.
    conf.set_default('host', 'localhost', group='service')
    conf.set_default('enabled_backends', [backend_name], group='volume')
    if conf.state_dir:
        # The option is given on the command line and takes precedence over a configuration file.
        conf.set_override('state_path', conf.state_dir)
    backend.register(conf, backend_name)
    if backend_name == 'fake':
        conf.set_default('store', 'fake', group=backend_name)
        conf.set_default('target', 'fake', group=backend_name)
    conf.set_default('target_port', 0, group=backend_name)


def split_address(text: str) -> tuple[str, int]:
    """Return the host and the port in ``HOST:PORT``, ``[IPv6]:PORT`` or ``:PORT``.

    The default host is 127.0.0.1.

    :raises ConfigurationError: if the text has another form
    """
    host, separator, port = text.rpartition(':')
    if not separator or not _PORT.fullmatch(port) or int(port) > 65535:
        raise errors.ConfigurationError(
            reason=f'cannot listen on {text!r}: use HOST:PORT, such as 127.0.0.1:8776')
    return host.strip('[]') or '127.0.0.1', int(port)
