"""Encryption of volume types, its effect on volumes, and its exclusion of multiattach."""
from blockattach.platform import failpoints
from blockattach.storage.db.types import volume_types
from blockattach.tests.api import base
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

FACTS = {'provider': 'luks', 'control_location': 'back-end', 'cipher': 'aes-xts-plain64',
         'key_size': 256}
REQUIRED = {'provider': 'luks', 'control_location': 'front-end'}
SHARED = ('<is> True', '<is> true', 'TRUE', 'yes')
EXCLUSION = 'Multiattach cannot be used with encrypted volumes.'
STOCK = 'provider'
"""Word that cinderclient and Tempest send in place of the encryption's id."""


class EncryptionTestCase(base.ApiTestCase):

    def setUp(self):
        super().setUp()
        self.admin = self.http.as_admin
        self.kind = make.volume_type(self.http.database, 'secret')
        self.path = f'/types/{self.kind.id}/encryption'

    def post(self, path=None, **facts):
        return self.admin.post(path or self.path, {'encryption': facts})

    def put(self, named=STOCK, **facts):
        return self.admin.put(f'{self.path}/{named}', {'encryption': facts})

    def made(self, **facts):
        reply = self.post(**{**FACTS, **facts})
        self.assert_status(200, reply)
        return reply.body['encryption']

    def shown(self):
        """Return the shown encryption of the volume type."""
        reply = self.admin.get(self.path)
        self.assert_status(200, reply)
        return reply.body

    def create_volume(self, persona=None, **fields):
        return (persona or self.http.as_member).post(
            '/volumes', {'volume': {'size': 1, 'volume_type': 'secret', **fields}})


