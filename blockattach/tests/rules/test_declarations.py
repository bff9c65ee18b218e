"""Modules have no effect at import: they declare, and the wiring builds objects.

A call at module level runs in every process that imports the module, in any order, before there is
a configuration, a log or a fork. Calls that are declarations are listed here, with the reason why
they are.
"""
import ast
import re
import unittest

from blockattach.tests.rules import sources

DECLARATIONS = (
    (r'(frozenset|tuple|dict(\.fromkeys)?|list|set|sorted|range|zip|len|min|max|str|int|float|chr|ord|property)',
     'literals without a syntax of their own'),
    (r'types\.MappingProxyType|datetime\.(timedelta|datetime)|pathlib\.(Pure\w*)?Path|re\.compile'
     r'|decimal\.Decimal|fractions\.Fraction|struct\.Struct|string\.Template|operator\.\w+',
     'compiled constants: values without any effect'),
    (r'typing\.\w+|collections\.namedtuple|enum\.\w+|dataclasses\.\w+|contextvars\.ContextVar',
     'declarations of types'),
    (r'oslo_log\.log\.getLogger|logging\.getLogger', 'a logger name, which is configured later'),
    (r'oslo_config\.(cfg|types)\.\w+|blockattach\.platform\.conf\.settings\.(option|options|part)',
     'an option: a description, registered later'),
    (r'(oslo_policy\.policy|blockattach\.platform\.policy\.base)\.\w+',
     'a rule: a description, registered later'),
    (r'oslo_versionedobjects\.fields\.\w+|blockattach\.platform\.rpc\.serializing\.\w+Field',
     'say what an object carries'),
    (r'sqlalchemy\..+', 'tables and queries as expressions, without sending them'),
    (r'blockattach\.platform\.db\.statements\.(Statement|value)',
     'a query that is compiled when it is first sent'),
    (r'blockattach\.platform\.db\.migrations\.(Migrations|Phase)',
     'the location of the revisions of a database'),
    (r'blockattach\.storage\.db\.models\.live', 'a condition as an expression'),
    (r'blockattach\.platform\.rpc\.contract\.\w+',
     'a method of an interface with its version'),
    (r'blockattach\.platform\.http\.(schema|operation)\.\w+|blockattach\.storage\.api\.answers\.\w+'
     r'|blockattach\.storage\.api\.metadata\.Noun',
     'schemas and rows of the API'),
    (r'functools\.partial', 'a function with some of its arguments'),
    (r'fastjsonschema\.compile', 'a compiled constant'),
)

# Methods of declarations, and of literals and constants of the module.
METHODS = re.compile(r'(items|keys|values|union|get|join|format|split|encode|lower|upper|label|'
                     r'with_variant|is_not|joinpath|resolve|operations)')

MIGRATIONS = 'blockattach/storage/db/schema/migrations'
OF_SERVERS = 'blockattach/compute/store/migrations'
# (module, call): reason
EXCEPTED = {
    ('blockattach/__init__.py', 'sys.modules.setdefault'):
        'keeps eventlet out, which must be done before any module of oslo is imported',
    ('blockattach/__init__.py', 'oslo_service.backend.register_backend_default_hook'):
        'native threads must be chosen before any module of oslo.service is imported',
    ('blockattach/storage/api/resources/volumes/views.py', '_list'):
        'small functions build the schemas',
    ('blockattach/storage/api/resources/volumes/views.py', '_by_version'): 'the same',
    ('blockattach/storage/api/resources/snapshots/views.py', '_by_version'): 'the same',
    ('blockattach/storage/api/resources/quotas.py', '_set'): 'the same',
    ('blockattach/storage/api/resources/quotas.py', '_with_attachments'): 'the same',
    ('blockattach/storage/api/resources/not_offered.py', '_rows'):
        'rows that several resources have in common',
    ('blockattach/compute/store/models.py', '_id'): 'columns that several tables have',
    ('blockattach/storage/db/models.py', 'uuid_column'): 'the same',
    ('blockattach/storage/db/models.py', 'timestamps'): 'the same',
    ('blockattach/storage/db/models.py', 'soft_deletion'): 'the same',
    ('blockattach/storage/db/models.py', '_table'):
        'tables, with the options that all of them have',
    (f'{MIGRATIONS}/versions/1000_first_release.py', '_timestamps'):
        'columns that several tables have',
    (f'{MIGRATIONS}/versions/1000_first_release.py', '_soft_deletion'): 'the same',
    ('blockattach/platform/db/alembic/env.py', '_run'):
        'alembic runs this file, and no module imports it',
    ('blockattach/storage/privileged/context.py', 'Context'):
        'a privsep context marks functions, and its daemon starts later',
    ('blockattach/platform/rpc/inproc.py', 'Registry'):
        'oslo.messaging creates the drivers, so they can share state only in a module',
    ('blockattach/platform/rpc/http/sites.py', 'Registry'): 'the same',
    ('blockattach/wsgi.py', 'importlib.import_module'):
        'uWSGI accepts the registration of a post-fork function only at import',
    ('blockattach/storage/domain/volume_type.py', '_numbers'):
        'builds a comparison of numbers from a standard operator',
    ('blockattach/storage/domain/expressions.py', '_of_numbers'): 'the same',
    ('blockattach/wsgi.py', 'threading.Lock'):
        'WSGI servers call a function of the module from many threads, without arguments',
}

