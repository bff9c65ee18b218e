"""The compose file names existing programs, options, files and conditions, and no secret.

`test_operator_files` checks it against its schema, and `lab/system/test_compose.py` runs it.
"""
import configparser
import copy
import functools
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import keystone.conf.opts
import yaml

from blockattach.cmd import manage
from blockattach.platform.conf import core
from blockattach.tests.fixtures import polling
from blockattach.tests.rules import sources
from blockattach.tests.rules import test_debian_guide as guide
from blockattach.tests.rules import test_operator_files as operator_files

FOLDER = sources.ROOT / 'etc' / 'container'
IMAGE = 'blockattach:'
KEYSTONE = 'blockattach-keystone:'
CONFIGURED = ['--config-file', '/etc/blockattach/blockattach.conf',
              '--config-file', '/run/secrets/blockattach-secrets.conf']
# Programs in the images that the project does not build, and in that of Keystone.
OF_OTHERS = {'mariadb': {'healthcheck.sh'}, 'rabbitmq': {'rabbitmq-diagnostics'},
             'blockattach-keystone': {'sh', 'python3', 'uwsgi'}}
SECRET = re.compile('pass|secret', re.I)


def composition():
    return yaml.safe_load((FOLDER / 'compose.yaml').read_text('utf-8'))


def ours(found):
    """Return the services that run the image of the project."""
    return {name: one for name, one in found['services'].items()
            if one['image'].startswith(IMAGE)}


def is_once(service):
    """Return True if the process of the service ends by itself."""
    return service['restart'] == 'no'


def configuration(*texts):
    """Return the configuration from the texts of several files of oslo.config."""
    parser = configparser.ConfigParser(interpolation=None, default_section='')
    for text in texts:
        parser.read_string(text)
    return parser


def own_configuration(found):
    """Return the configuration of the project's processes, with that of their environment."""
    parser = configuration((FOLDER / found['configs']['blockattach.conf']['file']).read_text())
    for service in ours(found).values():
        for name, value in service.get('environment', {}).items():
            group, _, option = name.removeprefix('OS_').lower().partition('__')
            if not parser.has_section(group):
                parser.add_section(group)
            parser[group][option] = re.sub(r'\$\{\w+\}', '192.0.2.10', value)
    return parser


def unknown_programs(found):
    """Yield commands that the image of a service does not have, or that do not exist."""
    for name, service in found['services'].items():
        known = OF_OTHERS.get(service['image'].partition(':')[0], operator_files.scripts())
        # The command of a third-party image is an argument of its entry point.
        own = service['image'].startswith((IMAGE, KEYSTONE))
        words = [service['command']] if own else []
        words += [service['healthcheck']['test'][1:]] if 'healthcheck' in service else []
        yield from (f'{name}: {each[0]}' for each in words if each[0] not in known)
        for script in re.findall(r'/opt/keystone-scripts/(\S+)', ' '.join(sum(words, []))):
            if not (FOLDER / 'keystone' / script).exists():
                yield f'{name}: {script}'
    for name, service in ours(found).items():
        program, *arguments = service['command']
        if arguments[:4] != CONFIGURED:
            yield f'{name}: {arguments}'
        if program == 'blockattach-manage' and (
                arguments[5] not in manage.NOUNS[arguments[4]].commands):
            yield f'{name}: {arguments}'


def unknown_options(found):
    """Yield options that no process reads."""
    yield from guide.unread(own_configuration(found))
    known = {(str(group), option.dest) for group, listed in keystone.conf.opts.list_opts()
             for option in listed} | {('database', 'connection'), ('DEFAULT', 'use_stderr')}
    parser = configuration((FOLDER / found['configs']['keystone.conf']['file']).read_text())
    yield from (f'[{group}] {option}' for group in parser.sections() for option in parser[group]
                if (group, option) not in known)


def unlooked_health(found):
    """Yield long-running services without a check of the health file that their process writes."""
    place = own_configuration(found)['health']['file']
    for name, service in found['services'].items():
        if ('healthcheck' in service) == is_once(service):
            yield f'{name}: healthcheck'
    for name, service in ours(found).items():
        looked = ['CMD', 'blockattach-status', 'health', '--file',
                  place.replace('{process}', service['command'][0])]
        if not is_once(service) and service['healthcheck']['test'] != looked:
            yield f'{name}: {service["healthcheck"]["test"]}'


