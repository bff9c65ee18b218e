"""Authentication by Keystone, with keystonemiddleware's ``auth_token`` before the dispatcher.

``auth_token`` passes every request on (``delay_auth_decision``), so that public operations need no
token and the dispatcher builds the error response.
"""
import importlib.util
from collections.abc import Callable
from typing import Any
from urllib import parse

import webob
from keystoneauth1 import exceptions as keystone_errors
from keystoneauth1 import loading
from keystoneauth1 import session
from keystoneauth1 import token_endpoint
from keystonemiddleware import auth_token
from keystonemiddleware import exceptions as middleware_errors
from oslo_config import cfg
from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform.conf import api as api_conf
from blockattach.platform.conf import locations
from blockattach.platform.http import auth
from blockattach.platform.http import middleware

LOG = oslo_log.getLogger(__name__)

GROUP = api_conf.KEYSTONE_GROUP

_DEFAULTS = {
    # A service token must have a service role.
    'service_token_roles_required': True,
    # A request that waits for Keystone holds a thread.
    'http_connect_timeout': 15,
}
_AWAY = (keystone_errors.ConnectFailure, keystone_errors.DiscoveryFailure,
         keystone_errors.RequestTimeout, auth_token.ServiceError)
_UNUSABLE = (keystone_errors.AuthPluginException, middleware_errors.ConfigurationError, OSError,
             ValueError)
ProjectCheck = Callable[[context.RequestContext, str], None]
"""Function that raises ProjectNotFound if Keystone does not show a project to the caller."""


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of ``auth_token`` and of the configured authentication plugin.

    :raises ConfigurationError: the configured plugin is not installed
    """
    for group, options in auth_token.list_opts():
        conf.register_opts(options, group=group)
    for name, value in _DEFAULTS.items():
        conf.set_default(name, value, group=GROUP)
    section = section_of(conf)
    loading.register_auth_conf_options(conf, section)
    if conf[section].auth_type:
        try:
            conf.register_opts(loading.get_auth_plugin_conf_options(conf[section].auth_type),
                               group=section)
        except keystone_errors.NoMatchingPlugin as exc:
            raise errors.ConfigurationError(
                reason=f'cannot authenticate to Keystone: {exc}') from exc


def section_of(conf: cfg.ConfigOpts) -> str:
    """Return the option group with the credentials of this service for Keystone."""
    return str(conf[GROUP].auth_section or GROUP)


def _url_of(conf: cfg.ConfigOpts) -> str:
    """Return the URL of Keystone from the credentials of this service (``auth_url``).

    :raises ConfigurationError: no credentials are configured, or they have no ``auth_url``
    """
    section = section_of(conf)
    with locations.named(conf, section, 'auth_type'):
        if not conf[section].auth_type:
            raise errors.ConfigurationError(
                reason='cannot use [api] auth_strategy = keystone: auth_type is not set, so no '
                       'account for Keystone is configured')
        if 'auth_url' not in conf[section]:
            raise errors.ConfigurationError(
                reason='cannot use [api] auth_strategy = keystone: auth_type = '
                       f'{conf[section].auth_type} has no option auth_url')
    with locations.named(conf, section, 'auth_url'):
        if not conf[section].auth_url:
            raise errors.ConfigurationError(
                reason='cannot use [api] auth_strategy = keystone: auth_url is not set')
    return str(conf[section].auth_url)


def authentication(conf: cfg.ConfigOpts) -> auth.Authentication:
    """Return the authentication strategy for Keystone tokens.

    Keystone is not contacted before the first token is validated. Invalid options in
    ``[keystone_authtoken]`` raise ConfigurationError when the layer is applied to a handler.

    :param conf: configuration with the options of `register`
    """
    return auth.Authentication(
        auth.validated, (middleware.wsgi_layer(lambda inner: _TokenMiddleware(inner, conf)),))


class _TokenMiddleware(auth_token.AuthProtocol):
    """``auth_token`` that distinguishes an invalid token from a failure to validate the token."""

    def __init__(self, application: middleware.Wsgi, conf: cfg.ConfigOpts) -> None:
        _check_cache(conf)
        internal = _url_of(conf)
        try:
            super().__init__(application, {
                'oslo_config_config': conf, 'delay_auth_decision': True,
                # Without a value auth_token looks the URI up in Keystone's catalog, which fails
                # while Keystone is down.
                'www_authenticate_uri': conf[GROUP].www_authenticate_uri or internal})
        except _UNUSABLE as exc:
            raise errors.ConfigurationError(
                reason=f'cannot authenticate to Keystone: {exc}') from exc

    def fetch_token(self, token: str, **options: Any) -> dict[str, Any]:
        """Return the data of a token from the cache or from Keystone.

        :raises InvalidToken: the token is not valid
        :raises IdentityUnavailable: Keystone cannot validate the token now
        """
        try:
            answer: dict[str, Any] = super().fetch_token(token, **options)
        except auth_token.InvalidToken as exc:
            # `auth_token` reports a failed request to Keystone as an invalid token. The client
            # would discard a token that is valid.
            if isinstance(exc.__context__, _AWAY):
                raise errors.IdentityUnavailable() from exc
            raise
        except (keystone_errors.ClientException, webob.exc.HTTPServiceUnavailable) as exc:
            raise errors.IdentityUnavailable() from exc
        return answer


def _check_cache(conf: cfg.ConfigOpts) -> None:
    group = conf[GROUP]
    if not group.memcached_servers:
        return
    binary = group.memcache_tls_enabled or group.memcache_sasl_enabled
    module, package = (('bmemcached', 'python-binary-memcached') if binary
                       else ('memcache', 'python-memcached'))
    with locations.named(conf, GROUP, 'memcached_servers'):
        # `auth_token` imports the client only when it handles the first request.
        if importlib.util.find_spec(module) is None:
            raise errors.ConfigurationError(
                reason=f'cannot use memcached: the Python package {package} is not installed')


def project_check(conf: cfg.ConfigOpts) -> ProjectCheck:
    """Return a function that checks whether a project exists in Keystone.

    No connection is opened before the first check.

    :param conf: configuration with the options of `register`
    :raises ConfigurationError: the options do not contain the URL of Keystone
    """
    group = conf[GROUP]
    base = _url_of(conf).rstrip('/').removesuffix('/v3')
    connections = session.Session(
        timeout=group.http_connect_timeout, redirect=False,
        verify=False if group.insecure else group.cafile or True,
        cert=(group.certfile, group.keyfile) if group.certfile else None)

    def check(caller: context.RequestContext, project_id: str) -> None:
        """Check that a project exists.

        :raises ProjectNotFound: Keystone has no project with this id
        :raises NotAuthorized: the caller may not look up projects in Keystone
        :raises IdentityUnavailable: the request to Keystone failed
        """
        try:
            status = connections.get(
                f'{base}/v3/projects/{parse.quote(project_id, safe="")}', raise_exc=False,
                auth=token_endpoint.Token(base, caller.auth_token)).status_code
        except keystone_errors.ClientException as failure:
            LOG.warning('Failed to look up project in Keystone%s', log.fields(
                project_id=project_id, reason=failure))
            raise errors.IdentityUnavailable from failure
        if status == 404:
            raise errors.ProjectNotFound(project_id=project_id)
        if status in (401, 403):
            raise errors.NotAuthorized('Keystone does not allow the caller to look up the '
                                       'project.')
        if status != 200:
            LOG.warning('Failed to look up project in Keystone%s', log.fields(
                project_id=project_id, status=status))
            raise errors.IdentityUnavailable

    return check
