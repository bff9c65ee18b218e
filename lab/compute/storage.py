"""Volumes on a tgtd of the test, connected to servers as the block storage service does."""
import os
import uuid

from blockattach.compute.hosts import base
from blockattach.platform import units
from blockattach.storage.domain import connection
from blockattach.storage.drivers.targets import tgt
from blockattach.storage.drivers.targets import tgt_socket
from blockattach.tests.conformance import settings

PASSWORD = 'secret-of-sixteen'
SMALL = 16 * units.MIB
"""Size in bytes of a volume whose size does not matter."""


class Storage:
    """Storage host that exists until the end of a test."""

    def __init__(self, test):
        made = settings.settings(settings.folder(test), settings.free_port())
        self.folder = made.state_dir
        self.target = tgt.TgtTarget(made)
        test.addCleanup(self.target.stop)
        self.target.start()
        self._exports = {}
        self._modes = {}
        self._numbers = {}

    def file(self, volume_id):
        """Return the path of the file with the bytes of a volume."""
        return self._exports[volume_id].device

    def disk(self, host, server_id, device='/dev/vdb', volume_id=None,
             mode=connection.AccessMode.RW, size=SMALL):
        """Grant a server on a host access to a volume, and return the disk.

        :param volume_id: an existing volume; None to create one
        """
        volume_id = volume_id or str(uuid.uuid4())
        pair = volume_id, host.connector(server_id)['initiator']
        self._modes.setdefault(pair, []).append(mode)
        number = self._numbers.setdefault(pair, len(self._numbers) + 1)
        user = f'user-{number}'
        found = self.target.grant(self._export(volume_id, size), connection.Grant(
            *pair, connection.widest(self._modes[pair]), connection.Credential(user, PASSWORD),
            f'-{number:08x}'))
        return base.Disk(volume_id, device, mode, True, {
            **found.to_dict(), 'auth_method': 'CHAP', 'auth_username': user,
            'auth_password': PASSWORD})

    def grow(self, volume_id, size_gb):
        """Extend a volume, so that hosts that are logged in see the new size when they rescan."""
        os.truncate(self.file(volume_id), units.gib_to_bytes(size_gb))
        client = self.target._client()
        for one in client.targets():
            if any(lun.path == self.file(volume_id) for lun in one.luns):
                # The driver makes a new size visible only to the next login. Replace the LUN, so
                # that hosts see the new size before.
                client._call(tgt_socket._Mode.DEVICE, tgt_socket._Op.DELETE, 'take the old one',
                             tid=one.tid, lun=1)
                client.add_lun(one.tid, 1, self.file(volume_id))

    def _export(self, volume_id, size):
        if volume_id not in self._exports:
            device = os.path.join(self.folder, f'volume-{volume_id}')
            with open(device, 'wb') as file:
                file.truncate(size)
            self._exports[volume_id] = connection.Export(
                volume_id, f'volume-{volume_id}', device, 1)
        return self._exports[volume_id]
