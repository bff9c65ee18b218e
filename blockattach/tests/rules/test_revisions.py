"""Revisions that take nothing from an older release, which may use the same database.

A revision that expands only adds, and a release that does not know the addition may omit it.
Whatever removes or forbids is a revision that contracts. It runs when no process of the older
release is left.
"""
import ast
import pathlib
import unittest

from blockattach.compute.store import models
from blockattach.storage.db import schema
from blockattach.tests.fixtures import next_release
from blockattach.tests.rules import sources

FOLDER = 'blockattach/storage/db/schema/migrations'
OF_SERVERS = 'blockattach/compute/store/migrations'
EXPANDS, CONTRACTS, SERVERS_EXPANDS, SERVERS_CONTRACTS = (
    f'{folder}/{phase.folder}/' for folder in (FOLDER, OF_SERVERS)
    for phase in (schema.EXPAND, schema.CONTRACT))

ADDS = {'add_column', 'create_table', 'create_index', 'execute', 'f', 'get_bind'}
TAKES_AWAY = {'alter_column', 'batch_alter_table', 'create_check_constraint',
              'create_foreign_key', 'create_unique_constraint', 'drop_column', 'drop_constraint',
              'drop_index', 'drop_table', 'execute', 'f', 'get_bind'}
# Creates the tables, before any process can write to them.
FIRST = f'{EXPANDS}1000_first_release.py'


def breaks_the_older(module):
    """Yield the operations of an expanding revision that break the previous release."""
    for call in _calls(module):
        name = module.dotted(call.func).rpartition('.')[2]
        if _of_alembic(module, call) and name not in ADDS:
            yield f'{module.at(call)}: {name}'
        if name == 'add_column' and (
                not _may_be_left_out(call.args[1]) or _is_unique(call.args[1])):
            yield f'{module.at(call)}: a column that must be filled'
        if name == 'create_index' and _said(call, 'unique'):
            yield f'{module.at(call)}: refuses rows that were fine'
        if name in ('execute', 'get_bind', 'sql') and module.path != FIRST:
            yield f'{module.at(call)}: rows are for the online migrations'


def adds(module):
    """Yield the operations of a contracting revision that belong into an expanding one."""
    for call in _calls(module):
        name = module.dotted(call.func).rpartition('.')[2]
        if _of_alembic(module, call) and name not in TAKES_AWAY:
            yield f'{module.at(call)}: {name}'


def _calls(module):
    return (node for node in ast.walk(module.tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))


def _of_alembic(module, call):
    return module.dotted(call.func).startswith('alembic.op.')


def _may_be_left_out(column):
    """Return True if an insert may omit the column."""
    return isinstance(column, ast.Call) and (
        _said(column, 'server_default') or not _is(column, 'nullable', False))


def _is_unique(column):
    return isinstance(column, ast.Call) and _is(column, 'unique', True)


def _said(call, name):
    return any(keyword.arg == name for keyword in call.keywords)


def _is(call, name, value):
    return any(keyword.arg == name and getattr(keyword.value, 'value', None) is value
               for keyword in call.keywords)


def revision(body, folder=EXPANDS):
    """Return a revision with these statements."""
    return sources.parse(f'import sqlalchemy as sa\nfrom alembic import op\n{body}\n',
                         f'{folder}0999_example.py')


class RevisionsTest(unittest.TestCase):

    def test_expand_revisions_only_add(self):
        self.assertEqual([], [found for module in sources.modules(EXPANDS, SERVERS_EXPANDS)
                              for found in breaks_the_older(module)])

    def test_contract_revisions_add_nothing(self):
        self.assertEqual([], [found for module in sources.modules(CONTRACTS, SERVERS_CONTRACTS)
                              for found in adds(module)])

    def test_revisions_follow_rules(self):
        for folder, rule in ((EXPANDS, breaks_the_older), (CONTRACTS, adds)):
            [(path, text)] = ((path, text) for path, text in next_release.FILES.items()
                              if f'blockattach/{path}'.startswith(folder))
            self.assertEqual([], list(rule(sources.parse(text, f'blockattach/{path}'))))

    def test_revision_files_found(self):
        found = {module.path for module in sources.modules(EXPANDS, SERVERS_EXPANDS)}
        self.assertLessEqual({FIRST, f'{SERVERS_EXPANDS}1000_first_release.py'}, found)

    def test_revisions_belong_to_branch_of_folder(self):
        for migrations, phase, folder in (
                (schema.MIGRATIONS, schema.EXPAND, EXPANDS),
                (schema.MIGRATIONS, schema.CONTRACT, CONTRACTS),
                (models.MIGRATIONS, schema.EXPAND, SERVERS_EXPANDS),
                (models.MIGRATIONS, schema.CONTRACT, SERVERS_CONTRACTS)):
            mine = {pathlib.Path(module.path).name for module in sources.modules(folder)}
            walked = {pathlib.Path(step.path).name
                      for step in migrations.scripts().walk_revisions()
                      if phase.name in step.branch_labels}
            self.assertEqual(mine - {'__init__.py'}, walked)

    def test_expected_heads_known_without_alembic(self):
        for migrations in (schema.MIGRATIONS, models.MIGRATIONS):
            self.assertEqual(set(filter(None, migrations.expected())),
                             set(migrations.scripts().get_heads()))

    def test_breaking_expand_revision_found(self):
        for body in ("op.drop_column('volumes', 'name')", "op.drop_table('volumes')",
                     "op.rename_table('volumes', 'disks')", "op.drop_index('ix')",
                     "op.alter_column('volumes', 'name', nullable=False)",
                     "op.alter_column('volumes', 'name', new_column_name='title')",
                     "op.create_unique_constraint('uq', 'volumes', ['name'])",
                     "op.create_foreign_key('fk', 'volumes', 'pools', ['pool'], ['name'])",
                     "op.create_index('ix', 'volumes', ['name'], unique=True)",
                     "op.add_column('volumes', sa.Column('x', sa.Integer, nullable=False))",
                     "op.add_column('volumes', sa.Column('x', sa.Integer, unique=True))",
                     "op.execute('DELETE FROM volumes')",
                     "op.get_bind().exec_driver_sql('DELETE FROM volumes')"):
            with self.subTest(body):
                self.assertEqual(1, len(list(breaks_the_older(revision(body)))))

    def test_adding_expand_revision_passes(self):
        for body in ("op.add_column('volumes', sa.Column('x', sa.Integer))",
                     "op.add_column('volumes', sa.Column('x', sa.Integer, nullable=False, "
                     "server_default='0'))",
                     "op.create_table('x', sa.Column('id', sa.Integer, nullable=False))",
                     "op.create_index('ix', 'volumes', ['name'])"):
            with self.subTest(body):
                self.assertEqual([], list(breaks_the_older(revision(body))))

    def test_adding_contract_revision_found(self):
        for body in ("op.create_table('x')", "op.add_column('x', sa.Column('y', sa.Integer))",
                     "op.create_index('ix', 'x', ['y'])"):
            with self.subTest(body):
                self.assertEqual(1, len(list(adds(revision(body, CONTRACTS)))))
