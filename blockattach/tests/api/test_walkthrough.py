"""Attach request, which enters the modules that the page "Walkthrough" lists in twelve steps.

A request is traced from its route to the target and back. A module is entered when a function of
it is called; constructors that the interpreter generates do not count, nor does `OUTSIDE`.
"""
import collections
import pathlib
import re
import sys

from blockattach.tests.api import base
from blockattach.tests.fixtures import make

PAGE = pathlib.Path(__file__).parents[3] / 'doc/source/contributor/walkthrough.rst'
PACKAGE = 'blockattach.'
OUTSIDE = ('tests', 'testing', 'platform.telemetry', 'platform.failpoints', 'platform.log',
           'platform.clock', 'platform.context', 'platform.conf', 'storage.conf',
           'platform.rpc', 'storage.rpc', 'platform.admission',
           'platform.http.middleware', 'platform.http.loopback', 'platform.http.queueing',
           'platform.http.auth', 'platform.db.sqlite')
"""Modules outside of the page: telemetry, transport, and the database of tests."""

STEPS = (
    ('platform.http.dispatch', 'Dispatcher._match'),
    ('platform.http.dispatch', 'Dispatcher._permit'),
    ('storage.api.resources.attachments.handlers', 'create'),
    ('storage.policy.access', 'volume_to_attach'),
    ('storage.control.attachments', 'AttachmentControl.create'),
    ('storage.db.attachments.attachments', 'reserve'),
    ('storage.control.backend_calls', 'BackendCalls.connect'),
    ('storage.volume.lease', 'Leases.pair'),
    ('storage.db.attachments.grants', 'desired_state'),
    ('storage.drivers.targets.fake', 'FakeTarget.grant'),
    ('storage.db.attachments.attachments', 'move'),
    ('storage.policy.access', 'connection_infos'),
)
"""Module and function with which each step of the page begins."""

MODULES = 32
STEPS_OF_ONE = 3
EVERYWHERE = {'platform.db.engine', 'platform.db.statements', 'platform.http.operation',
              'platform.policy.enforcer', 'storage.domain.connection'}
"""Maximum number of modules of a request, and of steps that enter the same module. The latter does
not apply to ``EVERYWHERE``: the database, the operation, and the words of connections.
"""


class Trace:
    """Modules whose functions were called, in the order of the calls, by step."""

    def __init__(self):
        self.steps = [[]]

    def __enter__(self):
        sys.setprofile(self._called)
        return self

    def __exit__(self, *exc_info):
        sys.setprofile(None)

    def _called(self, frame, event, argument):
        module = frame.f_globals.get('__name__', '')
        if event != 'call' or not module.startswith(PACKAGE):
            return
        module, name = module.removeprefix(PACKAGE), frame.f_code.co_qualname
        if len(self.steps) <= len(STEPS) and (module, name) == STEPS[len(self.steps) - 1]:
            self.steps.append([])
        generated = frame.f_code.co_filename.startswith('<')
        if not generated and not f'{module}.'.startswith(tuple(f'{o}.' for o in OUTSIDE)):
            self.steps[-1].append(module)


def listed():
    """Return the modules that the page names in each step."""
    rows = re.findall(r'^   \* - \d+$(.*?)^(?=   \*|$)', PAGE.read_text(encoding='utf-8'),
                      re.M | re.S)
    return [{path.removesuffix('.py').removesuffix('/__init__').replace('/', '.')
             for path in re.findall(r'``blockattach/([a-z_/]+\.py)``', row)} for row in rows]


class AttachTest(base.ApiTestCase):
    """``POST /attachments`` with a connector."""

    def setUp(self):
        super().setUp()
        self.volume_id = self.volume(multiattach=True)

    def trace(self):
        # The first request also fills caches, so only the second one is traced.
        self.attach()
        with Trace() as trace:
            self.attach()
        return trace.steps

    def attach(self):
        self.assert_status(200, self.http.as_member.post('/attachments', {'attachment': {
            'volume_uuid': self.volume_id, 'instance_uuid': base.new_id(),
            'connector': make.connector(f'iqn.2026-01.org.example:{base.new_id()}')}}))

    def test_attach_steps_enter_documented_modules(self):
        before, *steps = self.trace()
        self.assertEqual({'platform.http.dispatch'}, set(before))
        page = listed()
        self.assertEqual((len(STEPS), len(STEPS)), (len(steps), len(page)))
        named = set()
        for number, (modules, row) in enumerate(zip(steps, page, strict=True), 1):
            named |= row
            with self.subTest(step=number):
                self.assertEqual(set(), set(modules) - named, 'entered, but not named so far')
                self.assertEqual(set(), row - set(modules), 'named, but not entered')

    def test_attach_enters_few_modules(self):
        _, *steps = self.trace()
        counts = collections.Counter(name for modules in steps for name in set(modules))
        self.assertLessEqual(len(counts), MODULES)
        self.assertEqual(EVERYWHERE, {
            name for name, number in counts.items() if number > STEPS_OF_ONE})
