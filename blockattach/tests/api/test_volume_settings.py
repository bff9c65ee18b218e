"""Volume settings of users: name, metadata, image metadata and the bootable flag."""
import hashlib

from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import volume_lifecycle
from blockattach.tests.api import actions
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

_State = attachment_lifecycle.State
_Own = volume_lifecycle.OwnStatus


class SettingsTestCase(actions.ActionsTestCase):

    def in_status(self, *statuses):
        """Yield a new volume for each status."""
        for status in statuses:
            with self.subTest(status=status):
                volume_id = self.volume()
                self.sql(f"UPDATE volumes SET own_status = '{status}', status = '{status}' "
                         f"WHERE id = '{volume_id}'")
                yield volume_id


class UpdateTest(SettingsTestCase):

    def update(self, volume_id, version='3.71', persona=None, **fields):
        return (persona or self.http.as_member).put(
            f'/volumes/{volume_id}', {'volume': fields}, version=version)

    def updated(self, *arguments, **fields):
        reply = self.update(*arguments, **fields)
        self.assert_status(200, reply)
        return reply.body['volume']

    def test_update_response_matches_show(self):
        volume_id = self.volume(name='a', description='b', metadata={'a': 'b', 'c': 'd'})
        answered = self.updated(volume_id, name=' new ', description='for work',
                                metadata={'a': 'x', 'e': 'f'})
        self.assertEqual(('new', 'for work', {'a': 'x', 'e': 'f'}), (
            answered['name'], answered['description'], answered['metadata']))
        shown = self.http.as_member.get(f'/volumes/{volume_id}').body['volume']
        self.assertEqual('available', shown['status'])
        self.assertIsNotNone(shown['updated_at'])
        self.assertEqual({'os-vol-tenant-attr:tenant_id'}, shown.keys() - answered.keys())
        self.assertEqual(answered, {key: shown[key] for key in answered})

    def test_update_keeps_omitted_fields(self):
        volume_id = self.volume(name='a', description='b', metadata={'a': 'b'})
        for fields, expected in (
                ({'name': 'x'}, ('x', 'b', {'a': 'b'})),
                ({'display_name': 'y'}, ('y', 'b', {'a': 'b'})),
                ({'display_description': 'z'}, ('y', 'z', {'a': 'b'})),
                ({'name': 'n', 'display_name': 'm'}, ('n', 'z', {'a': 'b'})),
                ({'metadata': {}}, ('n', 'z', {})),
                ({'name': None, 'description': None}, (None, None, {}))):
            with self.subTest(fields=fields):
                made = self.updated(volume_id, **fields)
                self.assertEqual(expected, (made['name'], made['description'], made['metadata']))

    def test_empty_update_rejected_from_3_53(self):
        volume_id = self.volume(name='a')
        self.assertEqual('a', self.updated(volume_id, '3.52')['name'])
        self.assert_status(400, self.update(volume_id, '3.53'))

    def test_rejected_update_changes_nothing(self):
        volume_id = self.volume(name='a', metadata={'a': 'b'})
        for fields, sentence in (
                ({'name': 'x' * 256}, 'name has 256 characters, more than 255.'),
                ({'description': 'x' * 256}, 'description has 256 characters'),
                ({'name': 'x', 'metadata': {'a': 'v' * 256}}, 'is too long'),
                ({'name': 'x', 'metadata': {'a$': 'v'}}, ''), ({'name': 5}, 'name'),
                ({'name': 'x', 'metadata': None}, 'metadata'),
                ({'name': 'x', 'size': 5}, 'Additional properties are not allowed')):
            with self.subTest(fields=fields):
                self.assert_fault(400, sentence, self.update(volume_id, **fields))
        shown = self.shown(volume_id)
        self.assertEqual(('a', {'a': 'b'}), (shown['name'], shown['metadata']))
        for volume_id in self.in_status('maintenance'):
            self.assert_fault(400, 'The volume cannot be updated during maintenance.',
                              self.update(volume_id, name='x'))
        self.assert_fault(404, base.ABSENT, self.update(base.ABSENT, name='x'))

    def test_update_attached_volume_accepted(self):
        volume_id = self.volume()
        self.attached(volume_id)
        made = self.updated(volume_id, name='x')
        self.assertEqual(('x', 'in-use'), (made['name'], made['status']))


