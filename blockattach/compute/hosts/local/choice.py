"""Which connector a host has: chosen once, since its servers' initiators follow from it."""
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


def connector(wanted: str, name: str, state_dir: str, kernel: str = _KERNEL
              ) -> connectors.Connector:
    """The connector of a host.

    :param wanted: of `KINDS`, or `AUTO`: what was chosen before, or os-brick where the kernel has
        an iSCSI initiator, or NBD
    :param kernel: the folder that a kernel with an iSCSI initiator has
    :raises ConfigurationError: another one was chosen before
    """
    note = os.path.join(state_dir, 'connector.json')
    chosen = files.read(note)
    if wanted != AUTO and chosen not in (None, wanted):
        raise errors.ConfigurationError(
            reason=f'cannot use connector {wanted}, because the servers of this host use '
                   f'{chosen}. Delete the servers first, and then the file {note}')
    kind = chosen or (wanted if wanted != AUTO else 'brick' if os.path.isdir(kernel) else 'nbd')
    if chosen is None:
        os.makedirs(state_dir, mode=0o755, exist_ok=True)
        files.write(note, kind)
    return KINDS[kind](name, os.path.join(state_dir, kind))
