"""Client of the compute API, for servers and the access modes of their volumes."""
import urllib.parse
from collections.abc import Mapping
from typing import Any

from keystoneauth1 import exceptions as keystone_exceptions
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions

from blockattachclient import api
from blockattachclient import faults

_HEADER = 'OpenStack-API-Version'
_VERSIONS = 'compute 2.100, blockattach 1.0'


class Servers:
    """Operations of the compute API that the commands need."""

    def __init__(self, service: api.Api) -> None:
        self._connection = service.connection

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send a request, and return the body of the response.

        :raises CommandError: the request failed, or the service does not support access modes
        """
        more = {} if body is None else {'json': body}
        try:
            # Without a microversion, because it would overwrite the version header.
            found = self._connection.compute.request(
                path, method, microversion=None, headers={_HEADER: _VERSIONS}, **more)
        except (keystone_exceptions.ClientException, sdk_exceptions.SDKException) as exc:
            raise exceptions.CommandError(
                f'The request to Compute failed: {str(exc).rstrip(".")}.') from None
        content = api.content(found)
        if found.status_code >= 400:
            raise faults.of_answer(found.status_code, content,
                                   found.headers.get('x-openstack-request-id'),
                                   faults.OF_SERVERS)
        if 'blockattach' not in found.headers.get(_HEADER, ''):
            raise exceptions.CommandError(faults.NO_MODES)
        return content or {}

    def require_modes(self) -> None:
        """Check that Compute supports access modes, before a command changes anything.

        :raises CommandError: the service does not support access modes
        """
        self.ask('GET', '/servers?limit=1')

    def find(self, name_or_id: str) -> dict[str, Any]:
        """Return a server by its name or ID.

        :raises CommandError: the server does not exist, or several servers have this name
        """
        try:
            found = self._connection.compute.find_server(name_or_id, ignore_missing=True)
        except sdk_exceptions.DuplicateResource:
            raise exceptions.CommandError(
                f'More than one server is named {name_or_id!r}. Specify the ID of the server, see '
                '"openstack server list".') from None
        if found is None:
            raise exceptions.CommandError(
                f'Server {name_or_id!r} not found. List the servers with "openstack server list".')
        return self.show(found.id)

    def show(self, server_id: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.ask(
            'GET', f'/servers/{urllib.parse.quote(server_id, safe="")}')['server']
        return shown

    def flavor(self, name_or_id: str) -> str:
        """Return the ID of a flavor that is given by name or ID.

        :raises CommandError: the flavor does not exist
        """
        for one in self.ask('GET', '/flavors')['flavors']:
            if name_or_id in (one['id'], one['name']):
                return str(one['id'])
        raise exceptions.CommandError(
            f'Flavor {name_or_id!r} not found. List the flavors with "openstack flavor list".')

    def of_reservation(self, reservation_id: str) -> list[dict[str, Any]]:
        """Return the servers that a request has created, in the order of their names."""
        found: list[dict[str, Any]] = self.ask(
            'GET', f'/servers/detail?reservation_id={reservation_id}')['servers']
        return sorted(found, key=lambda one: str(one['name']))

    def create(self, server: Mapping[str, Any]) -> str:
        """Create servers, and return their common reservation ID."""
        return str(self.ask('POST', '/servers', {'server': {
            **server, 'return_reservation_id': True}})['reservation_id'])

    def volumes(self, server_id: str) -> list[dict[str, Any]]:
        """Return the volume attachments of a server."""
        found: list[dict[str, Any]] = self.ask(
            'GET', f'/servers/{server_id}/os-volume_attachments')['volumeAttachments']
        return found

    def attach(self, server_id: str, attachment: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = self.ask(
            'POST', f'/servers/{server_id}/os-volume_attachments',
            {'volumeAttachment': dict(attachment)})['volumeAttachment']
        return made