class MetadataTest(SettingsTestCase):

    def setUp(self):
        super().setUp()
        self.volume_id = self.volume(metadata={'a': 'b', 'c': 'd'})
        self.path = f'/volumes/{self.volume_id}/metadata'

    def metadata(self):
        return self.http.as_member.get(self.path).body['metadata']

    def answered(self, reply):
        self.assert_status(200, reply)
        return reply.body

    def send(self, method, path='', body=None, version='3.71', match=None):
        headers = {'OpenStack-API-Version': f'volume {version}'}
        if match is not None:
            headers['If-Match'] = match
        return self.http.as_member.send(method, f'{self.path}{path}', body, None, headers)

    def test_metadata_merged_by_post_and_replaced_by_put(self):
        self.assertEqual({'metadata': {'a': 'b', 'c': 'd'}}, self.answered(self.send('GET')))
        merged = {'a': 'x', 'c': 'd', 'e': ''}
        self.assertEqual({'metadata': merged}, self.answered(
            self.send('POST', body={'metadata': {'a': 'x', 'e': ''}})))
        self.assertEqual(merged, self.metadata())
        for wanted in ({'f': 'g', 'a': 'x'}, {}):
            self.assertEqual({'metadata': wanted}, self.answered(
                self.send('PUT', body={'metadata': wanted})))
            self.assertEqual(wanted, self.metadata())

    def test_metadata_item_get_put_delete(self):
        self.assertEqual({'meta': {'a': 'b'}}, self.answered(self.send('GET', '/a')))
        self.assertEqual({'meta': {'a': 'x'}}, self.answered(
            self.send('PUT', '/a', {'meta': {'a': 'x'}})))
        self.assertEqual({'meta': {'e': 'f'}}, self.answered(
            self.send('PUT', '/e', {'meta': {'e': 'f'}})))
        reply = self.send('DELETE', '/c')
        self.assert_status(200, reply)
        self.assertEqual('', reply.text)
        self.assertEqual({'a': 'x', 'e': 'f'}, self.metadata())

    def test_unknown_metadata_key_not_found(self):
        sentence = f'Volume {self.volume_id} has no metadata with key x.'
        self.assert_fault(404, sentence, self.send('GET', '/x'))
        self.assert_fault(404, sentence, self.send('DELETE', '/x'))
        self.assert_fault(404, f'Volume {base.ABSENT} could not be found.',
                          self.http.as_member.get(f'/volumes/{base.ABSENT}/metadata'))

    def test_metadata_keys_case_sensitive(self):
        self.send('POST', body={'metadata': {'A': 'x'}})
        self.assertEqual({'a': 'b', 'A': 'x', 'c': 'd'}, self.metadata())

    def test_rejected_metadata_changes_nothing(self):
        for method, path, body, sentence in (
                ('PUT', '/a', {'meta': {'b': 'c'}}, 'Request body and URI mismatch'),
                ('PUT', '/a', {'meta': {'a': 'b', 'c': 'd'}}, ''),
                ('PUT', '/a', {'meta': {}}, ''), ('PUT', '/a', {'meta': {'a': None}}, ''),
                ('PUT', '/a', {'metadata': {'a': 'x'}}, ''),
                ('POST', '', {'metadata': {'x': 'v' * 256}}, ''),
                ('POST', '', {'metadata': {'k' * 256: 'v'}}, ''),
                ('POST', '', {'metadata': {'x$': 'v'}}, ''),
                ('POST', '', {'metadata': {'': 'v'}}, ''),
                ('POST', '', {'metadata': {'x': 1}}, ''),
                ('POST', '', {'metadata': None}, ''), ('PUT', '', {'metadata': []}, ''),
                ('PUT', '', {}, "'metadata' is a required property"),
                ('PUT', '', b'[', 'Malformed request body')):
            with self.subTest(method=method, body=body):
                self.assert_fault(400, sentence, self.send(method, path, body))
        self.assertEqual({'a': 'b', 'c': 'd'}, self.metadata())

    def test_metadata_update_rejected_by_status(self):
        for volume_id in self.in_status('maintenance', 'uploading'):
            for method, path, body in (('POST', '', {'metadata': {'a': 'b'}}),
                                       ('PUT', '', {'metadata': {'a': 'b'}}),
                                       ('PUT', '/a', {'meta': {'a': 'b'}}),
                                       ('DELETE', '/a', None)):
                with self.subTest(method=method, path=path):
                    self.assert_fault(
                        400, 'Invalid volume: Updating volume metadata is not allowed',
                        self.http.as_member.send(
                            method, f'/volumes/{volume_id}/metadata{path}', body))
        for volume_id in self.in_status('error', 'creating', 'error_deleting'):
            self.assert_status(200, self.http.as_member.post(
                f'/volumes/{volume_id}/metadata', {'metadata': {'a': 'b'}}))

    def test_metadata_etag_from_3_15(self):
        self.assertIsNone(self.send('GET', version='3.14').headers.get('ETag'))
        reply = self.send('GET', version='3.15')
        tag = reply.headers['ETag']
        self.assertEqual('application/json', reply.headers['Content-Type'])
        self.assertEqual(hashlib.md5(reply.text.encode()).hexdigest(), tag)
        self.assertEqual(tag, self.send('GET').headers['ETag'])
        self.send('POST', body={'metadata': {'a': 'x'}})
        self.assertNotEqual(tag, self.send('GET').headers['ETag'])

    def test_metadata_update_obeys_if_match(self):
        stale = self.send('GET').headers['ETag']
        self.send('POST', body={'metadata': {'e': 'f'}})
        changes = (('POST', '', {'metadata': {'x': 'y'}}), ('PUT', '', {'metadata': {'x': 'y'}}),
                   ('PUT', '/a', {'meta': {'a': 'y'}}), ('DELETE', '/a', None))
        before = self.metadata()
        for method, path, body in changes:
            for match in (stale, f'"{stale}"', 'x', '"x", "y"'):
                with self.subTest(method=method, match=match):
                    reply = self.send(method, path, body, match=match)
                    self.assertEqual(412, reply.status)
                    self.assertIn('If-Match', reply.fault[1])
        self.assertEqual(before, self.metadata())
        self.assert_status(200, self.send('POST', body={'metadata': {'x': 'y'}}, version='3.14',
                                          match=stale))
        for form in ('{}', '"{}"', '"x", "{}"', '*'):
            for method, path, body in changes:
                self.send('PUT', body={'metadata': {'a': 'b'}})
                with self.subTest(method=method, form=form):
                    tag = self.send('GET').headers['ETag']
                    self.assert_status(200, self.send(method, path, body, match=form.format(tag)))

    def test_readonly_flag_absent_from_metadata_resource(self):
        self.done(self.volume_id, 'os-update_readonly_flag', {'readonly': True})
        self.assertEqual({'a': 'b', 'c': 'd'}, self.metadata())
        self.assertEqual('True', self.shown(self.volume_id)['metadata']['readonly'])


