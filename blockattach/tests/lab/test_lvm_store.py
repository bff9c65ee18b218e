"""The lvm store on real volume groups, in guests: the kit for stores, and real faults."""
from blockattach import units
from blockattach.testing.lab import guest
from blockattach.tests.lab import base

KIT = 'blockattach.tests.lab.lvm_kit'


class LvmGuest(base.LabTestCase):
    """A class of the kit in a guest; a class here for each, so that they run side by side."""

    def machine(self, disks):
        made = self.a_guest('storage', memory='640M', modules=guest.STORAGE, disks=[
            guest.make_disk(units.gib_to_bytes(size)) for size in disks])
        made.start()
        return made


class ThinStoreTest(LvmGuest):

    def test_thin_volumes_keep_the_contract(self):
        self.run_kit(self.machine([9]), base.STORES, 'LVM thin', f'{KIT}.ThinStoreTest')


class ThickStoreTest(LvmGuest):

    def test_thick_volumes_keep_the_contract(self):
        self.run_kit(self.machine([9]), base.STORES, 'LVM thick', f'{KIT}.ThickStoreTest')


class FaultsTest(LvmGuest):

    def test_faults_end_in_words_that_help(self):
        self.run_kit(self.machine([3, 1]), 'fault of LVM', 'LVM', f'{KIT}.FaultsTest')
