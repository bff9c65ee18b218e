"""What is asked of block storage, as any client may ask it: over HTTP, or over the bus.

With Keystone a caller's token goes along, and the account's beside it; what goes on after the
token is gone, the account asks for. By HTTP basic authentication it asks for everything.
"""
import contextlib
import dataclasses
import logging
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Protocol
from urllib import parse

import requests
from keystoneauth1 import adapter
from keystoneauth1 import exceptions
from keystoneauth1 import plugin
from keystoneauth1 import service_token
from keystoneauth1 import token_endpoint

from blockattach.compute import conf as compute_conf
from blockattach.compute import errors
from blockattach.platform import context
from blockattach.platform import identity
from blockattach.platform import log
from blockattach.storage.rpc import attachments as attachments_rpc

LOG = logging.getLogger(__name__)

_SERVICE_TYPE = 'block-storage'
_MICROVERSION = '3.54'
"""The first one that takes a mode in the creation of an attachment."""
_PROJECT = 'os-vol-tenant-attr:tenant_id'
_COMPLETED = 'attached'
_IN_USE = ('available', 'in-use', 'reserved', 'attaching', 'detaching', 'downloading')


@dataclasses.dataclass(frozen=True, slots=True)
class Volume:
    """What the consumer needs to know of a volume."""

    id: str
    name: str | None
    status: str
    size_gb: int
    multiattach: bool
    attached: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Attachment:
    """Attachment of a volume.

    ``info`` contains a password and is not printed. It is empty if the attachment has no
    connector.
    """

    id: str
    volume_id: str
    info: Mapping[str, Any] = dataclasses.field(repr=False)
    status: str = ''

    @property
    def used(self) -> bool:
        """Return True if the attachment is connected to a host and completed."""
        return bool(self.info) and self.status == _COMPLETED


class Forbidden(errors.NotAuthorized):
    """Policy denies it to the caller, whose token is good."""


class Attachments(Protocol):
    """What is asked for attachments. A call that failed may be repeated.

    Each raises `errors.InvalidInput` or `errors.NotFound` for what cannot be, and
    `errors.StorageUnavailable` if nothing is known of it.
    """

    def create(self, caller: context.RequestContext, volume_id: str, server_id: str, mode: str,
               connector: Mapping[str, Any] | None, key: str) -> Attachment:
        """Hold a volume for a server; with a connector let its host in.

        :param key: names the request: a repeat finds what the first has made
        """

    def update(self, caller: context.RequestContext, attachment_id: str,
               connector: Mapping[str, Any]) -> Attachment:
        """Let a host in."""

    def complete(self, caller: context.RequestContext, attachment_id: str) -> None:
        """Say that the volume is used."""

    def complete_all(self, caller: context.RequestContext,
                     attachment_ids: Sequence[str]) -> Mapping[str, Exception]:
        """`complete` of several; why those failed that did, by their ids. One that is not there is
        passed over.
        """

    def get(self, caller: context.RequestContext, attachment_id: str) -> Attachment:
        """Look at one."""

    def of_server(self, caller: context.RequestContext, server_id: str,
                  volume_id: str | None) -> list[str]:
        """The ids of those by which a server has a volume, or any; of each project, where the
        caller may see them.
        """

    def delete(self, caller: context.RequestContext, attachment_id: str) -> None:
        """Remove one; one that is not there is no error."""


class Volumes(Protocol):
    """What is asked for volumes; errors as of `Attachments`."""

    def get(self, caller: context.RequestContext, volume_id: str) -> Volume:
        """Look at one."""

    def delete(self, caller: context.RequestContext, volume_id: str) -> None:
        """Remove one; one that is not there is no error."""


