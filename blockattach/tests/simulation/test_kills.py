"""Death of each process at each place of an operation.

The started work is finished or undone, no host is interrupted, and nothing is orphaned. In a
cluster the process does not restart, and the other member continues its work.

The gate plays each place of an attach and of a detach, and every 24th of the other places that no
earlier operation has passed. The layer ``exhaustive`` of ``tools/explore`` plays every place of
every operation that the promises cover.
"""
import collections
import unittest

from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import failpoint_names
from lab.simulation import nouns
from lab.simulation import operations
from lab.simulation import unreached
from lab.simulation import walk

NAMES = (*(one.name for one in nouns.OPERATIONS), operations.START, operations.STOP)
IN_CLUSTER = (*walk.IN_CLUSTER, operations.STOP)
ALWAYS = ('attach', 'detach')
"""Operations in which the gate plays each place, even if an earlier operation has passed it."""


def chosen(places):
    """Yield the places that this run plays, in order. A process dies in each operation."""
    known: set[tuple[str, str]] = set()
    new: collections.Counter[str] = collections.Counter()
    for one in places:
        names = {(one.process, one.place), (one.process, one.operation)}
        if not names <= known:
            new[one.operation] += 1
        first = not names <= known and new[one.operation] % 24 == 1
        if exhaustive.wanted() or one.operation in ALWAYS or first:
            yield one
        known |= names


class EverywhereTest(unittest.TestCase):

    def test_each_failpoint_is_passed_or_somebody_says_why_not(self):
        passed = {one.place for clustered in (False, True) for one in walk.places(clustered)}
        self.assertEqual([], sorted(unreached.wrong(failpoint_names.everywhere(), passed)))

    def test_each_operation_is_played(self):
        for clustered, names in ((False, NAMES), (True, IN_CLUSTER)):
            self.assertEqual(set(names), {
                one.operation for one in chosen(walk.places(clustered))})


class KillsTestCase(unittest.TestCase):
    """Test case per operation. In the gate some tests play several, which takes less time."""

    clustered = False

    def dies_everywhere(self, names):
        places = [one for one in chosen(walk.places(self.clustered)) if one.operation in names]

        def act(walked):
            for one in places:
                walked.die(one)
        played = walk.Walk(self.clustered)
        played.play(act)
        self.assertEqual(len(places), played.killed)


class AloneTest(KillsTestCase):
    """Deaths after which the process restarts."""


class ClusterTest(KillsTestCase):
    """Deaths in a cluster, whose other member continues in place of the volume manager."""

    clustered = True


class StandStillTest(unittest.TestCase):
    """Pause of a process beyond the time limits of its work, after which it resumes or dies."""

    PLACES = exhaustive.Part(0, 4).chosen(tuple(walk.Place(*one) for one in (
        ('create', operations.API, 'control.volumes.after_create'),
        ('create', operations.SCHEDULER, 'scheduler.flows.after_claim'),
        ('create', operations.MANAGER, 'volume.volumes.before_create'),
        ('connect', operations.API, 'control.attachments.after_connect_intent'),
        ('attach', operations.MANAGER, 'backend.target.grant.before'),
        ('attach', operations.MANAGER, 'volume.attachments.after_grant'),
        ('detach', operations.API, 'control.attachments.after_disconnect_intent'),
        ('detach', operations.MANAGER, 'backend.target.revoke.before'),
        ('delete', operations.MANAGER, 'volume.volumes.after_unexport'),
        ('consumer', operations.CONTROL, 'control.attachments.after_connect_intent'))))
    # The first is longer than every deadline and client timeout, and the second is shorter.
    SECONDS = (70, 25)

    def everywhere(self, seconds, dies):
        def act(walked):
            for one in self.PLACES:
                walked.stand_still(one, seconds, dies)
        walk.Walk().play(act)

    def test_paused_process_resumes(self):
        for seconds in self.SECONDS:
            self.everywhere(seconds, dies=False)

    def test_paused_process_dies(self):
        for seconds in self.SECONDS:
            self.everywhere(seconds, dies=True)


def _add(case, name, names):
    def test(self):
        self.dies_everywhere(names)
    test.__name__ = f'test_{name.replace(" ", "_").replace("-", "_")}'
    setattr(case, test.__name__, test)


GROUPS = 4
for _case, _names in ((ClusterTest, IN_CLUSTER), (AloneTest, NAMES)):
    if exhaustive.wanted():
        for _name in _names:
            _add(_case, _name, (_name,))
    else:
        for _number in range(GROUPS):
            _add(_case, f'group_{_number}', _names[_number::GROUPS])
