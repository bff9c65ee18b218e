"""Client of the Block Storage API and its extension ``blockattach``, based on openstacksdk."""
import datetime
import email.utils
import urllib.parse
from collections.abc import Collection
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from keystoneauth1 import exceptions as keystone_exceptions
from openstack import exceptions as sdk_exceptions
from osc_lib import exceptions

from blockattachclient import clock
from blockattachclient import faults

FIRST = '1.0'
EXPLAINED = '1.4'
WATCHED = '1.5'
ON_REQUEST = '1.6'
OF_VOLUME = '1.7'
"""Versions of the extension ``blockattach``, one of which is in the header of each request.

`FIRST` is the oldest version that has all printed data. `EXPLAINED` added the history of an
attachment, explanations and dry runs. `WATCHED` added streams of changes. `ON_REQUEST` added pool
explanations and reconciliation. `OF_VOLUME` added the history of a volume.
"""
PAGE = 1000
FEW = 20
"""Maximum number of volumes that are read one by one. For more volumes, all are listed."""
TEMPORARY = (409, 503, 504)
"""HTTP statuses after which a request is repeated if the response has ``Retry-After``."""
_HEADER = 'OpenStack-API-Version'
_VERSIONS = 'volume 3.54, blockattach %s'


class Answer(NamedTuple):
    """Response to a request, or the reason why there was no response.

    :ivar status: HTTP status, or 0 if there was no response
    :ivar body: parsed JSON body, or None
    :ivar text: reason why there was no response
    """

    status: int
    body: Any
    headers: Mapping[str, str]
    text: str = ''

    @property
    def retry_after(self) -> int | None:
        """Seconds after which the request should be repeated, or None to not repeat it."""
        # The service may be restarting, or another process behind the address may respond.
        if self.status == 0:
            return 1
        seconds = self.headers.get('Retry-After', '')
        return int(seconds) if self.status in TEMPORARY and seconds.isdigit() else None

    @property
    def answered_at(self) -> datetime.datetime:
        """Time of the response, from its ``Date`` header if there is one.

        The ages of attachments are computed with this time, because it comes from the clock of the
        service, as do the times of attachments. Without the header, the clock of this machine is
        used.
        """
        try:
            found = email.utils.parsedate_to_datetime(self.headers.get('Date', ''))
        except ValueError:
            return clock.utcnow()
        return found.replace(tzinfo=None)

    def checked(self) -> 'Answer':
        """Return this answer if the request was successful.

        :raises CommandError: the request failed, or the service does not support the extension
        """
        if self.status == 0:
            raise exceptions.CommandError(faults.NO_ANSWER % self.text)
        if self.status >= 400:
            raise faults.of_answer(self.status, self.body,
                                   self.headers.get('x-openstack-request-id'))
        # A service without the extension ignores the requested version, and responds as usual.
        if 'blockattach' not in self.headers.get(_HEADER, ''):
            raise exceptions.CommandError(faults.NO_EXTENSION)
        return self


