"""Kernel initiator of a guest, controlled by open-iscsi."""
from lab.guests.machines import guest as guests

_START = """
set -e
sed -i "s/^\\(node.session.timeo.replacement_timeout =\\).*/\\1 $1/" /etc/iscsi/iscsid.conf
mkdir -p /run/lock/iscsi
iscsid
"""


class Initiator:
    """Initiator of a guest with the modules `guest.INITIATOR` and udevd."""

    def __init__(self, guest: guests.Guest) -> None:
        self.guest = guest
        # The name that init.sh configures.
        self.name = f'iqn.2026-01.org.example:{guest.name}'

    def start(self, replacement_timeout: int = 3) -> None:
        """Start iscsid. Required after each start of the guest.

        :param replacement_timeout: seconds after which I/O of a broken session fails. The default
            of open-iscsi is two minutes.
        """
        self.guest.run('sh', '-c', _START, 'sh', str(replacement_timeout))

    def login(self, portal: str, iqn: str, username: str, password: str, lun: int = 0) -> str:
        """Log in with CHAP and return the path of the disk.

        :param portal: address and port
        :raises remote.CommandFailed: if the target refuses the login
        """
        self._node(portal, iqn, '-o', 'new')
        for name, value in (('authmethod', 'CHAP'), ('username', username),
                            ('password', password)):
            self._node(portal, iqn, '-o', 'update', '-n', f'node.session.auth.{name}', '-v', value)
        self._node(portal, iqn, '--login')
        path = f'/dev/disk/by-path/ip-{portal}-iscsi-{iqn}-lun-{lun}'
        self.guest.wait_for('test', '-b', path)
        return path

    def logout(self, portal: str, iqn: str) -> None:
        """Log out and delete the node record."""
        self._node(portal, iqn, '--logout')
        self._node(portal, iqn, '-o', 'delete')

    def _node(self, portal: str, iqn: str, *words: str) -> None:
        self.guest.run('iscsiadm', '-m', 'node', '-T', iqn, '-p', portal, *words)
