"""Nova's HTTP API, called on behalf of our caller."""
import logging
import uuid
from typing import Any
from urllib import parse

import requests
from keystoneauth1 import exceptions
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from keystoneauth1.access import service_catalog

from blockattach import context
from blockattach import errors
from blockattach.conf import nova as nova_conf
from blockattach.log import fields
from blockattach.nova import whole

LOG = logging.getLogger(__name__)

SERVICE_TYPE = 'compute'
MICROVERSION = '2.89'
"""The first one with the id of an attachment."""
NO_TOKEN = 'notused'
"""What keystoneauth's plugin ``none`` sends where there is no token."""


class NovaClient:
    """One call, on connections that all threads share."""

    def __init__(self, settings: nova_conf.NovaSettings) -> None:
        """Open nothing yet.

        :param settings: that say where Nova is (`NovaSettings.configured`)
        """
        self._settings = settings
        self._session = open_session(settings)

    def attachment_in_use(self, caller: context.RequestContext, server_id: str,
                          volume_id: str) -> str | None:
        """The attachment by which a server uses a volume; None if it does not.

        :raises NovaUnavailable: Nova, or Keystone on the way to it, does not answer
        """
        what = fields(server_id=server_id, volume_id=volume_id)
        try:
            status, body = whole.within(
                self._settings.timeout, self._ask, caller,
                f'/servers/{parse.quote(server_id, safe="")}/os-volume_attachments/{volume_id}')
        except exceptions.ClientException as error:
            # Its text has internal addresses, which the client need not know.
            LOG.warning('Cannot reach Nova: %s%s', error, what)
            raise errors.NovaUnavailable(server_id=server_id, volume_id=volume_id,
                                         reason='it cannot be reached') from error
        # Any other 404 comes from something that is not Nova: a proxy, or a wrong address.
        if status == 404 and 'itemNotFound' in body:
            return None
        used_by = attachment_of(body)
        if status != 200 or used_by is None:
            LOG.warning('Cannot use the answer of Nova: status %d%s', status, what)
            raise errors.NovaUnavailable(server_id=server_id, volume_id=volume_id,
                                         reason=f'it answers with status {status}')
        return used_by

    def _ask(self, caller: context.RequestContext, path: str) -> tuple[int, dict[str, Any]]:
        """Status and body of Nova's answer; a body that is no JSON object is an empty one.

        :raises ClientException: nothing was learnt
        """
        token = caller.auth_token or NO_TOKEN
        endpoint = self._settings.endpoint_override or self._look_up(token)
        reply = self._session.get(
            endpoint.rstrip('/') + path, auth=token_endpoint.Token(endpoint, token),
            raise_exc=False, microversion=MICROVERSION, microversion_service_type=SERVICE_TYPE,
            global_request_id=caller.global_id)
        return reply.status_code, body_of(reply)

    def _look_up(self, token: str) -> str:
        """Where the caller's catalog says that Nova is.

        :raises ClientException: there is no catalog, or no Nova in it
        """
        assert self._settings.auth_url is not None
        keystone = f'{self._settings.auth_url.removesuffix("/v3")}/v3'
        reply = self._session.get(f'{keystone}/auth/catalog',
                                  auth=token_endpoint.Token(keystone, token))
        found = service_catalog.ServiceCatalogV3(body_of(reply).get('catalog') or []).url_for(
            SERVICE_TYPE, self._settings.interface, self._settings.region_name)
        if not found:
            raise exceptions.EndpointNotFound
        return found


def open_session(settings: nova_conf.NovaSettings) -> session.Session:
    """Connections as they are configured; nothing is opened yet."""
    return session.Session(
        timeout=settings.timeout, redirect=False,
        verify=False if settings.insecure else settings.cafile or True)


def attachment_of(body: dict[str, Any]) -> str | None:
    """The id of the attachment in Nova's answer, in our form; None: there is none."""
    attachment = body.get('volumeAttachment')
    found = attachment.get('attachment_id') if isinstance(attachment, dict) else None
    try:
        return str(uuid.UUID(found)) if isinstance(found, str) else None
    except ValueError:
        return None


def body_of(reply: requests.Response) -> dict[str, Any]:
    """What an answer says; one that is no JSON object says nothing."""
    try:
        body = reply.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
