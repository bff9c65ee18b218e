"""A flow's results, its undoing, and the error that comes out of it."""
import unittest

from taskflow import retry
from taskflow import task
from taskflow.patterns import graph_flow
from taskflow.patterns import linear_flow

from blockattach import errors
from blockattach.flows import runner


class Step(task.Task):
    """Notes that it was done and undone; may fail at either."""

    def __init__(self, name, journal, error=None, undo_error=None):
        super().__init__(name, provides=f'{name}_result')
        self.journal = journal
        self.error = error
        self.undo_error = undo_error

    def execute(self, word):
        self.journal.append(f'{self.name} does {word}')
        if self.error is not None:
            raise self.error
        return f'{self.name} {word}'

    def revert(self, word, **other):
        self.journal.append(f'{self.name} undoes {word}')
        if self.undo_error is not None:
            raise self.undo_error


class RunnerTest(unittest.TestCase):
    def setUp(self):
        self.journal = []

    def flow(self, *steps, **options):
        return linear_flow.Flow('test', **options).add(*steps)

    def test_results_by_name(self):
        found = runner.run(self.flow(Step('a', self.journal), Step('b', self.journal)),
                           {'word': 'it'})
        self.assertEqual({'word': 'it', 'a_result': 'a it', 'b_result': 'b it'}, found)
        self.assertEqual(['a does it', 'b does it'], self.journal)

    def test_the_error_itself_comes_out_after_the_undoing(self):
        error = errors.VolumeNotFound(volume_id='v')
        with self.assertRaises(errors.VolumeNotFound) as caught:
            runner.run(self.flow(Step('a', self.journal), Step('b', self.journal, error),
                                 Step('c', self.journal)), {'word': 'it'})
        self.assertIs(error, caught.exception)
        self.assertEqual(['a does it', 'b does it', 'b undoes it', 'a undoes it'], self.journal)

    def test_an_undoing_that_fails_is_told_too(self):
        with self.assertRaises((KeyError, ValueError)):
            runner.run(self.flow(Step('a', self.journal, undo_error=KeyError('a')),
                                 Step('b', self.journal, error=ValueError('b'))), {'word': 'it'})
        self.assertIn('a undoes it', self.journal)

    def test_of_several_errors_one_comes_out_unwrapped(self):
        flow = graph_flow.Flow('test').add(
            Step('a', self.journal, undo_error=KeyError('a')),
            Step('b', self.journal, undo_error=KeyError('b')))
        last = Step('c', self.journal, error=ValueError('c'))
        with self.assertRaises((KeyError, ValueError)):
            runner.run(linear_flow.Flow('all').add(flow, last), {'word': 'it'})

    def test_a_retry_controller_tries_again(self):
        with self.assertRaises(OSError):
            runner.run(self.flow(Step('a', self.journal),
                                 Step('b', self.journal, error=OSError('no')),
                                 retry=retry.Times(attempts=3)), {'word': 'it'})
        self.assertEqual(3, self.journal.count('b does it'))
        self.assertEqual(3, self.journal.count('a undoes it'))

    def test_each_step_is_logged_without_what_it_carries(self):
        with self.assertLogs('blockattach.flows.runner', 'DEBUG') as logs:
            runner.run(self.flow(Step('a', self.journal)), {'word': 'hunter2'})
        text = '\n'.join(logs.output)
        self.assertIn('flow=test step=a state=SUCCESS', text)
        self.assertNotIn('hunter2', text)