class TypeEncryptionTest(EncryptionTestCase):

    def test_type_encryption_lifecycle(self):
        self.assertEqual({}, self.shown())
        made = self.made()
        self.assertEqual({**FACTS, 'volume_type_id': self.kind.id,
                          'encryption_id': made['encryption_id']}, made)
        shown = self.shown()
        self.assertEqual({**made, 'created_at': shown['created_at'], 'updated_at': None,
                          'deleted': False, 'deleted_at': None}, shown)
        for key, value in shown.items():
            self.assertEqual({key: value}, self.admin.get(f'{self.path}/{key}').body)
        reply = self.put(key_size=512, cipher=None)
        self.assert_status(200, reply)
        self.assertEqual({'encryption': {'key_size': 512, 'cipher': None}}, reply.body)
        changed = self.shown()
        self.assertIsNotNone(changed['updated_at'])
        self.assertEqual({**shown, 'key_size': 512, 'cipher': None,
                          'updated_at': changed['updated_at']}, changed)
        reply = self.admin.delete(f'{self.path}/{STOCK}')
        self.assert_status(202, reply)
        self.assertEqual('', reply.text)
        self.assertEqual({}, self.shown())
        self.assertNotEqual(made['encryption_id'], self.made()['encryption_id'])

    def test_encryption_updated_and_deleted_by_id(self):
        named = self.made()['encryption_id']
        self.assert_status(200, self.put(named, control_location='front-end'))
        self.assertEqual('front-end', self.shown()['control_location'])
        self.assert_status(202, self.admin.delete(f'{self.path}/{named}'))
        self.assertEqual({}, self.shown())

    def test_encryption_created_with_required_fields_only(self):
        made = self.made(**dict.fromkeys(('cipher', 'key_size')))
        self.assertEqual((None, None), (made['cipher'], made['key_size']))
        self.admin.delete(f'{self.path}/{STOCK}')
        reply = self.post(**REQUIRED)
        self.assertEqual({**REQUIRED, 'cipher': None, 'key_size': None}, {
            key: reply.body['encryption'][key] for key in FACTS})
        self.assert_status(200, self.put())
        self.assertEqual('luks', self.shown()['provider'])

    def test_key_size_accepted_as_text(self):
        self.assertEqual(256, self.made(key_size='256')['key_size'])
        self.assertEqual({'encryption': {'key_size': 512}}, self.put(key_size='512').body)
        self.assertEqual(512, self.shown()['key_size'])

    def test_second_encryption_of_type_rejected(self):
        self.made()
        shown = self.shown()
        self.assert_fault(400, f'Volume type encryption for type {self.kind.id} already exists.',
                          self.post(**REQUIRED))
        self.assertEqual(shown, self.shown())

    def test_empty_encryption_provider_accepted(self):
        self.made()
        for provider in ('', ' ', 'luks', ''):
            reply = self.put(provider=provider)
            self.assertEqual((200, {'encryption': {'provider': provider}}),
                             (reply.status, reply.body))
            self.assertEqual(provider, self.shown()['provider'])
        other = make.volume_type(self.http.database)
        self.assert_status(200, self.admin.post(
            f'/types/{other.id}/encryption', {'encryption': {**REQUIRED, 'provider': ''}}))

    def test_unknown_encryption_keys_ignored(self):
        self.assert_status(200, self.post(**REQUIRED, more=1, encryption_id=base.ABSENT))
        before = self.shown()
        reply = self.put(more=1, volume_type_id=base.ABSENT, cipher=None)
        self.assertEqual((200, {'encryption': {'cipher': None}}), (reply.status, reply.body))
        self.assertEqual(self.kind.id, self.shown()['volume_type_id'])
        self.assertEqual({**before, 'updated_at': None}, {**self.shown(), 'updated_at': None})

    def test_malformed_encryption_rejected(self):
        wrong = ({'provider': None}, {'provider': 1}, {'provider': 'x' * 256},
                 {'control_location': 'middle'},
                 {'control_location': None}, {'control_location': 'Front-End'},
                 {'cipher': 1}, {'cipher': 'x' * 256}, {'key_size': -1}, {'key_size': 'x'},
                 {'key_size': 1.5}, {'key_size': 2 ** 31}, {'key_size': '9999999999'},
                 {'key_size': True})
        for facts in wrong:
            with self.subTest(facts=facts):
                self.assertEqual(400, self.post(**{**FACTS, **facts}).status)
        for missing in REQUIRED:
            with self.subTest(missing=missing):
                rest = {key: value for key, value in FACTS.items() if key != missing}
                self.assert_fault(400, f"'{missing}' is a required property", self.post(**rest))
        for body in ({}, {'encryption': None}, {'encryption': []},
                     {'encryption': REQUIRED, 'more': 1}):
            with self.subTest(body=body):
                self.assertEqual(400, self.admin.post(self.path, body).status)
        self.assertEqual({}, self.shown())
        self.made()
        before = self.shown()
        for facts in wrong:
            with self.subTest(facts=facts):
                self.assertEqual(400, self.put(**facts).status)
        self.assertEqual(before, self.shown())

    def test_unknown_type_or_encryption_not_found(self):
        absent = f'/types/{base.ABSENT}/encryption'
        for reply in (self.admin.get(absent), self.post(absent, **FACTS),
                      self.admin.get(f'{absent}/cipher'),
                      self.admin.put(f'{absent}/{STOCK}', {'encryption': FACTS}),
                      self.admin.delete(f'{absent}/{STOCK}')):
            self.assert_fault(404, f'Volume type {base.ABSENT} could not be found.', reply)
        sentence = f'Volume type encryption for type {self.kind.id} does not exist.'
        for reply in (self.put(key_size=1), self.admin.delete(f'{self.path}/{STOCK}'),
                      self.admin.get(f'{self.path}/cipher')):
            self.assert_fault(404, sentence, reply)
        other = make.encrypted_type(self.http.database).encryption.id
        self.made()
        before = self.shown()
        for named in (other, base.ABSENT, 'zz'):
            with self.subTest(named=named):
                self.assert_fault(404, sentence, self.put(named, key_size=1))
                self.assert_fault(404, sentence, self.admin.delete(f'{self.path}/{named}'))
                self.assert_fault(404, sentence, self.admin.get(f'{self.path}/{named}'))
        self.assertEqual(before, self.shown())

    def test_encryption_change_of_type_in_use_rejected(self):
        volume_id = self.volume(volume_type='secret')
        self.assert_fault(400, 'Cannot create encryption specs. Volume type in use.',
                          self.post(**FACTS))
        self.http.as_member.delete(f'/volumes/{volume_id}')
        self.made()
        volume_id = self.volume(volume_type='secret')
        before = self.shown()
        self.assert_fault(400, 'Cannot update encryption specs. Volume type in use.',
                          self.put(key_size=1))
        self.assert_fault(400, 'Cannot delete encryption specs. Volume type in use.',
                          self.admin.delete(f'{self.path}/{STOCK}'))
        self.assertEqual(before, self.shown())
        self.http.as_member.delete(f'/volumes/{volume_id}')
        self.assert_status(200, self.put(key_size=1))
        self.assert_status(202, self.admin.delete(f'{self.path}/{STOCK}'))

    def test_type_response_unchanged_by_encryption(self):
        before = self.admin.get(f'/types/{self.kind.id}').body
        self.made()
        self.assertEqual(before, self.admin.get(f'/types/{self.kind.id}').body)
        self.assertIn(before['volume_type'], self.admin.get('/types').body['volume_types'])
        make.volume_type(self.http.database, 'other', extra_specs={'tier': '1'})
        for query, names in (('?extra_specs={"tier":"1"}', ['other']),
                             ('?extra_specs={"provider":"luks"}', []),
                             ('?extra_specs={"encryption":"luks"}', [])):
            found = self.admin.get(f'/types{query}').body['volume_types']
            self.assertEqual(names, [one['name'] for one in found])

    def test_delete_of_type_deletes_encryption(self):
        self.made()
        self.assert_status(202, self.admin.delete(f'/types/{self.kind.id}'))
        self.assert_fault(404, f'Volume type {self.kind.id} could not be found.',
                          self.admin.get(self.path))


