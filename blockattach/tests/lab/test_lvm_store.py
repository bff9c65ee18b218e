"""The lvm store on real volume groups, in guests: the kit for stores, and real faults."""
from blockattach import units
from blockattach.testing.lab import guest
from blockattach.tests.lab import base

KIT = 'blockattach.tests.lab.lvm_kit'
# Two minutes on an idle machine; each test has deadlines of its own.
SECONDS = 1200.0


class LvmGuest(base.LabTestCase):
    """A class of the kit in a guest; a class here for each, so that they run side by side."""

    def run_kit(self, name, disks):
        """Let its tests pass; tells what they report."""
        storage = self.a_guest('storage', memory='640M', modules=guest.STORAGE, disks=[
            guest.make_disk(units.gib_to_bytes(size)) for size in disks])
        storage.start()
        done = storage.run('python', '-m', 'unittest', f'{KIT}.{name}', timeout=SECONDS,
                           check=False)
        self.assertEqual(0, done.code, done.errors)
        self.report(f'lvm-{name}', ''.join(
            f'{line[line.index("conformance: "):]}\n' for line in done.errors.splitlines()
            if 'conformance: ' in line))


class ThinStoreTest(LvmGuest):

    def test_thin_volumes_keep_the_contract(self):
        self.run_kit('ThinStoreTest', [9])


class ThickStoreTest(LvmGuest):

    def test_thick_volumes_keep_the_contract(self):
        self.run_kit('ThickStoreTest', [9])


class FaultsTest(LvmGuest):

    def test_faults_end_in_words_that_help(self):
        self.run_kit('FaultsTest', [3, 1])
