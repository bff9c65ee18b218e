"""The lvm store on real volume groups, in guests: conformance kit and faults."""
from blockattach.platform import units
from lab.guests import base
from lab.guests.machines import guest

KIT = 'lab.guests.lvm_kit'

# Tests in which thick volumes differ from thin ones, as they copy and wipe whole GiB. The other
# tests run on a stand-in for LVM, on every machine.
THICK = (
    'a_created_volume_reads_as_zeros',
    'a_deleted_volume_is_gone',
    'a_volume_in_use_grows_under_its_user',
    'a_volume_in_use_is_not_deleted',
    'a_volume_too_large_is_refused_and_leaves_nothing',
    'clone_has_the_bytes_of_its_source_and_zeros_beyond',
    'pools_report_what_lvm_reports',
    'revert_gives_the_bytes_back_and_keeps_the_snapshot',
    'snapshot_has_the_bytes_of_its_moment',
    'volume_can_be_deleted_once_its_snapshots_are',
    'what_is_managed_keeps_its_bytes_and_has_a_new_name',
    'wipe_gives_the_room_back_once_it_is_cleared',
    'wipe_goes_on_in_a_store_started_anew',
)


class LvmGuest(base.LabTestCase):
    """Base class for a class of the kit. Separate guests allow the classes to run in parallel."""

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
        self.run_kit(self.machine([9]), base.STORES, 'LVM thick',
                     *(f'{KIT}.ThickStoreTest.test_{name}' for name in THICK))


class FaultsTest(LvmGuest):

    def test_faults_end_in_words_that_help(self):
        self.run_kit(self.machine([3, 1]), 'fault of LVM', 'LVM', f'{KIT}.FaultsTest')
