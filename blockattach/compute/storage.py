"""Client of block storage, over HTTP or the message bus.

With Keystone, requests have the token of the caller, and the token of the service account as
service token. Tokens are not stored. Therefore the requests of a server action that was taken over
only have tokens of the account. With HTTP basic authentication, all requests use the account.
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
"""Microversion of requests, the first in which the creation of an attachment accepts a mode."""
_PROJECT = 'os-vol-tenant-attr:tenant_id'
_COMPLETED = 'attached'
# As in Cinder, a volume can be attached while an image is downloaded to it. Block storage makes
# the final decision.
_IN_USE = ('available', 'in-use', 'reserved', 'attaching', 'detaching', 'downloading')


@dataclasses.dataclass(frozen=True, slots=True)
class Volume:
    """Volume, with the fields that the compute service uses."""

    id: str
    name: str | None
    status: str
    size_gb: int
    multiattach: bool
    attached: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Attachment:
    """Attachment of a volume.

    :ivar info: connection information, empty if the attachment has no connector. It contains a
        password and is therefore omitted from the repr
    """

    id: str
    volume_id: str
    info: Mapping[str, Any] = dataclasses.field(repr=False)
    status: str = ''

    @property
    def used(self) -> bool:
        """True if the attachment is connected to a host and completed."""
        return bool(self.info) and self.status == _COMPLETED


class Forbidden(errors.NotAuthorized):
    """Rejection of a caller with a valid token by the policy of block storage.

    The request must not be repeated with the service account, which has more rights.
    """


class Attachments(Protocol):
    """Interface of a client for attachments. Every call can be repeated after a failure.

    Each method raises `errors.ServerRequestInvalid`, `errors.NotFound` or `errors.NotAuthorized`
    if block storage rejects the request. If the outcome is unknown, or block storage reports a
    conflict, `errors.StorageUnavailable` is raised.
    """

    def create(self, caller: context.RequestContext, volume_id: str, server_id: str, mode: str,
               connector: Mapping[str, Any] | None, key: str) -> Attachment:
        """Create an attachment, which reserves a volume for a server.

        :param connector: connector properties of the host to connect, or None to connect no host
        :param key: idempotency key; a repeated call returns the existing attachment
        """

    def update(self, caller: context.RequestContext, attachment_id: str,
               connector: Mapping[str, Any]) -> Attachment:
        """Connect a host to the volume of an attachment, and return the attachment."""

    def complete(self, caller: context.RequestContext, attachment_id: str) -> None:
        """Complete an attachment (os-complete), after which the volume is ``in-use``."""

    def complete_all(self, caller: context.RequestContext,
                     attachment_ids: Sequence[str]) -> Mapping[str, Exception]:
        """Complete several attachments. Missing attachments are not errors.

        :returns: error of each attachment that was not completed, by attachment id
        """

    def get(self, caller: context.RequestContext, attachment_id: str) -> Attachment:
        """Return an attachment with its connection information."""

    def of_server(self, caller: context.RequestContext, server_id: str,
                  volume_id: str | None) -> list[str]:
        """Return the ids of the attachments to a server, in all projects that the caller may see.

        :param volume_id: volume of the attachments, or None for all volumes
        """

    def delete(self, caller: context.RequestContext, attachment_id: str) -> None:
        """Delete an attachment. A missing attachment is not an error."""


class Volumes(Protocol):
    """Interface of a client for volumes. The methods raise the errors of `Attachments`."""

    def get(self, caller: context.RequestContext, volume_id: str) -> Volume:
        """Return a volume that the caller may see."""

    def delete(self, caller: context.RequestContext, volume_id: str) -> None:
        """Delete a volume. A missing volume is not an error."""


class _Http:
    """Client that sends requests of callers to the Block Storage API."""

    def __init__(self, settings: compute_conf.BlockStorageSettings,
                 outgoing: requests.Session | None = None) -> None:
        """
        :param outgoing: HTTP session for the requests, or None for a new one
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
        """Send a request, and return the body of its response.

        :param also: statuses of 400 and above that are not errors
        :raises StorageUnavailable: the outcome of the request is unknown, or block storage
            reported a conflict
        :raises BlockattachError: block storage rejected the request; see `_error`
        """
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
            # Responses contain passwords, which keystoneauth would log at DEBUG.
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
        """Return an auth plugin that adds the service token of the account to another plugin.

        Block storage requires the service token to detach a volume that a server uses. If no
        account is configured, the other plugin is returned unchanged.
        """
        if not self._settings.has_account:
            return user
        return service_token.ServiceTokenAuthWrapper(user, self._account)

    def _token(self, caller: context.RequestContext) -> str | None:
        """Return the token of a caller, or None if the request uses the account.

        Without Keystone, the token consists of user id and project id, and is not verified.
        """
        if self._settings.is_basic:
            return None
        if caller.auth_token or self._settings.has_account or not caller.project_id:
            return caller.auth_token
        return f'{caller.user_id}:{caller.project_id}'


