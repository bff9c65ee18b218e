"""Threads and the line before them: bounded in places and time, in order, and nobody is lost."""
import threading
import unittest

from blockattach import errors
from blockattach.http import pool
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import patience

SECONDS = patience.LIMIT


class Connection:
    """A client who asks once. It is answered when the test lets it."""

    def __init__(self, story, name, at_once=False, more=False):
        self._story = story
        self._at_once = at_once
        self._more = more
        self.name = name
        self.go_on = threading.Event()
        self.refused = None

    def communicate(self):
        if self.refused is not None:
            self._story.append((self.name, self.refused.code))
            return False
        self._story.append((self.name, 'begun'))
        self.go_on.wait(2 * SECONDS)
        self._story.append((self.name, 'answered'))
        return self._more

    def receive(self):
        if self._at_once:
            self._story.append((self.name, 'answered at once'))
        return not self._at_once

    def refuse(self, error):
        self.refused = error

    def cut_off(self):
        self._story.append((self.name, 'cut off'))

    def close(self):
        self._story.append((self.name, 'closed'))


class PoolTest(unittest.TestCase):
    """Two threads; three may wait, for 30 seconds."""

    def setUp(self):
        super().setUp()
        self.story = []
        self.kept = []
        self.refused = []
        self.clock = clock.ManualClock()
        self.pool = pool.Pool(self.kept.append, 2, 3, 30, self.clock, self.refused.append)
        self.pool.start()
        self.connections = {}
        self.addCleanup(self.end)

    def end(self):
        for connection in self.connections.values():
            connection.go_on.set()
        self.pool.stop(SECONDS)

    def come(self, name, **how):
        made = self.connections[name] = Connection(self.story, name, **how)
        self.pool.put(made)
        return made

    def wait_for_use(self, busy, waiting):
        patience.until(lambda: self.pool.use()[1:] == (busy, waiting))
        self.assertEqual((busy, waiting), self.pool.use()[1:])

    def wait_for_told(self, *story):
        patience.until(lambda: set(story) <= set(self.story))
        self.assertLessEqual(set(story), set(self.story))

    def fill(self):
        """All threads are busy, and these wait in their order."""
        for number, name in enumerate(('a', 'b')):
            self.come(name)
            self.wait_for_use(number + 1, 0)
        for number, name in enumerate(('c', 'd', 'e')):
            self.come(name)
            self.wait_for_use(2, number + 1)

    def test_first_come_first_served(self):
        self.fill()
        for ending, following in (('a', 'c'), ('b', 'd'), ('c', 'e')):
            self.connections[ending].go_on.set()
            self.wait_for_told((ending, 'answered'), (ending, 'closed'), (following, 'begun'))
        self.assertEqual(['a', 'b', 'c', 'd', 'e'],
                         [name for name, what in self.story if what == 'begun'])
        self.assertEqual([], self.refused)

    def test_one_more_than_may_wait_is_refused(self):
        self.fill()
        self.come('f')
        self.wait_for_told(('f', errors.QueueFull.code), ('f', 'closed'))
        self.assertEqual([errors.QueueFull.code], self.refused)
        self.wait_for_use(2, 3)

    def test_health_is_answered_while_all_else_waits(self):
        self.fill()
        self.come('health', at_once=True)
        self.wait_for_told(('health', 'answered at once'), ('health', 'closed'))
        self.wait_for_use(2, 3)
        self.assertEqual([], self.refused)

    def test_who_has_waited_for_too_long_is_refused_though_no_thread_is_free(self):
        self.fill()
        self.clock.advance(29)
        self.assertEqual([], self.refused)
        late = {(name, errors.TurnTooLate.code) for name in ('c', 'd', 'e')}
        # Whoever watches them may have begun to wait a moment ago only.
        patience.until(lambda: self.clock.advance(1) or late <= set(self.story))
        self.assertLessEqual(late, set(self.story))
        self.wait_for_use(2, 0)
        self.assertEqual({('a', 'begun'), ('b', 'begun')},
                         {one for one in self.story if one[1] == 'begun'})
        # It goes on as before.
        self.come('f')
        self.wait_for_use(2, 1)
        self.connections['a'].go_on.set()
        self.wait_for_told(('f', 'begun'))

    def test_a_connection_on_which_more_may_follow_is_kept(self):
        made = self.come('a', more=True)
        made.go_on.set()
        patience.until(lambda: self.kept == [made])
        self.wait_for_use(0, 0)
        self.assertNotIn(('a', 'closed'), self.story)

    def test_the_end_waits_for_all_that_came(self):
        self.fill()
        ending = threading.Thread(target=self.pool.stop, args=(SECONDS,))
        ending.start()
        for connection in self.connections.values():
            connection.go_on.set()
        ending.join(SECONDS)
        self.assertFalse(ending.is_alive())
        self.assertEqual({'a', 'b', 'c', 'd', 'e'},
                         {name for name, what in self.story if what == 'answered'})

    def test_what_does_not_end_is_cut_off(self):
        self.fill()
        self.pool.stop(0.05)
        self.assertEqual({'a', 'b'}, {name for name, what in self.story if what == 'cut off'})
        self.assertLessEqual({(name, 'closed') for name in ('c', 'd', 'e')}, set(self.story))

    def test_many_who_come_and_go(self):
        made = pool.Pool(self.kept.append, 4, 1000, 30, self.clock, self.refused.append)
        made.start()
        connections = [Connection(self.story, number) for number in range(300)]
        for connection in connections:
            connection.go_on.set()
        coming = [threading.Thread(target=lambda part=part: [made.put(one) for one in part])
                  for part in (connections[:100], connections[100:200], connections[200:])]
        for thread in coming:
            thread.start()
        self.wait_for_told(*((number, 'closed') for number in range(300)))
        for thread in coming:
            thread.join()
        made.stop(SECONDS)
        self.assertEqual(300, len([one for one in self.story if one[1] == 'answered']))
