"""No clock that runs decides what a test of the gate finds: the machine may stand still meanwhile.

What is a matter of time is played on a clock that the test moves, or in the simulation. What has
to be waited for is waited for without a measure: a limit is there to end what would never end, so
an hour or more. What needs real time is no part of the gate (`lab.system`).
"""
import ast
import functools
import re
import unittest

from blockattach.tests.rules import sources

HOUR = 3600
TESTS = 'blockattach/tests/'
ELSEWHERE = tuple(f'{TESTS}{place}' for place in ('simulation/', 'smoke/'))
"""On a virtual clock, or by `polling` alone and of ends alone."""
REAL = re.compile(f'{TESTS}conformance/(test_|)(file|lio|lvm|tgt)')
"""Kits on real targets: what a program outside does not answer in time is an error there."""
MOVED = ('blockattach.tests.fixtures.clock', 'lab.simulation',
         'blockattach.tests.functional.instances')
"""What a module imports whose product times are on a clock that the test moves."""
OPTION = re.compile(r'_(timeout|interval|seconds)$')
SET = re.compile(r'^\s*(\w+_(?:timeout|interval|seconds))\s*=\s*([\d.]+)\s*$', re.M)
BY_PLACE = {'result': 0, 'join': 0, 'wait': 0, 'wait_for': 1, 'until_waiting': 1}
"""Methods that wait, to the place of the limit among what they are given."""
SYSTEMS_WAIT = 'blockattach.tests.functional.base.wait_for'
BY_NAME = (*BY_PLACE, 'acquire', 'as_completed', 'communicate', 'create_connection', 'get', 'map',
           'run', 'urlopen', 'HTTPConnection', 'check_output')
"""What waits at most for the keyword ``timeout``; of anything else that is an option."""
CLOCKS = ('monotonic', 'utcnow')
_ALWAYS = 'nobody ever answers: the limit comes however slow the machine is'
_NOTHING = 'a moment in which nothing happens, however slow the machine is'
EXCEPTIONS = {
    'fixtures/clock.py': (1, 'how soon a thread sees that a test has moved its clock'),
    'fixtures/rabbit.py': (1, 'where nobody listens'),
    'fixtures/servers.py': (4, 'servers that are started: where nobody listens, and has ended'),
    'functional/base.py': (2, 'what system tests and the laboratory wait by'),
    'functional/test_reconcile.py': (1, _NOTHING),
    'functional/test_one_shot.py': (2, _NOTHING),
    'functional/test_extend_faults.py': (1, _NOTHING),
    'functional/test_volume_faults.py': (1, _NOTHING),
    'unit/control/test_detach_rule.py': (2, f'{_ALWAYS}; and an option that is only read'),
    'unit/drivers/test_tgt_socket.py': (2, _ALWAYS),
    'unit/nova/test_client.py': (2, _ALWAYS),
    'unit/nova/test_events.py': (1, _ALWAYS),
    'unit/nova/test_hosts.py': (1, _ALWAYS),
    'unit/nova/test_servers.py': (1, _ALWAYS),
    'unit/privileged/test_lio_locks.py': (2, _NOTHING),
    'unit/rpc/bus_contract.py': (3, f'{_ALWAYS}; a call is repeated until somebody serves; '
                                    'after an hour a receiver forgets its senders'),
    'unit/rpc/test_inproc.py': (2, _ALWAYS),
    'unit/rpc/test_releases.py': (3, _ALWAYS),
}
"""What stays below an hour, by module: how often, and why no machine is too slow for it."""


@functools.cache
def constants():
    """The numbers that modules of the tests give a name to, by full name."""
    found = {}
    # Twice: some are named after one of a module that comes later.
    for module in sources.modules(TESTS) * 2:
        found.update(named(module, found))
    return found


def named(module, known):
    """The same of one module."""
    found = {}
    for node in module.tree.body:
        value = number(module, node.value, known) if isinstance(node, ast.Assign) else None
        if value is not None:
            found.update({f'{own_name(module)}.{one.id}': value for one in node.targets
                          if isinstance(one, ast.Name)})
    return found


def own_name(module):
    """How others import it."""
    return module.path.removesuffix('.py').replace('/', '.')


def number(module, node, known):
    """The number that an expression stands for, None if it is none that can be seen."""
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, str) and re.fullmatch(r'\d+(\.\d+)?', value):
            return float(value)
        return value if type(value) in (int, float) else None
    if isinstance(node, ast.BinOp):
        sides = [number(module, side, known) for side in (node.left, node.right)]
        act = {ast.Mult: float.__mul__, ast.Add: float.__add__, ast.Sub: float.__sub__,
               ast.Div: float.__truediv__}.get(type(node.op))
        return act(*map(float, sides)) if act and None not in sides else None
    name = module.dotted(node)
    return known.get(name, known.get(f'{own_name(module)}.{name}'))


def is_moved(module):
    """Whether the times of the product are on a clock that stands until it is moved."""
    return any(name.startswith(MOVED) for name in module.aliases.values())


