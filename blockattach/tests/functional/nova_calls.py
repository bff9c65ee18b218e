"""Requests of Nova 34 as recorded, and the parts of the responses that it reads.

A missing part fails the test.
"""
import json
import uuid
from typing import Any

import webob

from blockattach.tests.fixtures import http

ADMIN_PROJECT = 'ad31f0c5a24a3a8a0f3f6d4f1f2b1100'
SERVICE_PROJECT = '5e41f0c5a24a3a8a0f3f6d4f1f2b1100'
ATTACHMENTS = '3.44'
CONNECTING = '3.69'
"""Microversions of the requests that name one. The other requests name none."""

_USERS = {
    http.PROJECT: 'member,reader',
    ADMIN_PROJECT: 'admin,member,reader',
    SERVICE_PROJECT: 'admin,service',
}

# Keys from which Nova builds its own volume object. Each of them is required.
_VOLUME = ('id', 'status', 'size', 'availability_zone', 'created_at', 'name', 'description',
           'volume_type', 'snapshot_id', 'bootable', 'metadata', 'multiattach', 'attachments')
_SERVER = ('server_id', 'attachment_id', 'device')
_LIMITS = ('maxTotalSnapshots', 'totalSnapshotsUsed')


class Refused(Exception):
    """Response that Nova treats as a failure. ``args`` are the status and the message."""


