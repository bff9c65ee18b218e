"""The simulation replays a seed exactly, finds planted defects, and reports no others.

The gate plays the first of the fixed seeds, and the layer ``exhaustive`` of ``tools/explore``
plays all of them. Its layer ``simulation`` plays longer and new seeds.
"""
import functools
import os
import pathlib
import subprocess
import sys
import unittest
from typing import Any

from blockattach.storage.domain import connection
from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import failpoint_names
from lab.simulation import direct
from lab.simulation import faults
from lab.simulation import hunting
from lab.simulation import many
from lab.simulation import nouns
from lab.simulation import play
from lab.simulation import unreached

ROOT = pathlib.Path(__file__).resolve().parents[3]
STEPS = 200
MOST_SEEDS = 20

# Failpoints on the way of a request or its work, which the simulation has to pass.
PASSED = ('control.', 'volume.', 'scheduler.',
          'rpc.volume.connect.', 'rpc.volume.disconnect.', 'rpc.volume.accept_work.',
          'rpc.volume.start_work.', 'rpc.scheduler.', 'backend.store.create.',
          'backend.store.delete.', 'backend.store.device.', 'backend.target.grant.',
          'backend.target.revoke.', 'backend.target.unexport.', 'backend.target.exports.',
          *(name for noun in nouns.NOUNS for name in noun.passed))
RARE = tuple(name for noun in nouns.NOUNS for name in noun.rare)


@functools.cache
def played(seed, steps, of=(), way=direct.Way.BROKER, clustered=None):
    return play.Simulation(seed, clustered=clustered, played=of, way=way).run(steps)


def traced(hash_seed):
    """Return the trace hash that the command prints, its exit status and its errors."""
    done = subprocess.run(
        [sys.executable, ROOT / 'tools' / 'simulate', '--seed', '7', '--steps', '50'],
        env={**os.environ, 'PYTHONHASHSEED': hash_seed}, capture_output=True, text=True,
        check=False)
    return done.stdout.rpartition('; trace ')[2], done.returncode, done.stderr


class ReplayTest(unittest.TestCase):

    def test_same_seed_gives_same_trace_for_any_hash_seed(self):
        first, second = traced('1'), traced('2')
        self.assertEqual(first, second)
        self.assertEqual((0, ''), first[1:])
        self.assertRegex(first[0], '^[0-9a-f]{16}\n$')

    def test_different_seeds_give_different_traces(self):
        self.assertNotEqual(played(7, 50).trace, played(8, 50).trace)

    def test_long_run_split_into_seeded_simulations(self):
        self.assertEqual([(1, 10, (), 'broker')], many.simulations(1, 10))
        self.assertEqual([(1, many.LONGEST, (), 'broker'), (1 + 1_000_003, 5, (), 'broker')],
                         many.simulations(1, many.LONGEST + 5))


class SoundTest(unittest.TestCase):

    def test_fixed_seeds_find_no_violation(self):
        for wanted in hunting.FIXED if exhaustive.wanted() else hunting.FIXED[:1]:
            with self.subTest(wanted.seed):
                report = played(*wanted)
                self.assertEqual([], [str(one) for one in report.violations])
                self.assertEqual(wanted.steps, report.steps)
                self.assertLess(10, sum(report.faults.values()))

    @exhaustive.only
    def test_failpoints_of_requests_reached(self):
        left = {name for name in failpoint_names.everywhere()
                if name.startswith(PASSED) and not name.startswith(RARE)
                and not unreached.has_reason(name)}
        for wanted in hunting.FIXED:
            left -= played(*wanted).points
        for seed in range(MOST_SEEDS):
            if not left:
                break
            left -= played(seed, STEPS, clustered=seed % 2 == 0).points
        self.assertEqual(set(), left)


class FindingTest(unittest.TestCase):
    """Findings in a service or a world with a planted defect."""

    def broken(self, seed):
        """Return a simulation whose clients mostly attach."""
        return play.Simulation(seed, faults.NONE, first_only=True, played=hunting.FIXED[0].nouns)

    def found(self, broken):
        return {one.said.partition(':')[0] for one in broken.run(STEPS).violations}

    def test_missing_revoke_detected(self):
        broken = self.broken(11)
        target: Any = broken.world.storage.target
        target.revoke = lambda volume_id, initiator: None
        self.assertIn('P7 nobody_else_is_granted', self.found(broken))

    def test_revoke_of_other_hosts_detected(self):
        broken = self.broken(12)
        target: Any = broken.world.storage.target
        revoke = target.revoke

        def clumsy(volume_id, initiator):
            for export in target.exports():
                for grant in export.grants:
                    if grant.volume_id == volume_id:
                        revoke(volume_id, grant.initiator)
        target.revoke = clumsy
        self.assertIn('P4 every_user_is_granted', self.found(broken))

    def test_ignored_read_only_mode_detected(self):
        broken = self.broken(13)
        target: Any = broken.world.storage.target
        grant = target.grant

        def open_handed(export, wanted):
            return grant(export, connection.Grant(
                wanted.volume_id, wanted.initiator, connection.AccessMode.RW, wanted.credential,
                wanted.alias))
        target.grant = open_handed
        self.assertIn('P5 modes_are_enforced', self.found(broken))

    def test_endless_wait_detected(self):
        broken: Any = play.Simulation(14, faults.NONE)
        begin = broken.deployed.begin
        broken.deployed.begin = lambda: (begin(), broken.baton.wait())
        broken.deployed.parts.clear()
        broken.deployed.serves = lambda: True
        self.assertEqual({'P9 stuck'}, self.found(broken))

