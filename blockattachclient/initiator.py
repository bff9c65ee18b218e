"""iSCSI initiator of this machine, which uses os-brick. Only some commands require os-brick."""
import contextlib
import errno
import importlib
import logging
import os
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any

from osc_lib import exceptions

LOCKS = '/run/lock/os-brick'
"""Directory for the locks of os-brick, unless OSLO_LOCK_PATH is set."""
NOT_ROOT = ('Only root can connect volumes to this host. Run the command as root, for example '
            '"sudo -E openstack volume host connect VOLUME".')
NOT_INSTALLED = ('os-brick is not installed. Install os-brick with "pip install '
                 '\'blockattach[client,host]\'", and iscsiadm with the package open-iscsi.')
NO_NAME = ('This host has no iSCSI initiator name. Install open-iscsi, which creates '
           '/etc/iscsi/initiatorname.iscsi.')
IN_USE = ('%s is in use on this host (mounted, or part of another device). Unmount the device and '
          'repeat the command.')
_PROTOCOL = 'ISCSI'
_NO_HELPER = ''
_MODULES = ('os_brick', 'os_brick.privileged', 'os_brick.initiator.connector',
            'oslo_concurrency.lockutils', 'oslo_config.cfg')
SECRETS = ('auth_password', 'discovery_auth_password')
"""Keys of secrets in connection information. Their values must not be printed."""


def is_same(connector: Mapping[str, Any] | None, other: Mapping[str, Any]) -> bool:
    """Return True if two connectors have the same initiator name.

    Initiator names are compared without regard to case (RFC 7143, 4.2.7.1).
    """
    name = (connector or {}).get('initiator')
    return isinstance(name, str) and name.lower() == str(other.get('initiator')).lower()


class Initiator:
    """Initiator of this host, which connects and disconnects volumes."""

    def __init__(self, brick: Any, open_device: Callable[[str, int], int]) -> None:
        """
        :param brick: module ``os_brick.initiator.connector``
        :param open_device: ``os.open``, or a replacement for tests
        """
        self._brick = brick
        self._open_device = open_device

    def properties(self, address: str | None = None, multipath: bool = False) -> dict[str, Any]:
        """Return the connector of this host.

        :param address: IP address of this host, or None to omit it
        :param multipath: True to require that the multipath daemon is running
        :raises CommandError: the host has no initiator name, or no running multipath daemon
        """
        with _explained('read the connector of this host'):
            # The last argument enforces multipath if it is requested.
            found = self._brick.get_connector_properties(_NO_HELPER, address, multipath, multipath)
        if not found.get('initiator'):
            raise exceptions.CommandError(NO_NAME)
        return {key: value for key, value in found.items() if value is not None}

    def connect(self, info: Mapping[str, Any], multipath: bool) -> str:
        """Log in to the target of a volume, and return the path of the volume's device.

        :raises CommandError: the volume cannot be connected, and nothing of the connection remains
        """
        with _explained('connect the volume', info):
            return str(self._connector(multipath).connect_volume(dict(info))['path'])

    def disconnect(self, info: Mapping[str, Any], multipath: bool) -> None:
        """Flush and remove the device of a volume. Log out if the session has no other device.

        :raises CommandError: the volume cannot be disconnected, or its device is in use on this
            host
        """
        with _explained('disconnect the volume', info):
            connector = self._connector(multipath)
            paths = connector.get_volume_paths(dict(info))
            # The paths of a multipath device are always in use by that device. os-brick does not
            # remove a multipath device that is in use.
            for path in () if multipath else paths:
                self._check_unused(path)
            # os-brick flushes only the path that is passed to it.
            connector.disconnect_volume(dict(info), {'path': paths[0]} if paths else {})

    def _connector(self, multipath: bool) -> Any:
        return self._brick.InitiatorConnector.factory(_PROTOCOL, _NO_HELPER,
                                                      use_multipath=multipath)

    def _check_unused(self, path: str) -> None:
        try:
            # The kernel grants O_EXCL on a block device once, and not while it is mounted.
            os.close(self._open_device(path, os.O_RDONLY | os.O_EXCL))
        except OSError as exc:
            if exc.errno == errno.EBUSY:
                raise exceptions.CommandError(IN_USE % path) from None


def of_this_host(find: Callable[[str], Any] = importlib.import_module,
                 user: Callable[[], int] = os.geteuid,
                 open_device: Callable[[str, int], int] = os.open) -> Initiator:
    """Return the initiator of this host, which uses the installed os-brick.

    :param find: function that imports a module by name
    :param user: function that returns the effective user id
    :raises CommandError: os-brick is not installed, or the command does not run as root
    """
    if user() != 0:
        raise exceptions.CommandError(NOT_ROOT)
    try:
        brick, privileged, connector, lockutils, cfg = (find(name) for name in _MODULES)
    except ImportError:
        raise exceptions.CommandError(NOT_INSTALLED) from None
    # Unless -v is given, print only the raised error, in one line.
    if all(one.level > logging.INFO for one in logging.getLogger().handlers):
        logging.getLogger('os_brick').setLevel(logging.CRITICAL)
    # Root needs no privsep daemon.
    for context in (privileged.default, privileged.brick_privsep_hide_output):
        context.set_client_mode(False)
    lockutils.set_defaults(os.environ.get('OSLO_LOCK_PATH', LOCKS))
    brick.setup(cfg.CONF)
    return Initiator(connector, open_device)


@contextlib.contextmanager
def _explained(act: str, info: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Translate any error of os-brick in the block to an error that has one line and no secrets.

    :param act: description of the block, such as "connect the volume"
    :param info: connection information whose secrets are removed from the error text
    :raises CommandError: the block raised an error
    """
    try:
        yield
    except exceptions.CommandError:
        raise
    except Exception as exc:
        text = ' '.join(str(exc).split()) or type(exc).__name__
        for key in SECRETS:
            if (info or {}).get(key):
                text = text.replace(str((info or {})[key]), '***')
        raise exceptions.CommandError(f'os-brick failed to {act}: {text.rstrip(".")}. Use -v for '
                                      'details.') from None
