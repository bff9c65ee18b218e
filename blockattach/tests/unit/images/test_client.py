"""Glance client: requests, and handling of wrong answers."""
import unittest

from blockattach.platform import context
from blockattach.storage import errors
from blockattach.storage.conf import glance as glance_conf
from blockattach.storage.images import client
from blockattach.tests.fixtures import glance
from blockattach.tests.fixtures import nova

ABSENT = '00000000-0000-4000-8000-000000000000'


class ClientTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.glance = glance.GlanceStandIn()
        self.addCleanup(self.glance.close)
        settings = glance_conf.GlanceSettings(endpoint_override=self.glance.url, retries=0)
        self.users, self.service = client.UserImages(settings), client.ServiceImages(settings)
        self.caller = context.RequestContext(auth_token='token', project_id='p', overwrite=False)

    def test_show_returns_image(self):
        image_id = self.glance.add(b'1234', name='ours', min_disk=2, os_type='linux')
        found = self.users.show(self.caller, image_id)
        self.assertEqual(('ours', 'active', 4, 2, {'os_type': 'linux'}), (
            found.name, found.status, found.size, found.min_disk, dict(found.properties)))
        self.assertEqual(found, self.service.show(image_id))
        self.assertEqual([found], self.users.named(self.caller, 'ours'))
        self.assertEqual(['token', 'notused', 'token'], self.glance.tokens)

    def test_download_yields_pieces(self):
        data = bytes(range(256)) * 8192
        pieces = list(self.service.download(self.glance.add(data)))
        self.assertEqual((data, True), (b''.join(pieces), len(pieces) > 1))

    def test_truncated_download_raises(self):
        image_id = self.glance.add(bytes(4096))
        self.glance.cut = 1
        with self.assertRaises(errors.GlanceUnavailable):
            list(self.service.download(image_id))

    def test_unknown_image_not_found(self):
        for act in (lambda: self.users.show(self.caller, ABSENT),
                    lambda: self.service.show(ABSENT),
                    lambda: list(self.service.download(ABSENT)),
                    lambda: list(self.service.download(self.glance.add(b''))),
                    lambda: self.service.upload(ABSENT, [b'1'])):
            with self.assertRaises(errors.ImageNotFound):
                act()
        self.service.delete(ABSENT)

    def test_lookup_by_name_returns_at_most_two(self):
        for _ in range(3):
            self.glance.add(b'1', name='a b&c')
        self.assertEqual(2, len(self.users.named(self.caller, 'a b&c')))

    def test_create_upload_and_delete_image(self):
        self.users.create(self.caller, ABSENT, {'name': 'mine', 'protected': True})
        self.service.upload(ABSENT, iter([b'12', b'34']))
        self.assertEqual(b'1234', self.glance.data[ABSENT])
        with self.assertRaisesRegex(errors.ImageRefused, 'It has bytes'):
            self.service.upload(ABSENT, [b'5'])
        self.service.delete(ABSENT)
        self.assertEqual({}, self.glance.images)

    def test_create_with_id_property_keeps_id(self):
        made = self.users.create(self.caller, ABSENT, {'id': 'another', 'name': 'mine'})
        self.assertEqual((ABSENT, {ABSENT}), (made.id, set(self.glance.images)))

    def test_create_answered_with_other_id_raises(self):
        other = self.glance.images[self.glance.add(b'1')]
        self.glance._make = lambda _body: (201, other)
        with self.assertRaises(errors.GlanceUnavailable):
            self.users.create(self.caller, ABSENT, {'name': 'mine'})

    def test_glance_status_mapped_to_error(self):
        image_id = self.glance.add(b'1')
        self.glance.broken = '.'
        for status in (500, 502, 418):
            self.glance.status = status
            for act in (lambda: self.users.show(self.caller, image_id),
                        lambda: self.users.named(self.caller, 'image'),
                        lambda: list(self.service.download(image_id))):
                with self.assertRaisesRegex(errors.GlanceUnavailable, str(status)):
                    act()
        self.glance.status = 409
        with self.assertRaisesRegex(errors.ImageRefused, 'It is broken'):
            self.users.create(self.caller, ABSENT, {})
        # A token that is not taken any more says nothing of the image.
        self.glance.status = 401
        with self.assertRaises(errors.GlanceUnavailable):
            self.service.upload(image_id, [b'1'])

    def test_glance_unreachable_raises(self):
        self.glance.close()
        self.addCleanup(setattr, self.glance, 'close', lambda: None)
        for act in (lambda: self.users.show(self.caller, ABSENT),
                    lambda: self.service.show(ABSENT)):
            with self.assertRaisesRegex(errors.GlanceUnavailable, 'cannot be reached'):
                act()

    def test_endpoint_found_in_catalog(self):
        with nova.NovaStandIn() as keystone:
            for suffix in ('', '/', '/v2', '/v2/'):
                keystone.publish('image', self.glance.url + suffix)
                settings = glance_conf.GlanceSettings(
                    auth_url=keystone.keystone_url, username='glance', password='x', retries=0)
                image_id = self.glance.add(b'1')
                self.assertEqual(image_id, client.UserImages(settings).show(
                    self.caller, image_id).id)
                self.assertEqual(image_id, client.ServiceImages(settings).show(image_id).id)
        self.assertIn('glance:service', self.glance.tokens)
