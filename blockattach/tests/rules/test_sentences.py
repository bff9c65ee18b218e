"""Counts of sentences and names that the language guide of `CONTRIBUTING.rst` replaces.

Each count may only fall. The counts find candidates. A reader decides whether a sentence is good.
"""
import ast
import re
import unittest

from blockattach.storage.db import work_ends
from blockattach.storage.db import work_verbs
from blockattach.tests.rules import sources
from blockattach.tests.rules import test_logs

COUNTS = {'docstrings': 0, 'logs': 0, 'names': 0, 'tests': 1}
"""Findings of each rule below. A commit that lowers a count lowers the number here."""

OPENINGS = re.compile(r'(?:What|Whether|How|Let|One|Those|It|Which)\b')
TEST_NAMES = re.compile(r'test_(?:it|what|one)_')
NAMES = frozenset(('found', 'made', 'asked', 'wanted', 'known', 'one', 'doing', 'left'))
"""Names of parameters that say nothing about the value."""

_FORMS = re.compile(r'(?:Failed to|Cannot|Skipping|Retrying|Ignoring|Lost|[A-Z][a-z]+ing)\b')
_VERBS = re.compile(r'\b(?:is|are|was|were|has|have|had|does|do|did|can|may|will|it|its|itself|'
                    r'what|which|who|one|this|that|goes|stays|ends|begins|gets|takes)\b',
                    re.IGNORECASE)
_PARTICIPLES = re.compile(
    r'\b(?:[a-z]+ed|begun|cut|found|held|known|left|lost|made|run|sent|set|shed|shown|shut|split|'
    r'stuck|taken|thrown|written)\b')


def docstrings(module):
    """Yield the place of each docstring that starts with a question word or a pronoun."""
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text and OPENINGS.match(text):
                yield f'{module.at(node)}: {text.splitlines()[0]}'


def logs(module):
    """Yield the place of each log sentence that has none of the guide's forms."""
    for node in ast.walk(module.tree):
        sentence = _sentence(module, node) if isinstance(node, ast.Call) else None
        if sentence is not None and not follows_form(sentence):
            yield f'{module.at(node)}: {sentence}'


def of_verbs():
    """Yield the log sentences of the table of verbs that have none of the guide's forms."""
    for verb in work_verbs.VERBS.values():
        for outcome in work_ends.OUTCOMES:
            ending = getattr(verb, outcome)
            if ending is not None and not follows_form(ending.sentence):
                yield f'{verb.full_name} {outcome}: {ending.sentence}'


def follows_form(sentence):
    """Return True for 'Extending volume', 'Volume extended', 'Failed to …', and 'Cannot …'."""
    text = sentence.removesuffix('%s').split('; ')[0].split(', ')[0]
    if _VERBS.search(text):
        return False
    return bool(_FORMS.match(text) or _PARTICIPLES.search(text))


def names(module):
    """Yield the place of each parameter whose name the guide refuses."""
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if argument.arg in NAMES:
                    yield f'{module.at(argument)}: {argument.arg}'


def tests(module):
    """Yield the place of each test that does not name its subject."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef) and TEST_NAMES.match(node.name):
            yield f'{module.at(node)}: {node.name}'


def findings():
    """Return the findings of each rule, by the names in `COUNTS`."""
    product = list(sources.product())
    return {
        'docstrings': [found for module in product for found in docstrings(module)],
        'logs': [*(found for module in product for found in logs(module)), *of_verbs()],
        'names': [found for module in product for found in names(module)],
        'tests': [found for module in sources.modules('blockattach/tests/', 'lab/')
                  for found in tests(module)]}


def _sentence(module, node):
    """Return the constant sentence of a call that logs, or None for other calls."""
    is_step = module.imported(node.func) == test_logs.STEP
    if not is_step and not (isinstance(node.func, ast.Attribute)
                            and node.func.attr in test_logs.METHODS
                            and test_logs.is_logger(node.func.value)):
        return None
    place = 1 if is_step else 0
    first = node.args[place] if len(node.args) > place else None
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    return None


class SentencesTest(unittest.TestCase):

    def test_counts_fall_only(self):
        found = findings()
        self.assertEqual(COUNTS, {name: len(its) for name, its in found.items()}, '\n'.join(
            line for its in found.values() for line in its))

    def test_docstring_of_refused_form_found(self):
        for text in ('What a host has.', 'Whether the volume is there.', 'It is answered.'):
            with self.subTest(text):
                self.assertEqual(1, len(list(docstrings(sources.parse(
                    f'def extend():\n    """{text}"""\n')))))
        for text in ('Return the host.', 'Onerous work.', 'Iterate over volumes.'):
            with self.subTest(text):
                self.assertEqual([], list(docstrings(sources.parse(
                    f'def extend():\n    """{text}"""\n'))))

    def test_log_of_refused_form_found(self):
        for text in ('Volume has gone on by itself%s', 'Act is done', 'Volume stays what it is'):
            with self.subTest(text):
                self.assertEqual(1, len(list(logs(sources.parse(f'LOG.info({text!r})\n')))))
        for text in ('Volume extended%s', 'Extending volume', 'Failed to extend volume',
                     'Cannot reach the broker; retrying', 'Lost the claim to another process'):
            with self.subTest(text):
                self.assertEqual([], list(logs(sources.parse(f'LOG.info({text!r})\n'))))

    def test_refused_names_found(self):
        self.assertEqual(2, len(list(names(sources.parse('def a(found, *, left, host): pass\n')))))
        self.assertEqual(1, len(list(tests(sources.parse('def test_it_waits(): pass\n')))))
