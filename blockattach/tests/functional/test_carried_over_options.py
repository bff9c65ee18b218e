"""Processes started with a file that was carried over from Cinder."""
import pathlib
import tempfile

from blockattach.tests.functional import base
from blockattach.tests.functional import commands

PROCESSES = ('all', 'api', 'control', 'scheduler', 'volume')


class CarriedOverOptionsTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix='blockattach-'))
        self.file = pathlib.Path(folder, 'cinder.conf')
        self.state = pathlib.Path(folder, 'state')
        # The state path is a file, so no process starts, and the test need not stop one.
        self.state.write_text('')

    def started(self, process, text):
        """Return the error with which the process refuses to start."""
        self.file.write_text(f'[DEFAULT]\nstate_path = {self.state}\n{text}', 'utf-8')
        done = commands.run(f'blockattach-{process}', ['--config-file', str(self.file)])
        self.assertEqual(1, done.status, done)
        self.assertNotIn('Traceback', done.errors)
        return done.errors

    def test_process_with_auth_strategy_of_cinder_refuses_to_start(self):
        for process in PROCESSES:
            with self.subTest(process):
                self.assertIn(
                    f'[DEFAULT] auth_strategy in {self.file} (set [api] auth_strategy instead)',
                    self.started(process, 'auth_strategy = keystone\n'))

    def test_process_with_accepted_option_gets_further(self):
        said = self.started('api', 'auth_strategy = keystone\n'
                            '[service]\naccept_unsupported = auth_strategy\n')
        self.assertIn('cannot create the state directory', said)
        self.assertIn('Ignoring unknown option ', said)
        self.assertIn('nearest=[api] auth_strategy', said)

    def test_unknown_group_is_logged(self):
        said = self.started('api', '[databse]\nconnection = sqlite://\n')
        self.assertIn('Ignoring unknown option group ', said)
        self.assertIn('group=databse nearest=database', said)
