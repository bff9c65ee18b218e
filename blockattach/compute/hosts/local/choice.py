"""Selection of the connector that attaches volumes to a host.

The selection is recorded, because initiator names depend on the connector.
"""
import os
from collections.abc import Mapping

from blockattach.compute import files
from blockattach.compute.hosts.local import brick
from blockattach.compute.hosts.local import connectors
from blockattach.compute.hosts.local import nbd
from blockattach.platform import errors

AUTO = 'auto'
KINDS: Mapping[str, type[brick.BrickConnector] | type[nbd.NbdConnector]] = {
    'brick': brick.BrickConnector, 'nbd': nbd.NbdConnector}
_KERNEL = '/sys/class/iscsi_transport'


def connector(configured: str, name: str, state_dir: str, kernel: str = _KERNEL
              ) -> connectors.Connector:
    """Return the connector that attaches volumes to a host, and record the selection.

    `AUTO` selects the recorded connector. Without a record, `AUTO` selects os-brick if the kernel
    has an iSCSI initiator, and NBD otherwise.

    :param configured: a key of `KINDS`, or `AUTO`
    :param kernel: directory that exists if the kernel has an iSCSI initiator
    :raises ConfigurationError: a different connector was recorded before
    """
    note = os.path.join(state_dir, 'connector.json')
    chosen = files.read(note)
    if configured != AUTO and chosen not in (None, configured):
        raise errors.ConfigurationError(
            reason=f'cannot use connector {configured}, because the servers of this host use '
                   f'{chosen}. Delete the servers first, and then the file {note}')
    detected = 'brick' if os.path.isdir(kernel) else 'nbd'
    kind = chosen or (detected if configured == AUTO else configured)
    if chosen is None:
        os.makedirs(state_dir, mode=0o755, exist_ok=True)
        files.write(note, kind)
    return KINDS[kind](name, os.path.join(state_dir, kind))
