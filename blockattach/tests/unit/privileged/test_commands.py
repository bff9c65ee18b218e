"""An outside program is run to its end or to its deadline, and nothing of it stays."""
import os
import pathlib
import tempfile
import unittest

from blockattach.storage.privileged import lvm

# A deadline that only a failure ever reaches.
SECONDS = 60.0


def run(*words, seconds=SECONDS, environment=None):
    return lvm.run(words, seconds, environment or {})


class CommandsTest(unittest.TestCase):

    def test_what_it_says_comes_back(self):
        self.assertEqual('a b\n', run('echo', 'a b'))

    def test_it_gets_only_what_it_is_given(self):
        said = run('env', environment={'LVM_SYSTEM_DIR': '/x'})
        self.assertEqual({'PATH', 'LC_ALL', 'LVM_SYSTEM_DIR'},
                         {line.partition('=')[0] for line in said.splitlines()})
        self.assertIn('LC_ALL=C\n', said)

    def test_no_shell_reads_it(self):
        self.assertEqual('$(id); x\n', run('echo', '$(id); x'))

    def test_its_failure_is_reported_with_its_complaint(self):
        with self.assertRaises(lvm.CommandFailed) as caught:
            run('sh', '-c', 'echo said; echo wrong >&2; exit 5')
        self.assertEqual(('sh -c', 5, 'wrong'), caught.exception.args)

    def test_a_program_that_is_missing_is_reported(self):
        with self.assertRaises(lvm.CommandMissing) as caught:
            run('no-such-program')
        self.assertEqual('no-such-program', caught.exception.args[0])

    def test_one_that_hangs_is_killed_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            pids = pathlib.Path(folder, 'pids')
            for seconds in (1.0, 10.0, SECONDS):
                with self.assertRaises(lvm.CommandHung) as caught:
                    run('sh', '-c', f'sleep 1000 & echo $$ $! >{pids}; wait', seconds=seconds)
                self.assertEqual(('sh -c', seconds), caught.exception.args)
                # A busy machine may not have come so far as to write them.
                if pids.exists() and pids.read_text():
                    break
            parent, child = (int(pid) for pid in pids.read_text().split())
        self.assertFalse(os.path.exists(f'/proc/{parent}'))
        # Nobody waits for the child but the first process of the machine, which may take its time.
        state = pathlib.Path(f'/proc/{child}/stat')
        self.assertTrue(not state.exists() or state.read_text().split()[2] in 'ZX')

    def test_an_error_is_the_same_on_the_other_side_of_the_border(self):
        for error in (lvm.CommandFailed('lvm lvs', 5, 'no'),
                      lvm.CommandHung('lvm lvs', 60.0),
                      lvm.CommandMissing('lvm', 'No such file')):
            again = type(error)(*error.args)
            self.assertEqual(error.args, again.args)
