"""Failpoints, at which a test can inject a fault."""
import unittest

from blockattach.platform import errors
from blockattach.platform import failpoints


class FailpointsTest(unittest.TestCase):

    def setUp(self):
        self.passed = []
        self.addCleanup(failpoints.disarm, 'a.b.c')
        self.addCleanup(failpoints.disarm, 'a.b.d')

    def test_unarmed_point_does_nothing(self):
        failpoints.point('a.b.c')
        failpoints.arm('a.b.d', lambda: self.passed.append('d'))
        failpoints.point('a.b.c')
        self.assertEqual([], self.passed)

    def test_armed_point_runs_action_each_time(self):
        failpoints.arm('a.b.c', lambda: self.passed.append('c'))
        failpoints.point('a.b.c')
        failpoints.point('a.b.c')
        self.assertEqual(['c', 'c'], self.passed)

    def test_error_of_action_raised_at_point(self):
        def fail():
            raise OSError('pulled the plug')

        failpoints.arm('a.b.c', fail)
        self.assertRaises(OSError, failpoints.point, 'a.b.c')

    def test_rearmed_point_runs_last_action(self):
        failpoints.arm('a.b.c', lambda: self.passed.append('old'))
        failpoints.arm('a.b.c', lambda: self.passed.append('new'))
        failpoints.point('a.b.c')
        self.assertEqual(['new'], self.passed)

    def test_disarmed_point_does_nothing(self):
        failpoints.arm('a.b.c', lambda: self.passed.append('c'))
        failpoints.disarm('a.b.c')
        failpoints.disarm('a.b.c')
        failpoints.point('a.b.c')
        self.assertEqual([], self.passed)

    def test_action_disarms_own_point(self):
        def once():
            failpoints.disarm('a.b.c')
            self.passed.append('once')

        failpoints.arm('a.b.c', once)
        failpoints.point('a.b.c')
        failpoints.point('a.b.c')
        self.assertEqual(['once'], self.passed)

    def test_arm_every_covers_unarmed_points(self):
        failpoints.arm('a.b.c', lambda: self.passed.append('its own'))
        failpoints.arm_every(self.passed.append)
        self.addCleanup(failpoints.disarm_every)
        failpoints.point('a.b.c')
        failpoints.point('a.b.d')
        failpoints.disarm_every()
        failpoints.point('a.b.d')
        self.assertEqual(['its own', 'a.b.d'], self.passed)


class ConfiguredTest(unittest.TestCase):

    def setUp(self):
        self.addCleanup(failpoints.disarm, 'a.b.c')

    def test_configured_actions(self):
        failpoints.configure(['a.b.c=raise'])
        self.assertRaises(failpoints.Reached, failpoints.point, 'a.b.c')
        for text, effect in (('drop', failpoints.Effect.DROP), ('delay:0.001', None),
                             ('duplicate', failpoints.Effect.DUPLICATE)):
            failpoints.configure([f'a.b.c={text}'])
            self.assertIs(effect, failpoints.point('a.b.c'))

    def test_configured_action_limited_by_count(self):
        failpoints.configure(['a.b.c=drop*2'])
        drop = failpoints.Effect.DROP
        self.assertEqual([drop, drop, None], [failpoints.point('a.b.c') for _ in range(3)])

    def test_invalid_configuration_rejected(self):
        for text in ('a.b.c', 'a.b.c=', 'a.b.c=vanish', 'a.b.c=delay', 'a.b.c=delay:long',
                     'a.b.c=drop*many'):
            with self.subTest(text), self.assertRaises(errors.ConfigurationError):
                failpoints.configure([text])
        self.assertIsNone(failpoints.point('a.b.c'))
