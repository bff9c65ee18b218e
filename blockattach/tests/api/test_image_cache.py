"""Volumes created from a cached image over HTTP, equal to those of a downloaded image."""
import os

from blockattach.tests.api import test_images
from blockattach.tests.fixtures import disks
from blockattach.tests.fixtures import make

PROJECT, USER = 'internal-project', 'internal-user'
GIB = test_images.GIB


class CacheCase(test_images.ImageCase):
    """Test case with an image cache. ``CACHE`` has options of the backend."""

    OPTIONS = {'cinder_internal_tenant_project_id': PROJECT,
               'cinder_internal_tenant_user_id': USER}
    CACHE = {}

    def setUp(self):
        super().setUp()
        self.disks = disks.FileBackend('fake', self.folder, image_volume_cache_enabled=True,
                                       **self.CACHE)
        self.http.manager.backend = self.disks
        self.http.manager.report()
        self.http.work.settle()

    def downloads(self, image_id):
        return self.glance.asked.count(f'GET /v2/images/{image_id}/file')

    def cached(self):
        """Return the cached volumes by the ids of their images."""
        listed = self.http.as_admin.get('/volumes/detail?all_tenants=1').body['volumes']
        return {one['name'].removeprefix('image-'): one for one in listed
                if one['os-vol-tenant-attr:tenant_id'] == PROJECT}

    def rows(self):
        with self.http.database.reader() as connection:
            return connection.exec_driver_sql(
                'SELECT image_id, volume_id FROM cached_images').all()

    def settle(self):
        self.http.manager.look()
        self.http.work.settle()

    def image(self, **shown):
        return self.glance.add(disks.image('raw'), **shown)


class CloneTest(CacheCase):

    def test_second_volume_of_image_cloned(self):
        for disk_format in ('raw', 'qcow2'):
            image_id = self.glance.add(disks.image(disk_format), disk_format=disk_format,
                                       hw_disk_bus='scsi')
            with self.subTest(disk_format):
                first = self.made(image_id, size=2)
                self.assertEqual(1, self.cached()[image_id]['size'])
                for size in (1, 3):
                    other = self.made(image_id, size=size)
                    self.assertEqual(disks.CONTENT, self.content(other))
                    self.assertEqual(size, self.disks.fake_store.sizes()[f'volume-{other}'])
                    self.assertEqual(self.metadata(first), self.metadata(other))
                    shown = self.shown(other)
                    for key in ('status', 'bootable', 'source_volid', 'volume_image_metadata',
                                'metadata', 'snapshot_id', 'os-vol-host-attr:host'):
                        self.assertEqual(self.shown(first).get(key), shown.get(key), key)
                self.assertEqual(1, self.downloads(image_id))
                self.nothing_is_left()

    def test_cached_volume_visible_to_admin_only(self):
        image_id = self.image()
        self.made(image_id)
        found = self.cached()[image_id]
        self.assertEqual(('available', 'true', USER, 'True'),
                         (found['status'], found['bootable'], found['user_id'],
                          found['metadata']['readonly']))
        self.assertEqual(image_id, found['volume_image_metadata']['image_id'])
        self.assertNotIn(found['id'], [one['id'] for one in self.http.as_member.get(
            '/volumes/detail').body['volumes']])
        self.assert_status(404, self.http.as_member.get(f'/volumes/{found["id"]}'))

    def test_cached_volume_uses_no_user_quota(self):
        self.made(self.image())
        usage = self.http.as_admin.get(
            f'/os-quota-sets/{self.http.as_member.project_id}?usage=true').body['quota_set']
        self.assertEqual((1, 1), (usage['volumes']['in_use'], usage['gigabytes']['in_use']))

    def test_internal_project_needs_no_quota(self):
        self.http.as_admin.put(f'/os-quota-sets/{PROJECT}', {'quota_set': {'volumes': 0}})
        image_id = self.image()
        self.made(image_id)
        self.assertIn(image_id, self.cached())

    def test_image_sizes_checked_despite_cache(self):
        image_id = self.glance.add(disks.image('raw'), min_disk=2)
        self.made(image_id, size=2)
        self.assert_status(400, self.of_image(image_id))
        large = self.glance.add(disks.image('qcow2', 2 * GIB), disk_format='qcow2')
        self.made(large, size=2)
        volume_id = self.made(large)
        self.assertEqual('error', self.shown(volume_id)['status'])
        self.assertEqual('VOLUME_VOLUME_005_007', self.message(volume_id)[0])

    def test_cached_image_hidden_from_user_rejected(self):
        image_id = self.image()
        self.made(image_id)
        del self.glance.images[image_id]
        self.assert_fault(400, test_images.UNKNOWN, self.of_image(image_id))

    def test_encrypted_and_undated_images_not_cached(self):
        kind = make.encrypted_type(self.http.database)
        for image_id, asked in (
                (self.image(), {'volume_type': kind.id}), (self.image(updated_at=None), {}),
                (self.image(cinder_encryption_key_id='a-key'), {})):
            for _ in range(2):
                self.made(image_id, **asked)
            self.assertEqual((2, {}), (self.downloads(image_id), self.cached()))

    def test_unusable_image_not_cached(self):
        image_id = self.glance.add(disks.qcow2(backing=b'/etc/passwd'), disk_format='qcow2')
        self.assertEqual('error', self.shown(self.made(image_id))['status'])
        self.assertEqual({}, self.cached())