class ImageMetadataTest(SettingsTestCase):

    def set(self, volume_id, **pairs):
        reply = self.act(volume_id, 'os-set_image_metadata', {'metadata': pairs})
        self.assert_status(200, reply)
        return reply.body['metadata']

    def unset(self, volume_id, key):
        return self.act(volume_id, 'os-unset_image_metadata', {'key': key})

    def test_set_show_and_unset_image_metadata(self):
        volume_id = self.volume()
        self.assertEqual({'a': 'b'}, self.set(volume_id, a='b'))
        self.assertEqual({'a': 'x', 'c': 'v' * 5000}, self.set(volume_id, a='x', c='v' * 5000))
        self.assert_status(200, self.unset(volume_id, 'c'))
        for value in (None, {}, 'x'):
            reply = self.act(volume_id, 'os-show_image_metadata', value)
            self.assert_status(200, reply)
            self.assertEqual({'metadata': {'a': 'x'}}, reply.body)
        self.assertEqual({}, self.shown(volume_id)['metadata'])

    def test_image_metadata_shown_only_if_present(self):
        bare, described = self.volume(), self.volume()
        self.set(described, a='b')
        for persona in (self.http.as_reader, self.http.as_member, self.http.as_admin):
            for version in ('3.0', '3.71'):
                shown = {one['id']: one.get('volume_image_metadata') for one in persona.get(
                    '/volumes/detail', version=version).body['volumes']}
                self.assertEqual({bare: None, described: {'a': 'b'}}, shown)
                for volume_id, expected in shown.items():
                    one = persona.get(f'/volumes/{volume_id}', version=version).body['volume']
                    self.assertEqual(expected, one.get('volume_image_metadata'))
        self.assertNotIn('volume_image_metadata', self.http.as_member.put(
            f'/volumes/{described}', {'volume': {'name': 'x'}}).body['volume'])

    def test_unknown_image_metadata_not_found(self):
        volume_id = self.volume()
        sentence = f'Glance metadata for volume/snapshot {volume_id} cannot be found.'
        self.assert_fault(404, sentence, self.act(volume_id, 'os-show_image_metadata'))
        self.assert_fault(404, sentence, self.unset(volume_id, 'a'))

    def test_rejected_image_metadata_changes_nothing(self):
        volume_id = self.volume()
        self.set(volume_id, a='b')
        for name, value in (
                ('set', {}), ('set', {'metadata': None}), ('set', {'metadata': {'a': 1}}),
                ('set', {'metadata': {'k' * 256: 'v'}}), ('set', {'metadata': {'a$': 'v'}}),
                ('set', {'metadata': {'a': 'v' * 65536}}), ('unset', {}), ('unset', {'key': ''}),
                ('unset', {'key': None}), ('unset', {'key': 'a', 'x': 1})):
            with self.subTest(name=name, value=str(value)[:40]):
                self.assert_status(400, self.act(volume_id, f'os-{name}_image_metadata', value))
        self.assertEqual({'a': 'b'}, self.shown(volume_id)['volume_image_metadata'])
        for volume_id in self.in_status('maintenance', 'uploading'):
            self.assert_fault(400, 'is not allowed for volumes in', self.act(
                volume_id, 'os-set_image_metadata', {'metadata': {'a': 'b'}}))