class HttpVolumes(_Http):
    """`Volumes` over HTTP."""

    def get(self, caller: context.RequestContext, volume_id: str) -> Volume:
        found = _part(self.ask(caller, 'GET', f'/volumes/{volume_id}'), 'volume')
        # With HTTP basic authentication, block storage checks the project of the account only.
        if not caller.is_admin and found.get(_PROJECT) != caller.project_id:
            raise errors.NotFound(f'Volume {volume_id} could not be found.')
        return Volume(found['id'], found['name'], found['status'], found['size'],
                      bool(found['multiattach']), bool(found['attachments']))

    def delete(self, caller: context.RequestContext, volume_id: str) -> None:
        self.ask(caller, 'DELETE', f'/volumes/{volume_id}', also=(404,))


class HttpAttachments(_Http):
    """`Attachments` over HTTP."""

    def create(self, caller: context.RequestContext, volume_id: str, server_id: str, mode: str,
               connector: Mapping[str, Any] | None, key: str) -> Attachment:
        return _attachment(self.ask(caller, 'POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': server_id, 'mode': mode,
            'connector': connector}}, headers={'Idempotency-Key': key}))

    def update(self, caller: context.RequestContext, attachment_id: str,
               connector: Mapping[str, Any]) -> Attachment:
        return _attachment(self.ask(caller, 'PUT', f'/attachments/{attachment_id}', {
            'attachment': {'connector': connector}}))

    def complete(self, caller: context.RequestContext, attachment_id: str) -> None:
        self.ask(caller, 'POST', f'/attachments/{attachment_id}/action', {'os-complete': None})

    def complete_all(self, caller: context.RequestContext,
                     attachment_ids: Sequence[str]) -> Mapping[str, Exception]:
        # The HTTP API completes one attachment per request.
        return _each(self, caller, attachment_ids)

    def get(self, caller: context.RequestContext, attachment_id: str) -> Attachment:
        return _attachment(self.ask(caller, 'GET', f'/attachments/{attachment_id}'))

    def of_server(self, caller: context.RequestContext, server_id: str,
                  volume_id: str | None) -> list[str]:
        query = parse.urlencode({'instance_id': server_id, 'all_tenants': '1',
                                 **({'volume_id': volume_id} if volume_id else {})})
        return [one['id'] for one in _part(self.ask(
            caller, 'GET', f'/attachments?{query}'), 'attachments')]

    def delete(self, caller: context.RequestContext, attachment_id: str) -> None:
        self.ask(caller, 'DELETE', f'/attachments/{attachment_id}', also=(404,))