class Api:
    """Operations of the Block Storage API that the commands need."""

    def __init__(self, connection: Any) -> None:
        """
        :param connection: ``openstack.connection.Connection``
        """
        self.connection = connection

    @property
    def _storage(self) -> Any:
        """Block Storage proxy of the connection.

        :raises CommandError: the service does not respond at the address in the catalog
        """
        try:
            return self.connection.block_storage
        except (keystone_exceptions.DiscoveryFailure,
                sdk_exceptions.ServiceDiscoveryException) as exc:
            raise exceptions.CommandError(faults.NO_ANSWER % str(exc).rstrip('.')) from None

    def ask(self, method: str, path: str, *, query: Mapping[str, Any] | None = None,
            body: Any = None, headers: Mapping[str, str] | None = None,
            seconds: float | None = None, version: str = FIRST) -> Answer:
        """Send a request, and return the answer even if the request failed.

        :param seconds: timeout of the response in seconds, or None for no timeout
        :param version: version of the extension to request
        :raises CommandError: the service does not respond at the address in the catalog
        """
        more: dict[str, Any] = {} if seconds is None else {'timeout': seconds}
        if body is not None:
            more['json'] = body
        try:
            # Without a microversion, because it would overwrite the version header.
            found = self._storage.request(
                path, method, microversion=None, params=dict(query or {}),
                headers={**(headers or {}), _HEADER: _VERSIONS % version}, **more)
        except (keystone_exceptions.ConnectFailure,
                keystone_exceptions.DiscoveryFailure) as exc:
            return Answer(0, None, {}, str(exc).rstrip('.'))
        return Answer(found.status_code, content(found), found.headers)

    def open(self, path: str, query: Mapping[str, Any], headers: Mapping[str, str],
             silence: float, version: str) -> Answer:
        """Send a request whose response is a stream, which may last for any time.

        :param silence: seconds without any data after which the connection counts as lost
        :returns: answer whose body, on success, is the response object of requests. The caller
            must close the response object
        :raises CommandError: the service does not respond at the address in the catalog
        """
        try:
            # Not logged, because logging would read the response to its end.
            found = self._storage.request(
                path, 'GET', microversion=None, params=dict(query), stream=True, log=False,
                timeout=silence, headers={**headers, _HEADER: _VERSIONS % version})
        except (keystone_exceptions.ConnectFailure,
                keystone_exceptions.DiscoveryFailure) as exc:
            return Answer(0, None, {}, str(exc).rstrip('.'))
        return Answer(found.status_code, found if found.ok else content(found), found.headers)

    def require_extension(self, version: str = FIRST) -> None:
        """Check that the service supports the extension, before a command changes anything.

        :param version: required version of the extension
        :raises CommandError: the service does not support this version of the extension
        """
        answer = self.ask('GET', '/attachments', query={'limit': 0}, version=version)
        if answer.status == 406:
            raise exceptions.CommandError(faults.TOO_OLD % version)
        answer.checked()

    def attachments(self, query: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any],
                                                                     datetime.datetime]]:
        """Yield the attachments that match a query, newest first.

        Each attachment is paired with the time of the response that contained it.
        """
        marker: dict[str, str] = {}
        while True:
            answer = self.ask('GET', '/attachments/detail',
                              query={**query, 'limit': PAGE, **marker}).checked()
            page = answer.body['attachments']
            for one in page:
                yield one, answer.answered_at
            # A page may be shorter than requested, because the service has its own maximum.
            if not page:
                return
            marker = {'marker': page[-1]['id']}

    def history(self, attachment_id: str) -> list[dict[str, Any]] | None:
        """Return the history of an existing or deleted attachment, oldest event first.

        :returns: None if neither the attachment nor its history exists
        """
        path, found = f'{attachment_path(attachment_id)}/history', list[dict[str, Any]]()
        while True:
            after = found[-1]['generation'] if found else 0
            answer = self.ask('GET', path, query={'after': after, 'limit': PAGE},
                              version=EXPLAINED)
            if answer.status == 404 and not found:
                return None
            page = answer.checked().body['history']
            if not page:
                return found
            found += page

    def history_of_volume(self, volume_id: str, all_projects: bool) -> list[dict[str, Any]]:
        """Return the history of all attachments of a volume, oldest event first.

        Deleted attachments are included.
        """
        query = {'volume_id': volume_id, **({'all_tenants': 1} if all_projects else {})}
        found: list[dict[str, Any]] = []
        while page := self.ask('GET', '/attachments/history', query={
                **query, 'after': found[-1]['id'] if found else 0, 'limit': PAGE},
                               version=OF_VOLUME).checked().body['history']:
            found += page
        return found

    def explanation(self, attachment_id: str) -> Answer:
        return self.ask('GET', f'{attachment_path(attachment_id)}/explain', version=EXPLAINED)

    def volume(self, name_or_id: str, all_projects: bool = False) -> Any:
        """Return a volume by its name or ID.

        :raises CommandError: the volume does not exist, or several volumes have this name
        """
        try:
            return self._storage.find_volume(
                name_or_id, ignore_missing=False, all_projects=all_projects)
        except sdk_exceptions.NotFoundException:
            raise exceptions.CommandError(
                f'Volume {name_or_id!r} not found. List the volumes with "openstack volume list".',
            ) from None
        except sdk_exceptions.DuplicateResource:
            raise exceptions.CommandError(
                f'More than one volume is named {name_or_id!r}. Specify the ID of the volume, see '
                '"openstack volume list".') from None

    def listed_volumes(self, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield all volumes that match a query, newest first."""
        marker: dict[str, str] = {}
        while page := self.ask('GET', '/volumes/detail', query={
                **query, 'limit': PAGE, **marker}).checked().body['volumes']:
            yield from page
            marker = {'marker': page[-1]['id']}

    def volumes(self, ids: Collection[str], all_projects: bool = False) -> dict[str, Any]:
        """Return the volumes with the given IDs, by ID. Missing volumes are omitted."""
        if len(ids) > FEW:
            query = {'all_projects': True} if all_projects else {}
            return {str(one.id): one for one in self._storage.volumes(details=True, **query)
                    if one.id in ids}
        found = (self._storage.find_volume(one, ignore_missing=True, all_projects=all_projects)
                 for one in ids)
        return {str(one.id): one for one in found if one is not None}

    def server_id(self, name: str) -> str:
        """Look up a server in Compute by its name, and return its ID.

        :raises CommandError: Compute does not respond, or no or several servers have this name
        """
        try:
            found = self.connection.compute.find_server(name, ignore_missing=False)
        except (sdk_exceptions.SDKException, keystone_exceptions.ClientException):
            raise exceptions.CommandError(
                f'Cannot find a single server named {name!r} in Compute. Specify the ID of the '
                'server, which does not require Compute.') from None
        return str(found.id)


def content(response: Any) -> Any:
    """Return the parsed body of a response, or None if the body is empty or not JSON."""
    try:
        return response.json() if response.content else None
    except ValueError:
        return None


def attachment_path(attachment_id: str) -> str:
    """Return the URL path of an attachment."""
    return f'/attachments/{urllib.parse.quote(attachment_id, safe="")}'
