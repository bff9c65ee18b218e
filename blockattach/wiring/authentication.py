"""Builders of the API's authentication, outer middleware and TLS certificate.

Only the module of the configured authentication strategy is imported, because keystonemiddleware
alone is a tenth of the code of the API.
"""
from collections.abc import Callable

from oslo_config import cfg
from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import log
from blockattach.platform.conf import api as api_conf
from blockattach.platform.conf import changing
from blockattach.platform.conf import locations
from blockattach.platform.http import auth
from blockattach.platform.http import loopback
from blockattach.platform.http import middleware
from blockattach.platform.http import outer_middleware
from blockattach.platform.webserver import tls

LOG = oslo_log.getLogger(__name__)

Strategy = api_conf.AuthStrategy


def register_keystone(conf: cfg.ConfigOpts) -> None:
    """Register the options of keystonemiddleware, which include the roles of service tokens.

    :raises ConfigurationError: the value of an option is invalid
    """
    from blockattach.platform.http import keystone

    with locations.named(conf, keystone.GROUP, 'auth_type'):
        keystone.register(conf)
    locations.check_values(conf, {keystone.GROUP, keystone.section_of(conf)})


def build_authentication(conf: cfg.ConfigOpts, settings: api_conf.ApiSettings,
                         watch: Callable[[Callable[[], str | None]], None] = lambda wrong: None,
                         ) -> auth.Authentication:
    """Build the authentication of API requests by the configured strategy.

    :param watch: function that registers a check of a file. The check returns the reason why the
        changed file cannot be read, or None
    :raises ConfigurationError: a file or an option of the strategy cannot be used
    """
    if settings.auth_strategy is Strategy.KEYSTONE:
        from blockattach.platform.http import keystone

        register_keystone(conf)
        return keystone.authentication(conf)
    if settings.auth_strategy is Strategy.HTTP_BASIC:
        return _build_basic(conf, settings.basic_auth, watch)
    return auth.Authentication(auth.claimed)


def build_project_check(
        conf: cfg.ConfigOpts,
        settings: api_conf.ApiSettings) -> Callable[[context.RequestContext, str], None]:
    """Build the function that checks whether a project exists.

    Without Keystone, the function accepts every project.

    :raises ConfigurationError: an option for Keystone cannot be used
    """
    if settings.auth_strategy is not Strategy.KEYSTONE:
        return lambda caller, project_id: None
    from blockattach.platform.http import keystone

    register_keystone(conf)
    return keystone.project_check(conf)


def _build_basic(conf: cfg.ConfigOpts, files: api_conf.BasicAuthFiles,
                 watch: Callable[[Callable[[], str | None]], None]) -> auth.Authentication:
    from blockattach.platform.http import basic_auth

    with locations.named(conf, api_conf.GROUP, 'http_basic_auth_user_file'):
        users = changing.ChangingFile(files.users, basic_auth.parse_users)
        watch(users.wrong)
    roles = None
    if files.roles is not None:
        with locations.named(conf, api_conf.GROUP, 'http_basic_auth_roles_file'):
            roles = changing.ChangingFile(files.roles, basic_auth.parse_roles)
            watch(roles.wrong)
    return auth.Authentication(basic_auth.Accounts(users, roles).authenticate,
                               (basic_auth.challenge,))


def build_outer_middleware(conf: cfg.ConfigOpts,
                           settings: api_conf.ApiSettings) -> tuple[middleware.Layer, ...]:
    """Build the layers of oslo.middleware, which surround all other middleware.

    With the strategy ``noauth``, one more layer around them rejects requests from other
    machines, and requests of web pages of other sites.

    :raises ConfigurationError: the value of an option is invalid
    """
    outer_middleware.register(conf)
    locations.check_values(conf, outer_middleware.GROUPS)
    layers = outer_middleware.layers(conf)
    if settings.auth_strategy is Strategy.NOAUTH:
        # Outermost, so that this layer sees the address of the client before the layer for proxy
        # headers replaces the address. Any client may send such headers.
        origins = conf[outer_middleware.CORS_GROUP].allowed_origin or ()
        return (loopback.serve_locally(origins), *layers)
    return layers


def build_certificate(conf: cfg.ConfigOpts,
                      settings: api_conf.ApiSettings) -> tls.Certificate | None:
    """Load the TLS certificate of the built-in server, or return None if the server uses HTTP.

    :raises ConfigurationError: the files of the certificate cannot be used
    """
    with locations.named(conf, api_conf.GROUP, 'tls_cert_file'):
        return None if settings.tls is None else tls.Certificate(settings.tls)


def check_address(conf: cfg.ConfigOpts, settings: api_conf.ApiSettings) -> None:
    """Check that the built-in server may listen on the configured address.

    :raises ConfigurationError: other machines could reach the API without authentication
    """
    if loopback.stands_for_loopback(settings.host):
        return
    if settings.auth_strategy is Strategy.NOAUTH:
        with locations.named(conf, api_conf.GROUP, 'host'):
            raise errors.ConfigurationError(
                reason=f'cannot listen on {settings.host} without authentication: every client '
                       'would be an administrator. Set [api] auth_strategy to keystone or '
                       'http_basic, or [api] host to 127.0.0.1')
    if settings.auth_strategy is Strategy.HTTP_BASIC and settings.tls is None:
        LOG.warning('Accepting passwords without TLS%s', log.fields(
            host=settings.host, reason='[api] tls_cert_file is not set'))
