"""Results of tests in the gate, which must not depend on a running clock.

The machine may pause at any time. Behavior that depends on time is tested with a clock that the
test moves, or in the simulation. Other waits have no limit but one of an hour or more, which ends
a wait that would never end. Tests that need real time are not in the gate (`lab.system`).
"""
import ast
import functools
import re
import unittest

from blockattach.tests.rules import sources

HOUR = 3600
TESTS = 'blockattach/tests/'
ELSEWHERE = tuple(f'{TESTS}{place}' for place in ('simulation/', 'smoke/'))
"""Tests on virtual time, or tests that wait only by `polling` and check only end states."""
REAL = re.compile(f'{TESTS}conformance/(test_|)(file|lio|lvm|tgt)')
"""Tests of drivers on real targets, where a late answer of an external program is an error."""
MOVED = ('blockattach.tests.fixtures.clock', 'lab.simulation',
         'blockattach.tests.functional.instances')
"""Imports that show that the product uses a clock that the test moves."""
OPTION = re.compile(r'_(timeout|interval|seconds)$')
SET = re.compile(r'^\s*(\w+_(?:timeout|interval|seconds))\s*=\s*([\d.]+)\s*$', re.M)
BY_PLACE = {'result': 0, 'join': 0, 'wait': 0, 'wait_for': 1, 'until_waiting': 1}
"""Methods that wait, with the position of the limit in their arguments."""
SYSTEMS_WAIT = 'blockattach.tests.functional.base.wait_for'
BY_NAME = (*BY_PLACE, 'acquire', 'as_completed', 'communicate', 'create_connection', 'get', 'map',
           'run', 'urlopen', 'HTTPConnection', 'check_output')
"""Functions whose argument ``timeout`` is a limit. That of other functions is an option."""
CLOCKS = ('monotonic', 'utcnow')
_ALWAYS = 'nobody answers, so the limit is reached on any machine'
_NOTHING = 'a moment in which nothing happens on any machine'
EXCEPTIONS = {
    'fixtures/clock.py': (1, 'delay until a thread notices that a test has moved its clock'),
    'fixtures/rabbit.py': (1, 'connection to a port on which nobody listens'),
    'fixtures/servers.py': (4, 'started servers: a port without a listener, and their end'),
    'functional/base.py': (2, 'waits of the system tests and the laboratory'),
    'functional/test_reconcile.py': (1, _NOTHING),
    'functional/test_one_shot.py': (2, _NOTHING),
    'functional/test_extend_faults.py': (1, _NOTHING),
    'functional/test_volume_faults.py': (1, _NOTHING),
    'unit/control/test_detach_rule.py': (2, f'{_ALWAYS}. One is an option that is only read'),
    'unit/drivers/test_tgt_socket.py': (2, _ALWAYS),
    'unit/nova/test_client.py': (2, _ALWAYS),
    'unit/nova/test_events.py': (1, _ALWAYS),
    'unit/nova/test_hosts.py': (1, _ALWAYS),
    'unit/nova/test_servers.py': (1, _ALWAYS),
    'unit/privileged/test_lio_locks.py': (2, _NOTHING),
    'unit/rpc/bus_contract.py': (3, f'{_ALWAYS}. A call is repeated until a server answers. '
                                    'A receiver forgets its senders after an hour'),
    'unit/rpc/test_inproc.py': (2, _ALWAYS),
    'unit/rpc/test_releases.py': (3, _ALWAYS),
}
"""Number of shorter limits by module, with the reason why no machine is too slow for them."""


@functools.cache
def constants():
    """Return the numeric constants of the test modules by full name."""
    found = {}
    # Two passes, because some constants are defined by those of a later module.
    for module in sources.modules(TESTS) * 2:
        found.update(named(module, found))
    return found


def named(module, known):
    """Return the numeric constants of a module by full name."""
    found = {}
    for node in module.tree.body:
        value = number(module, node.value, known) if isinstance(node, ast.Assign) else None
        if value is not None:
            found.update({f'{own_name(module)}.{one.id}': value for one in node.targets
                          if isinstance(one, ast.Name)})
    return found


def own_name(module):
    """Return the name under which others import the module."""
    return module.path.removesuffix('.py').replace('/', '.')


def number(module, node, known):
    """Return the number that an expression stands for, or None if it cannot be determined."""
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
    """Return True if the product uses a clock that only the test moves."""
    return any(name.startswith(MOVED) for name in module.aliases.values())


def options(node):
    """Yield names and values that a node may set as options."""
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
    """Yield the limits of a call that waits."""
    name = module.dotted(node.func).rpartition('.')[2] or getattr(node.func, 'attr', '')
    yield from (one.value for one in node.keywords if (
        one.arg == 'timeout' and (name in BY_NAME or not moved))
        or (one.arg == 'seconds' and name in BY_PLACE))
    if name == 'wait' and len(node.args) > 1:
        # The arguments of a clock are an event and seconds, and those of futures are futures and
        # seconds.
        if not moved or module.dotted(node.func).startswith('concurrent.'):
            yield from node.args[1:]
    elif name in BY_PLACE:
        yield from node.args[BY_PLACE[name]:BY_PLACE[name] + 1]


def readings(module):
    """Yield the reads of a running clock, from which an elapsed time may be computed."""
    own = {id(inner) for node in ast.walk(module.tree)
           if isinstance(node, ast.FunctionDef) and node.name in CLOCKS
           for inner in ast.walk(node)}
    for node in ast.walk(module.tree):
        if (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                and node.func.attr == 'monotonic' and id(node) not in own):
            yield node


def breaches(module):
    """Yield each place where a result depends on a running clock."""
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
    """Return the modules to which the rule applies."""
    return [module for module in sources.modules(TESTS)
            if not module.path.startswith(ELSEWHERE) and not REAL.match(module.path)
            and module.path != f'{TESTS}rules/test_waits.py']


def found_in(text):
    """Return the findings in a module with this text."""
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