class RemovedTest(CacheCase):

    def test_changed_image_replaces_cached_volume(self):
        image_id = self.image()
        self.made(image_id)
        before = self.cached()[image_id]['id']
        self.glance.images[image_id]['updated_at'] = '2026-02-02T00:00:00Z'
        volume_id = self.made(image_id)
        self.settle()
        self.assertEqual(disks.CONTENT, self.content(volume_id))
        self.assertNotEqual(before, self.cached()[image_id]['id'])
        self.assertNotIn(f'volume-{before}', self.disks.fake_store.sizes())
        self.made(image_id)
        self.assertEqual(2, self.downloads(image_id))

    def test_admin_deletes_cached_volume(self):
        image_id = self.image()
        self.made(image_id)
        volume_id = self.cached()[image_id]['id']
        self.assert_status(202, self.http.as_admin.delete(f'/volumes/{volume_id}'))
        self.assertEqual([], self.rows())
        self.made(image_id)
        self.assertEqual(2, self.downloads(image_id))
        self.assertEqual([(image_id, self.cached()[image_id]['id'])], self.rows())

    def test_clone_survives_delete_of_cached_volume(self):
        image_id = self.image()
        self.made(image_id)
        volume_id = self.made(image_id)
        self.http.as_admin.delete(f'/volumes/{self.cached()[image_id]["id"]}')
        self.http.work.settle()
        self.assertEqual(disks.CONTENT, self.content(volume_id))

    def test_extended_cached_volume_replaced(self):
        image_id = self.image()
        self.made(image_id)
        volume_id = self.cached()[image_id]['id']
        self.act(volume_id, 'os-extend', {'new_size': 2}, persona=self.http.as_admin)
        self.http.work.settle()
        self.made(image_id)
        self.assertEqual(2, self.downloads(image_id))
        self.assertEqual('available', self.http.as_admin.get(
            f'/volumes/{volume_id}').body['volume']['status'])
        self.assertNotEqual(volume_id, self.rows()[0][1])

    def test_cached_volume_with_lost_data_replaced(self):
        image_id = self.image()
        self.made(image_id)
        before = self.cached()[image_id]['id']
        os.remove(f'{self.folder}/volumes/volume-{before}')
        volume_id = self.made(image_id)
        self.settle()
        self.assertEqual(('available', disks.CONTENT),
                         (self.shown(volume_id)['status'], self.content(volume_id)))
        self.assertNotEqual(before, self.cached()[image_id]['id'])


class BoundsTest(CacheCase):

    CACHE = {'image_volume_cache_max_count': 2, 'image_volume_cache_max_size_gb': 3}

    def test_least_recently_used_image_evicted(self):
        first, second, third = (self.image() for _ in range(3))
        for image_id in (first, second, first, third):
            self.made(image_id)
        self.settle()
        self.assertEqual({first, third}, set(self.cached()))
        self.assertEqual(4 + 2, len(self.disks.fake_store.sizes()))

    def test_cache_size_in_gigabytes_evicts(self):
        small = self.image()
        self.made(small)
        large = self.glance.add(disks.image('qcow2', 3 * GIB), disk_format='qcow2')
        self.made(large, size=3)
        self.settle()
        self.assertEqual({large}, set(self.cached()))

    def test_oversized_image_evicts_nothing(self):
        small = self.image()
        self.made(small)
        large = self.glance.add(disks.image('qcow2', 4 * GIB), disk_format='qcow2')
        volume_id = self.made(large, size=4)
        self.assertEqual('available', self.shown(volume_id)['status'])
        self.assertEqual({small}, set(self.cached()))
        self.nothing_is_left()


class OffTest(test_images.ImageCase):

    def test_nothing_cached_while_cache_disabled(self):
        image_id = self.glance.add(disks.image('raw'))
        for _ in range(2):
            self.made(image_id)
        self.assertEqual(2, self.glance.asked.count(f'GET /v2/images/{image_id}/file'))
        self.assertEqual(2, len(self.disks.fake_store.sizes()))
