"""Command `blockattach-sanity`: each case against the service, and errors of its use."""
import json
import pathlib
import tempfile

from blockattach.tests.fixtures import exhaustive
from blockattach.tests.fixtures import polling
from blockattach.tests.functional import base
from blockattach.tests.functional import commands

PROJECT = '00000000000000000000000000000002'
OTHER = '00000000000000000000000000000003'
# Without a Nova to ask, the detach rule lets only a service delete the attachment of a server.
SETTINGS = '[nova]\ndetach_rule = on\n'


class SanityTest(base.StackTestCase):

    def sanity(self, service, *arguments):
        return commands.run('blockattach-sanity', [
            '--endpoint', f'{service.endpoint}/{PROJECT}',
            '--token', f'u1:{PROJECT}:member,reader',
            '--other-token', f'u2:{OTHER}:member,reader', '--reader-token', f'u3:{PROJECT}:reader',
            '--admin-token', f'a1:{PROJECT}', '--service-token', f'nova:{PROJECT}:service',
            *arguments], {'NO_PROXY': '127.0.0.1'})

    @exhaustive.only
    def test_sanity_passes_and_removes_its_resources(self):
        service = self.a_stack(settings=SETTINGS)
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / 'outcomes.json'
            done = self.sanity(service, '--json', str(file))
            found = json.loads(file.read_text(encoding='utf-8'))['cases']
        self.assertEqual([], [one for one in found if one['status'] != 'passed'],
                         done.output)
        self.assertEqual(0, done.status, done.errors)
        listed = commands.run('blockattach-sanity', ['--list'], {}).output
        self.assertTrue(listed.endswith(f'\n{len(found)} cases\n'))
        api = base.Api(f'{service.endpoint}/{PROJECT}')
        self.assertTrue(polling.until(lambda: not api.list('volumes')))
        self.assertEqual([], [kind['name'] for kind in api.list('volume_types', '/types')
                              if kind['name'].startswith('sanity-')])

    def test_sanity_with_invalid_arguments_exits_with_2(self):
        for arguments, words in (
                ((), 'specify a cloud'), (('--only', '('), 'regular expression'),
                (('--only', 'no such case'), 'no case matches'),
                (('--endpoint', 'http://127.0.0.1:1/v3', '--token', 't'), 'cannot reach')):
            with self.subTest(words):
                done = commands.run('blockattach-sanity', arguments, {})
                self.assertEqual(2, done.status)
                self.assertIn(words, done.errors)
                self.assertEqual('', done.output)

    def test_sanity_list_prints_sentences(self):
        done = commands.run('blockattach-sanity', ['--list', '--only', 'connect concurrently'], {})
        self.assertEqual(0, done.status)
        self.assertIn('  Sixteen hosts connect concurrently\n', done.output)
