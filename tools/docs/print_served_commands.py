#!/usr/bin/env python3
"""Run the volume commands of stock clients against blockattach-all, and record the results.

    tools/docs/print_served_commands.py              all commands
    tools/docs/print_served_commands.py COMMAND...   commands that start with COMMAND

Each command runs on objects of its own, with the arguments that it requires. A command is
unsupported if it sends a request with a path, method or action that the API does not have. The
table of all commands is written to doc/source/user/clients.txt. For selected commands, the
requests are printed instead.
"""
import http.client
import http.server
import importlib.metadata
import json
import pathlib
import re
import sys
import threading
import unittest.mock
import urllib.parse
import uuid
from typing import Any
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / 'tools'), str(ROOT / 'tools' / 'docs')]

from blockattach.storage.api.resources import not_offered  # noqa: E402
from blockattach.testing import stack  # noqa: E402
from blockattach.tests.functional import commands  # noqa: E402

PAGE = ROOT / 'doc' / 'source' / 'user' / 'clients.txt'
PROJECT = '00000000000000000000000000000002'
CLIENTS = {'openstack': 'python-openstackclient', 'cinder': 'python-cinderclient'}
# The API has no such path, method or action.
UNROUTED = (b'"The resource could not be found."', b'There is no such action',
            b'are not supported by this service')
# Resources of unsupported features. A command that requests them and fails is unsupported.
NOT_OFFERED = tuple(f'/v3/{noun.key}' for noun in not_offered.NOUNS)
NO_METHOD = (405, 501)
NOT_ASKED = 'not asked'
# Values of arguments by name. {name} is an object that is created for the command.
WORDS = {
    'volume': '{volume}', 'volumes': '{volume}', 'entity': '{volume}',
    'attachment': '{attachment}', 'transfer': '{transfer}', 'transfer_request': '{transfer}',
    'auth_key': '{auth_key}', '--auth-key': '{auth_key}',
    'volume_type': '{type}', 'volume_types': '{type}', 'vol_type': '{type}', 'vtype': '{type}',
    'new_type': '{type}', 'vol_type_id': '{type}', '--volume-type': '{type}',
    'qos_spec': '{qos}', 'qos_specs': '{qos}', 'message': '{message}', 'message_id': '{message}',
    'message_ids': '{message}', 'host': 'localhost@fake', 'binary': 'cinder-volume',
    'service': 'cinder-volume', 'tenant': PROJECT, 'project': PROJECT, 'project_id': PROJECT,
    '--project-id': PROJECT, 'class_name': 'default', 'metadata': 'a=b', 'new_size': '2',
    'action': 'set', 'level': 'INFO', 'bootable': 'true', 'read_only': 'true', 'provider': 'luks',
    'snapshot': '{snapshot}', 'snapshots': '{snapshot}', 'snapshot_id': '{snapshot}',
    'identifier': 'x', 'volumetypes': '{type}', 'group_type': 'x', 'snapshot_name': 'x'}
# Arguments of commands that have no effect with only their required arguments.
MORE = {
    'openstack volume create': '--size 1', 'openstack volume list': '--long',
    'openstack volume set': '--name x', 'openstack volume unset': '--property a',
    'openstack volume snapshot create': '--volume {volume}',
    'openstack consistency group create': '--volume-type {type}',
    'openstack consistency group snapshot create': '--consistency-group x',
    'openstack volume group create': '--volume-group-type x --volume-type {type}',
    'openstack block storage snapshot manageable list': 'localhost@fake#fake',
    'openstack block storage volume manageable list': 'localhost@fake#fake',
    'openstack block storage cleanup': '--host localhost@fake',
    'cinder manageable-list': 'localhost@fake#fake', 'cinder snapshot-rename': 'x',
    'cinder snapshot-manageable-list': 'localhost@fake#fake',
    'cinder migrate': 'localhost@fake#fake',
    'openstack volume type set': '--property a=b', 'openstack volume type unset': '--property a',
    'openstack volume qos set': '--property a=b', 'openstack volume qos unset': '--property a',
    'openstack volume service set': '--disable', 'openstack volume host set': '--disable',
    'openstack volume migrate': '--host localhost@fake#fake',
    'openstack volume attachment set': '--initiator iqn.x:a --host a --ip 127.0.0.1',
    'openstack volume attachment create': '--server {server}',
    'cinder create': '1', 'cinder attachment-create': '--initiator iqn.x:a --host a',
    'cinder attachment-update': '--initiator iqn.x:a --host a',
    'cinder reset-state': '--state available', 'cinder rename': 'x',
    'cinder type-update': '--name x',
    'cinder quota-update': '--volumes 5', 'cinder quota-class-update': '--volumes 5',
    'cinder backup-update': '--name x', 'cinder consisgroup-create-from-src': '--cgsnapshot x',
    'cinder consisgroup-update': '--name x', 'cinder group-update': '--name x',
    'cinder group-create-from-src': '--group-snapshot x', 'cinder group-type-update': '--name x',
    'openstack consistency group set': '--name x', 'openstack volume group set': '--name x',
    'openstack volume backup set': '--name x', 'openstack volume snapshot set': '--name x',
    'openstack volume backup unset': '--property a', 'openstack volume snapshot unset':
    '--property a', 'openstack volume group type set': '--name x',
    'openstack block storage cluster set': '--enable',
    'cinder encryption-type-update': '--cipher x'}
