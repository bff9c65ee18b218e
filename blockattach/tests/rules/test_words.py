"""Words that doc/source/contributor/glossary.rst has replaced, which must not return."""
import re
import unittest

from blockattach.tests.rules import sources

# Refused words, or beginnings of words with an asterisk, and their replacements.
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
# Words that are also refused in documents, tools and tests.
REFUSED_BESIDE = {
    'he': 'the process, the host, the caller',
    'him': 'the process, the host, the caller',
    'himself': 'itself',
    'his': 'its, that of the caller',
    'incarnations?': 'process instance',
    'insist*': 'retry, resend',
    r'left\s+behind': 'orphaned',
    r'lets?\s+in': 'grant, connect',
    'life': 'process instance, lifecycle',
    'lives': 'process instances, is up',
    'patience': 'timeout',
    r'puts?\s+right': 'repair',
    r'shuts?\s+out': 'revoke, disconnect',
    'told': 'notified, reported, answered, given',
    'visit*': 'one-shot reconcile',
    'who(?:m)?ever': 'the caller, the process',
}
BESIDE = ('CONTRIBUTING.rst', 'HACKING.rst', 'README.rst', 'blockattach/tests/',
          'blockattachclient/', 'doc/source/', 'etc/', 'lab/', 'tools/')
# Words that are also refused in the installed code.
REFUSED_IN_CODE = {
    'abandonment': 'expiry',
    'birth': 'insert_values',
    'foundation': 'dependencies',
    'gate': 'admission control',
    'himself|him|his|he': 'it, the caller',
    'incarnation': 'process instance',
    'in[_ ]vain': 'expired, shed',
    'lets? in': 'grant, connect',
    'lives': 'is running, is up, exists',
    'overtaken': 'conflict',
    'patience': 'timeout',
    'put right': 'repair, converge',
    'sharers?': 'attachments of the pair',
    'shut out': 'disconnect, revoke',
    'told': 'notified, reported, given, answered',
    'turn': 'lease, lock, slot',
    'whoever': 'the caller, the process',
}

SUFFIXES = ('.py', '.rst', '.txt', '.yaml', '.conf', '.sample', '.service', '.cfg', '.toml')
# Records of decisions keep the words of their time, and this file names the words.
EXCEPT = ('doc/source/contributor/decisions/', 'releasenotes/',
          'blockattach/tests/rules/test_words.py')


def refused(text, words=REFUSED):
    """Return the refused words in a text, also within names."""
    found = '|'.join(word.replace('*', '[a-z]*') for word in words)
    return re.findall(f'(?<![a-z])(?:{found})(?![a-z])', text, re.IGNORECASE)


def refused_beside(text):
    """Return the words in a text that documents, tools and tests must not use."""
    return {re.sub(r'\s+', ' ', word).lower() for word in refused(text, REFUSED_BESIDE)}


class WordsTest(unittest.TestCase):

    def test_refused_words_absent(self):
        for path, text in sources.texts(*SUFFIXES):
            if not path.startswith(EXCEPT):
                with self.subTest(path):
                    self.assertEqual([], refused(text))

    def test_refused_words_absent_beside_product(self):
        for path, text in sources.texts(*SUFFIXES):
            if path.startswith(BESIDE) and not path.startswith(EXCEPT):
                with self.subTest(path):
                    self.assertEqual(set(), refused_beside(text))

    def test_refused_words_absent_from_code(self):
        for module in (*sources.product(), *sources.modules('blockattachclient/')):
            with self.subTest(module.path):
                self.assertEqual([], refused(module.text, REFUSED_IN_CODE))

    def test_refused_words_found(self):
        for text in ('entrance', 'Insisting', '_keeper', 'volume.let_in', 'is_mended', 'Menders',
                     'shut_out', 'a sign of life', 'signs of life', '_wishes'):
            with self.subTest(text):
                self.assertEqual(1, len(refused(text)))
        for text in ('He waits', 'Whoever is late', 'test_it_is_told_once', 'puts right',
                     'his_own', 'Life', 'insists', 'lets\nin'):
            with self.subTest(text):
                self.assertEqual(1, len(refused_beside(text)))

    def test_refused_words_found_in_code(self):
        for text in ('abandonment', 'birth', 'Foundation', 'the gate', 'so that he', 'Him',
                     'incarnation', 'in_vain', 'lets in', 'lives()', '_overtaken', 'patience=',
                     'put right', 'sharers', 'shut out', 'is told', 'its turn', 'Whoever'):
            with self.subTest(text):
                self.assertEqual(1, len(refused(text, REFUSED_IN_CODE)))

    def test_similar_words_pass(self):
        for text in ('recommended', 'amend', 'housekeeper', 'wish', 'letting in'):
            with self.subTest(text):
                self.assertEqual([], refused(text))
        for text in ('history', 'the', 'lifecycle', 'deliver', 'olives', 'chimes', 'ticket'):
            with self.subTest(text):
                self.assertEqual(set(), refused_beside(text))
