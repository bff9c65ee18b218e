"""Inspection of images before anything opens them.

Images that refer to other files or have another format than declared are rejected.
"""
import os
import tempfile
import unittest

from blockattach.storage import errors
from blockattach.storage.conf import images as images_conf
from blockattach.storage.domain import images
from blockattach.storage.images import formats
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
        return formats.inspect(self.path, images.Image(
            'id', 'active', disk_format=disk_format, container_format=container), allowed, types)

    def refused(self, why, *arguments, **more):
        with self.assertRaisesRegex(errors.ImageUnacceptable, why):
            self.inspect(*arguments, **more)

    def test_formats_of_qemu_img_accepted(self):
        for ours, its in (('qcow2', 'qcow2'), ('vmdk', 'vmdk'), ('vhdx', 'vhdx'), ('vhd', 'vpc'),
                          ('vdi', 'vdi')):
            with self.subTest(ours):
                seen = self.inspect(disks.image(its), ours)
                self.assertTrue(seen.converted)
                self.assertGreaterEqual(seen.virtual_size, disks.MIB)
        self.assertEqual(formats.Seen(False, disks.MIB), self.inspect(
            disks.image('raw'), 'raw'))

    def test_stream_optimized_vmdk_accepted_by_type(self):
        data = disks.image('vmdk', disks.MIB, disks.CONTENT, '-o', 'subformat=streamOptimized')
        self.assertEqual(disks.MIB, self.inspect(data, 'vmdk').virtual_size)
        self.refused('VMDK type', data, 'vmdk', types=['monolithicSparse'])

    def test_qcow2_with_backing_file_rejected(self):
        for version in (2, 3):
            self.refused('backing file', disks.qcow2(backing=SECRET, version=version), 'qcow2')

    def test_qcow2_with_data_file_rejected(self):
        self.refused('data_file', disks.qcow2(data_file=SECRET), 'qcow2')

    def test_qcow2_with_unknown_features_or_version_rejected(self):
        self.refused('features', disks.qcow2(features=1 << 5), 'qcow2')
        self.refused('version', disks.qcow2(version=1), 'qcow2')

    def test_vmdk_with_external_file_rejected(self):
        for kind in (b'monolithicFlat', b'twoGbMaxExtentFlat', b'custom', b'vmfs'):
            with self.subTest(kind), self.assertRaises(errors.ImageUnacceptable):
                self.inspect(disks.vmdk(SECRET, kind), 'vmdk')

    def test_vmdk_with_changed_descriptor_rejected(self):
        data = disks.image('vmdk')
        at = data.index(b'"', data.index(b'RW ')) + 1
        self.refused('extent', data[:at] + b'/etc/x' + data[at + 6:], 'vmdk')

    def test_image_of_other_format_than_declared_rejected(self):
        qcow2, raw = disks.image('qcow2'), disks.image('raw')
        for data, said in ((qcow2, 'raw'), (qcow2, 'vmdk'), (qcow2, 'iso'), (raw, 'qcow2'),
                           (disks.qcow2(backing=SECRET), 'raw'), (disks.image('vmdk'), 'raw'),
                           (disks.image('vpc'), 'raw'), (disks.image('vdi'), 'raw')):
            self.refused('declared as', data, said)

    def test_image_with_two_formats_rejected(self):
        # An ISO whose beginning, which is unused, is that of a qcow2.
        iso = bytes(32768) + b'\x01CD001\x01' + bytes(2 ** 16)
        self.assertEqual(len(iso), self.inspect(iso, 'iso').virtual_size)
        both = disks.qcow2(backing=SECRET)[:32768] + iso[32768:]
        for said in ('iso', 'qcow2', 'raw'):
            self.refused('declared as', both, said)

    def test_image_of_disallowed_format_rejected(self):
        self.refused('not allowed', disks.image('qcow2'), 'qcow2', allowed=['raw'])
        self.refused('not allowed', disks.image('raw'), None)
        self.refused('container format', disks.image('raw'), 'raw', container='ova')

    def test_image_with_wrong_digest_rejected(self):
        data = b'1234'
        image = images.Image('id', 'active', size=4, checksum='81dc9bdb52d04dc20036dbd8313ed055')
        digest = formats.Digest(image)
        digest.add(data)
        digest.check()
        digest = formats.Digest(image)
        digest.add(b'1233')
        with self.assertRaisesRegex(errors.ImageUnacceptable, 'does not match the hash'):
            digest.check()
        digest = formats.Digest(image)
        digest.add(b'12')
        with self.assertRaises(errors.GlanceUnavailable):
            digest.check()
        with self.assertRaisesRegex(errors.ImageUnacceptable, 'larger than its declared size'):
            digest.add(b'345')
        for unknown in (images.Image('id', 'active'), images.Image(
                'id', 'active', os_hash_algo='rot13', os_hash_value='x')):
            with self.assertRaisesRegex(errors.ImageUnacceptable, 'no supported hash'):
                formats.Digest(unknown)


class SettingsTest(unittest.TestCase):

    def test_tested_formats_are_default_formats(self):
        settings = images_conf.ImageSettings(conversion_dir='/nonexistent')
        self.assertEqual((FORMATS, TYPES),
                         (settings.allowed_formats, settings.vmdk_allowed_types))
