"""Values of filters in every form that clients send: numbers, booleans, quoted texts."""
from urllib import parse

from blockattach.tests.api import snapshots
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make

NOT_ASCII = 'Filter keys can only contain ASCII characters.'


class FormsTest(snapshots.SnapshotsTestCase):

    def setUp(self):
        super().setUp()
        self.plain = self.volume(name='plain')
        self.quoted = self.volume(name='"plain"', size=2, metadata={'n': '1', 'b': 'True'})
        self.both = sorted((self.plain, self.quoted))

    def found(self, path, query, version=http.LATEST, persona=None):
        reply = (persona or self.http.as_admin).get(
            f'{path}?{parse.urlencode(query)}', version=version)
        self.assert_status(200, reply)
        [listed] = [value for name, value in reply.body.items() if not name.endswith('_links')]
        return sorted(one['id'] for one in listed)

    def test_metadata_of_volumes_in_each_form_finds_them(self):
        for text in ("{'n': 1}", '{"n": 1}', "{'n': '1'}", '{"n":"1"}', "{'b': True}",
                     "{'b': 'True'}", '{"b": true, "n": 1}', "{'n': 1,}"):
            for path in ('/volumes', '/volumes/detail'):
                for persona in (self.http.as_member, self.http.as_admin):
                    with self.subTest(text, path=path):
                        self.assertEqual([self.quoted], self.found(
                            path, {'metadata': text}, persona=persona))
        for text in ("{'n': 2}", "{'b': False}", "{'b': 1}", '{"n": 1.5}', '{1: 1}'):
            with self.subTest(text):
                self.assertEqual([], self.found('/volumes', {'metadata': text}))

    def test_metadata_of_snapshots_in_each_form_finds_them(self):
        snapshot_id = self.snapshot(self.plain, metadata={'n': '1', 'b': 'True'})['id']
        self.snapshot(self.plain)
        for text in ("{'n': 1}", '{"n": 1}', "{'b': True}", "{'n': '1'}"):
            with self.subTest(text):
                self.assertEqual([snapshot_id], self.found('/snapshots', {'metadata': text}))

    def test_extra_specs_of_types_in_each_form_find_them(self):
        kind = make.volume_type(self.http.database, extra_specs={'n': '1', 'b': 'True'})
        for text in ("{'n': 1}", '{"n": 1}', "{'b': True}", "{'n': '1'}"):
            with self.subTest(text):
                self.assertEqual([kind.id], self.found('/types', {'extra_specs': text}))

    def test_texts_in_quotes_find_what_the_text_finds(self):
        for key, value in (('status', 'available'), ('availability_zone', 'nova'),
                           ('id', self.plain), ('user_id', http.USER), ('size', '2')):
            expected = self.found('/volumes', {key: value})
            self.assertTrue(expected)
            for text in (f"'{value}'", f'"{value}"'):
                with self.subTest(key, text=text):
                    self.assertEqual(expected, self.found('/volumes', {key: text}))

    def test_lists_find_what_has_one_of_their_values(self):
        for key, text, expected in (
                ('id', f"['{self.plain}', '{self.quoted}']", self.both),
                ('id', f"('{self.plain}',)", [self.plain]), ('id', '[]', []),
                ('status', "['error', 'available']", self.both), ('size', '[1, 2]', self.both),
                ('size', "['2']", [self.quoted]), ('size', '[2.0, -1]', [])):
            with self.subTest(key, text=text):
                self.assertEqual(expected, self.found('/volumes', {key: text}))

    def test_none_finds_what_has_no_value(self):
        copy = self.volume(source_volid=self.plain, size=1)
        self.assertEqual(self.both, self.found('/volumes', {'source_volid': 'None'}))
        self.assertEqual([copy], self.found('/volumes', {'source_volid': f"'{self.plain}'"}))

    def test_names_are_taken_as_they_are(self):
        for key in ('name', 'display_name'):
            self.assertEqual([self.quoted], self.found('/volumes', {key: '"plain"'}))
            self.assertEqual([self.plain], self.found('/volumes', {key: 'plain'}))
            self.assertEqual([], self.found('/volumes', {key: "['plain']"}))

    def test_values_that_only_look_like_python_are_texts(self):
        for key in ('status', 'availability_zone', 'id', 'user_id', 'size'):
            for text in ("'", '"a', '[', '(' * 5000, 'Nova', 'nova[0]', "['a'", "[['a']]",
                         "'\\x00'", "['\\ud800']", "'\\ud800'", '{}', '1e999', '', 'N',
                         '9' * 400):
                with self.subTest(key, text=text[:20]):
                    self.assertEqual([], self.found('/volumes', {key: text}))
        for text in ("{'a': '\\x00'}", "{'\\ud800': 'a'}", '{"a": "\\u0000"}', "{'a': None}",
                     "{'a': [1]}", "{'a': b'x'}", "{'a': 1j}", '{"a": null}',
                     f'{{"a": {"[" * 1020}{"]" * 1020}}}'):
            for path in ('/volumes', '/snapshots'):
                with self.subTest(path, text=text[:40]):
                    self.assert_fault(400, 'is not a mapping', self.http.as_member.get(
                        f'{path}?{parse.urlencode({"metadata": text})}'))

    def test_key_that_is_not_ascii_is_refused_since_filters_are_strict(self):
        for path in ('/volumes', '/volumes/detail', '/snapshots', '/attachments', '/messages'):
            for persona in (self.http.as_member, self.http.as_admin):
                for key in ('naïve', 'é~', '名'):
                    query = parse.urlencode({key: 'x'})
                    with self.subTest(path, key=key):
                        self.assert_fault(400, NOT_ASCII, persona.get(
                            f'{path}?{query}', version='3.31'))
                        if path not in ('/attachments',):
                            self.assert_status(200, persona.get(
                                f'{path}?{query}', version='3.30'))

    def test_forms_in_the_other_lists_are_texts(self):
        self.attached(self.plain)
        self.assertEqual([], self.found('/attachments', {'volume_id': f"'{self.plain}'"}))
        self.assertEqual([], self.found('/snapshots', {'status': "'available'"}))
