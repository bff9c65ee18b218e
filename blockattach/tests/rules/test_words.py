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
# And in the code that is installed.
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
# Parts that are written anew: they follow when that is done.
REWRITTEN = ('blockattach/conf/', 'blockattach/flows/', 'blockattach/scheduler/',
             'blockattach/volume/', 'blockattach/db/desired_state.py', 'blockattach/db/leases.py',
             'blockattach/db/volumes.py', 'blockattach/db/volume_')


def pattern(words):
    """The expression that finds any of the words."""
    return re.compile(r'(?<![a-z])(?:{})(?![a-z])'.format('|'.join(
        word.replace('*', '[a-z]*') for word in words)), re.IGNORECASE)


PATTERN = pattern(REFUSED)
PATTERN_IN_CODE = pattern(REFUSED_IN_CODE)
SUFFIXES = ('.py', '.rst', '.txt', '.yaml', '.conf', '.sample', '.service', '.cfg', '.toml')
# Records of what was decided keep the words of their day; here the words themselves stand.
EXCEPT = ('doc/source/contributor/decisions/', 'releasenotes/',
          'blockattach/tests/rules/test_words.py')
ALLOWED = {
    # Printed from the package.
    'doc/source/admin/bus_defaults.txt': ('told',),
    'doc/source/admin/log_fields.txt': ('life',),
    'doc/source/admin/metrics.txt': ('his', 'lets in', 'put right', 'told'),
    'doc/source/admin/reconcile.rst': ('shut out',),
    'doc/source/contributor/failpoints.rst': ('lives',),
    'doc/source/user/api/': ('he', 'told'),
    'doc/source/user/errors.rst': ('his', 'whoever'),
    'doc/source/user/operations.rst': ('he', 'told'),
    'doc/source/user/versions.rst': ('put right',),
    'etc/blockattach/': ('he', 'his', 'let in', 'life', 'told', 'whoever'),
    # Names and texts of the package.
    'blockattach/tests/conformance/test_lio_faults.py': ('let in',),
    'blockattach/tests/db/full.py': ('incarnation',),
    'blockattach/tests/functional/test_manage_target.py': ('lives',),
    'blockattach/tests/functional/test_volume_service.py': ('lives',),
    'blockattach/tests/system/test_canaries.py': ('let in',),
    'blockattach/tests/system/test_crash.py': ('lives',),
    'blockattach/tests/system/test_manage_reconcile.py': ('shut out',),
    'blockattach/tests/unit/drivers/test_tgt_socket.py': ('lives',),
    'blockattach/tests/unit/rpc/': ('life', 'patience'),
    'blockattach/tests/unit/telemetry/test_state_report.py': ('told',),
    'tools/devcloud_services.py': ('patience',),
    'tools/print_rpc.py': ('patience',),
    # Names of their own.
    'blockattach/tests/db/test_leases.py': ('told',),
    'blockattach/tests/faults/': ('life', 'lives', 'patience', 'told'),
    'blockattach/tests/planted/': ('let in', 'told'),
    'blockattach/tests/simulation/': ('let in', 'life', 'lives', 'patience', 'told'),
    'doc/source/contributor/robustness.rst': ('lives', 'patience', 'told'),
    'tools/simulate_run.py': ('lives',),
}


def refused(text):
    """The words of a text that are."""
    return PATTERN.findall(text)


class WordsTest(unittest.TestCase):

    def test_nobody_says_them(self):
        for path, text in sources.texts(*SUFFIXES):
            if not path.startswith(EXCEPT):
                with self.subTest(path):
                    self.assertEqual([], refused(text))

    def test_code_does_not_say_some_more(self):
        for module in sources.product():
            if not module.path.startswith(REWRITTEN):
                with self.subTest(module.path):
                    self.assertEqual([], PATTERN_IN_CODE.findall(module.text))

    def test_each_is_found(self):
        for text in ('entrance', 'Insisting', '_keeper', 'volume.let_in', 'is_mended', 'Menders',
                     'shut_out', 'a sign of life', 'signs of life', '_wishes'):
            with self.subTest(text):
                self.assertEqual(1, len(refused(text)))

    def test_each_is_found_in_code(self):
        for text in ('abandonment', 'birth', 'Foundation', 'the gate', 'so that he', 'Him',
                     'incarnation', 'in_vain', 'lets in', 'lives()', '_overtaken', 'patience=',
                     'put right', 'sharers', 'shut out', 'is told', 'its turn', 'Whoever'):
            with self.subTest(text):
                self.assertEqual(1, len(PATTERN_IN_CODE.findall(text)))

    def test_others_are_not(self):
        for text in ('recommended', 'amend', 'housekeeper', 'wish', 'letting in'):
            with self.subTest(text):
                self.assertEqual([], refused(text))
        for text in ('history', 'the', 'lifecycle', 'deliver', 'olives', 'chimes', 'ticket'):
            with self.subTest(text):
                self.assertEqual(set(), refused_beside('tools/example.py', text))
        self.assertEqual(set(), refused_beside('blockattach/tests/faults/lives.py', 'Told'))