class _Http:
    """Requests, in the name of a caller."""

    def __init__(self, settings: compute_conf.BlockStorageSettings,
                 outgoing: requests.Session | None = None) -> None:
        """
        :param outgoing: what carries the requests; None: connections of its own
        """
        self._settings = settings
        self._session = identity.open_session(settings, settings.timeout, outgoing)
        self._account = identity.own(settings)
        self._own = adapter.Adapter(
            self._session, auth=self._as_service(self._account), service_type=_SERVICE_TYPE,
            interface=settings.interfaces, region_name=settings.region_name,
            endpoint_override=settings.endpoint_override)

    def ask(self, caller: context.RequestContext, method: str, path: str, body: Any = None,
            also: tuple[int, ...] = (),
            headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The body of a success, or of an answer of a status in ``also``."""
        try:
            reply = self._send(caller, method, path, body, headers or {})
        except (exceptions.ClientException, requests.RequestException) as exc:
            raise errors.StorageUnavailable(reason=str(exc)) from exc
        if reply.status_code < 400 or reply.status_code in also:
            return identity.body_of(reply)
        raise _error(reply.status_code, _message(reply))

    def _send(self, caller: context.RequestContext, method: str, path: str, body: Any,
              headers: Mapping[str, str]) -> requests.Response:
        sent: dict[str, Any] = {
            # Answers have passwords, and keystoneauth would log them at DEBUG.
            'log': False, 'raise_exc': False, 'headers': dict(headers),
            'microversion': _MICROVERSION, 'global_request_id': caller.global_id}
        if body is not None:
            sent['json'] = body
        token = self._token(caller)
        if token is None:
            return self._own.request(path, method, **sent)
        endpoint = self._settings.endpoint_override or identity.endpoint(
            self._session, self._settings, token, _SERVICE_TYPE)
        return self._session.request(
            f'{endpoint.rstrip("/")}{path}', method,
            auth=self._as_service(token_endpoint.Token(endpoint, token)),
            microversion_service_type='volume', **sent)

    def _as_service(self, user: plugin.BaseAuthPlugin) -> plugin.BaseAuthPlugin:
        """The same with the account's token beside it: only a service ends what a server uses."""
        if not self._settings.has_account:
            return user
        return service_token.ServiceTokenAuthWrapper(user, self._account)

    def _token(self, caller: context.RequestContext) -> str | None:
        """What a caller is asked for with; None: the account asks. Without Keystone a caller is
        believed what it claims.
        """
        if self._settings.is_basic:
            return None
        if caller.auth_token or self._settings.has_account or not caller.project_id:
            return caller.auth_token
        return f'{caller.user_id}:{caller.project_id}'


class HttpVolumes(_Http):
    """`Volumes` over HTTP."""

    def get(self, caller: context.RequestContext, volume_id: str) -> Volume:
        """GET /volumes/{id}. The account may see what the caller may not."""
        found = _part(self.ask(caller, 'GET', f'/volumes/{volume_id}'), 'volume')
        if not caller.is_admin and found.get(_PROJECT) != caller.project_id:
            raise errors.NotFound(f'Volume {volume_id} could not be found.')
        return Volume(found['id'], found['name'], found['status'], found['size'],
                      bool(found['multiattach']), bool(found['attachments']))

    def delete(self, caller: context.RequestContext, volume_id: str) -> None:
        """DELETE /volumes/{id}."""
        self.ask(caller, 'DELETE', f'/volumes/{volume_id}', also=(404,))


class HttpAttachments(_Http):
    """`Attachments` over HTTP."""

    def create(self, caller: context.RequestContext, volume_id: str, server_id: str, mode: str,
               connector: Mapping[str, Any] | None, key: str) -> Attachment:
        """POST /attachments."""
        return _attachment(self.ask(caller, 'POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': server_id, 'mode': mode,
            'connector': connector}}, headers={'Idempotency-Key': key}))

    def update(self, caller: context.RequestContext, attachment_id: str,
               connector: Mapping[str, Any]) -> Attachment:
        """PUT /attachments/{id}."""
        return _attachment(self.ask(caller, 'PUT', f'/attachments/{attachment_id}', {
            'attachment': {'connector': connector}}))

    def complete(self, caller: context.RequestContext, attachment_id: str) -> None:
        """POST /attachments/{id}/action."""
        self.ask(caller, 'POST', f'/attachments/{attachment_id}/action', {'os-complete': None})

    def complete_all(self, caller: context.RequestContext,
                     attachment_ids: Sequence[str]) -> Mapping[str, Exception]:
        """One after the other."""
        return _each(self, caller, attachment_ids)

    def get(self, caller: context.RequestContext, attachment_id: str) -> Attachment:
        """GET /attachments/{id}."""
        return _attachment(self.ask(caller, 'GET', f'/attachments/{attachment_id}'))

    def of_server(self, caller: context.RequestContext, server_id: str,
                  volume_id: str | None) -> list[str]:
        """GET /attachments, of all projects where the caller or the account may see them."""
        query = parse.urlencode({'instance_id': server_id, 'all_tenants': '1',
                                 **({'volume_id': volume_id} if volume_id else {})})
        return [one['id'] for one in _part(self.ask(
            caller, 'GET', f'/attachments?{query}'), 'attachments')]

    def delete(self, caller: context.RequestContext, attachment_id: str) -> None:
        """DELETE /attachments/{id}."""
        self.ask(caller, 'DELETE', f'/attachments/{attachment_id}', also=(404,))


