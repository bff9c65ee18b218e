"""Conformance of targets on logical volumes, in guests."""
from blockattach.platform import units
from lab.guests import base
from lab.guests.machines import guest


class TargetKitTest(base.LabTestCase):

    def machine(self):
        made = self.a_guest('storage', memory='1G', modules=(*guest.STORAGE, 'loop'),
                            disks=[guest.make_disk(units.gib_to_bytes(4))])
        made.start()
        return made


class LioTest(TargetKitTest):

    def test_lio_on_lvm_keeps_the_contract(self):
        machine = self.machine()
        self.run_kit(machine, base.TARGETS, 'LVM + LIO', 'lab.guests.lio_kit',
                     'lab.guests.lio_faults')
        self.assertNotIn('BUG:', machine.console())


class TgtTest(TargetKitTest):

    def test_tgt_on_lvm_keeps_the_contract(self):
        # tgtd supports UNMAP on files, but not on logical volumes.
        self.run_kit(self.machine(), base.TARGETS, 'LVM + tgt', 'elsewhere=unmap',
                     'lab.guests.tgt_kit')