class Nova:
    """Client of one endpoint. The token is that of the project's user by default.

    :ivar requests: method, path and status of the requests, in order
    """

    def __init__(self, fixture: http.ApiFixture, with_project: bool) -> None:
        """Build a client.

        :param with_project: True if the catalog's URL ends in the project id (``volumev3``), False
            if
            it does not (``block-storage``)
        """
        self._fixture = fixture
        self._with_project = with_project
        self.requests: list[tuple[str, str, int]] = []

    def ask(self, method: str, path: str, body: Any = None, version: str | None = None,
            project: str = http.PROJECT) -> Any:
        """Send a request and return the JSON of the response, or None if it is empty.

        :raises Refused: if the status is an error
        """
        place = f'/v3/{project}' if self._with_project else '/v3'
        reply = self._send(method, place + path, body, version, project)
        self.requests.append((method, path.partition('?')[0], reply.status))
        if reply.status >= 400:
            (_, fault), = reply.body.items()
            assert fault['code'] == reply.status, reply.text
            raise Refused(reply.status, fault['message'])
        return reply.body

    def highest_version(self) -> tuple[int, int]:
        """Return the highest microversion from the root of the host.

        The request has neither a project nor a microversion.
        """
        reply = self._send('GET', '/', None, None, http.PROJECT)
        assert reply.status == 300, reply.text
        found, = (one for one in reply.body['versions'] if '3.' in one['version'])
        assert _version(found['min_version']) == (3, 0)
        return _version(found['version'])

    def volume(self, volume_id: str, version: str | None = None,
               project: str = http.PROJECT) -> dict[str, Any]:
        """Show a volume, with the fields of os-brick's lock if the microversion is 3.69."""
        if version is not None:
            assert self.highest_version() >= _version(version)
        body = self.ask('GET', f'/volumes/{volume_id}', None, version, project)['volume']
        read = {key: body[key] for key in _VOLUME}
        assert read['bootable'] in ('true', 'false'), read
        read['attachments'] = {one['server_id']: {key: one[key] for key in _SERVER}
                               for one in read['attachments']}
        if version is not None:
            # os-brick's lock needs both fields, because its name contains the service.
            read |= {key: body[key] for key in ('shared_targets', 'service_uuid')}
        if project != http.PROJECT:
            read |= {'migration_status': body['migration_status'],
                     'host': body['os-vol-host-attr:host']}
        return read

    def create_attachment(self, volume_id: str, server_id: str,
                          connector: dict[str, Any] | None = None,
                          project: str = http.PROJECT) -> tuple[str, dict[str, Any]]:
        """Create an attachment and return its id and its connection info."""
        assert self.highest_version() >= _version(ATTACHMENTS)
        made = self.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'connector': connector, 'instance_uuid': server_id}},
            ATTACHMENTS, project)['attachment']
        return made['id'], made['connection_info']

    def connect(self, attachment_id: str, host: str, device: str) -> dict[str, Any]:
        """Update an attachment with the connector of a host, and return its connection info."""
        updated = self.ask('PUT', f'/attachments/{attachment_id}',
                           {'attachment': {'connector': connector(host, device)}}, ATTACHMENTS)
        info: dict[str, Any] = updated['attachment']['connection_info']
        assert info['driver_volume_type'] == 'iscsi', info
        return info

    def attachment(self, attachment_id: str, project: str = http.PROJECT) -> dict[str, Any]:
        """Show an attachment and return the keys that Nova reads."""
        found = self.ask('GET', f'/attachments/{attachment_id}', None, ATTACHMENTS,
                         project)['attachment']
        return {key: found[key] for key in ('status', 'attach_mode', 'connection_info')}

    def attachments_of(self, server_id: str) -> list[tuple[str, str]]:
        """Return the ids of a server's attachments and of their volumes."""
        found = self.ask('GET', f'/attachments?instance_id={server_id}', None, ATTACHMENTS)
        return [(one['id'], one['volume_id']) for one in found['attachments']]

    def complete(self, attachment_id: str, project: str = http.PROJECT) -> None:
        """Complete an attachment, whose response must be empty."""
        assert self.ask('POST', f'/attachments/{attachment_id}/action', {'os-complete': None},
                        ATTACHMENTS, project) is None
        assert self.requests[-1][2] == 204

    def delete_attachment(self, attachment_id: str, project: str = http.PROJECT) -> None:
        """Delete an attachment, or ignore that it does not exist."""
        try:
            self.ask('DELETE', f'/attachments/{attachment_id}', None, ATTACHMENTS, project)
        except Refused as refused:
            if refused.args[0] != 404:
                raise

    def act(self, volume_id: str, action: str) -> None:
        """Send an action without a body, which Nova still uses beside attachments."""
        assert self.ask('POST', f'/volumes/{volume_id}/action', {action: None}) is None
        assert self.requests[-1][2] == 202

    def encryption_key(self, volume_id: str) -> str | None:
        """Return the id of the encryption key, or None for a plain volume."""
        key: str | None = self.ask('GET', f'/volumes/{volume_id}/encryption').get(
            'encryption_key_id')
        return key

    def limits(self) -> dict[str, int]:
        """Return the limits that Nova checks before a snapshot of a server."""
        absolute = self.ask('GET', '/limits')['limits']['absolute']
        return {key: absolute[key] for key in _LIMITS}

    def use(self, volume_id: str, attachment_id: str, host: str,
            device: str) -> dict[str, Any]:
        """Send the requests of a compute host from the reservation to the completed attachment."""
        self.volume(volume_id, CONNECTING)
        info = self.connect(attachment_id, host, device)
        assert self.encryption_key(volume_id) is None
        self.complete(attachment_id)
        return info

    def attach(self, volume_id: str, server_id: str, host: str = 'cloudhost',
               device: str = '/dev/sdb') -> tuple[str, dict[str, Any]]:
        """Attach a volume to a running server, and return attachment id and connection info."""
        self.volume(volume_id)
        attachment_id, info = self.create_attachment(volume_id, server_id)
        assert info == {}
        return attachment_id, self.use(volume_id, attachment_id, host, device)

    def detach(self, volume_id: str, attachment_id: str) -> None:
        """Detach a volume from a running server."""
        self.volume(volume_id)
        self.act(volume_id, 'os-begin_detaching')
        self.volume(volume_id, CONNECTING)
        self.delete_attachment(attachment_id)

    def _send(self, method: str, url: str, body: Any, version: str | None,
              project: str) -> http.Reply:
        headers = {
            'X-Auth-Token': f'{http.USER}:{project}:{_USERS[project]}',
            'X-Service-Token': f'{http.USER}:{SERVICE_PROJECT}:service',
            'User-Agent': 'python-cinderclient', 'Accept': 'application/json'}
        if url != '/':
            headers['X-OpenStack-Request-ID'] = f'req-{uuid.uuid4()}'
        if version is not None:
            headers['OpenStack-API-Version'] = f'volume {version}'
        request = webob.Request.blank(url, method=method, headers=headers)
        if body is not None:
            request.body = json.dumps(body).encode()
            request.content_type = 'application/json'
        reply = self._fixture.answer(request)
        assert reply.headers['x-openstack-request-id'].startswith('req-')
        return reply


def connector(host: str, device: str) -> dict[str, Any]:
    """Return the properties from os-brick's get_connector_properties, with the device of Nova."""
    return {'platform': 'x86_64', 'os_type': 'linux', 'ip': '127.0.0.1', 'host': host,
            'multipath': False, 'enforce_multipath': True,
            'initiator': f'iqn.2016-04.com.example:{host}', 'do_local_attach': False,
            'nvme_hostid': str(uuid.uuid5(uuid.NAMESPACE_DNS, host)), 'system uuid': None,
            'mountpoint': device}


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split('.')
    return int(major), int(minor)