class BusAttachments:
    """`Attachments` over the bus."""

    def __init__(self, client: attachments_rpc.AttachmentsClient) -> None:
        self._client = client

    def create(self, caller: context.RequestContext, volume_id: str, server_id: str, mode: str,
               connector: Mapping[str, Any] | None, key: str) -> Attachment:
        """`AttachmentsInterface.create`."""
        with _translated():
            found = self._client.create(_service(caller), volume_id, server_id, connector, mode,
                                        key)
        return _carried(found)

    def update(self, caller: context.RequestContext, attachment_id: str,
               connector: Mapping[str, Any]) -> Attachment:
        """`AttachmentsInterface.update`."""
        with _translated():
            found = self._client.update(_service(caller), attachment_id, connector)
        return _carried(found)

    def complete(self, caller: context.RequestContext, attachment_id: str) -> None:
        """`AttachmentsInterface.complete`."""
        with _translated():
            self._client.complete(_service(caller), attachment_id)

    def complete_all(self, caller: context.RequestContext,
                     attachment_ids: Sequence[str]) -> Mapping[str, Exception]:
        """`AttachmentsInterface.complete_all`, where block storage knows it."""
        if len(attachment_ids) > 1:
            with contextlib.suppress(errors.ConfigurationError):
                return {attachment_id: errors.StorageUnavailable(reason=text)
                        for attachment_id, text in self._client.complete_all(
                            _service(caller), attachment_ids).items()}
        return _each(self, caller, attachment_ids)

    def get(self, caller: context.RequestContext, attachment_id: str) -> Attachment:
        """`AttachmentsInterface.get`."""
        with _translated():
            found = self._client.get(_service(caller), attachment_id)
        return _carried(found)

    def of_server(self, caller: context.RequestContext, server_id: str,
                  volume_id: str | None) -> list[str]:
        """`AttachmentsInterface.list`."""
        with _translated():
            return [one.id for one in self._client.list(
                _service(caller), {'instance_uuid': server_id,
                                   **({'volume_id': volume_id} if volume_id else {})}, True)]

    def delete(self, caller: context.RequestContext, attachment_id: str) -> None:
        """`AttachmentsInterface.delete`."""
        with contextlib.suppress(errors.NotFound), _translated():
            self._client.delete(_service(caller), attachment_id)


def _each(attachments: Attachments, caller: context.RequestContext,
          attachment_ids: Sequence[str]) -> dict[str, Exception]:
    failed: dict[str, Exception] = {}
    for attachment_id in attachment_ids:
        try:
            attachments.complete(caller, attachment_id)
        except errors.NotFound:
            pass
        except Exception as exc:
            failed[attachment_id] = exc
    return failed


def check_usable(volume: Volume) -> None:
    """Return if a server may get a volume.

    :raises ServerRequestInvalid: its status does not allow it
    """
    if volume.status not in _IN_USE or (volume.attached and not volume.multiattach):
        raise errors.ServerRequestInvalid(reason=(
            f"Invalid volume: volume '{volume.id}' status must be 'available'. Currently in "
            f"'{volume.status}' status"))


def _service(caller: context.RequestContext) -> context.RequestContext:
    """The same caller, as a consumer asks for it."""
    return attachments_rpc.caller(caller.project_id or '', caller.user_id or '',
                                  tuple(caller.roles or ()), request_id=caller.request_id)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """What is raised over the bus, as the same failure is raised over HTTP."""
    try:
        yield
    except errors.BlockattachError as exc:
        raise _error(exc.status, str(exc)) from exc


def _carried(found: Any) -> Attachment:
    return Attachment(found.id, found.volume_id, found.connection_info or {}, found.attach_status)


def _attachment(body: Mapping[str, Any]) -> Attachment:
    found = _part(body, 'attachment')
    return Attachment(found['id'], found['volume_id'], found.get('connection_info') or {},
                      found.get('status', ''))


def _part(body: Mapping[str, Any], name: str) -> Any:
    """Return the named part of a response body.

    :raises StorageUnavailable: the response is incomplete or not from block storage
    """
    if name not in body:
        raise errors.StorageUnavailable(reason=f'the response does not contain {name}')
    return body[name]


def _message(reply: requests.Response) -> str:
    for inner in identity.body_of(reply).values():
        if isinstance(inner, dict) and 'message' in inner:
            return str(inner['message'])
    return f'HTTP {reply.status_code}'


def _error(status: int, message: str) -> errors.BlockattachError:
    """The error for an answer that is one."""
    if status == 404:
        return errors.NotFound(message)
    if status == 403:
        return Forbidden(message)
    if status == 401:
        return errors.NotAuthorized(message)
    if status < 500 and status != 409:
        return errors.ServerRequestInvalid(reason=message)
    LOG.warning('Block storage request failed%s', log.fields(code=status, reason=message))
    return errors.StorageUnavailable(reason=message)