class BusAttachments:
    """`Attachments` over the message bus."""

    def __init__(self, client: attachments_rpc.AttachmentsClient) -> None:
        self._client = client

    def create(self, caller: context.RequestContext, volume_id: str, server_id: str, mode: str,
               connector: Mapping[str, Any] | None, key: str) -> Attachment:
        with _translated():
            found = self._client.create(_service(caller), volume_id, server_id, connector, mode,
                                        key)
        return _carried(found)

    def update(self, caller: context.RequestContext, attachment_id: str,
               connector: Mapping[str, Any]) -> Attachment:
        with _translated():
            found = self._client.update(_service(caller), attachment_id, connector)
        return _carried(found)

    def complete(self, caller: context.RequestContext, attachment_id: str) -> None:
        with _translated():
            self._client.complete(_service(caller), attachment_id)

    def complete_all(self, caller: context.RequestContext,
                     attachment_ids: Sequence[str]) -> Mapping[str, Exception]:
        if len(attachment_ids) > 1:
            # Raised by a release of block storage that does not support the call.
            with contextlib.suppress(errors.ConfigurationError):
                return {attachment_id: errors.StorageUnavailable(reason=text)
                        for attachment_id, text in self._client.complete_all(
                            _service(caller), attachment_ids).items()}
        return _each(self, caller, attachment_ids)

    def get(self, caller: context.RequestContext, attachment_id: str) -> Attachment:
        with _translated():
            found = self._client.get(_service(caller), attachment_id)
        return _carried(found)

    def of_server(self, caller: context.RequestContext, server_id: str,
                  volume_id: str | None) -> list[str]:
        with _translated():
            return [one.id for one in self._client.list(
                _service(caller), {'instance_uuid': server_id,
                                   **({'volume_id': volume_id} if volume_id else {})}, True)]

    def delete(self, caller: context.RequestContext, attachment_id: str) -> None:
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
    """Check that a volume can be attached.

    :raises ServerRequestInvalid: the status of the volume does not allow an attachment, or the
        volume is attached and does not allow multiattach
    """
    if volume.status not in _IN_USE or (volume.attached and not volume.multiattach):
        raise errors.ServerRequestInvalid(reason=(
            f"Invalid volume: volume '{volume.id}' status must be 'available'. Currently in "
            f"'{volume.status}' status"))


def _service(caller: context.RequestContext) -> context.RequestContext:
    # Adds the service role, without which the interface rejects the request.
    return attachments_rpc.caller(caller.project_id or '', caller.user_id or '',
                                  tuple(caller.roles or ()), request_id=caller.request_id)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    """Translate errors of RPC calls to the errors that `HttpAttachments` raises."""
    try:
        yield
    except errors.BlockattachError as exc:
        raise _error(exc.status, str(exc)) from exc


def _carried(carried: Any) -> Attachment:
    return Attachment(carried.id, carried.volume_id, carried.connection_info or {},
                      carried.attach_status)


def _attachment(body: Mapping[str, Any]) -> Attachment:
    found = _part(body, 'attachment')
    return Attachment(found['id'], found['volume_id'], found.get('connection_info') or {},
                      found.get('status', ''))


def _part(body: Mapping[str, Any], name: str) -> Any:
    """Return the value of a key in a response body.

    :raises StorageUnavailable: the body lacks the key, for example because the response did not
        come from block storage
    """
    if name not in body:
        raise errors.StorageUnavailable(reason=f'the response does not contain {name}')
    return body[name]


def _message(reply: requests.Response) -> str:
    # The key of an error differs by status, such as ``itemNotFound`` or ``badRequest``.
    for inner in identity.body_of(reply).values():
        if isinstance(inner, dict) and 'message' in inner:
            return str(inner['message'])
    return f'HTTP {reply.status_code}'


def _error(status: int, message: str) -> errors.BlockattachError:
    """Return the error to raise for a status and a message of block storage."""
    if status == 404:
        return errors.NotFound(message)
    if status == 403:
        return Forbidden(message)
    if status == 401:
        return errors.NotAuthorized(message)
    # A conflict may be temporary, for example while another process works on the attachment.
    if status < 500 and status != 409:
        return errors.ServerRequestInvalid(reason=message)
    LOG.warning('Failed to complete block storage request%s', log.fields(
        status=status, reason=message))
    return errors.StorageUnavailable(reason=message)
