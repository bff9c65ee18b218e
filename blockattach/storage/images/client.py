"""Clients for version 2 of the Image API of Glance.

Images that a user names are looked up with the token of the user. Image data is downloaded and
uploaded with the account in ``[glance]``, which only volume services have. Without such an
account, only a Glance that does not use Keystone can be used.
"""
import logging
from collections.abc import Callable
from collections.abc import Generator
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from urllib import parse

import requests
from keystoneauth1 import adapter
from keystoneauth1 import exceptions
from keystoneauth1 import plugin
from keystoneauth1 import token_endpoint

from blockattach.platform import context
from blockattach.platform import identity
from blockattach.platform import log
from blockattach.platform import units
from blockattach.storage import errors
from blockattach.storage.conf import glance as glance_conf
from blockattach.storage.domain import images

LOG = logging.getLogger(__name__)

_SERVICE_TYPE = 'image'
_PIECE = units.MIB
_CHUNK = 64 * units.KIB
_PATCH = 'application/openstack-images-v2.1-json-patch'
_KNOWN = ('id', 'status', 'name', 'size', 'virtual_size', 'checksum', 'os_hash_algo',
          'os_hash_value', 'disk_format', 'container_format', 'min_disk', 'min_ram', 'visibility',
          'protected', 'updated_at')


class _Client:

    def __init__(self, settings: glance_conf.GlanceSettings,
                 outgoing: requests.Session | None = None) -> None:
        self._settings = settings
        self._session = identity.open_session(settings, settings.timeout, outgoing)

    def _found(self, reply: requests.Response, image_id: str) -> images.Image:
        body = identity.body_of(reply)
        if reply.status_code in (400, 403, 404):
            raise errors.ImageNotFound(image_id=image_id)
        if reply.status_code not in (200, 201) or not isinstance(body.get('id'), str):
            raise _unclear(reply)
        return _image(body)


class UserImages(_Client):
    """Client that sends the token of the caller, and sees the images visible to the caller."""

    def __init__(self, settings: glance_conf.GlanceSettings,
                 outgoing: requests.Session | None = None,
                 service: plugin.BaseAuthPlugin | None = None) -> None:
        """Create the client without opening a connection.

        :param outgoing: `requests` session that sends the requests; None to create one
        :param service: account of the service token, which is sent with the token of the caller;
            None to send no service token
        """
        super().__init__(settings, outgoing)
        self._service = service

    def show(self, caller: context.RequestContext, image_id: str) -> images.Image:
        """Get an image by its id.

        :raises ImageNotFound: if the image does not exist or is not visible to the caller
        :raises GlanceUnavailable: if Glance gave no usable response
        """
        return self._found(self._ask(caller, 'GET', _path(image_id)), image_id)

    def named(self, caller: context.RequestContext, name: str) -> list[images.Image]:
        """Get images by their name.

        :returns: at most two images, because two suffice to show that the name is ambiguous
        :raises GlanceUnavailable: if Glance gave no usable response
        """
        query = parse.urlencode({'name': f'in:"{name}"' if ',' in name else name, 'limit': 2})
        reply = self._ask(caller, 'GET', f'/v2/images?{query}')
        listed = identity.body_of(reply).get('images')
        if reply.status_code != 200 or not isinstance(listed, list):
            raise _unclear(reply)
        return [_image(body) for body in listed
                if isinstance(body, dict) and body.get('name') == name]

    def create(self, caller: context.RequestContext, image_id: str,
               facts: Mapping[str, Any]) -> images.Image:
        """Create an image that is owned by the caller and has no data.

        :param facts: other fields and properties of the image, by the keys of the Image API
        :raises ImageRefused: if Glance rejects the image
        :raises GlanceUnavailable: if the image may or may not have been created
        """
        # The id comes last, so that metadata of users in ``facts`` cannot replace it.
        reply = self._ask(caller, 'POST', '/v2/images', json={**facts, 'id': image_id})
        if 400 <= reply.status_code < 500:
            raise errors.ImageRefused(reason=_reason_of(reply))
        image = self._found(reply, image_id)
        if image.id != image_id:
            raise _unclear(reply)
        return image

    def delete(self, caller: context.RequestContext, image_id: str) -> None:
        """Delete an image of the caller. Nothing happens if the image does not exist.

        :raises GlanceUnavailable: if the image may or may not have been deleted
        """
        reply = self._ask(caller, 'DELETE', _path(image_id))
        if reply.status_code not in (204, 404):
            raise _unclear(reply)

    def _ask(self, caller: context.RequestContext, method: str, path: str,
             **more: Any) -> requests.Response:
        token = caller.auth_token or identity.NO_TOKEN
        return _asking(lambda: self._session.request(
            self._base(token) + path, method,
            auth=identity.beside(token_endpoint.Token('', token), self._service),
            raise_exc=False,
            connect_retries=self._settings.retries, global_request_id=caller.global_id, **more))

    def _base(self, token: str) -> str:
        return _without_version(self._settings.endpoint_override or identity.endpoint(
            self._session, self._settings, token, _SERVICE_TYPE))


