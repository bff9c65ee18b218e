"""Running of external programs until their end or their timeout."""
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

    def test_run_returns_output(self):
        self.assertEqual('a b\n', run('echo', 'a b'))

    def test_run_passes_only_given_environment(self):
        said = run('env', environment={'LVM_SYSTEM_DIR': '/x'})
        self.assertEqual({'PATH', 'LC_ALL', 'LVM_SYSTEM_DIR'},
                         {line.partition('=')[0] for line in said.splitlines()})
        self.assertIn('LC_ALL=C\n', said)

    def test_run_uses_no_shell(self):
        self.assertEqual('$(id); x\n', run('echo', '$(id); x'))

    def test_failed_command_has_exit_code_and_stderr(self):
        with self.assertRaises(lvm.CommandFailed) as caught:
            run('sh', '-c', 'echo said; echo wrong >&2; exit 5')
        self.assertEqual(('sh -c', 5, 'wrong'), caught.exception.args)

    def test_missing_program_named_in_error(self):
        with self.assertRaises(lvm.CommandMissing) as caught:
            run('no-such-program')
        self.assertEqual('no-such-program', caught.exception.args[0])

    def test_hanging_command_killed_with_children(self):
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

    def test_errors_rebuilt_from_their_arguments(self):
        for error in (lvm.CommandFailed('lvm lvs', 5, 'no'),
                      lvm.CommandHung('lvm lvs', 60.0),
                      lvm.CommandMissing('lvm', 'No such file')):
            again = type(error)(*error.args)
            self.assertEqual(error.args, again.args)
