"""Log sentences are constants, so that they can be searched and counted.

Their fields have names of a table.
"""
import ast
import unittest

from blockattach.platform import log
from blockattach.platform import metrics
from blockattach.storage.db import work_ends
from blockattach.storage.db import work_verbs
from blockattach.tests.rules import sources

STEP = 'blockattach.platform.log.step'
OF_TABLE = 'blockattach/storage/db/work_ends.py'
"""Its sentences are those of the verbs in `work_verbs`."""
METHODS = ('debug', 'info', 'warning', 'error', 'exception', 'critical')


def varying(module):
    """Yield the place of each log call whose first argument is not a constant."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        is_step = module.imported(node.func) == STEP
        if not is_step and (node.func.attr not in METHODS or not is_logger(node.func.value)):
            continue
        sentence = node.args[is_step:]
        first = sentence[0] if sentence else None
        if not isinstance(first, ast.Constant) or not isinstance(first.value, str):
            yield f'{module.at(node)}: the first argument is not a constant sentence'
        elif first.value != first.value.strip() or first.value.endswith('.'):
            yield f'{module.at(node)}: ends with a stop or a blank'


def fields(module):
    """Yield the name and the place of each log field. The name is None if it is not a literal."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and module.imported(node.func) in (
                'blockattach.platform.log.fields', 'blockattach.platform.log.Fields', STEP):
            for keyword in node.keywords:
                yield keyword.arg, module.at(node)


def is_logger(node):
    return (isinstance(node, ast.Name) and node.id in ('LOG', 'log', 'logger')
            or isinstance(node, ast.Attribute) and node.attr in ('_log', 'log', 'logger'))


class LogsTest(unittest.TestCase):

    def test_every_sentence_is_constant(self):
        self.assertEqual([], [found for module in sources.product() if module.path != OF_TABLE
                              for found in varying(module)])

    def test_sentences_of_the_table_of_verbs_are_not_composed(self):
        for verb in work_verbs.VERBS.values():
            for outcome in work_ends.OUTCOMES:
                ending = getattr(verb, outcome)
                if ending is not None:
                    with self.subTest(verb.full_name, outcome=outcome):
                        self.assertRegex(ending.sentence, r'^[A-Z][a-zA-Z ]*[a-z]$')

    def test_varying_sentences_are_found(self):
        for text in ("LOG.info(f'Volume {id} is created')\n", 'LOG.error(error)\n',
                     "LOG.warning('Cannot reach ' + host)\n", 'LOG.exception()\n',
                     "LOG.info('Volume created.')\n",
                     'from blockattach.platform import log\n'
                     'log.step(LOG, sentence, volume_id=id)\n',
                     "from blockattach.platform import log\nlog.step(LOG, 'Volume created.')\n"):
            with self.subTest(text):
                self.assertEqual(1, len(list(varying(sources.parse(text)))))

    def test_a_constant_sentence_with_fields_passes(self):
        for text in ("LOG.info('Volume created%s', log.fields(volume_id=id))\n",
                     "from blockattach.platform import log\n"
                     "log.step(LOG, 'Volume created', volume_id=id)\n"):
            with self.subTest(text):
                self.assertEqual([], list(varying(sources.parse(text))))


class FieldsTest(unittest.TestCase):

    def test_every_field_is_in_the_table(self):
        self.assertEqual([], [f'{place}: {name}' for module in sources.product()
                              for name, place in fields(module) if name not in log.FIELDS])

    def test_every_row_of_the_table_is_used(self):
        used = {name for module in sources.product() for name, _ in fields(module)}
        parts = {row.part for row in metrics.METRICS if row.part is not None}
        self.assertEqual(set(), set(log.FIELDS) - used - parts)

    def test_every_part_of_a_request_is_in_the_table(self):
        self.assertEqual(set(), {row.part for row in metrics.METRICS
                                 if row.part is not None} - set(log.FIELDS))

    def test_fields_are_found_by_either_import(self):
        for text in ('from blockattach.platform import log\nlog.fields(volume_id=1, b=2)\n',
                     'from blockattach.platform.log import fields\nfields(volume_id=1, b=2)\n',
                     'from blockattach.platform import log\n'
                     "log.step(LOG, 'A b', volume_id=1, b=2)\n"):
            with self.subTest(text):
                self.assertEqual(['volume_id', 'b'],
                                 [name for name, _ in fields(sources.parse(text))])

    def test_names_that_are_not_literal_are_found(self):
        module = sources.parse('from blockattach.platform import log\nlog.fields(**more)\n')
        self.assertEqual([None], [name for name, _ in fields(module)])
