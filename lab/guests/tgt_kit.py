"""Conformance kit of targets for tgt on logical volumes. Runs in a guest, see test_kits."""
from blockattach.conformance import scsi as kit_scsi
from blockattach.conformance import target
from blockattach.tests.conformance import test_tgt
from blockattach.tests.conformance import test_tgtd
from lab.guests import lvm_devices


class Tgt(lvm_devices.OnLvm, test_tgt.Tgt):
    pass


class TgtTargetTest(Tgt, target.TargetContract):
    pass


class TgtAccessTest(Tgt, target.AccessContract):
    pass


class TgtScsiTest(Tgt, kit_scsi.ScsiContract):

    def test_what_a_host_unmaps_is_given_back_if_declared_and_only_then(self):
        """The driver declares no UNMAP for block devices. It is proved on files."""
        super().test_what_a_host_unmaps_is_given_back_if_declared_and_only_then()
        self.leaves_out('what a host unmaps', 'tgtd gives it back in files, not on block devices')


class TgtDaemonTest(Tgt, test_tgtd.TgtDaemonTest):
    pass