class RuleTest(EncryptionTestCase):
    """Policy rules that allow all encryption requests of a type or a part of them."""

    def test_common_rule_allows_every_encryption_request(self):
        with self.fixture(**{'volume_extension:volume_type_encryption': 'role:member'}) as api:
            path = f'/types/{make.volume_type(api.database).id}/encryption'
            self.assert_status(200, api.as_member.post(path, {'encryption': FACTS}))
            self.assert_status(200, api.as_member.get(path))
            self.assert_status(202, api.as_member.delete(f'{path}/{STOCK}'))

    def test_get_rule_allows_show_only(self):
        rule = 'volume_extension:volume_type_encryption:get'
        with self.fixture(**{rule: 'role:reader'}) as api:
            path = f'/types/{make.encrypted_type(api.database).id}/encryption'
            self.assert_status(200, api.as_reader.get(f'{path}/provider'))
            self.assert_status(403, api.as_reader.delete(f'{path}/{STOCK}'))

    def fixture(self, **rules):
        return http.ApiFixture(rules=rules)


class ExclusionTest(EncryptionTestCase):
    """Type with encryption and multiattach, which Cinder allows but no volume may have."""

    def share(self, value=SHARED[0]):
        path = f'/types/{self.kind.id}/extra_specs'
        self.assert_status(200, self.admin.post(path, {'extra_specs': {'multiattach': value}}))

    def test_create_encrypted_multiattach_volume_rejected(self):
        self.made()
        for value in SHARED:
            self.share(value)
            with self.subTest(value=value):
                self.assert_fault(400, f'Invalid volume: {EXCLUSION}', self.create_volume())
        self.assertEqual([], self.http.as_member.get('/volumes').body['volumes'])
        self.share('<is> False')
        self.assert_status(202, self.create_volume())

    def test_encryption_of_multiattach_type_accepted(self):
        self.share()
        self.assert_status(202, self.create_volume())
        self.assert_fault(400, 'Volume type in use.', self.post(**FACTS))
        other = make.volume_type(self.http.database, 'other', multiattach=True)
        self.assert_status(200, self.post(f'/types/{other.id}/encryption', **FACTS))
        self.assert_fault(400, EXCLUSION, self.http.as_member.post(
            '/volumes', {'volume': {'size': 1, 'volume_type': 'other'}}))


