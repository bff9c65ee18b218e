"""Sessions and credentials for requests to other OpenStack services.

Requests are authenticated with the token of a caller, or with an account of this service.
"""
import os
from typing import Any
from urllib import request

import requests
from keystoneauth1 import exceptions
from keystoneauth1 import http_basic
from keystoneauth1 import plugin
from keystoneauth1 import service_token
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from keystoneauth1.access import service_catalog
from keystoneauth1.identity import v3

from blockattach.platform.conf import account

NO_TOKEN = 'notused'
"""Placeholder token that the ``none`` plugin of keystoneauth sends."""


def open_session(settings: account.AccountSettings, timeout: float,
                 outgoing: requests.Session | None = None) -> session.Session:
    """Create a keystoneauth session that all threads can share, without opening a connection.

    :param timeout: timeout of each read in seconds
    :param outgoing: `requests` session that sends the requests; None to create one
    """
    # The environment is read once here instead of in each request.
    bundle = os.environ.get('REQUESTS_CA_BUNDLE') or os.environ.get('CURL_CA_BUNDLE')
    opened = session.Session(
        session=outgoing, timeout=timeout, redirect=False,
        cert=_certificate(settings),
        verify=False if settings.insecure else settings.cafile or bundle or True)
    if outgoing is None:
        opened.session.trust_env = bool(request.getproxies())
        # requests would otherwise add the credentials of a netrc file.
        opened.session.auth = _unchanged
    return opened


def _certificate(settings: account.AccountSettings) -> str | tuple[str, str] | None:
    if settings.certfile and settings.keyfile:
        return settings.certfile, settings.keyfile
    return settings.certfile


def _unchanged(prepared: requests.PreparedRequest) -> requests.PreparedRequest:
    return prepared


def own(settings: account.AccountSettings) -> plugin.BaseAuthPlugin:
    """Return the auth plugin for the account of this service.

    If no account is configured, the plugin sends a placeholder token, which only services without
    authentication accept.
    """
    if settings.plugin is not None:
        # Imported here, because the import takes long and few accounts need a plugin.
        from keystoneauth1 import loading

        loader: loading.BaseLoader[Any] = loading.get_plugin_loader(settings.auth_type or '')
        loaded: plugin.BaseAuthPlugin = loader.load_from_options(**settings.plugin)
        return loaded
    if settings.is_basic:
        return http_basic.HTTPBasicAuth(settings.endpoint_override, settings.username,
                                        settings.password or '')
    if not settings.has_account:
        return token_endpoint.Token(settings.endpoint_override, NO_TOKEN)
    return v3.Password(
        auth_url=settings.keystone, username=settings.username, password=settings.password or '',
        user_domain_name=settings.user_domain_name, project_name=settings.project_name,
        project_domain_name=settings.project_domain_name)


def beside(user: plugin.BaseAuthPlugin,
           service: plugin.BaseAuthPlugin | None) -> plugin.BaseAuthPlugin:
    """Return an auth plugin that sends the user token, and optionally a service token.

    :param service: plugin for the service token; None to send no service token
    """
    return user if service is None else service_token.ServiceTokenAuthWrapper(user, service)


def endpoint(connections: session.Session, settings: account.AccountSettings, token: str,
             service_type: str) -> str:
    """Return the endpoint URL of a service from the service catalog of a token.

    :param service_type: type of the service in the catalog, such as ``compute``
    :raises ClientException: the catalog cannot be read, or does not contain the service
    """
    reply = connections.get(f'{settings.keystone}/auth/catalog',
                            auth=token_endpoint.Token(settings.keystone, token))
    found = service_catalog.ServiceCatalogV3(body_of(reply).get('catalog') or []).url_for(
        service_type, settings.interfaces, settings.region_name)
    if not found:
        raise exceptions.EndpointNotFound
    return str(found)


def body_of(reply: requests.Response) -> dict[str, Any]:
    """Return the body of a response if it is a JSON object, or else an empty dictionary."""
    try:
        body = reply.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
