"""The devices that LVM scans on this host: never the disks that it exports, or guests' own.

A storage host that scans an iSCSI disk of its own hangs in every command when a session dies, and
shows volume groups that guests made inside their volumes.
"""
import json
import os
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

# Each entry is a disk as it may appear at any time, by all its names.
_TO_COME = (
    ('/dev/sdzz', '/dev/disk/by-path/ip-192.0.2.1:3260-iscsi-iqn.2010-10.org.openstack:'
                  'volume-00000000-0000-0000-0000-000000000000-lun-0'),
    ('/dev/dm-9999', '/dev/mapper/mpathzz'),
)


def complaint(scanning: Mapping[str, Any], volume_group: str,
              physical_volumes: Callable[[], Iterable[Mapping[str, str]]]) -> str | None:
    """What must change in lvm.conf, with the lines for it, or None if it is safe.

    :param scanning: from `blockattach.privileged.lvm.scanning`
    :param physical_volumes: from `blockattach.privileged.lvm.physical_volumes`, if needed
    """
    if scanning['scan_lvs']:
        return ('LVM scans logical volumes, and so what guests keep in theirs; put this line into '
                'the section devices of lvm.conf: scan_lvs = 0')
    if scanning['devices_file'] or not any(
            accepts(scanning['global_filter'], names) for names in _TO_COME):
        return None
    return (f'LVM scans every disk, and so those that this host exports or is given over iSCSI; '
            f'put this line into the section devices of lvm.conf: '
            f'{_line(volume_group, physical_volumes())}')


def accepts(filters: Sequence[str], names: Iterable[str]) -> bool:
    """Whether LVM scans a disk that has these names.

    The first pattern that matches a name decides for this name; a disk is accepted by any of its
    names, else rejected by any, else accepted.
    """
    found = {_decision(filters, name) for name in names}
    return 'a' in found or 'r' not in found


def _decision(filters: Sequence[str], name: str) -> str | None:
    for entry in filters:
        # A letter, then the pattern between two signs of any kind: a|^/dev/sd|
        if re.search(entry[2:-1], name):
            return entry[0]
    return None


def _line(volume_group: str, physical_volumes: Iterable[Mapping[str, str]]) -> str:
    """The filter that keeps the disks that are LVM's now, and no other."""
    kept = sorted(row['pv_name'] for row in physical_volumes
                  if row['pv_name'].startswith('/dev/')
                  and (row['vg_name'] == volume_group or not _comes_over_iscsi(row['pv_name'])))
    patterns = [*(f'a|^{name}$|' for name in kept), 'r|.*|']
    return f'global_filter = [ {", ".join(json.dumps(pattern) for pattern in patterns)} ]'


def _comes_over_iscsi(device: str) -> bool:
    block = os.path.realpath(f'/sys/class/block/{os.path.basename(os.path.realpath(device))}')
    return re.search(r'/session\d+/', block) is not None
