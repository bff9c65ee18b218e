"""Words that doc/source/contributor/glossary.rst has replaced stay away."""
import re
import unittest

from blockattach.tests.rules import sources

# A word, or the beginning of words if it ends with an asterisk, and what is said instead.
REFUSED = {
    'entrance': 'authentication',
    'insisting': 'resending',
    'keeper': 'manager',
    'let_in': 'connect, grant',
    'mend*': 'repair',
    'shut_out': 'disconnect, revoke',
    'signs? of life': 'heartbeat',
    'wishes': 'desired state',
}
PATTERN = re.compile(r'(?<![a-z])(?:{})(?![a-z])'.format('|'.join(
    word.replace('*', '[a-z]*') for word in REFUSED)), re.IGNORECASE)
SUFFIXES = ('.py', '.rst', '.txt', '.yaml', '.conf', '.sample', '.service', '.cfg', '.toml')
# Records of what was decided keep the words of their day; here the words themselves stand.
EXCEPT = ('doc/source/contributor/decisions/', 'releasenotes/',
          'blockattach/tests/rules/test_words.py')


def refused(text):
    """The words of a text that are."""
    return PATTERN.findall(text)


class WordsTest(unittest.TestCase):

    def test_nobody_says_them(self):
        for path, text in sources.texts(*SUFFIXES):
            if not path.startswith(EXCEPT):
                with self.subTest(path):
                    self.assertEqual([], refused(text))

    def test_each_is_found(self):
        for text in ('entrance', 'Insisting', '_keeper', 'volume.let_in', 'is_mended', 'Menders',
                     'shut_out', 'a sign of life', 'signs of life', '_wishes'):
            with self.subTest(text):
                self.assertEqual(1, len(refused(text)))

    def test_others_are_not(self):
        for text in ('recommended', 'amend', 'housekeeper', 'wish', 'letting in'):
            with self.subTest(text):
                self.assertEqual([], refused(text))