class ServiceImages(_Client):
    """Client that uses the account in ``[glance]``, which sees all images and their data."""

    def __init__(self, settings: glance_conf.GlanceSettings,
                 outgoing: requests.Session | None = None) -> None:
        """Create the client without opening a connection.

        :param settings: settings with an account or the address of Glance
            (`GlanceSettings.configured`)
        :param outgoing: `requests` session that sends the requests; None to create one
        """
        super().__init__(settings, outgoing)
        self._glance = adapter.Adapter(
            self._session, auth=identity.own(settings), service_type=_SERVICE_TYPE,
            interface=settings.interfaces, region_name=settings.region_name,
            endpoint_override=settings.endpoint_override, connect_retries=settings.retries,
            raise_exc=False)

    def show(self, image_id: str) -> images.Image:
        """Get an image by its id.

        :raises ImageNotFound: if the image does not exist
        :raises GlanceUnavailable: if Glance gave no usable response
        """
        return self._found(self._ask('GET', _path(image_id)), image_id)

    def download(self, image_id: str) -> Generator[bytes, None, None]:
        """Download the data of an image, and yield it in pieces of at most 1 MiB.

        :raises ImageNotFound: if the image does not exist or has no data
        :raises GlanceUnavailable: if the data was not received completely
        """
        reply = self._ask('GET', f'{_path(image_id)}/file', stream=True,
                          headers={'Accept': 'application/octet-stream'})
        with reply:
            if reply.status_code in (204, 403, 404):
                raise errors.ImageNotFound(image_id=image_id)
            if reply.status_code != 200:
                raise _unclear(reply)
            try:
                yield from reply.iter_content(_PIECE)
            except requests.RequestException as exc:
                raise _unreachable(exc) from exc

    def upload(self, image_id: str, pieces: Iterable[bytes]) -> None:
        """Upload the data of an existing image.

        :param pieces: data in pieces of any size
        :raises ImageNotFound: if the image does not exist
        :raises ImageRefused: if Glance rejects the data
        :raises GlanceUnavailable: if Glance may or may not have stored the data
        """
        # The pieces can be read only once. A retry of the request would send the remaining pieces
        # as the whole image.
        reply = self._ask('PUT', f'{_path(image_id)}/file', data=_chunks(pieces),
                          connect_retries=0,
                          allow_reauth=False,
                          headers={'Content-Type': 'application/octet-stream'})
        if reply.status_code == 404:
            raise errors.ImageNotFound(image_id=image_id)
        # If the token is rejected, the request can succeed later with a new token.
        if 400 <= reply.status_code < 500 and reply.status_code != 401:
            raise errors.ImageRefused(reason=_reason_of(reply))
        if reply.status_code != 204:
            raise _unclear(reply)

    def delete(self, image_id: str) -> None:
        """Delete an image, even a protected image. Nothing happens if the image does not exist.

        :raises ImageRefused: if Glance rejects the deletion
        :raises GlanceUnavailable: if the image may or may not have been deleted
        """
        reply = self._ask('DELETE', _path(image_id))
        if reply.status_code == 403:
            # The image may be protected, because a user can request this for an uploaded volume.
            self._ask('PATCH', _path(image_id), headers={'Content-Type': _PATCH},
                      data='[{"op": "replace", "path": "/protected", "value": false}]')
            reply = self._ask('DELETE', _path(image_id))
        if 400 <= reply.status_code < 500 and reply.status_code != 404:
            raise errors.ImageRefused(reason=_reason_of(reply))
        if reply.status_code not in (204, 404):
            raise _unclear(reply)

    def _ask(self, method: str, path: str, **more: Any) -> requests.Response:
        return _asking(lambda: self._glance.request(self._base() + path, method, **more))

    def _base(self) -> str:
        address = self._settings.endpoint_override or self._glance.get_endpoint()
        if not address:
            raise exceptions.EndpointNotFound
        return _without_version(str(address))


def _without_version(address: str) -> str:
    # The endpoint in the service catalog may end with the API version.
    return address.rstrip('/').removesuffix('/v2')


def _asking(ask: Callable[[], requests.Response]) -> requests.Response:
    try:
        return ask()
    except (exceptions.ClientException, requests.RequestException) as exc:
        raise _unreachable(exc) from exc


def _unreachable(exc: Exception) -> errors.GlanceUnavailable:
    # The text of the exception contains internal addresses, which clients must not see.
    LOG.warning('Failed to reach Glance%s', log.fields(reason=exc))
    return errors.GlanceUnavailable(reason='the service cannot be reached')


def _unclear(reply: requests.Response) -> errors.GlanceUnavailable:
    LOG.warning('Unusable response received from Glance%s', log.fields(status=reply.status_code))
    return errors.GlanceUnavailable(reason=f'the service answered with status {reply.status_code}')


def _chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    # uWSGI rejects chunks of 1 MiB.
    for piece in pieces:
        for start in range(0, len(piece), _CHUNK):
            yield piece[start:start + _CHUNK]


def _path(image_id: str) -> str:
    return f'/v2/images/{parse.quote(image_id, safe="")}'


def _image(body: Mapping[str, Any]) -> images.Image:
    """Build an image from the body of a response of Glance.

    Keys that the Image API does not define are properties. Texts are cleaned, because they come
    from users and are stored with volumes that are created from the image.
    """
    known: dict[str, Any] = {
        key: images.cleaned(body[key]) if isinstance(body[key], str) else body[key]
        for key in _KNOWN if body.get(key) is not None}
    properties = {images.cleaned(key): images.cleaned(str(value)) for key, value in body.items()
                  if key not in images.GLANCE_KEYS and value is not None}
    return images.Image(**known, properties=properties)


def _reason_of(reply: requests.Response) -> str:
    """Return the message of an error response of Glance, or its status without a message."""
    message = identity.body_of(reply).get('message')
    return message if isinstance(message, str) and message else f'status {reply.status_code}'
