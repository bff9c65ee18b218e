"""The operator's rules, changed while the service runs."""
import pathlib
import tempfile

from blockattach.tests.functional import base


class PolicyFilesTest(base.StackTestCase):

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix='blockattach-')
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / 'policy.yaml'
        self.file.write_text('"volume:get_all": "role:admin"\n')
        (self.folder / 'policy.d').mkdir()
        self.service = self.a_stack(settings=(
            f'[oslo_policy]\npolicy_file = {self.file}\n'
            f'policy_dirs = {self.folder / "policy.d"}\n'))
        self.api = base.Api(self.service.endpoint)

    def becomes(self, status):
        return base.wait_for(lambda: self.api.ask('GET', '/volumes')[0] == status)

    def test_a_file_counts_when_it_has_changed(self):
        self.assertEqual(200, self.api.ask('GET', '/volumes')[0])
        self.file.write_text('"volume:get_all": "!"\n')
        self.assertTrue(self.becomes(403))
        own = self.folder / 'policy.d' / 'own.yaml'
        own.write_text('"volume:get_all": "role:reader"\n')
        self.assertTrue(self.becomes(200))
        own.write_text('"volume:get_all": "role:reader" and\n')
        self.assertTrue(base.wait_for(lambda: 'Cannot reload the policy' in
                                      self.service.log_text() or not self.becomes(200)))
        self.assertEqual(200, self.api.ask('GET', '/volumes')[0])
        # The log file, and what the process says on standard error, are one here.
        line, = {line for line in self.service.log_text().splitlines() if ' ERROR ' in line}
        self.assertIn(f'Cannot read the policy files: {own}: ', line)
        own.unlink()
        self.assertTrue(self.becomes(403))
