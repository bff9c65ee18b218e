"""A line: first come, first served; nobody is lost, and nobody waits beyond his deadline."""
import unittest

from blockattach import errors
from blockattach.admission import lines
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import patience
from blockattach.tests.unit.admission import threads


class LineTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = clock.ManualClock()
        self.line = lines.Line(2, 3, self.clock)
        self.comers = threads.Comers(self)

    def wait_for_use(self, *expected):
        patience.until(lambda: self.line.use() == expected)
        self.assertEqual(expected, self.line.use())

    def advance(self, seconds):
        """Let time pass for all who are in the line: who has a place there may not wait yet."""
        self.assertTrue(self.clock.until_waiting(self.line.use()[1]))
        self.clock.advance(seconds)

    def fill(self):
        for _ in range(self.line.places):
            self.assertTrue(self.line.take_free())

    def queue(self, count, seconds=100):
        """So many wait, in the order of their numbers."""
        for number in range(count):
            self.comers.come(number, self.line.take, self.clock.monotonic() + seconds)
            self.wait_for_use(2, number + 1)

    def test_places_are_free_until_they_are_taken(self):
        self.fill()
        self.assertFalse(self.line.take_free())
        self.line.give_back()
        self.assertEqual(0.0, self.line.take(self.clock.monotonic() + 1))
        self.assertEqual((2, 0), self.line.use())

    def test_who_comes_first_is_served_first(self):
        self.fill()
        self.queue(3)
        for number in range(3):
            self.advance(1)
            self.line.give_back()
            # It was handed over: whoever comes now finds none.
            self.assertFalse(self.line.take_free())
            self.assertEqual((number, number + 1), self.comers.next())
        self.assertEqual((2, 0), self.line.use())

    def test_one_more_than_may_wait(self):
        self.fill()
        self.queue(3)
        with self.assertRaises(errors.QueueFull):
            self.line.take(self.clock.monotonic() + 100)
        self.assertEqual((2, 3), self.line.use())
        for _ in range(3):
            self.line.give_back()
            self.comers.next()

    def test_a_deadline_passes_while_somebody_waits(self):
        self.fill()
        self.queue(1, seconds=30)
        self.comers.come('patient', self.line.take, self.clock.monotonic() + 100)
        self.wait_for_use(2, 2)
        self.advance(29)
        self.assertTrue(self.comers.nobody())
        self.advance(1)
        number, told = self.comers.next()
        self.assertEqual((0, errors.TurnTooLate), (number, type(told)))
        # His place in the line is nobody's, and the next one is not forgotten.
        self.wait_for_use(2, 1)
        self.line.give_back()
        self.assertEqual(('patient', 30.0), self.comers.next())

    def test_who_is_late_already_is_not_granted(self):
        with self.assertRaises(errors.TurnTooLate):
            self.line.take(self.clock.monotonic())
        self.assertEqual((0, 0), self.line.use())

    def test_who_comes_back_goes_before_all_who_have_not_begun(self):
        self.fill()
        self.queue(2)
        self.comers.come('back', self.line.take_again)
        self.wait_for_use(2, 3)
        self.line.give_back()
        self.assertEqual('back', self.comers.next()[0])
        for number in range(2):
            self.line.give_back()
            self.assertEqual(number, self.comers.next()[0])

    def test_who_would_wait_in_vain_is_told_at_once(self):
        self.fill()
        asked = []

        def doubt(ahead, left):
            asked.append((ahead, left))
            return ahead >= 1
        self.comers.come('first', self.line.take, self.clock.monotonic() + 5, doubt)
        self.wait_for_use(2, 1)
        with self.assertRaises(errors.BackendBusy):
            self.line.take(self.clock.monotonic() + 5, doubt)
        self.assertEqual([(0, 5.0), (1, 5.0)], asked)
        self.line.give_back()
        self.assertEqual('first', self.comers.next()[0])

    def test_nobody_is_lost(self):
        """Many who come and go at once: all are served, and all places are free in the end."""
        line = lines.Line(2, 100, self.clock)

        def work():
            line.take(self.clock.monotonic() + 1)
            line.give_back()
            line.take_again()
            line.give_back()
        for number in range(50):
            self.comers.come(number, work)
        self.assertEqual(set(range(50)), {self.comers.next()[0] for _ in range(50)})
        self.assertEqual((0, 0), line.use())
