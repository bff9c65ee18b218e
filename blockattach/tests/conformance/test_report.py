"""Conformance report, which compares declared with proved capabilities."""
import contextlib
import io
import types
import unittest

from blockattach.conformance import __main__ as command
from blockattach.conformance import report
from blockattach.storage.drivers import base
from blockattach.storage.drivers.targets import tgtd
from blockattach.testing import scsi
from blockattach.tests.conformance import settings
from blockattach.tests.conformance import wrong_drivers

_FEWEST = 60


class ExamineTestCase(unittest.TestCase):

    def examined(self, *kinds, only=None):
        """Return the report on drivers, from a module that contains only these classes."""
        module = types.ModuleType('temporary')
        for kind in kinds:
            names = {} if only is None else {
                name: None for name in unittest.defaultTestLoader.getTestCaseNames(kind)
                if only not in name}
            vars(module)[kind.__name__] = type(kind.__name__, (kind,), {
                **names, '__module__': 'temporary'})
        with contextlib.redirect_stderr(io.StringIO()):
            [found] = command.examine([module])
        return found

    def failed(self, found):
        return {one.name for one in found.behaviors if one.outcome is report.Outcome.FAILED}


class EqualTest(ExamineTestCase):
    """Equality of declared and proved capabilities."""

    def test_sound_driver_passes(self):
        found = self.examined(wrong_drivers.SoundTest)
        self.assertEqual((set(), frozenset(), frozenset()),
                         (self.failed(found), found.unproved(), found.undeclared()))
        self.assertEqual({'clone', 'clone_snapshot', 'disks', 'manage', 'revert', 'snapshots'},
                         found.declared)
        self.assertEqual(found.declared, found.proved)
        self.assertGreater(found.count(report.Outcome.NOT_DECLARED), 0)
        self.assertGreater(found.count(report.Outcome.SKIPPED), 0)

    def test_skipped_class_runs_and_fails_nothing(self):
        skipped = unittest.skip('no such device here')(
            type('SkippedTest', (wrong_drivers.SoundTest,), {}))
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(skipped).run(result)
        self.assertTrue(result.wasSuccessful())
        self.assertEqual(result.testsRun, len(result.skipped))

    def test_declared_but_failing_capability_reported(self):
        found = self.examined(wrong_drivers.BoasterTest)
        self.assertIn('clone has the bytes of its source and zeros beyond', self.failed(found))
        self.assertEqual({'clone'}, found.unproved())

    def test_declared_but_unproved_capability_reported(self):
        found = self.examined(wrong_drivers.PromisingTest, only='wipe')
        self.assertLessEqual({'wipe', 'discard'}, found.unproved())

    def test_partly_supported_capability_fails(self):
        found = self.examined(wrong_drivers.HalfTest, only='check_may')
        self.assertEqual({'check may be repeated'}, self.failed(found))
        self.assertIn('delete_snapshot', found.behaviors[0].why)

    def test_false_pool_capabilities_fail(self):
        found = self.examined(wrong_drivers.LimiterTest, only='quality_of_service')
        self.assertEqual(1, len(self.failed(found)))
        found = self.examined(wrong_drivers.ThickTest, only='says_that_it_is_thin')
        self.assertEqual(1, len(self.failed(found)))

    def test_missing_portals_fail(self):
        found = self.examined(wrong_drivers.OnePathedTest, only='same_portals')
        self.assertEqual(1, len(self.failed(found)))

    def test_undeclared_discard_fails(self):
        self.need_tgt()
        found = self.examined(wrong_drivers.ShyTest, only='given_back')
        self.assertEqual({'what a host unmaps is given back if declared and only then'},
                         self.failed(found))

    def test_declared_but_missing_reservations_fail(self):
        self.need_tgt()
        found = self.examined(wrong_drivers.DividedTest, only='reservations')
        self.assertEqual(
            {'hosts see the reservations of each other if declared and only then'},
            self.failed(found))

    def need_tgt(self):
        settings.outside_program(self, tgtd.program() is not None, 'tgtd')
        settings.outside_program(self, scsi.available(), 'libiscsi')


class ClassTest(unittest.TestCase):
    """Contract class run by unittest, which fails like the command."""

    def run_class(self, kind):
        result = unittest.TestResult()
        with contextlib.redirect_stderr(io.StringIO()) as said:
            unittest.TestSuite([
                unittest.defaultTestLoader.loadTestsFromTestCase(kind)]).run(result)
        return result, said.getvalue()

    def kind_that(self, declares, proves):
        class Kind(report.Reported):
            provable = frozenset({'clone', 'wipe'})

            def test_a_word(self):
                self.report.declared = frozenset(declares)
                for one in proves:
                    self.proves(one)

        return Kind

    def test_class_with_equal_capabilities_passes(self):
        result, said = self.run_class(self.kind_that(['clone'], ['clone']))
        self.assertTrue(result.wasSuccessful(), result.errors)
        self.assertEqual('conformance: Kind: 1 behaviors: 1 proved, 0 not declared, 0 skipped, '
                         '0 failed\nconformance: Kind: declared: clone; proved: clone\n', said)

    def test_class_with_unproved_capability_fails(self):
        result, said = self.run_class(self.kind_that(['clone', 'wipe', 'daemon'], ['clone']))
        self.assertIn('declares unproved capabilities: wipe', result.errors[0][1])
        self.assertIn('declared and not proved: wipe\n', said)

    def test_class_with_undeclared_capability_fails(self):
        result, said = self.run_class(self.kind_that([], ['wipe']))
        self.assertIn('supports undeclared capabilities: wipe', result.errors[0][1])
        self.assertIn('proved and not declared: wipe\n', said)


class CommandTest(unittest.TestCase):

    def said(self, *words):
        with contextlib.redirect_stdout(io.StringIO()) as said, \
                contextlib.redirect_stderr(io.StringIO()):
            code = command.main(words)
        return code, said.getvalue()

    def test_list_names_unique_behaviors(self):
        code, said = self.said('--list')
        self.assertEqual(0, code)
        names = [line.strip() for line in said.splitlines() if line.startswith('  ')]
        self.assertEqual(len(names), len(set(names)))
        self.assertGreaterEqual(len(names), _FEWEST)
        self.assertIn('SnapshotContract: snapshot has the bytes of its moment', names)

    def test_every_capability_provable(self):
        provable = {name for parts in command.KITS.values() for part in parts
                    for kind in part.__mro__ for name in vars(kind).get('provable', ())}
        self.assertEqual(set(base.CAPABILITIES), provable)

    def test_wrong_driver_exits_with_status_1(self):
        code, said = self.said('blockattach.tests.conformance.wrong_drivers_on_trial')
        self.assertEqual(1, code)
        self.assertIn('Boaster\n', said)
        self.assertIn('declared and not proved: clone', said)
        self.assertRegex(said, 'failed        clone has the bytes of its source')
        self.assertRegex(said, 'not declared  wipe gives the room back')
