"""A flow's results, its undoing, and the error that comes out of it."""
import unittest

from taskflow import exceptions
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

    def test_a_step_gets_what_others_gave(self):
        """Parts of it, under other names, and its own default where nobody gave it."""
        given = []

        class Gives(task.Task):
            default_provides = ('first', 'second')

            def execute(self):
                return 1, 2

        class Takes(task.Task):
            def execute(self, one, second, third=3):
                given.append((one, second, third))

        for more in ({}, {'third': 4}):
            runner.run(self.flow(Gives('a'), Takes('b', rebind={'one': 'first'})), more)
        self.assertEqual([(1, 2, 3), (1, 2, 4)], given)

    def test_a_retry_controller_gives_each_try_its_own(self):
        tried = []

        class Fails(task.Task):
            def execute(self, value):
                tried.append(value)
                if value != 'c':
                    raise OSError(value)

        flow = self.flow(Step('a', self.journal), Fails('b'),
                         retry=retry.ForEach('abcd', provides='value'))
        found = runner.run(flow, {'word': 'it'})
        self.assertEqual(list('abc'), tried)
        self.assertEqual('a it', found['a_result'])
        self.assertEqual(['a does it', 'a undoes it'] * 2 + ['a does it'], self.journal)

    def test_a_flow_can_be_run_again(self):
        flow = self.flow(Step('a', self.journal), Step('b', self.journal, error=OSError('no')),
                         retry=retry.Times(attempts=2))
        for word in ('it', 'that'):
            with self.assertRaises(OSError):
                runner.run(flow, {'word': word})
            self.assertEqual([f'{one} {word}' for one in (
                'a does', 'b does', 'b undoes', 'a undoes') * 2], self.journal)
            self.journal.clear()

    def test_what_nobody_gives_is_told(self):
        with self.assertRaises(exceptions.MissingDependencies):
            runner.run(self.flow(Step('a', self.journal)), {})
        self.assertEqual([], self.journal)

    def test_each_step_is_logged_without_what_it_carries(self):
        with self.assertLogs('blockattach.flows.runner', 'DEBUG') as logs:
            runner.run(self.flow(Step('a', self.journal)), {'word': 'hunter2'})
        text = '\n'.join(logs.output)
        self.assertIn('flow=test step=a state=SUCCESS', text)
        self.assertNotIn('hunter2', text)
