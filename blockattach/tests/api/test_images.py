"""Volumes from images and images of volumes over HTTP, with Glance and the file driver."""
import os
import tempfile

from blockattach.platform import failpoints
from blockattach.storage.api import routes
from blockattach.storage.domain import images
from blockattach.tests.api import actions
from blockattach.tests.api import base
from blockattach.tests.fixtures import disks
from blockattach.tests.fixtures import glance
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make
from blockattach.tests.rules import sources

MISSING = 'The image service is not configured'
UNKNOWN = 'Invalid image identifier or unable to access requested image.'
GIB = 1024 ** 3
POINT = 'control.images.after_image'
LENGTH = len(disks.CONTENT)


class ImageCase(actions.ActionsTestCase):
    """Test case with a stand-in for Glance. ``OPTIONS`` are options of the group [images]."""

    OPTIONS = {}

    def setUp(self):
        self.glance = glance.GlanceStandIn()
        self.addCleanup(self.glance.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        super().setUp()
        self.http.close()
        self.http = http.ApiFixture(**self.SETTINGS, options={
            'glance': {'endpoint_override': self.glance.url, 'num_retries': 0},
            'images': {'image_conversion_dir': self.folder, **self.OPTIONS}})
        self.addCleanup(self.http.close)
        self.disks = disks.FileBackend('fake', self.folder)
        self.http.manager.backend = self.disks
        self.http.manager.report()
        self.http.work.settle()

    def of_image(self, image_ref, persona=None, version=http.LATEST, **fields):
        return (persona or self.http.as_member).post('/volumes', {'volume': {
            'size': 1, 'imageRef': image_ref, **fields}}, version=version)

    def made(self, image_ref, **fields):
        reply = self.of_image(image_ref, **fields)
        self.assert_status(202, reply)
        return reply.body['volume']['id']

    def upload(self, volume_id, persona=None, version=http.LATEST, **fields):
        return self.act(volume_id, 'os-volume_upload_image', {'image_name': 'mine', **fields},
                        persona=persona, version=version)

    def content(self, volume_id, length=LENGTH):
        with open(f'{self.folder}/volumes/volume-{volume_id}', 'rb') as file:
            return file.read(length)

    def metadata(self, volume_id):
        with self.http.database.reader() as connection:
            return dict(connection.exec_driver_sql(
                'SELECT key, value FROM volume_image_metadata WHERE volume_id = '
                f"'{volume_id}'").all())

    def message(self, volume_id):
        """Return the event id and the text of the only message about a volume."""
        [found] = [one for one in self.http.as_member.get('/messages').body['messages']
                   if one['resource_uuid'] == volume_id]
        return found['event_id'], found['user_message']

    def nothing_is_left(self):
        left = [name for name in os.listdir(self.folder) if name != 'volumes']
        self.assertEqual([], [os.listdir(f'{self.folder}/{name}') for name in left
                              if os.listdir(f'{self.folder}/{name}')])


class WithoutGlanceTest(actions.ActionsTestCase):

    def test_image_actions_rejected_without_glance(self):
        volume_id = self.volume()
        for reply in (
                self.http.as_member.post('/volumes', {'volume': {
                    'size': 1, 'imageRef': base.ABSENT}}),
                self.act(volume_id, 'os-volume_upload_image', {'image_name': 'mine'}),
                self.act(volume_id, 'os-reimage', {'image_id': base.ABSENT},
                         version=http.LATEST)):
            self.assert_fault(400, MISSING, reply)
        self.assertEqual('available', self.shown(volume_id)['status'])


class CreateTest(ImageCase):

    def test_create_from_image_of_each_format(self):
        for ours, its in (('raw', 'raw'), ('iso', 'raw'), ('qcow2', 'qcow2'), ('vmdk', 'vmdk'),
                          ('vhd', 'vpc'), ('vhdx', 'vhdx'), ('vdi', 'vdi')):
            content = bytes(32768) + b'\x01CD001\x01' if ours == 'iso' else disks.CONTENT
            with self.subTest(ours):
                volume_id = self.made(self.glance.add(
                    disks.image(its, content=content), disk_format=ours))
                shown = self.shown(volume_id)
                self.assertEqual(('available', 'true'), (shown['status'], shown['bootable']))
                self.assertEqual(content, self.content(volume_id, len(content)))
                self.nothing_is_left()

    def test_backup_id_before_its_version_ignored(self):
        # Its first version is 3.47.
        volume_id = self.made(self.glance.add(disks.image('raw')), version='3.46',
                              backup_id=base.ABSENT)
        self.assertEqual('true', self.shown(volume_id)['bootable'])
        self.assertEqual(disks.CONTENT, self.content(volume_id))

    def test_image_metadata_copied_to_volume(self):
        image_id = self.glance.add(
            disks.image('raw'), name='ours', min_ram=64, hw_disk_bus='scsi', os_type='linux')
        kept = self.metadata(self.made(image_id))
        self.assertEqual({
            'image_id': image_id, 'image_name': 'ours', 'disk_format': 'raw',
            'container_format': 'bare', 'min_disk': '0', 'min_ram': '64',
            'size': str(disks.MIB), 'checksum': self.glance.images[image_id]['checksum'],
            'hw_disk_bus': 'scsi', 'os_type': 'linux'}, kept)

    def test_unstorable_characters_of_image_property_replaced(self):
        image_id = self.glance.add(disks.image('raw'), name='a\0b', p='a\0\ud800b',
                                   **{'k\udfff': 'v'})
        kept = self.metadata(self.made(image_id))
        self.assertEqual(('ab', 'a?b', 'v'), (kept['image_name'], kept['p'], kept['k?']))

    def test_image_named_by_id_url_or_name(self):
        image_id = self.glance.add(disks.image('raw'), name='ours')
        for ref in (image_id, f'http://glance/v2/images/{image_id}', 'ours'):
            self.assertEqual(image_id, self.metadata(self.made(ref))['image_id'])
        reply = self.http.as_member.post('/volumes', {'volume': {
            'size': 1, 'image_id': image_id}}, version='3.0')
        self.assert_status(202, reply)
        # The service reads the image record with the token of the caller, and the data with its
        # own account.
        self.assertIn(self.http.as_member.token, self.glance.tokens)
        self.assertIn('notused', self.glance.tokens)

    def test_unknown_or_ambiguous_image_rejected(self):
        for ref in (base.ABSENT, 'no such name'):
            self.assert_fault(400, UNKNOWN, self.of_image(ref))
        for _ in range(2):
            self.glance.add(b'1', name='twice')
        self.assert_fault(409, "Multiple matches found for 'twice'", self.of_image('twice'))

    def test_image_that_does_not_fit_rejected(self):
        for sentence, shown in (
                ('is not active', {'status': 'queued'}),
                ('Size of specified image 2GB is larger than volume size 1GB.',
                 {'size': GIB + 1}),
                ('Volume size 1GB cannot be smaller than the image minDisk size 2GB.',
                 {'min_disk': 2}),
                ('Image virtual size is 3GB', {'virtual_size': 3 * GIB})):
            self.assert_fault(400, sentence, self.of_image(self.glance.add(b'1', **shown)))
        self.assertEqual([], self.http.as_member.get('/volumes').body['volumes'])

    def test_image_larger_than_volume_sets_error(self):
        volume_id = self.made(self.glance.add(disks.image('qcow2', 2 * GIB), disk_format='qcow2'))
        self.assertEqual('error', self.shown(volume_id)['status'])
        event, sentence = self.message(volume_id)
        self.assertEqual('VOLUME_VOLUME_005_007', event)
        self.assertIn(str(2 * GIB), sentence)
        self.nothing_is_left()

    def test_malicious_image_never_written_to_volume(self):
        for disk_format, data in (
                ('qcow2', disks.qcow2(backing=b'/etc/passwd')),
                ('qcow2', disks.qcow2(data_file=b'/etc/passwd')),
                ('raw', disks.qcow2(backing=b'/etc/passwd')),
                ('vmdk', disks.vmdk(b'/etc/passwd'))):
            with self.subTest(disk_format):
                volume_id = self.made(self.glance.add(data, disk_format=disk_format))
                self.assertEqual('error', self.shown(volume_id)['status'])
                self.assertEqual('VOLUME_VOLUME_005_029', self.message(volume_id)[0])
                self.assertEqual(bytes(4096), self.content(volume_id, 4096))
                self.nothing_is_left()
                self.assert_status(202, self.http.as_member.delete(f'/volumes/{volume_id}'))
        self.assertEqual([], os.listdir(f'{self.folder}/volumes'))

    def test_image_with_wrong_hash_sets_error(self):
        volume_id = self.made(self.glance.add(disks.image('raw'), os_hash_value='00'))
        self.assertEqual('error', self.shown(volume_id)['status'])
        self.assertIn('does not match the hash', self.message(volume_id)[1])

    def test_image_property_selects_volume_type(self):
        kind = make.volume_type(self.http.database, 'of-image')
        other = make.volume_type(self.http.database, 'other')
        for named, asked, expected in (
                (kind.id, {}, kind), (kind.name, {}, kind),
                (kind.name, {'volume_type': 'other'}, other), ('unknown', {}, None)):
            image_id = self.glance.add(disks.image('raw'), cinder_img_volume_type=named)
            shown = self.shown(self.made(image_id, **asked))
            self.assertEqual('__DEFAULT__' if expected is None else expected.name,
                             shown['volume_type'])

    def test_create_from_image_unavailable_while_glance_down(self):
        self.glance.broken = '.'
        reply = self.of_image(base.ABSENT)
        self.assert_status(503, reply)
        self.assertIn('Cannot use the image service', reply.text)

    def test_attachment_update_rejected_while_downloading(self):
        self.http.hold = True
        volume_id = self.made(self.glance.add(disks.image('raw')))
        self.sql(f"UPDATE volumes SET own_status = 'downloading', status = 'downloading' "
                 f"WHERE id = '{volume_id}'")
        attachment_id = self.reserve(volume_id)
        self.assert_fault(400, 'is downloading an image', self.http.as_member.put(
            f'/attachments/{attachment_id}', {'attachment': {'connector': make.connector()}}))

    def test_create_from_image_forbidden_for_reader(self):
        self.assert_status(403, self.of_image(base.ABSENT, self.http.as_reader))


class UploadTest(ImageCase):

    def filled(self, **shown):
        return self.made(self.glance.add(disks.image('raw'), **shown))

    def test_uploaded_image_has_volume_data(self):
        volume_id = self.filled()
        for disk_format in ('qcow2', 'vmdk', 'vdi', 'vhd', 'vhdx', 'raw'):
            with self.subTest(disk_format):
                reply = self.upload(volume_id, disk_format=disk_format)
                self.assert_status(202, reply)
                shown = reply.body['os-volume_upload_image']
                self.assertIn(shown['image_id'], self.glance.images,
                              self.http.as_member.get('/messages').text)
                image = self.glance.images[shown['image_id']]
                self.assertEqual('active', image['status'])
                self.assertEqual('available', self.shown(volume_id)['status'])
                self.nothing_is_left()
                data = self.glance.data[shown['image_id']]
                if disk_format == 'raw':
                    self.assertEqual(GIB, image['size'])
                    self.assertEqual(disks.CONTENT, data.rstrip(b'\0'))
                    continue
                again = self.made(self.glance.add(
                    data, disk_format=disk_format, checksum=None))
                self.assertEqual('available', self.shown(again)['status'],
                                 self.http.as_member.get('/messages').text)
                self.assertEqual(disks.CONTENT, self.content(again))

    def test_upload_response_by_version(self):
        volume_id = self.filled()
        for version, more in (('3.0', {'visibility': 'shared', 'protected': False}),
                              ('3.1', {'visibility': 'private', 'protected': False})):
            reply = self.upload(volume_id, version=version, disk_format='qcow2')
            shown = reply.body['os-volume_upload_image']
            kind = shown.pop('volume_type')
            self.assertEqual('__DEFAULT__', kind['name'])
            image_id = shown.pop('image_id')
            shown.pop('updated_at')
            self.assertEqual({
                'id': volume_id, 'status': 'uploading', 'display_description': None, 'size': 1,
                'container_format': 'bare', 'disk_format': 'qcow2', 'image_name': 'mine', **more},
                shown)
            self.assertEqual('mine', self.glance.images[image_id]['name'])

    def test_uploaded_image_properties(self):
        volume_id = self.filled(os_type='linux', os_glance_x='y')
        reply = self.upload(volume_id, disk_format='qcow2', visibility='community',
                            protected='true')
        image = self.glance.images[reply.body['os-volume_upload_image']['image_id']]
        self.assertEqual(('community', True, 'linux'),
                         (image['visibility'], image['protected'], image['os_type']))
        self.assertEqual(set(), {'os_glance_x', 'image_id'} & image.keys())

    def test_upload_image_metadata_named_as_glance_keys_left_out(self):
        volume_id = self.filled(os_type='linux')
        self.assert_status(200, self.act(volume_id, 'os-set_image_metadata', {
            'metadata': dict.fromkeys(images.GLANCE_KEYS, 'foreign')}))
        reply = self.upload(volume_id, disk_format='qcow2')
        self.assert_status(202, reply)
        image_id = reply.body['os-volume_upload_image']['image_id']
        image = self.glance.images.pop(image_id)
        self.assertEqual((image_id, 'active', 'linux'),
                         (image['id'], image['status'], image['os_type']))
        self.assertNotIn('foreign', image.values())
        self.assertNotIn('foreign', self.glance.images)
        self.assertEqual('available', self.shown(volume_id)['status'])

    def test_upload_of_volume_deleted_by_force_meanwhile_rejected(self):
        """The error names the volume, and the image is deleted."""
        for settles, status in ((True, 404), (False, 400)):
            with self.subTest(status):
                volume_id = self.volume()

                def delete(volume_id=volume_id, settles=settles):
                    failpoints.disarm(POINT)
                    self.http.hold = not settles
                    self.assert_status(202, self.act(
                        volume_id, 'os-force_delete', None, self.http.as_admin))

                failpoints.arm(POINT, delete)
                self.addCleanup(failpoints.disarm, POINT)
                reply = self.upload(volume_id)
                self.assert_fault(status, f'Volume {volume_id}', reply)
                self.assertEqual({}, self.glance.images)

    def test_public_upload_needs_admin(self):
        volume_id = self.volume()
        self.assert_status(403, self.upload(volume_id, visibility='public'))
        self.assert_status(202, self.upload(volume_id, self.http.as_admin, visibility='public',
                                            disk_format='qcow2'))

    def test_upload_of_attached_volume_rejected(self):
        volume_id = self.volume()
        self.attached(volume_id)
        for force in ({}, {'force': True}):
            self.assert_fault(400, f'Invalid volume: Volume {volume_id} status must be available',
                              self.upload(volume_id, **force))
        self.assertEqual([], list(self.glance.images))
        self.assertEqual('in-use', self.shown(volume_id)['status'])

    def test_upload_rejected_if_glance_refuses_image(self):
        volume_id = self.volume()
        self.glance.broken, self.glance.status = 'POST', 403
        self.assert_fault(400, 'It is broken.', self.upload(volume_id))
        self.glance.status = 500
        self.assert_status(503, self.upload(volume_id))
        self.assertEqual('available', self.shown(volume_id)['status'])

    def test_upload_fails_if_glance_refuses_data(self):
        volume_id = self.volume()
        self.glance.broken, self.glance.status = 'PUT', 413
        self.assert_status(202, self.upload(volume_id, disk_format='qcow2', protected=True))
        self.assertEqual('available', self.shown(volume_id)['status'])
        self.assertEqual({}, self.glance.images)
        self.assertEqual('VOLUME_VOLUME_003_004', self.message(volume_id)[0])

    def test_malformed_upload_rejected(self):
        volume_id = self.volume()
        for fields in ({'disk_format': 'tape'}, {'force': 'perhaps'}, {'image_name': ''},
                       {'visibility': 'all'}, {'more': 1}, {'container_format': 'ova'},
                       {'disk_format': 'ploop'}):
            self.assert_status(400, self.upload(volume_id, **fields))
        self.assert_status(400, self.upload(volume_id, version='3.0', visibility='private'))

    def test_upload_permissions(self):
        volume_id = self.volume()
        self.assert_status(403, self.upload(volume_id, self.http.as_reader))
        self.assert_status(404, self.upload(volume_id, self.http.as_stranger))


class ForcedUploadTest(ImageCase):

    OPTIONS = {'enable_force_upload': True}

    def test_forced_upload_of_attached_volume_accepted(self):
        volume_id = self.volume()
        self.attached(volume_id)
        self.assert_status(400, self.upload(volume_id))
        self.assert_status(202, self.upload(volume_id, force=True, disk_format='qcow2'))
        self.assertEqual('in-use', self.shown(volume_id)['status'])
        [image] = self.glance.images.values()
        self.assertEqual('active', image['status'])


class ReimageTest(ImageCase):

    def reimage(self, volume_id, image_id, persona=None, version=http.LATEST, **fields):
        return self.act(volume_id, 'os-reimage', {'image_id': image_id, **fields},
                        persona=persona, version=version)

    def test_reimage_leaves_no_previous_data(self):
        volume_id = self.made(self.glance.add(disks.image('raw', content=b'\1' * disks.MIB)))
        image_id = self.glance.add(disks.image('qcow2'), disk_format='qcow2', name='second')
        self.assert_status(202, self.reimage(volume_id, image_id))
        self.assertEqual('available', self.shown(volume_id)['status'])
        self.assertEqual(disks.CONTENT.ljust(2 * disks.MIB, b'\0'),
                         self.content(volume_id, 2 * disks.MIB))
        self.assertEqual('second', self.metadata(volume_id)['image_name'])

    def test_reimage_of_reserved_volume_needs_flag(self):
        volume_id, image_id = self.volume(), self.glance.add(disks.image('raw'))
        self.reserve(volume_id)
        self.assert_fault(400, f'Volume {volume_id} status must be available or error, but '
                               'current status is reserved.', self.reimage(volume_id, image_id))
        self.assert_status(202, self.reimage(volume_id, image_id, reimage_reserved=True))
        self.assertEqual('reserved', self.shown(volume_id)['status'])
        self.assertEqual(disks.CONTENT, self.content(volume_id))

    def test_reimage_of_attached_volume_rejected_despite_reset(self):
        volume_id, image_id = self.volume(), self.glance.add(disks.image('raw'))
        self.attached(volume_id)
        self.assert_status(202, self.act(volume_id, 'os-reset_status', {'status': 'error'},
                                         persona=self.http.as_admin))
        self.assert_fault(400, f'Volume {volume_id} status must be available or error, but '
                               'current status is in-use.', self.reimage(volume_id, image_id))
        self.assertEqual('error', self.shown(volume_id)['status'])

    def test_reimage_with_several_servers_rejected(self):
        volume_id = self.volume(multiattach=True)
        for server in (base.SERVER, base.OTHER_SERVER):
            self.reserve(volume_id, server)
        self.assert_fault(409, 'Cannot re-image a volume which is attached to more than one '
                               'server.', self.reimage(
                                   volume_id, self.glance.add(b'1'), reimage_reserved=True))
        # The API reference documents the status.
        [row] = [row for row in routes.operations() if row.action == 'os-reimage']
        self.assertIn(409, sources.load_tool('print_api').codes(row))

    def test_reimage_with_unusable_image_rejected(self):
        volume_id = self.volume()
        self.assert_status(404, self.reimage(volume_id, base.ABSENT))
        self.assert_fault(400, 'minDisk', self.reimage(volume_id, self.glance.add(
            b'1', min_disk=9)))
        self.assertEqual('available', self.shown(volume_id)['status'])
        self.assert_status(202, self.reimage(volume_id, self.glance.add(
            disks.qcow2(backing=b'/etc/passwd'), disk_format='qcow2')))
        self.assertEqual('error', self.shown(volume_id)['status'])
        self.assertEqual('VOLUME_VOLUME_016_028', self.message(volume_id)[0])
        # A volume in error can be reimaged again.
        self.assert_status(202, self.reimage(volume_id, self.glance.add(disks.image('raw'))))
        self.assertEqual('available', self.shown(volume_id)['status'])

    def test_reimage_rejected_before_3_68(self):
        self.assert_status(404, self.reimage(self.volume(), base.ABSENT, version='3.67'))

    def test_reimage_permissions(self):
        volume_id = self.volume()
        self.assert_status(403, self.reimage(volume_id, base.ABSENT, self.http.as_reader))
        self.assert_status(404, self.reimage(volume_id, base.ABSENT, self.http.as_stranger))