def undeclared(found):
    """Yield names that services use and the file does not declare, and the other way round."""
    for kind in ('secrets', 'configs', 'volumes', 'networks'):
        used = set()
        for service in found['services'].values():
            used |= {one['source'] if isinstance(one, dict) else one.partition(':')[0]
                     for one in service.get(kind, ())}
        yield from (f'{kind}: {name}' for name in used ^ set(found[kind]))


def broken_conditions(found):
    """Yield conditions that never become true, and services that end and that no other awaits.

    "up --wait" reports the end of such a service as a failure.
    """
    waited_for = {other for one in found['services'].values()
                  for other in one.get('depends_on', ())}
    yield from (f'{name}: ends' for name, service in found['services'].items()
                if is_once(service) and name not in waited_for)
    for name, service in found['services'].items():
        for other, wanted in service.get('depends_on', {}).items():
            once = wanted['condition'] == 'service_completed_successfully'
            if other not in found['services'] or is_once(found['services'][other]) != once:
                yield f'{name}: {other}'


def unpinned(found):
    """Yield images whose contents may change, or that somebody else may publish."""
    made = (FOLDER / 'keystone' / 'Containerfile').read_text()
    for name, service in found['services'].items():
        own = service['image'].startswith((IMAGE, KEYSTONE))
        if service['image'].startswith(KEYSTONE) and (
                f' keystone=={service["image"].partition(":")[2]} ' not in made):
            yield f'{name}: {service["image"]} is not what is installed'
        if not re.search(r':(\d+\.\d+\.\d+|\$\{VERSION[^}]*\})$', service['image']):
            yield f'{name}: {service["image"]}'
        if own != (service.get('pull_policy') == 'never'):
            yield f'{name}: pull_policy'
        if own and not any(one['image'] == service['image'] and 'build' in one
                           for one in found['services'].values()):
            yield f'{name}: nobody builds {service["image"]}'


def leaks(found):
    """Yield secrets that are visible in the file, an environment or an argument."""
    for name, service in found['services'].items():
        for key, value in service.get('environment', {}).items():
            if SECRET.search(key) and not value.startswith('/run/secrets/'):
                yield f'{name}: {key}'
        for word in [*service.get('command', ()), *service.get('environment', {}).values()]:
            if re.search(r'://[^/]*@|pass\w*[= ]', word, re.I):
                yield f'{name}: {word}'
    for config in found['configs'].values():
        for line in (FOLDER / config['file']).read_text().splitlines():
            option, _, value = line.partition('=')
            if not line.startswith('#') and value and (SECRET.search(option) or '@' in value):
                yield f'{config["file"]}: {line}'


def rights(found):
    """Yield services whose processes or ports have more rights than they need."""
    for name, service in found['services'].items():
        if 'no-new-privileges:true' not in service['security_opt']:
            yield f'{name}: security_opt'
        own = service['image'].startswith((IMAGE, KEYSTONE))
        if own and (service['cap_drop'], service['read_only']) != (['ALL'], True):
            yield f'{name}: cap_drop, read_only'
        place = '${BLOCKATTACH_ADDRESS}:' if own else '127.0.0.1:'
        yield from (f'{name}: {port}' for port in service.get('ports', ())
                    if not port.startswith(place))


def short_timeout(found):
    """Yield services that are killed before they can abort their running work."""
    grace = [option.default for option in core.OPTS
             if option.name == 'graceful_shutdown_timeout'][0]
    for name, service in found['services'].items():
        seconds = int(service.get('stop_grace_period', '0s').removesuffix('s'))
        if not is_once(service) and seconds < (grace + 10 if name in ours(found) else 30):
            yield f'{name}: {seconds}'


def unwritable(found):
    """Yield folders that a process cannot write to, and volumes without a folder in the image.

    The container engine would create such a volume with root as its owner.
    """
    options = own_configuration(found)
    folders = {options['DEFAULT']['state_path'],
               str(pathlib.Path(options['DEFAULT']['seal_key_file']).parent),
               str(pathlib.Path(options['health']['file']).parent)}
    made = (FOLDER / 'Containerfile').read_text()
    for name, service in ours(found).items():
        mounted = {one.partition(':')[0] for one in service['tmpfs']} | {
            one.partition(':')[2] for one in service['volumes']}
        yield from (f'{name}: {folder}' for folder in folders if folder not in mounted)
        for one in service['volumes']:
            if not re.search(rf'install -d -m 0700 [^&]* {one.partition(":")[2]}\s', made):
                yield f'{name}: {one}'


RULES = (unknown_programs, unknown_options, unlooked_health, undeclared, broken_conditions,
         unpinned, leaks, rights, short_timeout, unwritable)