ALLOWED = re.compile('|'.join(f'(?:{pattern})' for pattern, _ in DECLARATIONS))


def calls(module):
    """Yield the calls that run at the import of a module, without declarations."""
    constants = _constants(module.tree)
    for call in _at_import(module.tree.body):
        name = module.dotted(call.func) or ast.unparse(call.func)
        if _is_declaration(module, call, constants) or (module.path, name) in EXCEPTED:
            continue
        yield f'{module.at(call)}: {name}'


def _at_import(statements):
    """Yield the calls that run with these statements, not those inside functions and lambdas.

    Decorators are not included, because they belong to the declaration below them.
    """
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = statement.args
            yield from _inside([*arguments.defaults, *filter(None, arguments.kw_defaults)])
        elif isinstance(statement, ast.ClassDef):
            yield from _inside(statement.bases)
            yield from _at_import(statement.body)
        elif isinstance(statement, ast.If) and ast.unparse(statement.test) in (
                "__name__ == '__main__'", 'TYPE_CHECKING', 'typing.TYPE_CHECKING'):
            continue
        elif isinstance(statement, ast.If | ast.Try | ast.With | ast.For | ast.While):
            yield from _at_import([*statement.body, *getattr(statement, 'orelse', ())])
        else:
            yield from _inside([statement])


def _inside(nodes):
    for node in nodes:
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            yield node
        yield from _inside(ast.iter_child_nodes(node))


def _is_declaration(module, call, constants):
    name = module.dotted(call.func)
    if name and ALLOWED.fullmatch(name):
        return True
    if isinstance(call.func, ast.Name):
        return name in constants or _is_plain_data(name) or _is_partial(module, call.func.id)
    if isinstance(call.func, ast.Attribute):
        owner = call.func.value
        if isinstance(owner, ast.Call):
            return _is_declaration(module, owner, constants)
        if METHODS.fullmatch(call.func.attr):
            return True
        return _is_plain_data(name)
    return False


def _is_partial(module, name):
    """Return True if the module assigns a functools.partial of a declaration to the name."""
    return any(
        isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
        and isinstance(node.value, ast.Call) and node.value.args
        and module.dotted(node.value.func) == 'functools.partial'
        and ALLOWED.fullmatch(module.dotted(node.value.args[0]) or '')
        for node in module.tree.body)


def _is_plain_data(name):
    """Return True for a class of the project that only holds values."""
    module, _, last = name.rpartition('.')
    path = f'{module.replace(".", "/")}.py'
    return any(last in _constants(found.tree) for found in sources.modules(path)) if module else \
        False


def _constants(tree):
    """Return the classes of a module that only hold values, whose construction has no effect."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            words = [ast.unparse(part) for part in (*node.bases, *node.decorator_list)]
            if any(re.search(r'NamedTuple|Enum|dataclass', word) for word in words):
                found.add(node.name)
    return found


class DeclarationsTest(unittest.TestCase):

    def test_importing_a_module_does_nothing(self):
        self.assertEqual([], [found for module in sources.product() for found in calls(module)])

    def test_calls_at_import_found(self):
        for text in ('import threading\nLOCK = threading.Lock()\n',
                     'engine = make_engine()\n',
                     'from blockattach.platform.db import engine\nDATABASE = engine.Database()\n',
                     'class A:\n    cache = load()\n',
                     'def f(now=read_clock()):\n    pass\n',
                     'if FAST:\n    warm_up()\n',
                     'import functools\nact = functools.partial(open, "w")\nact("file")\n',
                     'from oslo_config import cfg\ncfg.CONF.register_opts([])\n'):
            with self.subTest(text):
                self.assertEqual(1, len(list(calls(sources.parse(text)))))

    def test_declarations_pass(self):
        for text in ('from oslo_log import log\nLOG = log.getLogger(__name__)\n',
                     'import sqlalchemy as sa\nID = sa.String(36).with_variant(sa.Text(), "x")\n',
                     'from typing import NamedTuple\nclass A(NamedTuple):\n    b: int\nC = A(1)\n',
                     'from blockattach.storage.domain import connection\n'
                     'X = connection.Credential("a")\n',
                     'import functools\nfrom typing import NewType\n'
                     'new = functools.partial(NewType, "A")\nA = new(str)\n',
                     'def f():\n    return act()\n', 'f = lambda: act()\n'):
            with self.subTest(text):
                self.assertEqual([], list(calls(sources.parse(text))))

    def test_every_exception_is_still_needed(self):
        self.assertEqual([], [(path, name) for path, name in EXCEPTED
                              if not _calls_at_import(path, name)])


def _calls_at_import(path, name):
    return any(module.dotted(call.func) == name for module in sources.modules(path)
               for call in _at_import(module.tree.body))
