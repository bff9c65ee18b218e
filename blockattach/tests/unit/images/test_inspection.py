"""Images are looked at before anything opens them: what names further files, or is not what it
says, is refused."""
import os
import tempfile
import unittest

from blockattach.storage import errors
from blockattach.storage.conf import images as images_conf
from blockattach.storage.domain import images
from blockattach.storage.images import inspection
from blockattach.tests.fixtures import disks

FORMATS = ('raw', 'qcow2', 'vmdk', 'vhd', 'vhdx', 'vdi', 'iso')
TYPES = ('streamOptimized', 'monolithicSparse')
SECRET = b'/etc/shadow'


class InspectionTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, 'image')

    def inspect(self, data, disk_format, allowed=FORMATS, types=TYPES, container='bare'):
        with open(self.path, 'wb') as file:
            file.write(data)
        return inspection.inspect(self.path, images.Image(
            'id', 'active', disk_format=disk_format, container_format=container), allowed, types)

    def refused(self, why, *arguments, **more):
        with self.assertRaisesRegex(errors.ImageUnacceptable, why):
            self.inspect(*arguments, **more)

    def test_each_format_as_qemu_img_makes_it(self):
        for ours, its in (('qcow2', 'qcow2'), ('vmdk', 'vmdk'), ('vhdx', 'vhdx'), ('vhd', 'vpc'),
                          ('vdi', 'vdi')):
            with self.subTest(ours):
                seen = self.inspect(disks.image(its), ours)
                self.assertTrue(seen.converted)
                self.assertGreaterEqual(seen.virtual_size, disks.MIB)
        self.assertEqual(inspection.Seen(False, disks.MIB), self.inspect(
            disks.image('raw'), 'raw'))

    def test_a_stream_optimized_vmdk(self):
        data = disks.image('vmdk', disks.MIB, disks.CONTENT, '-o', 'subformat=streamOptimized')
        self.assertEqual(disks.MIB, self.inspect(data, 'vmdk').virtual_size)
        self.refused('VMDK type', data, 'vmdk', types=['monolithicSparse'])

    def test_a_qcow2_with_a_backing_file(self):
        for version in (2, 3):
            self.refused('backing file', disks.qcow2(backing=SECRET, version=version), 'qcow2')

    def test_a_qcow2_with_a_data_file(self):
        self.refused('data_file', disks.qcow2(data_file=SECRET), 'qcow2')

    def test_a_qcow2_of_unknown_features_or_version(self):
        self.refused('features', disks.qcow2(features=1 << 5), 'qcow2')
        self.refused('version', disks.qcow2(version=1), 'qcow2')

    def test_a_vmdk_that_names_a_file(self):
        for kind in (b'monolithicFlat', b'twoGbMaxExtentFlat', b'custom', b'vmfs'):
            with self.subTest(kind), self.assertRaises(errors.ImageUnacceptable):
                self.inspect(disks.vmdk(SECRET, kind), 'vmdk')

    def test_a_vmdk_whose_descriptor_was_changed(self):
        data = disks.image('vmdk')
        at = data.index(b'"', data.index(b'RW ')) + 1
        self.refused('extent', data[:at] + b'/etc/x' + data[at + 6:], 'vmdk')

    def test_what_is_said_must_be_true(self):
        qcow2, raw = disks.image('qcow2'), disks.image('raw')
        for data, said in ((qcow2, 'raw'), (qcow2, 'vmdk'), (qcow2, 'iso'), (raw, 'qcow2'),
                           (disks.qcow2(backing=SECRET), 'raw'), (disks.image('vmdk'), 'raw'),
                           (disks.image('vpc'), 'raw'), (disks.image('vdi'), 'raw')):
            self.refused('declared as', data, said)

    def test_two_formats_at_once(self):
        # An ISO whose beginning, which is unused, is that of a qcow2.
        iso = bytes(32768) + b'\x01CD001\x01' + bytes(2 ** 16)
        self.assertEqual(len(iso), self.inspect(iso, 'iso').virtual_size)
        both = disks.qcow2(backing=SECRET)[:32768] + iso[32768:]
        for said in ('iso', 'qcow2', 'raw'):
            self.refused('declared as', both, said)

    def test_only_what_is_allowed(self):
        self.refused('not allowed', disks.image('qcow2'), 'qcow2', allowed=['raw'])
        self.refused('not allowed', disks.image('raw'), None)
        self.refused('container format', disks.image('raw'), 'raw', container='ova')

    def test_a_digest(self):
        data = b'1234'
        image = images.Image('id', 'active', size=4, checksum='81dc9bdb52d04dc20036dbd8313ed055')
        digest = inspection.Digest(image)
        digest.add(data)
        digest.check()
        digest = inspection.Digest(image)
        digest.add(b'1233')
        with self.assertRaisesRegex(errors.ImageUnacceptable, 'does not match the hash'):
            digest.check()
        digest = inspection.Digest(image)
        digest.add(b'12')
        with self.assertRaises(errors.GlanceUnavailable):
            digest.check()
        with self.assertRaisesRegex(errors.ImageUnacceptable, 'larger than its declared size'):
            digest.add(b'345')
        for unknown in (images.Image('id', 'active'), images.Image(
                'id', 'active', os_hash_algo='rot13', os_hash_value='x')):
            with self.assertRaisesRegex(errors.ImageUnacceptable, 'no supported hash'):
                inspection.Digest(unknown)


class SettingsTest(unittest.TestCase):

    def test_what_is_allowed_by_default_is_what_is_tested_here(self):
        settings = images_conf.ImageSettings(conversion_dir='/nonexistent')
        self.assertEqual((FORMATS, TYPES),
                         (settings.allowed_formats, settings.vmdk_allowed_types))
