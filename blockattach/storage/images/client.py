"""What is asked of Glance, as a client of its API v2.

What a user names is looked up with the user's token; bytes are moved by the account of
``[glance]``, which volume services have. Without an account, only a Glance without Keystone
answers.
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
    """One way to ask, on connections that all threads share."""

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
    """Images as a caller sees them: asked with its token."""

    def __init__(self, settings: glance_conf.GlanceSettings,
                 outgoing: requests.Session | None = None,
                 service: plugin.BaseAuthPlugin | None = None) -> None:
        """
        :param service: account of the service token, which is sent with the token of the caller
        """
        super().__init__(settings, outgoing)
        self._service = service

    def show(self, caller: context.RequestContext, image_id: str) -> images.Image:
        """One image.

        :raises ImageNotFound: the caller sees none
        :raises GlanceUnavailable: nothing was learnt
        """
        return self._found(self._ask(caller, 'GET', _path(image_id)), image_id)

    def named(self, caller: context.RequestContext, name: str) -> list[images.Image]:
        """The images with a name: two at most, since one of many is not meant by it.

        :raises GlanceUnavailable: nothing was learnt
        """
        query = parse.urlencode({'name': f'in:"{name}"' if ',' in name else name, 'limit': 2})
        reply = self._ask(caller, 'GET', f'/v2/images?{query}')
        found = identity.body_of(reply).get('images')
        if reply.status_code != 200 or not isinstance(found, list):
            raise _unclear(reply)
        return [_image(one) for one in found if isinstance(one, dict) and one.get('name') == name]

    def create(self, caller: context.RequestContext, image_id: str,
               facts: Mapping[str, Any]) -> images.Image:
        """Make an image without bytes, the caller's.

        :param facts: what is said of it, by Glance's keys; properties among them
        :raises ImageRefused: Glance does not make it
        :raises GlanceUnavailable: it may have been made
        """
        # The id comes last, so that metadata of users in ``facts`` cannot replace it.
        reply = self._ask(caller, 'POST', '/v2/images', json={**facts, 'id': image_id})
        if 400 <= reply.status_code < 500:
            raise errors.ImageRefused(reason=_reason_of(reply))
        made = self._found(reply, image_id)
        if made.id != image_id:
            raise _unclear(reply)
        return made

    def delete(self, caller: context.RequestContext, image_id: str) -> None:
        """Remove an image of the caller's; one that is not there is a success.

        :raises GlanceUnavailable: nothing was learnt
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
    """Images and their bytes for the service itself, whose account sees all."""

    def __init__(self, settings: glance_conf.GlanceSettings,
                 outgoing: requests.Session | None = None) -> None:
        """Open nothing yet.

        :param settings: with Glance's address and the account (`GlanceSettings.configured`)
        :param outgoing: see `identity.open_session`
        """
        super().__init__(settings, outgoing)
        self._glance = adapter.Adapter(
            self._session, auth=identity.own(settings), service_type=_SERVICE_TYPE,
            interface=settings.interfaces, region_name=settings.region_name,
            endpoint_override=settings.endpoint_override, connect_retries=settings.retries,
            raise_exc=False)

    def show(self, image_id: str) -> images.Image:
        """One image.

        :raises ImageNotFound: there is none
        :raises GlanceUnavailable: nothing was learnt
        """
        return self._found(self._ask('GET', _path(image_id)), image_id)

    def download(self, image_id: str) -> Generator[bytes, None, None]:
        """The bytes of an image, piece by piece.

        :raises ImageNotFound: there is none, or it has no bytes
        :raises GlanceUnavailable: not all of them came
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
        """Give an image its bytes.

        :raises ImageNotFound: there is none
        :raises ImageRefused: Glance does not take them
        :raises GlanceUnavailable: it may have them
        """
        # Pieces come once: what repeats the request by itself would send the rest as the whole.
        reply = self._ask('PUT', f'{_path(image_id)}/file', data=_chunks(pieces),
                          connect_retries=0,
                          allow_reauth=False,
                          headers={'Content-Type': 'application/octet-stream'})
        if reply.status_code == 404:
            raise errors.ImageNotFound(image_id=image_id)
        if 400 <= reply.status_code < 500 and reply.status_code != 401:
            raise errors.ImageRefused(reason=_reason_of(reply))
        if reply.status_code != 204:
            raise _unclear(reply)

    def delete(self, image_id: str) -> None:
        """Remove an image, protected or not; one that is not there is a success.

        :raises ImageRefused: Glance does not remove it
        :raises GlanceUnavailable: nothing was learnt
        """
        reply = self._ask('DELETE', _path(image_id))
        if reply.status_code == 403:
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
        found = self._settings.endpoint_override or self._glance.get_endpoint()
        if not found:
            raise exceptions.EndpointNotFound
        return _without_version(str(found))


def _without_version(address: str) -> str:
    """An address of Glance: one in a catalog may end with the version."""
    return address.rstrip('/').removesuffix('/v2')


def _asking(ask: Callable[[], requests.Response]) -> requests.Response:
    try:
        return ask()
    except (exceptions.ClientException, requests.RequestException) as exc:
        raise _unreachable(exc) from exc


def _unreachable(exc: Exception) -> errors.GlanceUnavailable:
    # Its text has internal addresses, which the client need not know.
    LOG.warning('Failed to reach Glance%s', log.fields(reason=exc))
    return errors.GlanceUnavailable(reason='the service cannot be reached')


def _unclear(reply: requests.Response) -> errors.GlanceUnavailable:
    LOG.warning('Unusable response received from Glance%s', log.fields(status=reply.status_code))
    return errors.GlanceUnavailable(reason=f'the service answered with status {reply.status_code}')


def _chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """As small as every server takes them: uWSGI refuses those of a MiB."""
    for piece in pieces:
        for start in range(0, len(piece), _CHUNK):
            yield piece[start:start + _CHUNK]


def _path(image_id: str) -> str:
    return f'/v2/images/{parse.quote(image_id, safe="")}'


def _image(body: Mapping[str, Any]) -> images.Image:
    """An image as Glance writes it: what is no key of Glance is a property.

    Users write these texts, and a volume that is made of the image keeps them.
    """
    known: dict[str, Any] = {
        key: images.cleaned(body[key]) if isinstance(body[key], str) else body[key]
        for key in _KNOWN if body.get(key) is not None}
    properties = {images.cleaned(key): images.cleaned(str(value)) for key, value in body.items()
                  if key not in images.GLANCE_KEYS and value is not None}
    return images.Image(**known, properties=properties)


def _reason_of(reply: requests.Response) -> str:
    """Why Glance refuses, in its own words where they are plain text."""
    said = identity.body_of(reply).get('message')
    return said if isinstance(said, str) and said else f'status {reply.status_code}'
