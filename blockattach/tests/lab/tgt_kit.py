"""The target's kit for tgt on logical volumes. Runs in a guest: see test_targets."""
from blockattach.conformance import target
from blockattach.tests.conformance import test_tgt
from blockattach.tests.conformance import test_tgtd
from blockattach.tests.lab import lvm_devices


class Tgt(lvm_devices.OnLvm, test_tgt.Tgt):
    pass


class TgtTargetTest(Tgt, target.TargetContract):
    pass


class TgtAccessTest(Tgt, target.AccessContract):
    pass


class TgtDaemonTest(Tgt, test_tgtd.TgtDaemonTest):
    pass
