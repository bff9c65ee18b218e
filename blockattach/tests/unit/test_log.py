"""What a log line looks like."""
import io
import json
import logging
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


class JsonTest(unittest.TestCase):
    """With ``use_json``."""

    def written(self, sentence, *arguments):
        """What two handlers write of one line: as JSON, and as text."""
        logger = logging.Logger('blockattach.x')
        streams = []
        for formatter in (log.JsonFormatter(), logging.Formatter()):
            handler = logging.StreamHandler(io.StringIO())
            handler.setFormatter(formatter)
            logger.addHandler(handler)
            streams.append(handler.stream)
        logger.warning(sentence, *arguments)
        return [stream.getvalue() for stream in streams]

    def test_fields_stand_by_their_names(self):
        line, text = self.written('Volume is created%s', log.fields(
            volume_id='v', size_gb=3, pool=None, seconds=1.5, done=True, cause=OSError('x')))
        self.assertEqual(1, line.count('\n'))
        told = json.loads(line)
        self.assertEqual({'volume_id': 'v', 'size_gb': 3, 'pool': None, 'seconds': 1.5,
                          'done': True, 'cause': 'x'}, told['fields'])
        self.assertEqual(('Volume is created', 'WARNING', 'blockattach.x'),
                         (told['message'], told['levelname'], told['name']))
        self.assertIn('Volume is created volume_id=v size_gb=3', text)

    def test_the_rest_of_the_sentence_stays(self):
        line, _ = self.written('Cannot %s: %s%s', 'attach', 7, log.fields(host='h\nx'))
        told = json.loads(line)
        self.assertEqual(('Cannot attach: 7', {'host': 'h\nx'}),
                         (told['message'], told['fields']))

    def test_lines_of_others(self):
        for sentence, arguments, message in (
                ('x', (), 'x'), ('x %s', ('y',), 'x y'), ('x %(a)s', ({'a': 1},), 'x 1')):
            with self.subTest(sentence=sentence):
                told = json.loads(self.written(sentence, *arguments)[0])
                self.assertEqual((message, {}), (told['message'], told['fields']))
