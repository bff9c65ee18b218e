"""Units of tools/explore, their order, and the failures that it reports."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

from blockattach.tests.fixtures import polling
from blockattach.tests.rules import sources
from lab.explore import units as explore

FAILING = r'^(?:Failed|flaky): (?P<what>.+)$'


def unit(layer, name, seed=7):
    known = {one.name: one for one in explore.LAYERS}
    return explore.Unit(known[layer], name, seed)


class UnitsTest(unittest.TestCase):

    def setUp(self):
        self.units = explore.units(explore.LAYERS, 1)

    def test_modules_outside_gate_explored(self):
        modules = {'.'.join(path.relative_to(sources.ROOT).with_suffix('').parts)
                   for path in (sources.ROOT / explore.LABORATORY).rglob('test_*.py')}
        self.assertLess(0, len(modules))
        self.assertEqual(modules, {one.name for one in self.units
                                   if one.name.startswith(f'{explore.LABORATORY}.')})

    def test_gate_layers_disjoint_from_explored(self):
        layers = {one.name.rpartition('.')[2] for one in self.units if one.layer.name == 'gate'}
        self.assertLessEqual({'rules', 'unit', 'db', 'api', 'functional', 'conformance'}, layers)

    def test_lowest_versions_explored(self):
        self.assertEqual({'unit', 'api'}, {one.name for one in self.units
                                           if one.layer.name == 'lowest'})

    def test_random_tests_explored(self):
        names = {one.name for one in self.units if one.layer.name == 'random'}
        self.assertLessEqual({'blockattach.tests.api.test_random_requests',
                              'blockattach.tests.db.test_random_walk'}, names)

    def test_explored_modules_exist(self):
        for one in self.units:
            if one.name.startswith((f'{explore.TESTS}.', f'{explore.LABORATORY}.')):
                place = sources.ROOT / one.name.replace('.', '/')
                self.assertTrue(place.is_dir() or place.with_suffix('.py').exists(), one)

    def test_partly_gated_tests_explored_exhaustively(self):
        names = {one.name for one in self.units if one.layer.name == 'exhaustive'}
        self.assertLessEqual({'blockattach.tests.db.test_races',
                              'blockattach.tests.rules.test_judge',
                              'blockattach.tests.simulation.test_kills',
                              'blockattach.tests.simulation.test_seeds'}, names)
        self.assertNotIn('blockattach.tests.rules.test_explore', names)

    def test_every_planted_bug_explored_once(self):
        done = subprocess.run(
            [sys.executable, str(sources.ROOT / 'tools' / 'plant-bugs'), '--list'],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
        listed = [line.partition(':')[0] for line in done.stdout.splitlines()]
        planted = [word for one in self.units if one.layer.name == 'bugs'
                   for word in one.name.split() if word != '--only']
        self.assertEqual(listed, planted)

    def test_unit_keys_unique(self):
        self.assertEqual(len(self.units), len({one.key for one in self.units}))

    def test_unit_commands_executable(self):
        for one in self.units:
            command = [word for word in one.command.split() if '=' not in word][0]
            self.assertTrue(os.access(sources.ROOT / command, os.X_OK), one)

    def test_unit_seeds_derived_from_seed(self):
        self.assertEqual(self.units, explore.units(explore.LAYERS, 1))
        others = explore.units(explore.LAYERS, 2)
        self.assertEqual(set(), {one.seed for one in self.units} & {one.seed for one in others})
        # The units of a layer are the same without other layers.
        self.assertEqual(self.units[:explore.SIMULATIONS], explore.units(explore.LAYERS[:1], 1))


class OrderTest(unittest.TestCase):

    def test_never_explored_units_first_then_oldest(self):
        units = [unit('simulation', '1'), unit('simulation', '2'), unit('lab', 'a'),
                 unit('lab', 'b')]
        played = {'simulation 1': '2026-01-03T00:00:00', 'lab a': '2026-01-02T00:00:00'}
        self.assertEqual(['simulation 2', 'lab b', 'lab a', 'simulation 1'],
                         [one.key for one in explore.in_order(units, played)])


class FindsTest(unittest.TestCase):

    def test_failed_and_flaky_tests_reported(self):
        module = 'lab.faults.test_kills'
        command = f'BLOCKATTACH_TEST_SEED=7 tools/run-faults {module}'
        for status, word in ((1, 'Failed'), (0, 'flaky')):
            with self.subTest(word):
                output = f'...\n{word}: {module}.A.test_a\n{word}: {module}.A.test_b\n3 passed\n'
                self.assertEqual(
                    [explore.Find('faults', f'{module}.A.test_a', command),
                     explore.Find('faults', f'{module}.A.test_b', command)],
                    explore.finds(unit('faults', module), status, output))

    def test_violation_names_simulation_to_repeat(self):
        again = 'tools/simulate --seed 12 --steps 2500'
        output = (f'seed 12 step 88: P3 one_writes: x (y) ({again})\n'
                  f'seed 12 step 90: P4 nobody: z ({again})\n5000 operations in 2 simulations\n')
        self.assertEqual(
            [explore.Find('simulation', 'seed 12 step 88: P3 one_writes: x (y)', again)],
            explore.finds(unit('simulation', '1'), 1, output))

    def test_missed_bug_reported(self):
        output = 'one_lock: caught by seed 1: P3\nno_lock: missed by some.test\n1 of 2 caught\n'
        self.assertEqual(
            [explore.Find('bugs', 'no_lock: missed by some.test',
                          'tools/plant-bugs --only no_lock')],
            explore.finds(unit('bugs', '--only one_lock --only no_lock'), 1, output))

    def test_gate_test_command_writes_no_durations(self):
        name = 'blockattach.tests.unit'
        self.assertEqual([explore.Find('gate', 'a', f'tools/run-tests {name}')],
                         explore.finds(unit('gate', name), 1, 'Failed: a\n'))

    def test_unexplained_exit_status_reported(self):
        self.assertEqual(
            [explore.Find('bugs', '--only a exited with status 2', 'tools/plant-bugs --only a')],
            explore.finds(unit('bugs', '--only a'), 2, 'Traceback\n'))

    def test_timed_out_unit_reported(self):
        module = 'lab.guests.test_guest'
        command = f'tools/run-lab {module}'
        self.assertEqual([explore.Find('lab', 'a', command),
                          explore.Find('lab', f'{module} timed out', command)],
                         explore.finds(unit('lab', module), None, 'Failed: a\n'))

    def test_passed_unit_reports_nothing(self):
        self.assertEqual([], explore.finds(unit('lab', 'a'), 0, '3 passed, 0 failed\n'))

    def test_table_of_layers_and_failures(self):
        known = [unit('simulation', '1'), unit('simulation', '2'), unit('simulation', '3'),
                 unit('lab', 'a')]
        find = explore.Find('simulation', 'seed 3 step 4: P1', 'tools/simulate --seed 3 --steps 9')
        self.assertEqual(['layer       units     run  found  seconds',
                          'simulation      3       2      1      107',
                          'lab             1       0      0        0',
                          'simulation: seed 3 step 4: P1',
                          '    tools/simulate --seed 3 --steps 9'],
                         explore.table(known, {known[0]: 60.7, known[1]: 46.4}, [find]))


class CommandTest(unittest.TestCase):
    """Command tools/explore on layers of its own that take no time."""

    LAYERS = """
        import pathlib
        import sys

        from lab.explore import command
        from lab.explore import units

        def layer(name, text, names=('1',)):
            return units.Layer(name, lambda: names, text, {failing!r})

        LAYERS = (
            layer('simulation', 'echo {{seed}}'),
            layer('broken', 'WORD=Failed sh -c "echo $WORD: {{unit}}; exit 1"', ('one', 'two')),
            layer('endless', 'sh -c "setsid sleep 1000 & echo $! >{place}/left; wait"'),
        )
        sys.exit(command.main(sys.argv[1:], LAYERS, pathlib.Path({place!r}, 'kept'),
                              {limit}))
    """

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = pathlib.Path(folder.name)

    def begin(self, *arguments, limit=polling.LIMIT):
        text = textwrap.dedent(self.LAYERS.format(failing=FAILING, place=str(self.place),
                                                  limit=limit))
        process = subprocess.Popen(
            [sys.executable, '-c', text, *arguments], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True,
            env={**os.environ, 'PYTHONPATH': str(sources.ROOT)})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return process

    def explore(self, *arguments, **options):
        process = self.begin(*arguments, **options)
        output = process.communicate()[0]
        return process.returncode, output.splitlines()

    def test_explore_without_failures_exits_with_0(self):
        status, lines = self.explore('--seed', '5', 'simulation')
        self.assertEqual((0, 'tools/explore --seed 5', ['simulation', '1', '1', '0']),
                         (status, lines[0], lines[-1].split()[:4]))
        self.assertEqual([], list((self.place / 'kept' / 'found').iterdir()))

    def test_failures_printed_and_kept(self):
        status, lines = self.explore('broken')
        self.assertEqual((1, ['broken', '2', '2', '2']), (status, lines[-5].split()[:4]))
        self.assertEqual(['broken: one', 'broken: two'], lines[-4::2])
        kept = sorted((self.place / 'kept' / 'found').iterdir())
        self.assertEqual(['Failed: one\n', 'Failed: two\n'], [path.read_text() for path in kept])
        for path in kept:
            self.assertIn(str(path), '\n'.join(lines))

    def test_no_unit_started_after_time_limit(self):
        status, lines = self.explore('--minutes', '0')
        self.assertEqual((0, ['0', '0', '0']), (status, [line.split()[2] for line in lines[-3:]]))

    def test_endless_unit_killed_and_reported(self):
        status, lines = self.explore('endless', limit=1)
        self.assertEqual((1, 'endless: 1 timed out'), (status, lines[-2]))
        left = int((self.place / 'left').read_text())
        self.assertRaises(ProcessLookupError, os.kill, left, 0)

    def test_interrupted_unit_killed_and_not_recorded(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                # The unit blocks until the fifo is read.
                os.mkfifo(self.place / 'left')
                process = self.begin('simulation', 'endless')
                while '] sh -c' not in process.stdout.readline():
                    self.assertIsNone(process.poll())
                left = int((self.place / 'left').read_text())
                process.send_signal(number)
                lines = process.communicate()[0].splitlines()
                self.assertEqual(0, process.returncode)
                self.assertIn('Interrupted', lines)
                self.assertEqual(['endless', '1', '0', '0'], lines[-1].split()[:4])
                self.assertRaises(ProcessLookupError, os.kill, left, 0)
                (self.place / 'left').unlink()
                self.assertEqual(['simulation 1'], list(json.loads(
                    (self.place / 'kept' / 'played.json').read_text())))
                (self.place / 'kept' / 'played.json').unlink()

    def test_unknown_layer_rejected(self):
        done = subprocess.run([sys.executable, str(sources.ROOT / 'tools' / 'explore'), 'nowhere'],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        self.assertEqual(2, done.returncode)
        self.assertIn('unknown layers: nowhere', done.stderr)
