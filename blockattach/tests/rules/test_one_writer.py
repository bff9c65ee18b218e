"""Writers of attachment states: one module, whose callers notify each move."""
import ast
import unittest

from blockattach.tests.rules import sources

# Module that computes the values.
WRITER = 'blockattach/storage/db/attachments/attachment_values.py'
COLUMNS = ('state', 'previous_state', 'slot', 'rank')
# Migrations create and fill columns while no other process runs. The repair of an operator writes
# values that follow from the state, and never the state. The consumer has its own tables.
EXCEPTED = (WRITER, 'blockattach/storage/db/schema/migrations/',
            'blockattach/storage/db/derived.py', 'blockattach/compute/store/')

VERBS = tuple(f'blockattach.storage.db.attachments.attachments.{verb}'
              for verb in ('move', 'reserve'))
# Modules that make moves and notify them. Tests create rows in the middle of a lifecycle.
TELLERS = ('blockattach/storage/control/backend_calls.py',
           'blockattach/storage/volume/converge.py', 'blockattach/tests/fixtures/make.py')


def writes(module):
    """Yield each place where a module writes a column of the lifecycle.

    In `blockattach.storage.db` a key of a dict counts too, because rows are written from dicts.
    """
    in_db = module.path.startswith('blockattach/storage/db/')
    for node in ast.walk(module.tree):
        names = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == 'values':
                names = [keyword.arg for keyword in node.keywords]
        elif isinstance(node, ast.Dict) and in_db:
            names = [key.value for key in node.keys if isinstance(key, ast.Constant)]
        elif isinstance(node, ast.Assign) and in_db:
            names = [target.slice.value for target in node.targets
                     if isinstance(target, ast.Subscript)
                     and isinstance(target.slice, ast.Constant)]
        for name in names:
            if name in COLUMNS:
                yield f'{module.at(node)}: writes {name}'


def moves(module):
    """Yield each place where a module uses a verb that moves an attachment."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and module.imported(node) in VERBS:
            yield f'{module.at(node)}: {node.attr}'


class OneWriterTest(unittest.TestCase):

    def test_only_mover_writes_attachment_state(self):
        self.assertEqual([], [found for module in sources.product()
                              if not module.path.startswith(EXCEPTED)
                              for found in writes(module)])

    def test_writes_of_mover_found(self):
        [writer] = sources.modules(WRITER)
        self.assertNotEqual([], list(writes(writer)))

    def test_each_form_of_write_found(self):
        for text in ("rows.update().values(state='x')\n", "values = {'state': 'x'}\n",
                     "values['state'] = 'x'\n"):
            with self.subTest(text):
                module = sources.parse(text, 'blockattach/storage/db/example.py')
                self.assertEqual(1, len(list(writes(module))))


class EveryMoveIsNotifiedTest(unittest.TestCase):

    def test_only_notifying_modules_move_attachments(self):
        self.assertEqual([], [found for module in sources.product()
                              if not module.path.startswith(TELLERS) for found in moves(module)])

    def test_moves_of_notifying_modules_found(self):
        for teller in TELLERS:
            [module] = sources.modules(teller)
            self.assertNotEqual([], list(moves(module)), teller)

    def test_each_form_of_move_found(self):
        for text in ('from blockattach.storage.db.attachments import attachments\n'
                     'attachments.move()\n',
                     'from blockattach.storage.db.attachments import attachments as a\n'
                     'act = a.reserve\n',
                     'import blockattach.storage.db.attachments.attachments\n'
                     'blockattach.storage.db.attachments.attachments.move()\n'):
            with self.subTest(text):
                self.assertEqual(1, len(list(moves(sources.parse(text)))))
