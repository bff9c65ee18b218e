"""How other services of the cloud are asked: with a caller's token, or by an account of ours."""
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
"""What keystoneauth's plugin ``none`` sends where there is no token."""


def open_session(settings: account.AccountSettings, timeout: float,
                 outgoing: requests.Session | None = None) -> session.Session:
    """Connections as they are configured, for all threads; nothing is opened yet.

    :param timeout: seconds for each read
    :param outgoing: what carries the requests; None: connections of its own
    """
    # What the environment says is looked up once, not in each request.
    bundle = os.environ.get('REQUESTS_CA_BUNDLE') or os.environ.get('CURL_CA_BUNDLE')
    opened = session.Session(
        session=outgoing, timeout=timeout, redirect=False,
        cert=_certificate(settings),
        verify=False if settings.insecure else settings.cafile or bundle or True)
    if outgoing is None:
        opened.session.trust_env = bool(request.getproxies())
        opened.session.auth = _unchanged
    return opened


def _certificate(settings: account.AccountSettings) -> str | tuple[str, str] | None:
    """Return the client certificate, with its key if that is a separate file."""
    if settings.certfile and settings.keyfile:
        return settings.certfile, settings.keyfile
    return settings.certfile


def _unchanged(prepared: requests.PreparedRequest) -> requests.PreparedRequest:
    """In place of an account of a netrc, which is not this service's."""
    return prepared


def own(settings: account.AccountSettings) -> plugin.BaseAuthPlugin:
    """This service's own account; without one only a service without authentication answers."""
    if settings.plugin is not None:
        # Imported late: loading takes long, and few accounts need a plugin.
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
    """Return a plugin that sends the token of the user, and the service token if there is one."""
    return user if service is None else service_token.ServiceTokenAuthWrapper(user, service)


def endpoint(connections: session.Session, settings: account.AccountSettings, token: str,
             service_type: str) -> str:
    """Where the catalog of a caller says that a service is.

    :raises ClientException: there is no catalog, or no such service in it
    """
    reply = connections.get(f'{settings.keystone}/auth/catalog',
                            auth=token_endpoint.Token(settings.keystone, token))
    found = service_catalog.ServiceCatalogV3(body_of(reply).get('catalog') or []).url_for(
        service_type, settings.interfaces, settings.region_name)
    if not found:
        raise exceptions.EndpointNotFound
    return str(found)


def body_of(reply: requests.Response) -> dict[str, Any]:
    """What an answer says; one that is no JSON object says nothing."""
    try:
        body = reply.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