class ImageMetadataRuleTest(SettingsTestCase):

    SETTINGS = {'rules': {'volume_extension:volume_image_metadata:show': 'role:admin',
                          'volume:update_volume_metadata': 'role:admin',
                          'volume:delete_volume_metadata': 'role:admin'}}

    def test_image_metadata_hidden_without_permission(self):
        volume_id = self.volume()
        self.assert_status(200, self.act(volume_id, 'os-set_image_metadata',
                                         {'metadata': {'a': 'b'}}, self.http.as_admin))
        for path in (f'/volumes/{volume_id}', '/volumes/detail'):
            self.assertNotIn('volume_image_metadata', self.http.as_member.get(path).text)
            self.assertIn('volume_image_metadata', self.http.as_admin.get(path).text)

    def test_image_metadata_actions_need_metadata_permission(self):
        volume_id = self.volume()
        self.assert_fault(403, 'volume:update_volume_metadata', self.act(
            volume_id, 'os-set_image_metadata', {'metadata': {'a': 'b'}}))
        self.assert_fault(403, 'volume:delete_volume_metadata', self.act(
            volume_id, 'os-unset_image_metadata', {'key': 'a'}))


class BootableTest(SettingsTestCase):

    def set(self, volume_id, value):
        return self.act(volume_id, 'os-set_bootable', {'bootable': value})

    def test_set_bootable_values(self):
        volume_id = self.volume()
        for value, expected in ((True, 'true'), ('false', 'false'), ('1', 'true'),
                                (False, 'false'), ('on', 'true'), ('n', 'false')):
            with self.subTest(value=value):
                reply = self.set(volume_id, value)
                self.assert_status(200, reply)
                self.assertEqual('', reply.text)
                self.assertEqual(expected, self.shown(volume_id)['bootable'])
        for value in ('maybe', None, 2, {}):
            with self.subTest(value=value):
                self.assert_status(400, self.set(volume_id, value))

    def test_set_bootable_rejected_in_maintenance_only(self):
        for volume_id in self.in_status('error', 'uploading', 'extending'):
            self.assert_status(200, self.set(volume_id, True))
        for volume_id in self.in_status('maintenance'):
            self.assert_fault(400, 'during maintenance', self.set(volume_id, True))
        volume_id = self.volume()
        self.attached(volume_id)
        self.assert_status(200, self.set(volume_id, True))


class ForceDeleteTest(SettingsTestCase):

    def force(self, volume_id, value=None):
        return self.act(volume_id, 'os-force_delete', value, self.http.as_admin)

    def test_force_delete_in_any_status(self):
        for volume_id in self.in_status('creating', 'maintenance', 'error', 'available',
                                        'uploading', 'error_deleting'):
            reply = self.force(volume_id, {})
            self.assert_status(202, reply)
            self.assertEqual('', reply.text)
            self.assert_status(404, self.http.as_admin.get(f'/volumes/{volume_id}'))
        self.assertEqual({}, self.http.manager.backend.fake_store.sizes())

    def test_force_delete_with_attachment_rejected(self):
        """Cinder deletes a volume that is exported."""
        for state in (_State.RESERVED, _State.CONNECTED, _State.ATTACHED, _State.ERROR_DETACHING):
            with self.subTest(state=state):
                held = make.attachment(self.http.database, make.volume(
                    self.http.database, on_pool=http.POOL), state)
                self.assert_fault(400, 'Invalid volume: Volume status must be available or',
                                  self.force(held.volume_id))
