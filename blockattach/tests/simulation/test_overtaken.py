"""Excused revokes of another holder's grant, which are those shortly after a lost lease."""
import types
import unittest

from blockattach.platform import errors
from lab.simulation import overtaken

ARGUMENTS = VOLUME, INITIATOR = 'volume-1', 'iqn.2026-01.org.example:a'


class Task:

    def __init__(self, process, name):
        self.process = process
        self.name = name


class OvertakenTest(unittest.TestCase):

    def setUp(self):
        self.process = types.SimpleNamespace(dead=False, tasks={})
        self.baton = types.SimpleNamespace(current=self.task())
        self.overtaken = overtaken.Overtaken(self.baton)  # type: ignore[arg-type]
        self.owner = 'one'
        self.overtaken.turn_of = lambda volume_id, initiator: self.owner

    def task(self, name='disconnect'):
        made = Task(self.process, name)
        self.process.tasks[made] = None
        return made

    def act(self, verb='revoke', owner=None, error=None, acts=True):
        """Run an operation on the target during which the lease changes its owner."""
        granted = types.SimpleNamespace(volume_id=VOLUME, initiator=INITIATOR)
        try:
            with self.overtaken.watching(
                    verb, ARGUMENTS if verb == 'revoke' else (None, granted)) as done:
                self.owner = owner or self.owner
                if acts:
                    done()
                if error is not None:
                    raise error
        except errors.BackendError:
            pass

    def excused(self):
        return self.overtaken.excuses(VOLUME, INITIATOR)

    def test_a_holder_that_kept_its_lease_is_not_excused(self):
        self.act()
        self.assertFalse(self.excused())

    def test_a_holder_that_lost_it_is_excused_until_it_ends(self):
        for error in (None, errors.BackendUncertain(reason='no answer')):
            with self.subTest(error=error):
                self.baton.current = self.task()
                self.act(owner=f'before {error}')
                self.act(owner=f'after {error}', error=error)
                self.assertTrue(self.excused())
                self.assertFalse(self.overtaken.excuses(VOLUME, 'another'))
                self.process.tasks.clear()
                self.assertFalse(self.excused())

    def test_a_process_that_has_enqueued_it_is_excused_until_the_worker_ends(self):
        self.act(owner='two')
        self.process.tasks.clear()
        self.task('recover')
        self.assertFalse(self.excused())
        self.task('repairer')
        self.assertTrue(self.excused())

    def test_a_holder_that_dies_cannot_repair_it(self):
        self.act(owner='two')
        self.process.dead = True
        self.process.tasks.clear()
        self.assertTrue(self.excused())

    def test_a_holder_that_is_refused_cannot_repair_it(self):
        self.act(owner='two')
        self.act('grant', error=errors.BackendRefused(reason='no'), acts=False)
        self.process.tasks.clear()
        self.assertTrue(self.excused())

    def test_repaired_pair_not_excused(self):
        self.act(owner='two')
        self.act('grant')
        self.assertFalse(self.excused())
