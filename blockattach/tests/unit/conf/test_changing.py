"""Files that are read again when they change."""
import os
import pathlib
import tempfile
import unittest

from blockattach.platform import errors
from blockattach.platform.conf import changing


def number(text):
    if not text.isdigit():
        raise errors.ConfigurationError(reason=f'{text} is no number')
    return int(text)


class ChangingFileTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name, 'file')
        self.path.write_text('1')

    def made(self):
        return changing.ChangingFile(str(self.path), number)

    def test_changed_file_read_at_once(self):
        file = self.made()
        self.assertEqual([1, 1], [file.said(), file.said()])
        self.path.write_text('22')
        self.assertEqual(22, file.said())
        # As editors do it: another file in the place of the former one.
        beside = self.path.with_suffix('.new')
        beside.write_text('33')
        os.utime(beside, ns=(self.path.stat().st_atime_ns, self.path.stat().st_mtime_ns))
        os.replace(beside, self.path)
        self.assertEqual(33, file.said())

    def test_unchanged_file_read_once(self):
        read = []
        file = changing.ChangingFile(str(self.path), read.append)
        file.said()
        file.said()
        self.assertEqual(['1'], read)

    def test_invalid_change_logged_once_and_ignored(self):
        file = self.made()
        for breaking in (lambda: self.path.write_text('many'), self.path.unlink,
                         lambda: self.path.write_bytes(b'\xff')):
            breaking()
            with self.assertLogs('blockattach.platform.conf.changing', 'ERROR') as logs:
                self.assertEqual([1, 1], [file.said(), file.said()])
            self.assertEqual(1, len(logs.output))
            self.assertIn(str(self.path), logs.output[0])
        self.path.write_text('2')
        self.assertEqual(2, file.said())

    def test_invalid_file_at_start_rejected(self):
        for text, reason in (('many', 'many is no number'), (None, 'No such file')):
            with self.subTest(text=text):
                self.path.write_text(text) if text else self.path.unlink()
                with self.assertRaisesRegex(errors.ConfigurationError,
                                            f'cannot read {self.path}: {reason}'):
                    self.made()


class MarksTest(unittest.TestCase):

    def test_marks_omit_missing_files(self):
        self.assertEqual((), changing.marks(['/no/such/file']))
        self.assertEqual(1, len(changing.marks([__file__, '/no/such/file'])))