NOT_RUN = {
    'openstack server add volume': 'by Compute, which creates and completes an attachment',
    'openstack server remove volume': 'by Compute, which deletes the attachment',
    'openstack block storage cleanup': 'no, the client fails before it sends a request'}
"""Results of commands that this script cannot run."""


class Asked(NamedTuple):
    """Request and the status of its response. ``missing``: the API has no such operation."""

    line: str
    status: int
    missing: bool


class Recorder(http.server.BaseHTTPRequestHandler):
    """Proxy that records requests, and responds itself to requests for servers."""

    asked: list[Asked] = []
    address = ''

    def _pass_on(self) -> None:
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        server = re.fullmatch(r'/v3/servers/([\w-]+)', self.path)
        if server:
            self._answer(200, [('Content-Type', 'application/json')],
                         json.dumps({'server': {'id': server[1], 'name': 'web'}}).encode())
            return
        connection = http.client.HTTPConnection(self.address)
        try:
            connection.request(self.command, self.path, body, dict(self.headers))
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        missing = answer.status in NO_METHOD or answer.status >= 400 and any(
            words in said for words in UNROUTED)
        self.asked.append(Asked(f'{self.command} {self.path}', answer.status, missing))
        self._answer(answer.status, answer.getheaders(), said)

    def _answer(self, status: int, headers: list[tuple[str, str]], said: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ('transfer-encoding', 'content-length', 'connection'):
                self.send_header(name, value)
        self.send_header('Content-Length', str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    # http.server looks up the methods by these names.
    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _pass_on  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Discard the log messages of http.server."""


def needed(parser_actions: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the required arguments of a command, with placeholders of objects."""
    words = []
    for name, facts in parser_actions:
        optional = name.startswith('-')
        if facts.get('required') if optional else facts.get('nargs') not in ('?', '*'):
            words += [name] * optional + [
                WORDS.get(name if optional else name.replace('-', '_'), 'x')]
    return words


def openstack_commands() -> dict[str, list[str]]:
    """Return the required arguments of each volume command of openstack."""
    found = {}
    for entry in importlib.metadata.entry_points(group='openstack.volume.v3'):
        parser = entry.load()(unittest.mock.MagicMock(), None).get_parser('x')
        actions = [(action.option_strings[0] if action.option_strings else action.dest,
                    {'nargs': action.nargs, 'required': action.required})
                   for action in parser._actions]
        words = entry.name.replace('block_storage', 'block storage').split('_')
        found['openstack ' + ' '.join(words)] = needed(actions)
    return found


def cinder_commands() -> dict[str, list[str]]:
    """Return the required arguments of each command of cinder."""
    from cinderclient.v3 import shell

    return {'cinder ' + name[3:].replace('_', '-'): needed(
        [(names[0], facts) for names, facts in getattr(getattr(shell, name), 'arguments', ())])
        for name in dir(shell) if name.startswith('do_')}


class Objects:
    """Objects on which commands run, created for each command."""

    def __init__(self, url: str) -> None:
        self._url = urllib.parse.urlsplit(url)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request as an administrator, and return the body of the response."""
        connection = http.client.HTTPConnection(self._url.netloc)
        connection.request(method, f'/v3{path}', body and json.dumps(body), {
            'Content-Type': 'application/json', 'OpenStack-API-Version': 'volume 3.71'})
        said = connection.getresponse().read()
        connection.close()
        return json.loads(said) if said.startswith(b'{') else None

    def make(self) -> dict[str, str]:
        """Create one object of each kind, and return their IDs by kind."""
        # An earlier command may have disabled the service or set quotas.
        for act, more in (('thaw', {}), ('enable', {'binary': 'cinder-volume'})):
            self.ask('PUT', f'/os-services/{act}', {'host': 'localhost@fake', **more})
        self.ask('DELETE', f'/os-quota-sets/{PROJECT}')
        self.ask('PUT', '/os-quota-class-sets/default', {'quota_class_set': dict.fromkeys(
            ('volumes', 'snapshots', 'gigabytes'), -1)})
        name = uuid.uuid4().hex[:8]
        # Clients request the list of projects with access only for private types.
        kind = self.ask('POST', '/types', {'volume_type': {
            'name': name, 'os-volume-type-access:is_public': False}})['volume_type']
        qos = self.ask('POST', '/qos-specs', {'qos_specs': {'name': name}})['qos_specs']
        volume = self.ask('POST', '/volumes', {'volume': {
            'size': 1, 'volume_type': 'multiattach'}})['volume']
        while self.ask('GET', f'/volumes/{volume["id"]}')['volume']['status'] == 'creating':
            pass
        made = self.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume['id'], 'instance_uuid': str(uuid.uuid4())}})['attachment']
        messages = self.ask('GET', '/messages')['messages']
        offered = self.offer()
        return {'type': kind['id'], 'qos': qos['id'], 'volume': volume['id'],
                'attachment': made['id'], 'transfer': offered['id'],
                'snapshot': self.snapshot(),
                'auth_key': offered['auth_key'], 'server': str(uuid.uuid4()),
                'message': messages[0]['id'] if messages else name}

    def offer(self) -> Any:
        """Create a volume, and return a transfer of the volume."""
        volume = self.ask('POST', '/volumes', {'volume': {'size': 1}})['volume']
        while self.ask('GET', f'/volumes/{volume["id"]}')['volume']['status'] == 'creating':
            pass
        return self.ask('POST', '/os-volume-transfer', {
            'transfer': {'volume_id': volume['id']}})['transfer']

    def snapshot(self) -> str:
        """Create a volume, and return the ID of a snapshot of the volume."""
        volume = self.ask('POST', '/volumes', {'volume': {'size': 1}})['volume']
        while self.ask('GET', f'/volumes/{volume["id"]}')['volume']['status'] == 'creating':
            pass
        made = self.ask('POST', '/snapshots', {'snapshot': {'volume_id': volume['id']}})
        return str(made['snapshot']['id'])

    def make_a_message(self) -> None:
        """Create a user message by creating a volume that no pool can store."""
        self.ask('POST', '/volumes', {'volume': {'size': 1000000}})
        while not self.ask('GET', '/messages')['messages']:
            pass


def served(command: str, words: list[str], url: str, objects: Objects) -> tuple[str, list[Asked]]:
    """Run a command, and return its result (such as "yes") and its requests."""
    program, _, rest = command.partition(' ')
    login = (['--os-auth-type', 'none'] if program == 'openstack' else
             ['--os-auth-type', 'noauth', '--os-user-id', 'me', '--os-project-id', PROJECT])
    things = objects.make()
    given = [word.format(**things) for word in [*words, *MORE.get(command, '').split()]]
    Recorder.asked.clear()
    done = commands.run(program, [*login, '--os-endpoint', f'{url}/v3', '--os-volume-api-version',
                                  '3.71', *rest.split(), *given], {'NO_PROXY': '127.0.0.1'})
    asked = [one for one in Recorder.asked if urllib.parse.urlsplit(one.line.split()[1]).path
             not in ('/', '/v3', '/v3/')]
    # Commands ignore failed GET requests for additional data, such as names of servers.
    # Some commands exit with status 0 although their main request failed.
    if any(one.missing and (done.status or not one.line.startswith('GET ')) for one in asked):
        return 'no', asked
    if done.status and any(one.line.split()[1].startswith(NOT_OFFERED) for one in asked):
        return 'no', asked
    if not asked and done.status:
        said = (done.errors.strip() or done.output.strip() or '-').splitlines()
        last = next((line for line in reversed(said) if 'DEBUG' not in line), '-')
        return f'{NOT_ASKED}: {last}', asked
    return 'yes', asked


def table(found: dict[str, str]) -> str:
    """Return the table, which doc/source/user/clients.rst includes."""
    versions = ', '.join(f'{name} {importlib.metadata.version(name)}'
                         for name in CLIENTS.values())
    count = sum(how == 'yes' for how in found.values())
    lines = ['.. Written by tools/docs/print_served_commands.py', '',
             f'Tested with {versions}: {count} of {len(found)} commands are supported.', '',
             '.. list-table::', '   :header-rows: 1', '   :widths: 60 40', '',
             '   * - command', '     - supported']
    for command, how in sorted(found.items()):
        lines += [f'   * - ``{command}``', f'     - {how}']
    return '\n'.join(lines) + '\n'


def main(wanted: list[str]) -> int:
    """Run the commands, and return 1 if a command sent no request."""
    every = {**openstack_commands(), **cinder_commands()}
    chosen = {name: words for name, words in every.items()
              if name.startswith(tuple(wanted)) or not wanted and name not in NOT_RUN}
    proxy = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Recorder)
    url = f'http://127.0.0.1:{proxy.server_port}'
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    found = {} if wanted else dict(NOT_RUN)
    with stack.Stack('fake', settings=f'[api]\npublic_endpoint = {url}\n') as service:
        Recorder.address = urllib.parse.urlsplit(service.url).netloc
        objects = Objects(service.url)
        objects.make_a_message()
        for name, words in sorted(chosen.items()):
            found[name], asked = served(name, words, url, objects)
            print(f'{name}: {found[name]}', flush=True)
            for one in asked if wanted else ():
                print(f'    {one.status} {one.line}')
    proxy.shutdown()
    if not wanted:
        PAGE.write_text(table(found), 'utf-8')
    return int(any(how.startswith(NOT_ASKED) for how in found.values()))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