class ComposeTest(unittest.TestCase):

    def test_compose_file_follows_rules(self):
        found = composition()
        self.assertEqual(5, len(ours(found)))
        for rule in RULES:
            with self.subTest(rule=rule.__name__):
                self.assertEqual([], list(rule(found)))

    def test_compose_file_mistakes_found(self):
        for rule, place, value in (
                (unknown_programs, 'services/api/command', ['cinder-api', *CONFIGURED]),
                (unknown_programs, 'services/api/command', ['blockattach-api']),
                (unknown_programs, 'services/db-sync/command',
                 ['blockattach-manage', *CONFIGURED, 'db', 'party']),
                (unknown_programs, 'services/keystone-setup/command',
                 ['sh', '/opt/keystone-scripts/none.sh']),
                (unknown_programs, 'services/rabbitmq/healthcheck', {'test': ['CMD', 'true']}),
                (unknown_options, 'services/api/environment', {'OS_API__PARTY': 'yes'}),
                (unknown_options, 'configs/keystone.conf', {'file': 'blockattach.conf'}),
                (unlooked_health, 'services/api/healthcheck', {'test': [
                    'CMD', 'blockattach-status', 'health', '--file', '/run/other.health']}),
                (unlooked_health, 'services/mariadb/restart', 'no'),
                (undeclared, 'services/api/secrets', ['none']),
                (undeclared, 'volumes/unused', None),
                (undeclared, 'services/api/networks', ['none']),
                (broken_conditions, 'services/api/depends_on',
                 {'mariadb': {'condition': 'service_completed_successfully'}}),
                (broken_conditions, 'services/api/depends_on',
                 {'none': {'condition': 'service_healthy'}}),
                (broken_conditions, 'services/api/depends_on', {}),
                (unpinned, 'services/mariadb/image', 'mariadb:10'),
                (unpinned, 'services/api/pull_policy', 'always'),
                (unpinned, 'services/keystone-setup/image', 'blockattach-keystone:29.0.0'),
                (leaks, 'services/api/environment', {'OS_DATABASE__PASSWORD': 'x'}),
                (leaks, 'services/api/command', ['blockattach-api', '--password=x']),
                (leaks, 'services/api/environment', {'OS_DATABASE__CONNECTION': 'mysql://a:b@c'}),
                (leaks, 'configs/blockattach.conf', {'file': 'make-secrets'}),
                (rights, 'services/api/cap_drop', []),
                (rights, 'services/mariadb/security_opt', []),
                (rights, 'services/mariadb/ports', ['3306:3306']),
                (short_timeout, 'services/volume/stop_grace_period', '60s'),
                (unwritable, 'services/api/tmpfs', ['/tmp']),
                (unwritable, 'services/api/volumes', ['key:/elsewhere'])):
            with self.subTest(rule=rule.__name__, place=place, value=value):
                self.assertNotEqual([], self.broken(rule, place, value))

    def broken(self, rule, place, value):
        """Return the findings of a rule in a file with one changed value."""
        found = copy.deepcopy(composition())
        *way, name = place.split('/')
        owner = functools.reduce(dict.get, way, found)
        owner[name] = value
        return list(rule(found))


class SecretsTest(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(
            tempfile.TemporaryDirectory(prefix='blockattach-')))
        shutil.copy(FOLDER / 'make-secrets', self.folder)
        self.status = self.make()
        self.secrets = self.folder / 'secrets'

    def make(self):
        return subprocess.run([self.folder / 'make-secrets'], capture_output=True, check=False,
                              timeout=polling.LIMIT).returncode

    def test_mounted_secrets_created(self):
        self.assertEqual(0, self.status)
        self.assertEqual({one['file'] for one in composition()['secrets'].values()},
                         {f'secrets/{one.name}' for one in self.secrets.iterdir()})

    def test_secrets_readable_by_container_accounts_only(self):
        self.assertEqual(0o700, self.secrets.stat().st_mode & 0o777)
        self.assertEqual({0o644}, {one.stat().st_mode & 0o777 for one in self.secrets.iterdir()})

    def test_existing_secrets_kept(self):
        before = {one.name: one.read_text() for one in self.secrets.iterdir()}
        self.assertEqual(1, self.make())
        self.assertEqual(before, {one.name: one.read_text() for one in self.secrets.iterdir()})

    def test_options_of_secrets_known(self):
        self.assertEqual([], list(guide.unread(configuration(
            (FOLDER / 'blockattach.conf').read_text(),
            (self.secrets / 'blockattach-secrets.conf').read_text()))))
