"""A guest's kernel as a host: open-iscsi logs in, and the disk is there."""
from lab.guests.machines import guest as guests

_START = """
set -e
sed -i "s/^\\(node.session.timeo.replacement_timeout =\\).*/\\1 $1/" /etc/iscsi/iscsid.conf
mkdir -p /run/lock/iscsi
iscsid
"""


class Initiator:
    """The initiator of a guest that has the modules `guest.INITIATOR` and udevd."""

    def __init__(self, guest: guests.Guest) -> None:
        self.guest = guest
        # As init.sh writes it.
        self.name = f'iqn.2026-01.org.example:{guest.name}'

    def start(self, replacement_timeout: int = 3) -> None:
        """Start iscsid; once after each start of the guest.

        :param replacement_timeout: the seconds after which a reader of a session that was cut gets
            an error; open-iscsi's own are two minutes
        """
        self.guest.run('sh', '-c', _START, 'sh', str(replacement_timeout))

    def login(self, portal: str, iqn: str, username: str, password: str, lun: int = 0) -> str:
        """Log in by CHAP; the path of the disk. ``portal`` is address:port.

        :raises remote.CommandFailed: the target refuses
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
        """Log out, and forget the node."""
        self._node(portal, iqn, '--logout')
        self._node(portal, iqn, '-o', 'delete')

    def _node(self, portal: str, iqn: str, *words: str) -> None:
        self.guest.run('iscsiadm', '-m', 'node', '-T', iqn, '-p', portal, *words)
