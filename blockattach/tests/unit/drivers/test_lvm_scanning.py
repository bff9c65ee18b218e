"""Disks that LVM scans according to ``global_filter`` in lvm.conf."""
import unittest

from blockattach.storage.drivers.stores.lvm import group
from blockattach.storage.privileged import lvm

ISCSI = ('/dev/sdq', '/dev/disk/by-path/ip-192.0.2.7:3260-iscsi-iqn.2010-10.org.x:volume-1-lun-1')

# filter, names of a disk, whether LVM looks at it
ROWS = (
    ([], ['/dev/sda'], True),
    (['a|.*|'], ['/dev/sda'], True),
    (['r|.*|'], ['/dev/sda'], False),
    (['a|^/dev/sda$|', 'r|.*|'], ['/dev/sda'], True),
    (['a|^/dev/sda$|', 'r|.*|'], ['/dev/sdb'], False),
    (['r|^/dev/sdb$|'], ['/dev/sdb'], False),
    (['r|^/dev/sdb$|'], ['/dev/sda'], True),
    # Any sign may stand around a pattern, and a pattern may match anywhere.
    (['a/sda/', 'r!.*!'], ['/dev/sda1'], True),
    # Accepted by one name, whatever the others say.
    (['r|iscsi|', 'a|.*|'], ISCSI, True),
    (['a|/dev/disk/by-id/|', 'r|.*|'], ['/dev/sda', '/dev/disk/by-id/x'], True),
    # Rejected by one name, and by none accepted.
    (['r|iscsi|'], ISCSI, False),
)

OURS = [{'pv_name': '/dev/sdb', 'vg_name': 'vg'}, {'pv_name': '/dev/nvme0n1', 'vg_name': 'root'},
        {'pv_name': '[unknown]', 'vg_name': 'vg'}]


def found(**changes):
    return {'global_filter': ['a|.*|'], 'scan_lvs': False, 'devices_file': False, **changes}


class Scanned(group.VolumeGroup):
    """Volume group on a host with given scan settings of LVM."""

    def __init__(self, scanning):
        super().__init__(lvm.Site('vg', '', 1.0))
        self.answers = {lvm.scanning: scanning, lvm.physical_volumes: OURS}

    def do(self, act, *arguments, size_gb=0):
        return self.answers[act]


class ScanningTest(unittest.TestCase):

    def complaint(self, **changes):
        return Scanned(found(**changes)).scanning_complaint()

    def test_global_filter_accepts_or_rejects_disk(self):
        for filters, names, accepted in ROWS:
            with self.subTest(filters=filters, names=names):
                self.assertIs(accepted, group.accepts(filters, names))

    def test_filter_rejecting_all_at_end_is_safe(self):
        self.assertIsNone(self.complaint(global_filter=['a|^/dev/sdb$|', 'r|.*|']))

    def test_devices_file_is_safe(self):
        self.assertIsNone(self.complaint(devices_file=True))

    def test_suggested_filter_keeps_physical_volumes(self):
        for filters in (['a|.*|'], ['r|iscsi|', 'a|.*|'], ['a|^/dev/sd|', 'r|.*|'],
                        ['a|/dev/mapper/|', 'r|.*|']):
            said = self.complaint(global_filter=filters)
            self.assertTrue(said.endswith(
                'global_filter = [ "a|^/dev/nvme0n1$|", "a|^/dev/sdb$|", "r|.*|" ]'), said)

    def test_scan_lvs_reported(self):
        self.assertTrue(self.complaint(scan_lvs=True, devices_file=True).endswith('scan_lvs = 0'))
