"""Verbs that lock a volume or a snapshot for a request compare the project it was judged by."""
import ast
import unittest

from blockattach.storage.policy import rules
from blockattach.tests.rules import sources

JUDGED = ('volume_rows.lock_judged', 'snapshot_rows.lock_judged')
UNJUDGED = ('volume_rows.lock', 'snapshot_rows.lock')
# Verbs of the service itself under a work claim, and repairs by operators.
OWN = {'snapshots.deleted_with', 'derived.volume_status'}
# These verbs compare the project of the snapshot in place of that of the volume.
SNAPSHOTS = {name for name, compared in rules.JUDGED_VERBS.items() if compared == rules.SNAPSHOT}
# `attachments` compares the project of its own row, also in the guarded update.
APART = {'attachments.reserve', 'attachments.move'}


def verbs(module):
    """Return the functions below a verb in the call graph, by the name of the verb."""
    functions = {node.name: node for node in module.tree.body
                 if isinstance(node, ast.FunctionDef)}
    calls = {name: {called for one in ast.walk(node)
                    for called in _called(module, one)} for name, node in functions.items()}
    for name, node in functions.items():
        if any(module.dotted(one).endswith('storage_db.retried') for one in node.decorator_list):
            found, more = set(), {name}
            while more:
                found |= more
                more = {one for called in more for one in calls.get(called, ())} - found
            yield f'{module.path.rpartition("/")[2].removesuffix(".py")}.{name}', found


def _called(module, node):
    """Return the names in use: ``module.function``, or a function of the same module."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        yield f'{node.value.id}.{node.attr}'
    elif isinstance(node, ast.Name):
        yield node.id


class JudgedTest(unittest.TestCase):

    def found(self, functions):
        return {verb for module in sources.product()
                if module.path.startswith('blockattach/storage/db/')
                for verb, called in verbs(module) if called & set(functions)}

    def test_each_verb_that_compares_the_project_is_in_the_table(self):
        self.assertEqual(set(rules.JUDGED_VERBS) - APART - {'volumes.create'}, self.found(JUDGED))

    def test_unjudged_verbs_lock_nothing_named_by_request(self):
        self.assertEqual(set(), self.found(UNJUDGED) - OWN - SNAPSHOTS - APART)

    def test_a_verb_without_comparison_is_found(self):
        module = sources.parse(
            'from blockattach.storage.db import storage_db\n'
            'from blockattach.storage.db.volumes import volume_rows\n'
            '@storage_db.retried\ndef change(database, volume_id):\n'
            '    volume_rows.lock(database, volume_id)\n', 'blockattach/storage/db/example.py')
        self.assertEqual([('example.change', True)], [
            (verb, 'volume_rows.lock' in called) for verb, called in verbs(module)])
