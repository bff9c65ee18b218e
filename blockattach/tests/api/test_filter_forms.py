"""Filter values in each form that clients send: numbers, booleans and quoted strings."""
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

    def test_volume_metadata_filter_accepts_each_form(self):
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

    def test_snapshot_metadata_filter_accepts_each_form(self):
        snapshot_id = self.snapshot(self.plain, metadata={'n': '1', 'b': 'True'})['id']
        self.snapshot(self.plain)
        for text in ("{'n': 1}", '{"n": 1}', "{'b': True}", "{'n': '1'}"):
            with self.subTest(text):
                self.assertEqual([snapshot_id], self.found('/snapshots', {'metadata': text}))

    def test_type_extra_specs_filter_accepts_each_form(self):
        kind = make.volume_type(self.http.database, extra_specs={'n': '1', 'b': 'True'})
        for text in ("{'n': 1}", '{"n": 1}', "{'b': True}", "{'n': '1'}"):
            with self.subTest(text):
                self.assertEqual([kind.id], self.found('/types', {'extra_specs': text}))

    def test_quoted_filter_values_match_unquoted(self):
        for key, value in (('status', 'available'), ('availability_zone', 'nova'),
                           ('id', self.plain), ('user_id', http.USER), ('size', '2')):
            expected = self.found('/volumes', {key: value})
            self.assertTrue(expected)
            for text in (f"'{value}'", f'"{value}"'):
                with self.subTest(key, text=text):
                    self.assertEqual(expected, self.found('/volumes', {key: text}))

    def test_list_filter_values_match_any_element(self):
        for key, text, expected in (
                ('id', f"['{self.plain}', '{self.quoted}']", self.both),
                ('id', f"('{self.plain}',)", [self.plain]), ('id', '[]', []),
                ('status', "['error', 'available']", self.both), ('size', '[1, 2]', self.both),
                ('size', "['2']", [self.quoted]), ('size', '[2.0, -1]', [])):
            with self.subTest(key, text=text):
                self.assertEqual(expected, self.found('/volumes', {key: text}))

    def test_none_filter_value_matches_null(self):
        copy = self.volume(source_volid=self.plain, size=1)
        self.assertEqual(self.both, self.found('/volumes', {'source_volid': 'None'}))
        self.assertEqual([copy], self.found('/volumes', {'source_volid': f"'{self.plain}'"}))

    def test_name_filter_values_taken_literally(self):
        for key in ('name', 'display_name'):
            self.assertEqual([self.quoted], self.found('/volumes', {key: '"plain"'}))
            self.assertEqual([self.plain], self.found('/volumes', {key: 'plain'}))
            self.assertEqual([], self.found('/volumes', {key: "['plain']"}))

    def test_malformed_python_literals_taken_as_text(self):
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

    def test_non_ascii_filter_key_rejected_from_3_31(self):
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

    def test_quoted_values_taken_literally_in_other_lists(self):
        self.attached(self.plain)
        self.assertEqual([], self.found('/attachments', {'volume_id': f"'{self.plain}'"}))
        self.assertEqual([], self.found('/snapshots', {'status': "'available'"}))