def options(node):
    """Names and values of all that is set here as an option is."""
    if isinstance(node, ast.Call):
        yield from ((one.arg or '', one.value) for one in node.keywords)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            last = key.elts[-1] if isinstance(key, ast.Tuple) and key.elts else key
            if isinstance(last, ast.Constant) and isinstance(last.value, str):
                yield last.value, value
    elif isinstance(node, ast.Assign):
        yield from ((one.attr, node.value) for one in node.targets
                    if isinstance(one, ast.Attribute))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from ((name, ast.Constant(value)) for name, value in SET.findall(node.value))


def limits(module, node, moved):
    """What is waited for no longer than."""
    name = module.dotted(node.func).rpartition('.')[2] or getattr(node.func, 'attr', '')
    yield from (one.value for one in node.keywords if (
        one.arg == 'timeout' and (name in BY_NAME or not moved))
        or (one.arg == 'seconds' and name in BY_PLACE))
    if name == 'wait' and len(node.args) > 1:
        # By a clock: an event, and how long; of futures: which, and how long.
        if not moved or module.dotted(node.func).startswith('concurrent.'):
            yield from node.args[1:]
    elif name in BY_PLACE:
        yield from node.args[BY_PLACE[name]:BY_PLACE[name] + 1]


def readings(module):
    """Where a clock that runs is read, which is what an elapsed time is made of."""
    own = {id(inner) for node in ast.walk(module.tree)
           if isinstance(node, ast.FunctionDef) and node.name in CLOCKS
           for inner in ast.walk(node)}
    for node in ast.walk(module.tree):
        if (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                and node.func.attr == 'monotonic' and id(node) not in own):
            yield node


def breaches(module):
    """Where a result hangs on a clock that runs."""
    known = constants() | named(module, constants())
    moved = is_moved(module)

    def short(value):
        found = number(module, value, known)
        return found is not None and 0 < found < HOUR

    for node in ast.walk(module.tree):
        if not moved:
            for name, value in options(node):
                if OPTION.search(name) and short(value):
                    yield f'{module.at(node)}: {name} is less than an hour'
        if isinstance(node, ast.Call):
            for value in limits(module, node, moved):
                if short(value):
                    yield f'{module.at(node)}: waits for less than an hour'
            if module.dotted(node.func) == SYSTEMS_WAIT:
                yield f'{module.at(node)}: waits by the clock of system tests'
    if not moved:
        for node in readings(module):
            yield f'{module.at(node)}: reads a clock that runs'


def of_the_gate():
    """The modules that the rule is about."""
    return [module for module in sources.modules(TESTS)
            if not module.path.startswith(ELSEWHERE) and not REAL.match(module.path)
            and module.path != f'{TESTS}rules/test_waits.py']


def found_in(text):
    """What breaks the rule in a module of this text."""
    return list(breaches(sources.parse(text, f'{TESTS}unit/example.py')))


class WaitsTest(unittest.TestCase):

    def test_gate_tests_depend_on_no_real_time(self):
        for module in of_the_gate():
            found = list(breaches(module))
            allowed, _ = EXCEPTIONS.get(module.path.removeprefix(TESTS), (0, ''))
            with self.subTest(module.path):
                self.assertEqual(allowed, len(found), found)

    def test_exceptions_are_gate_modules(self):
        self.assertLessEqual({f'{TESTS}{name}' for name in EXCEPTIONS},
                             {module.path for module in of_the_gate()})

    def test_each_dependence_on_real_time_found(self):
        for text in (
                'settings(call_timeout=30)', 'settings(report_interval=59.9)',
                "{('rpc', 'silence_timeout'): '6'}", "{'create_seconds': 6}",
                'one.turns._lease_seconds = 5', "write('[volume]\\nreconcile_interval = 1\\n')",
                'WAIT = 60\ndone.result(WAIT)', 'WAIT = 60\ndone.result(2 * WAIT)',
                'done.wait(0.1)', 'thread.join(5)', 'heard.get(timeout=5)',
                'gate.acquire(timeout=1)',
                'from blockattach.tests.functional import base\nbase.wait_for(done)',
                'from concurrent import futures\nfutures.wait(begun, 0.3)',
                'from blockattach.tests.functional import commands as c\nclock.wait(event, 0.3)',
                'subprocess.run(words, timeout=120)', 'NovaSettings(timeout=1)',
                'begun = time.monotonic()',
                'self.assertLess(clock.Clock().monotonic() - begun, 3)',
                'from blockattach.tests.fixtures import clock\nclock.until_waiting(1, 60)',
                'from blockattach.tests.fixtures import clock\nheard.get(timeout=5)'):
            with self.subTest(text):
                self.assertNotEqual([], found_in(text))

    def test_independence_of_real_time_passes(self):
        for text in (
                'settings(call_timeout=3600)', 'settings(reserve_timeout=0)', 'done.wait()',
                'from blockattach.tests.fixtures import polling\n'
                'polling.until(done)\nheard.get(timeout=polling.LIMIT)',
                'from blockattach.tests.fixtures import clock\nsettings(call_timeout=30)',
                'from blockattach.tests.fixtures import clock\nheld.wait(event, 30)',
                "', '.join(names)", 'names.get(1)',
                'class Set:\n    def monotonic(self):\n        return super().monotonic() + 1\n'):
            with self.subTest(text):
                self.assertEqual([], found_in(text))
