"""Volumes from images that Nova creates of volume-backed servers.

Such an image has no data of its own; its block_device_mapping names the snapshot with the data.
"""
import json

from blockattach.tests.api import base
from blockattach.tests.api import snapshots
from blockattach.tests.api import test_images
from blockattach.tests.fixtures import disks
from blockattach.tests.fixtures import make

BEFORE, SINCE = '3.45', '3.46'
GONE = 'Nova specific image is found, but boot volume snapshot id:{} not found.'


def mapping(snapshot_id, **more):
    """Return a device of the property, in Nova's format."""
    return {'boot_index': 0, 'delete_on_termination': False, 'destination_type': 'volume',
            'device_name': '/dev/vda', 'device_type': 'disk', 'disk_bus': 'virtio',
            'encrypted': None, 'guest_format': None, 'image_id': None, 'no_device': None,
            'snapshot_id': snapshot_id, 'source_type': 'snapshot', 'tag': None,
            'volume_id': None, 'volume_size': 2, 'volume_type': None, **more}


class NovaImageTest(test_images.ImageCase, snapshots.SnapshotsTestCase):

    def setUp(self):
        super().setUp()
        self.source = self.volume(size=2)
        self.made_before = self.snapshot(self.source)['id']

    def nova_image(self, *devices, data=b'', **more):
        return self.glance.add(data, bdm_v2='True', root_device_name='/dev/vda',
                               block_device_mapping=json.dumps(devices), **more)

    def assert_of_snapshot(self, reply, snapshot_id):
        self.assert_status(202, reply)
        shown = self.shown(reply.body['volume']['id'])
        self.assertEqual(('available', snapshot_id, 2),
                         (shown['status'], shown['snapshot_id'], shown['size']))

    def test_create_from_snapshot_image_from_3_46_clones_snapshot(self):
        image_id = self.nova_image(mapping(self.made_before))
        for key in ('imageRef', 'image_id'):
            for size in ({}, {'size': 2}):
                self.assert_of_snapshot(self.http.as_member.post(
                    '/volumes', {'volume': {key: image_id, **size}}, version=SINCE),
                    self.made_before)

    def test_create_from_snapshot_image_before_3_46_downloads_image(self):
        reply = self.of_image(self.nova_image(
            mapping(self.made_before), data=disks.image('raw')), version=BEFORE)
        self.assert_status(202, reply)
        shown = self.shown(reply.body['volume']['id'])
        self.assertEqual(('available', None), (shown['status'], shown['snapshot_id']))

    def test_create_from_image_of_several_devices_uses_boot_device(self):
        other = self.snapshot(self.source)['id']
        self.assert_of_snapshot(self.of_image(self.nova_image(
            mapping(other, boot_index=None, device_name='/dev/vdb'),
            mapping(None, boot_index=-1, source_type='blank', device_name='/dev/vdc'),
            mapping(self.made_before)), version=SINCE, size=2), self.made_before)

    def test_create_from_snapshot_image_has_type_of_snapshot(self):
        other = make.volume_type(self.http.database)
        self.assert_of_snapshot(self.of_image(self.nova_image(
            mapping(self.made_before), cinder_img_volume_type=other.name),
            version=SINCE, size=2), self.made_before)

    def test_create_smaller_than_snapshot_rejected(self):
        self.assert_fault(400, 'size', self.of_image(
            self.nova_image(mapping(self.made_before)), version=SINCE, size=1))

    def test_create_from_image_of_deleted_snapshot_not_found(self):
        image_id = self.nova_image(mapping(self.made_before))
        self.assert_status(202, self.http.as_member.delete(f'/snapshots/{self.made_before}'))
        for version in (BEFORE, SINCE):
            self.assert_fault(404, GONE.format(self.made_before),
                              self.of_image(image_id, version=version, size=2))

    def test_create_from_image_of_foreign_snapshot_not_found(self):
        image_id = self.nova_image(mapping(self.made_before))
        for version in (BEFORE, SINCE):
            self.assert_fault(404, GONE.format(self.made_before), self.of_image(
                image_id, self.http.as_stranger, version=version, size=2))

    def test_create_from_image_of_creating_snapshot_rejected(self):
        self.http.hold = True
        fresh = self.snapshot(self.source)['id']
        image_id = self.nova_image(mapping(fresh))
        self.assert_fault(400, 'Invalid snapshot', self.of_image(
            image_id, version=SINCE, size=2))
        self.assert_status(202, self.of_image(image_id, version=BEFORE, size=2))
        self.http.work.settle()
        self.http.hold = False
        self.assert_of_snapshot(self.of_image(image_id, version=SINCE, size=2), fresh)

    def test_create_from_snapshot_image_with_second_source_rejected(self):
        image_id = self.nova_image(mapping(self.made_before))
        for other in ({'snapshot_id': self.made_before}, {'source_volid': self.source}):
            self.assert_fault(400, 'May specify only one', self.of_image(
                image_id, version=SINCE, size=2, **other))

    def test_malformed_block_device_mapping_ignored(self):
        for text in ('', 'x', '{}', '[1]', '[{"source_type": "snapshot"}]', 'null',
                     '[' * 9999 + ']' * 9999, json.dumps([mapping([1])])):
            with self.subTest(text[:40]):
                image_id = self.glance.add(b'', block_device_mapping=text)
                self.assert_status(202, self.of_image(image_id, version=SINCE))

    def test_mapping_with_unknown_snapshot_not_found(self):
        for name in ('x', base.ABSENT, 5):
            with self.subTest(name):
                self.assert_fault(404, GONE.format(name), self.of_image(
                    self.nova_image(mapping(name)), version=SINCE))

    def test_mapping_with_unstorable_snapshot_id_not_found(self):
        for name, shown in (('\0x', 'x'), ('\ud800x', '?x')):
            with self.subTest(shown):
                self.assert_fault(404, GONE.format(shown), self.of_image(
                    self.nova_image(mapping(name)), version=SINCE))
