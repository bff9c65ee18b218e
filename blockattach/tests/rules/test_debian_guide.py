"""Guide for Debian, which names existing options, programs and files."""
import configparser
import importlib.metadata
import pathlib
import re
import shlex
import tempfile
import unittest

from oslo_config import cfg

from blockattach.cmd import manage
from blockattach.platform import log
from blockattach.platform.http import keystone
from blockattach.platform.http import outer_middleware
from blockattach.platform.rpc import transport
from blockattach.storage.conf import backend
from blockattach.tests.rules import sources
from blockattach.tests.rules import test_operator_files
from blockattach.wiring import options

GUIDE = sources.ROOT / 'doc' / 'source' / 'install' / 'debian.rst'
ETC = sources.ROOT / 'etc'
BACKEND = 'disks'
# Package of each command, or None for a command on a machine that the guide does not set up.
PROGRAMS = {
    'apt-get': 'apt', 'cd': 'bash', 'curl': None, 'install': 'coreutils', 'ln': 'coreutils',
    # The package depends on the one that contains the command.
    'journalctl': 'systemd', 'openssl': 'ca-certificates', 'openstack': None,
    'python3': 'python3-venv', 'rabbitmqctl': None, 'runuser': 'util-linux',
    'systemctl': 'systemd', 'useradd': 'passwd', 'tr': 'coreutils'}
ESSENTIAL = {'apt', 'bash', 'coreutils', 'passwd', 'systemd', 'util-linux'}


def blocks(text, language):
    """Return the examples in a language without their indent."""
    found = re.findall(rf'^\.\. code-block:: {language}\n\n((?:   .*\n|\n)+)', text, re.M)
    return [re.sub('^   ', '', block, flags=re.M) for block in found]


def commands(text):
    """Yield the words of each shell command of the guide."""
    for block in re.findall(r'(?:^|[^:])::\n\n((?:    .*\n|\n)+)', text, re.M):
        for line in block.replace('\\\n', ' ').splitlines():
            for part in line.partition(' > ')[0].split(' | '):
                if words := shlex.split(part):
                    yield words


def unknown_commands(text):
    """Yield commands that do not exist, or whose package the guide does not install."""
    every = list(commands(text))
    wanted = {word for words in every if words[:2] == ['apt-get', 'install'] for word in words}
    client = {point.name for point in importlib.metadata.entry_points(
        group='openstack.volume.v3')}
    for words in every:
        line, program = ' '.join(words), words[0]
        if not program.startswith('/opt/') and (program not in PROGRAMS or PROGRAMS[
                program] not in wanted | ESSENTIAL | {None}):
            yield line
        if program == 'openstack' and not client & {
                '_'.join(words[1:end]) for end in range(2, len(words) + 1)}:
            yield line
        if found := re.search(r'/blockattach-manage (\S+) (\S+)', line):
            noun = manage.NOUNS.get(found[1])
            if noun is None or found[2] not in noun.commands:
                yield line


def missing_units(text):
    """Yield units that the guide names and that do not exist."""
    for words in commands(text):
        if words[0] in ('systemctl', 'journalctl'):
            yield from (word for word in words if re.fullmatch('blockattach-[a-z]+', word)
                        and not (ETC / 'systemd' / f'{word}.service').exists())


def configuration(text):
    """Return the configuration that the guide writes into blockattach.conf."""
    parser = configparser.ConfigParser(interpolation=None, default_section='')
    for block in blocks(text, 'ini'):
        if not block.startswith('[Service]'):
            parser.read_string(block)
    return parser


def unknown_options(text):
    """Yield options that no process reads, or whose values are invalid."""
    return unread(configuration(text))


def unread(parser, backends=(BACKEND,)):
    """Yield options of a configuration that no process reads, or whose values are invalid."""
    with tempfile.NamedTemporaryFile('w', prefix='blockattach-') as file:
        parser.write(file)
        file.flush()
        conf = cfg.ConfigOpts()
        log.register(conf)
        conf(['--config-file', file.name], project='blockattach')
        options.register(conf)
        transport.register_options(conf)
        outer_middleware.register(conf)
        keystone.register(conf)
        for name in backends:
            backend.register(conf, name)
        for group in parser.sections():
            owner = conf if group == 'DEFAULT' else conf[group]
            for name in parser[group]:
                try:
                    owner[name]
                except (cfg.NoSuchOptError, cfg.ConfigFileValueError) as exc:
                    yield f'[{group}] {name}: {exc}'


def missing_files(text):
    """Yield files of etc/ that the guide names and that do not exist."""
    named = re.findall(r'(?:/opt/blockattach/etc/blockattach/|\s|``)((?:uwsgi|granian|systemd|'
                       r'logrotate\.d)/[\w.-]+)', text)
    yield from (name for name in named if not (ETC / name).exists())
    named = re.findall(r'/opt/blockattach/etc/blockattach/([\w.-]+\.(?:sample|conf))', text)
    yield from (name for name in named if not (ETC / 'blockattach' / name).exists())


def missing_programs(text):
    """Yield programs of the virtual environment that are not installed in it."""
    there = test_operator_files.scripts() | {'pip', 'oslo-config-generator'}
    yield from {name for name in re.findall(r'/opt/blockattach[\d.-]*/bin/([a-z-]+)', text)
                if name not in there}


class DebianGuideTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.text = GUIDE.read_text('utf-8')

    def test_guide_follows_rules(self):
        self.assertEqual(['health'], [group for group in configuration(self.text).sections()
                                      if group == 'health'])
        self.assertGreater(len(list(commands(self.text))), 40)
        for rule in (unknown_options, missing_files, missing_programs, unknown_commands,
                     missing_units):
            with self.subTest(rule=rule.__name__):
                self.assertEqual([], list(rule(self.text)))

    def test_guide_mistakes_found(self):
        for rule, text in (
                (unknown_options, '.. code-block:: ini\n\n   [api]\n   authentication = no\n'),
                (unknown_options, '.. code-block:: ini\n\n   [api]\n   port = door\n'),
                (missing_files, 'install -m 0644 systemd/blockattach-cinder.service /etc\n'),
                (missing_files, '/opt/blockattach/etc/blockattach/cinder.conf.sample\n'),
                (missing_programs, '/opt/blockattach/bin/cinder-manage db sync\n'),
                (unknown_commands, 'So::\n\n    /opt/blockattach/bin/blockattach-manage db s\n'),
                (unknown_commands, 'So::\n\n    openstack volume party list\n'),
                (unknown_commands, 'So::\n\n    python3 -m venv x\n'),
                (unknown_commands, 'So::\n\n    dnf install tgt\n'),
                (missing_units, 'So::\n\n    systemctl start blockattach-party\n')):
            with self.subTest(text):
                self.assertNotEqual([], list(rule(text)))

    def test_health_file_in_runtime_directory_of_unit(self):
        """Each unit creates the folder that its process writes to."""
        self.assertEqual('/run/{process}/health', configuration(self.text)['health']['file'])
        units = sorted((ETC / 'systemd').glob('*.service'))
        self.assertTrue(units)
        for unit in units:
            with self.subTest(unit=unit.name):
                self.assertEqual([unit.stem], re.findall(r'^RuntimeDirectory=(.*)$',
                                                         unit.read_text(), re.M))
        looked = {pathlib.PurePath(path).parent.name
                  for path in re.findall(r'--file (/run/\S+)', self.text)}
        self.assertTrue(looked)
        self.assertLessEqual(looked, {unit.stem for unit in units})
