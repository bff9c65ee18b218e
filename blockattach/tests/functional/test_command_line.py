"""Help and shell completion of each command."""
import importlib.metadata
import os
import re
import shutil
import subprocess
import tempfile

from blockattach.tests.fixtures import polling
from blockattach.tests.functional import base
from blockattach.tests.functional import commands
from blockattach.tests.rules import sources
from blockattach.tests.rules import test_packaging

OF_LIBRARIES = 'options of oslo.config and oslo.log:'
# Complete the last word of a command line in bash.
COMPLETE = """
eval "$SCRIPT"
COMP_WORDS=({program} {words} "$LAST")
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
{function}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# Complete lines in zsh on a pseudo-terminal, and print what the command gets.
TYPE = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'eval "$SCRIPT"; blockattach-manage() { print -r -- "<$*>" }; print rea""dy'
zpty -r shell said $'*ready\r\n*'
for line in "$@"; do
    zpty -w -n shell "$line"$'\t\n'
    zpty -r shell said $'*>\r\n*'
    print -r -- "${said##*<}"
done
zpty -d shell
"""


def names():
    """Return the name of each console script of the service."""
    return [name for group, name, place in test_packaging.entry_points()
            if group == 'console_scripts' and place.startswith('blockattach.cmd.')]


class CommandLineTestCase(base.StackTestCase):

    def said(self, name, *arguments, status=0):
        done = commands.run(name, arguments, {'COLUMNS': '80'})
        self.assertEqual(status, done.status, done.errors)
        self.assertNotIn('Traceback', done.errors)
        return done.errors if status else done.output


class HelpTest(CommandLineTestCase):

    def test_version_option_prints_version(self):
        for name in (*names(), 'blockattach-sanity'):
            with self.subTest(name):
                self.assertEqual(f'{importlib.metadata.version("blockattach")}\n',
                                 self.said(name, '--version'))

    def test_help_starts_with_description(self):
        for name in names():
            with self.subTest(name):
                usage, text = self.said(name, '--help').split('\n\n')[:2]
                self.assertRegex(usage, rf'^usage: {name} \[OPTION\.\.\.\]( COMMAND \.\.\.)?$')
                self.assertRegex(text, r'^[A-Z][^\n]+[.)]$')

    def test_help_lists_library_options_last(self):
        for name in names():
            with self.subTest(name):
                ours, _, theirs = self.said(name, '--help').partition(OF_LIBRARIES)
                self.assertIn('--config-file', ours)
                self.assertNotIn('--log-file', ours)
                self.assertNotIn('--nouse-syslog', ours)
                self.assertIn('--log-file', theirs)
                self.assertIn('--debug, -d', theirs)

    def test_own_options_documented_on_page(self):
        pages = sources.load_tool('print_commands')
        for name in names():
            page = pages.page(name)
            ours = self.said(name, '--help').partition(OF_LIBRARIES)[0]
            for option in re.findall(r'^  (?:-\w, )?(--[\w-]+)', ours, re.M):
                with self.subTest(f'{name} {option}'):
                    self.assertRegex(page, rf'(?m)^.*``{option}[ `]')

    def test_help_lists_own_options_first(self):
        text = self.said('blockattach-all', '--help')
        options = re.findall(r'^  (?:-\w, )?(--[\w-]+)', text, re.M)
        self.assertEqual(['--backend', '--listen', '--state-dir'], options[:3])

    def test_each_subcommand_described_in_sentence(self):
        for words in ((), ('db',), ('attachments',), ('secrets',), ('service',), ('work',)):
            text = self.said('blockattach-manage', *words, '--help')
            found = re.findall(r'^    (\w+)\n? {2,}(\S.+(?:\n {8,}\S.*)*)', text, re.M)
            self.assertGreaterEqual(len(found), 2, text)
            for name, sentence in found:
                with self.subTest(' '.join((*words, name))):
                    said = ' '.join(sentence.split())
                    self.assertRegex(said, r'^[A-Z].*\.$')
                    self.assertGreaterEqual(len(said.split()), 4, said)

    def test_missing_subcommand_lists_all(self):
        self.assertIn('{sync,version,online_data_migrations,purge}',
                      self.said('blockattach-manage', 'db', status=2).splitlines()[-1])
        self.assertIn('{attachments,compute_db,db,import,reconcile,secrets,service,target,work}',
                      self.said('blockattach-manage', status=2).splitlines()[-1])
        self.assertIn('{check}',
                      self.said('blockattach-status', 'upgrade', status=2).splitlines()[-1])


class CompletionTest(CommandLineTestCase):

    def completed(self, name, *words, last=''):
        """Return what bash offers for the last word."""
        script = self.said(name, '--shell_completion', 'bash')
        done = subprocess.run(
            ['bash', '-euc', COMPLETE.format(program=name, words=' '.join(words),
                                             function='_' + name.replace('-', '_'))],
            env={'SCRIPT': script, 'LAST': last}, text=True, capture_output=True, check=False)
        self.assertEqual('', done.stderr)
        return done.stdout.split()

    def test_completion_offers_options(self):
        for name in names():
            with self.subTest(name):
                self.assertEqual(['--config-dir', '--config-file'],
                                 self.completed(name, last='--config'))

    def test_completion_offers_nouns_verbs_and_choices(self):
        self.assertEqual(['db'], self.completed('blockattach-manage', last='d'))
        self.assertEqual(['db'], self.completed('blockattach-manage', '--debug', last='d'))
        self.assertEqual(['--help', 'sync', 'version', 'online_data_migrations', 'purge'],
                         self.completed('blockattach-manage', 'db'))
        self.assertEqual(['--max-rows'],
                         self.completed('blockattach-manage', 'db', 'purge', '30', last='--m'))
        self.assertEqual(['text', 'json'],
                         self.completed('blockattach-manage', 'reconcile', '--format'))
        self.assertEqual(['check'], self.completed('blockattach-status', 'upgrade', last='c'))

    def test_completion_leaves_files_to_shell(self):
        self.assertEqual([], self.completed('blockattach-api', '--config-file', last='/etc/'))

    def test_zsh_completion(self):
        zsh = shutil.which('zsh')
        if zsh is None:
            self.assertNotEqual('true', os.environ.get('CI'), 'zsh is not installed')
            self.skipTest('zsh is not installed')
        wanted = {
            'd': 'db', '--debug d': '--debug db', 'db pu': 'db purge',
            'db purge 30 --m': 'db purge 30 --max-rows', 'reconcile --format j':
            'reconcile --format json', '--config-f': '--config-file',
            '--config-file /dev/nul': '--config-file /dev/null'}
        script = self.said('blockattach-manage', '--shell_completion=zsh')
        with tempfile.TemporaryDirectory(prefix='blockattach-') as home:
            done = subprocess.run(
                [zsh, '-fc', TYPE, 'type', *(f'blockattach-manage {line}' for line in wanted)],
                env={**os.environ, 'SCRIPT': script, 'HOME': home, 'ZDOTDIR': home,
                     'TERM': 'dumb'},
                text=True, capture_output=True, timeout=polling.LIMIT, check=False)
        self.assertEqual(list(wanted.values()), re.findall(r'^(.*)>$', done.stdout, re.M),
                         done.stderr)
