#!/usr/bin/env python3
"""Send one request of every operation of the compute API, and print the examples as JSON.

Two fake agents run the servers, and block storage has a backend in memory.
"""
import json
import logging
import sys
from typing import Any

import webob

import api_player
from blockattach.compute.api import routes
from blockattach.compute.api import versions
from blockattach.platform.http import operation
from blockattach.tests.fixtures import http
from blockattach.tests.fixtures import make
from blockattach.tests.functional.servers import cloud as clouds

_LATEST = f'{versions.SERVICE} {versions.MAXIMUM}'
_BOTH = f'{_LATEST}, {operation.EXTENSION} {versions.EXTENSION_MAXIMUM}'
# Since 2.101, the response is sent before the volume is attached, and has no body.
_ATTACHING = f'{versions.SERVICE} 2.100, {operation.EXTENSION} {versions.EXTENSION_MAXIMUM}'
_ACTION = 'POST /servers/{id}/action'
_NOTED = '/servers/{id}/metadata'
_VOLUMES = '/servers/{id}/os-volume_attachments'
_BETWEEN_SECONDS = 60


class Player(api_player.Player):
    """Sender of example requests to the application that the tests of servers use."""

    def __init__(self, cloud: clouds.Cloud) -> None:
        self.cloud = cloud
        self._type = make.volume_type(cloud.storage.database, multiattach=True).name
        tokens = [f'{make.USER}:{http.PROJECT}:{roles}'
                  for roles in ('member,reader', 'admin,member,reader')]
        super().__init__(routes.OPERATIONS, versions.PREFIX, 'localhost:8774', _LATEST, (),
                         (tokens[0], tokens[1]), self._later)

    def volume(self) -> str:
        """Return the id of a new volume for several servers."""
        made = self.cloud.storage.as_member.post('/volumes', {'volume': {
            'size': 1, 'volume_type': self._type}})
        self.cloud.storage.work.settle()
        return str(made.body['volume']['id'])

    def act(self, server: dict[str, str], name: str, body: Any = None, admin: bool = False,
            keep: bool = True) -> None:
        """Send an action on a server."""
        self.ask(f'{_ACTION} ({name})', server, {name: body}, member=not admin, keep=keep)

    def _later(self, request: webob.Request) -> http.Reply:
        self.cloud.later(_BETWEEN_SECONDS)
        response = request.get_response(self.cloud.api.application)
        self.cloud.settle()
        return http.Reply(response.status_code, response.headers,
                          response.json_body if response.body else None, response.text)


def _small(player: Player) -> None:
    for name in ('GET /', 'GET /v2.1', 'GET /v2.1/'):
        player.ask(name, version=None)
    flavor = {'id': '1'}
    player.ask('GET /flavors', member=True)
    player.ask('GET /flavors/detail', member=True)
    player.ask('GET /flavors/{id}', flavor, member=True)
    player.ask('GET /flavors/{id}/os-extra_specs', flavor, member=True)
    player.ask('GET /os-services')


def _servers(player: Player) -> dict[str, str]:
    """Send the requests for servers, and return a server for later requests."""
    made = player.ask('POST /servers', body={'server': {
        'name': 'web', 'imageRef': '', 'flavorRef': '1', 'networks': 'none',
        'block_device_mapping_v2': [{
            'uuid': player.volume(), 'source_type': 'volume', 'destination_type': 'volume',
            'boot_index': 0, 'attach_mode': 'rw'}]}}, version=_BOTH, member=True)
    server = {'id': made['server']['id']}
    player.ask('GET /servers', member=True)
    player.ask('GET /servers/detail', member=True)
    player.ask('GET /servers/{id}', server, member=True)
    player.ask('PUT /servers/{id}', server, {'server': {'description': 'the first'}},
               member=True)
    return server


def _metadata(player: Player, server: dict[str, str]) -> None:
    item = {**server, 'key': 'role'}
    player.ask(f'POST {_NOTED}', server, {'metadata': {'role': 'web'}}, member=True)
    player.ask(f'PUT {_NOTED}', server, {'metadata': {'role': 'proxy'}}, member=True)
    player.ask(f'PUT {_NOTED}/{{key}}', item, {'meta': {'role': 'cache'}}, member=True)
    player.ask(f'GET {_NOTED}', server, member=True)
    player.ask(f'GET {_NOTED}/{{key}}', item, member=True)
    player.ask(f'DELETE {_NOTED}/{{key}}', item, member=True)


def _volumes(player: Player, server: dict[str, str]) -> None:
    data, other = player.volume(), player.volume()
    player.ask(f'POST {_VOLUMES}', server, {'volumeAttachment': {
        'volumeId': data, 'attach_mode': 'ro'}}, version=_ATTACHING, member=True)
    player.ask(f'GET {_VOLUMES}', server, version=_BOTH, member=True)
    volume = {**server, 'volume_id': data}
    player.ask(f'GET {_VOLUMES}/{{volume_id}}', volume, version=_BOTH, member=True)
    player.ask('POST /os-server-external-events', body={'events': [{
        'name': 'volume-extended', 'server_uuid': server['id'], 'tag': data}]})
    player.ask(f'PUT {_VOLUMES}/{{volume_id}}', volume, {'volumeAttachment': {
        'volumeId': other}})
    player.ask(f'DELETE {_VOLUMES}/{{volume_id}}', {**server, 'volume_id': other}, member=True)


def _actions(player: Player, server: dict[str, str]) -> None:
    player.act(server, 'os-stop')
    player.act(server, 'os-start')
    player.act(server, 'reboot', {'type': 'HARD'})
    player.act(server, 'rebuild', {'imageRef': ''})
    player.act(server, 'resize', {'flavorRef': '2'})
    player.act(server, 'confirmResize')
    player.act(server, 'migrate', admin=True)
    player.act(server, 'revertResize')
    player.act(server, 'os-migrateLive', {'host': None, 'block_migration': 'auto'}, admin=True)
    player.act(server, 'shelve')
    player.act(server, 'shelveOffload')
    player.act(server, 'unshelve', {'host': 'host-a'}, admin=True)
    done = player.ask('GET /servers/{id}/os-instance-actions', server, query='?limit=2')
    player.ask('GET /servers/{id}/os-instance-actions/{request_id}', {
        **server, 'request_id': done['instanceActions'][0]['request_id']})
    player.cloud.agents.pop('host-a')
    player.cloud.later()
    player.act(server, 'evacuate', {'host': None}, admin=True)


def recorded() -> dict[str, Any]:
    """Send all requests, and return the examples by operation, in the order of the routes."""
    silent = logging.NullHandler()
    logging.getLogger('blockattach').addHandler(silent)
    cloud = clouds.Cloud()
    try:
        player = Player(cloud)
        _small(player)
        server = _servers(player)
        _metadata(player, server)
        _volumes(player, server)
        _actions(player, server)
        player.ask('DELETE /servers/{id}', server, member=True)
    finally:
        cloud.close()
        logging.getLogger('blockattach').removeHandler(silent)
    return player.recorded()


if __name__ == '__main__':
    sys.stdout.write(json.dumps(recorded(), indent=1, ensure_ascii=False) + '\n')
