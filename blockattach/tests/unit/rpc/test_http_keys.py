"""Key file of the HTTP bus: permissions of keys, and their replacement."""
import os
import pathlib
import tempfile
import unittest

from blockattach.platform import errors
from blockattach.platform.rpc.http import trust

OWN, OTHER = 'a1' * 32, 'b2' * 32


class KeyFileTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, 'new', 'rpc.keys')

    def write(self, *lines: str) -> None:
        self.path.parent.mkdir(exist_ok=True)
        draft = self.path.with_suffix('.draft')
        draft.write_text('\n'.join(lines))
        draft.chmod(0o600)
        draft.replace(self.path)

    def open(self) -> trust.KeyFile:
        return trust.KeyFile(str(self.path), 'prefix')

    def test_first_start_creates_private_key_file(self) -> None:
        made, again = self.open(), self.open()
        self.assertEqual(0o600, os.stat(self.path).st_mode & 0o777)
        self.assertEqual(made.own, again.own)
        self.assertEqual({made.own.name: made.own}, dict(made.accepted))
        self.assertIsNone(made.own.topics)
        self.path.unlink()
        self.assertNotEqual(made.own.secret, self.open().own.secret)

    def test_key_limited_to_interfaces(self) -> None:
        self.write('# all of the site', f'site {OWN}', '', f'nova {OTHER} attachments  # theirs')
        found = self.open()
        self.assertEqual('site', found.own.name)
        self.assertEqual({'site': None, 'nova': frozenset({'prefix-attachments'})},
                         {name: key.topics for name, key in found.accepted.items()})
        self.assertEqual(bytes.fromhex(OTHER), found.accepted['nova'].secret)

    def test_changed_key_file_applied(self) -> None:
        self.write(f'old {OWN}')
        found = self.open()
        for lines, own, accepted in (((f'old {OWN}', f'new {OTHER}'), 'old', {'old', 'new'}),
                                     ((f'new {OTHER}', f'old {OWN}'), 'new', {'old', 'new'}),
                                     ((f'new {OTHER}',), 'new', {'new'})):
            self.write(*lines)
            self.assertEqual((own, accepted), (found.own.name, set(found.accepted)))

    def test_invalid_change_ignored(self) -> None:
        self.write(f'old {OWN}')
        found = self.open()
        with self.assertLogs('blockattach.platform.conf.changing', 'ERROR') as logs:
            self.write(f'new {OTHER[:40]}')
            self.assertEqual('old', found.own.name)
        self.assertNotIn(OTHER[:40], ''.join(logs.output))

    def test_invalid_key_rejected_without_showing_it(self) -> None:
        for lines in ((), ('# none',), ('site',), (f'site {OWN[:62]}',), (f'site {OWN}x',),
                      (f'si/te {OWN}',), (f'site {OWN}', f'site {OTHER}')):
            self.write(*lines)
            with self.subTest(lines), self.assertRaises(errors.ConfigurationError) as caught:
                self.open()
            for secret in (OWN[:20], OTHER[:20]):
                self.assertNotIn(secret, str(caught.exception))

    def test_key_file_readable_by_others_rejected(self) -> None:
        self.write(f'site {OWN}')
        self.path.chmod(0o640)
        with self.assertRaisesRegex(errors.ConfigurationError, 'chmod 600'):
            self.open()


if __name__ == '__main__':
    unittest.main()
