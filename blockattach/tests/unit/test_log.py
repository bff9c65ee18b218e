"""What a log line looks like."""
import unittest

from blockattach import log


class FieldsTest(unittest.TestCase):

    def test_identifiers_stand_behind_the_sentence(self):
        self.assertEqual(' volume_id=v host=h@b', str(log.fields(volume_id='v', host='h@b')))

    def test_they_are_rendered_when_the_line_is_written(self):
        class Value:
            def __str__(self):
                raise AssertionError

        log.fields(value=Value())

    def test_text_from_outside_makes_no_second_line(self):
        for text in ('h\n2026 ERROR all is lost', 'a\rb', 'a\x1b[2Jb', 'a\u2028b', 'a\x85b'):
            with self.subTest(text=text):
                line = str(log.fields(host=text))
                self.assertTrue(line.isprintable(), line)
                self.assertEqual(f' host={text!r}', line)