class WithoutRightTest(EncryptionTestCase):
    SETTINGS = {'rules': {'volume:multiattach': '!'}}

    def test_exclusion_reported_before_policy_check(self):
        self.made()
        self.admin.post(f'/types/{self.kind.id}/extra_specs',
                        {'extra_specs': {'multiattach': '<is> True'}})
        self.assert_fault(400, EXCLUSION, self.create_volume())


class VolumeTest(EncryptionTestCase):

    def test_volume_of_encrypted_type_shown_encrypted(self):
        self.made()
        reply = self.create_volume()
        self.assert_status(202, reply)
        self.assertIs(True, reply.body['volume']['encrypted'])
        volume_id = reply.body['volume']['id']
        plain_id = self.volume()
        for version in ('3.0', '3.64', '3.71'):
            with self.subTest(version=version):
                shown = self.http.as_member.get(f'/volumes/{volume_id}', version=version)
                self.assertIs(True, shown.body['volume']['encrypted'])
                # The storage encrypts, so there is no key for a consumer.
                self.assertNotIn('encryption_key_id', shown.body['volume'])
                listed = self.http.as_member.get('/volumes/detail', version=version)
                self.assertEqual({volume_id: True, plain_id: False}, {
                    one['id']: one['encrypted'] for one in listed.body['volumes']})

    def test_volume_encryption_metadata(self):
        self.made()
        path = f'/volumes/{self.volume(volume_type="secret")}/encryption'
        facts = {**FACTS, 'encryption_key_id': None}
        for persona in (self.http.as_member, self.http.as_reader, self.admin):
            self.assertEqual(facts, persona.get(path).body)
            for key, value in facts.items():
                self.assertEqual({key: value}, persona.get(f'{path}/{key}').body)
        self.assert_status(404, self.admin.get(f'{path}/encryption_id'))
        self.assertEqual({'encryption_key_id': None},
                         self.admin.get(f'/volumes/{self.volume()}/encryption').body)

    def test_back_end_encrypted_volume_attached_as_plain(self):
        """The backend encrypts, so a host has nothing to decrypt."""
        self.made()
        volume_id = self.volume(volume_type='secret')
        self.assertIs(False, self.connect(self.reserve(volume_id))['connection_info'][
            'encrypted'])

    def test_create_with_front_end_encryption_rejected(self):
        self.made(control_location='front-end')
        self.assert_fault(400, 'Volume type secret requires encryption by the consumer',
                          self.create_volume())
        self.assert_fault(400, 'does not manage encryption keys', self.create_volume(self.admin))
        self.assertEqual([], self.admin.get('/volumes?all_tenants=1').body['volumes'])
        self.put(control_location='back-end')
        self.assert_status(202, self.create_volume())

    def test_type_changed_during_create_conflicts(self):
        judged = 'control.volumes.before_create'
        self.addCleanup(failpoints.disarm, judged)
        failpoints.arm(judged, lambda: volume_types.set_extra_specs(
            self.http.database, self.kind.id, {'multiattach': '<is> True'}))
        self.assert_fault(409, 'Retry the request', self.create_volume())
        failpoints.disarm(judged)
        self.assertEqual([], self.http.as_member.get('/volumes').body['volumes'])
        reply = self.create_volume()
        self.assert_status(202, reply)
        self.assertIs(True, reply.body['volume']['multiattach'])
