"""A Keystone of one's own, with projects, people and a catalog: what an operator's cloud has.

It runs on SQLite in a directory of its own, on a free port of the loopback address. To prepare one
takes seconds, so it is done once in a process: each further one is a copy.
"""
import functools
import getpass
import grp
import json
import os
import pathlib
import secrets
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from typing import Any
from typing import ClassVar

import openstack
import requests

from blockattach.testing import servers

REGION = 'RegionOne'
DOMAIN = 'default'
_CONFIGURATION = """
[DEFAULT]
use_stderr = true
[database]
connection = sqlite:///{folder}/keystone.sqlite
[token]
provider = fernet
expiration = {token_seconds}
[fernet_tokens]
key_repository = {folder}/tokens
[fernet_receipts]
key_repository = {folder}/receipts
[credential]
key_repository = {folder}/credentials
[identity]
# Nobody guesses at these.
password_hash_rounds = 4
[cache]
# One process, so nobody else changes what it remembers.
enabled = true
backend = oslo_cache.dict
"""
# Several commands of keystone-manage in one process: most of its time is spent on imports.
_MANAGE = """
import json, sys
from keystone.cmd import cli
file, *commands = json.loads(sys.argv[1])
for number, words in enumerate(commands):
    if number == 0:
        cli.main(['keystone-manage', '--config-file', file, *words])
    else:
        cli.CONF(args=['--config-file', file, *words], project='keystone')
        cli.CONF.command.cmd_class.main()
"""
_TOKEN_SECONDS = 3600
_NOWHERE = 'http://127.0.0.1:1/v3'
_PREPARED = ('keystone.sqlite', 'tokens', 'receipts', 'credentials')


class Keystone(servers.Server):
    """Keystone; the account is admin in the project admin of the default domain.

    ``password`` is that account's. Everything else is made by `project`, `person` and `service`.
    """

    name: ClassVar[str] = 'keystone'
    account: ClassVar[str] = ''
    programs: ClassVar[tuple[str, ...]] = ('uwsgi', 'keystone-manage')

    @property
    def url(self) -> str:
        return f'http://{servers.LOOPBACK}:{self.port}/v3'

    def _prepare(self) -> None:
        prepared, self.password = _prepared()
        for name in _PREPARED:
            one = pathlib.Path(prepared.name, name)
            (shutil.copytree if one.is_dir() else shutil.copy)(one, self.directory / name)
        self.configure()
        with sqlite3.connect(self.directory / 'keystone.sqlite') as rows:
            rows.execute('UPDATE endpoint SET url = ?', (self.url,))
        rows.close()

    def configure(self, token_seconds: int = _TOKEN_SECONDS) -> None:
        """Say how long tokens live that are issued after the next start."""
        _configure(self.directory, token_seconds)

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(),
                'OS_KEYSTONE_CONFIG_FILES': str(self.directory / 'keystone.conf')}

    def _command(self) -> list[str]:
        return [self._program['uwsgi'], '--http-socket', f'{servers.LOOPBACK}:{self.port}',
                '--module', 'keystone.wsgi.api:application', '--master', '--lazy-apps',
                '--threads', '4', '--enable-threads', '--need-app', '--die-on-term',
                '--disable-logging', '--buffer-size', '65535', '--post-buffering', '65535',
                # It closes a connection after each answer, and this tells the client so.
                '--add-header', 'Connection: close']

    def _answers(self) -> bool:
        try:
            return requests.get(self.url, timeout=30).status_code == 200
        except requests.RequestException:
            return False

    def cloud(self, name: str = 'admin', password: str = '', project: str = 'admin',
              **facts: Any) -> openstack.connection.Connection:
        """A connection of somebody in a project; by default the administrator's."""
        return openstack.connection.Connection(**{**self.login(name, password, project), **facts})

    def login(self, name: str = 'admin', password: str = '',
              project: str = 'admin') -> dict[str, Any]:
        """How somebody logs in, in the words of keystoneauth."""
        return {'auth_type': 'password', 'region_name': REGION, 'auth': {
            'auth_url': self.url, 'username': name, 'password': password or self.password,
            'project_name': project, 'user_domain_id': DOMAIN, 'project_domain_id': DOMAIN}}

    @functools.cached_property
    def _identity(self) -> Any:
        return self.cloud().identity

    def project(self, name: str) -> str:
        """The id of a project, which is made if need be."""
        found = next(self._identity.projects(name=name), None)
        return str((found or self._identity.create_project(name=name)).id)

    def person(self, name: str, project: str, *roles: str) -> str:
        """Somebody with roles in a project; the password, new each time."""
        identity = self._identity
        password = secrets.token_urlsafe(16)
        user = next(identity.users(name=name), None)
        if user is None:
            user = identity.create_user(name=name, domain_id=DOMAIN, password=password)
        else:
            identity.update_user(user, password=password)
        project_id = self.project(project)
        for role in roles:
            found = next(identity.roles(name=role), None) or identity.create_role(name=role)
            identity.assign_project_role_to_user(project_id, user, found)
        return password

    def service(self, name: str, kind: str, url: str, region: str = REGION) -> None:
        """An entry of the catalog. ``%(project_id)s`` in the URL stands for the caller's."""
        identity = self._identity
        if region not in [found.id for found in identity.regions()]:
            identity.create_region(id=region)
        service = identity.create_service(name=name, type=kind)
        identity.create_endpoint(service_id=service.id, interface='public', url=url,
                                 region_id=region)

    def authtoken(self, name: str, password: str, project: str) -> str:
        """The group [keystone_authtoken] of a service that has this account."""
        return '\n'.join((
            '[keystone_authtoken]', 'auth_type = password', f'auth_url = {self.url}',
            f'username = {name}', f'password = {password}', f'project_name = {project}',
            f'user_domain_id = {DOMAIN}', f'project_domain_id = {DOMAIN}', 'interface = public',
            f'region_name = {REGION}', ''))


@functools.cache
def _prepared() -> tuple[tempfile.TemporaryDirectory[str], str]:
    """A folder that Keystone can be run from, and the administrator's password.

    :raises CannotStart: it cannot be made
    """
    made = tempfile.TemporaryDirectory(prefix='blockattach-keystone-')
    folder = pathlib.Path(made.name)
    file = _configure(folder)
    for keys in ('tokens', 'receipts', 'credentials'):
        (folder / keys).mkdir(mode=0o700)
    owner = ('--keystone-user', getpass.getuser(),
             '--keystone-group', grp.getgrgid(os.getegid()).gr_name)
    commands = (('db_sync',), ('fernet_setup', *owner), ('credential_setup', *owner),
                ('bootstrap', '--bootstrap-region-id', REGION,
                 '--bootstrap-public-url', _NOWHERE))
    password = secrets.token_urlsafe(16)
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', _MANAGE, json.dumps([file, *commands])],
        # An argument would show the password to everybody on the machine.
        env={**os.environ, 'OS_BOOTSTRAP_PASSWORD': password},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=servers.SECONDS_TO_START)
    if done.returncode:
        raise servers.CannotStart(f'Cannot prepare keystone: {done.stdout}{done.stderr}')
    return made, password


def _configure(folder: pathlib.Path, token_seconds: int = _TOKEN_SECONDS) -> str:
    file = folder / 'keystone.conf'
    file.write_text(_CONFIGURATION.format(folder=folder, token_seconds=token_seconds), 'utf-8')
    return str(file)
