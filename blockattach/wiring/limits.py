"""Where the limits of projects are read from, if that is not the database."""
from collections.abc import Callable
from collections.abc import Mapping

from oslo_config import cfg

from blockattach import clock as clocks
from blockattach import errors
from blockattach.conf import locations
from blockattach.conf import quota as quota_conf

GROUP = 'oslo_limit'
"""As every service calls it that asks Keystone for limits."""
_SECONDS = 15.0

Source = Callable[[str], Mapping[str, int]]


def source(conf: cfg.ConfigOpts, clock: clocks.Clock) -> Source | None:
    """What a project may have, by name; None: the database says it.

    :raises ConfigurationError: [oslo_limit] does not say how Keystone is asked
    """
    settings = quota_conf.settings(conf)
    if settings.quota_driver == quota_conf.DATABASE:
        return None
    # keystoneauth is large.
    from keystoneauth1 import exceptions
    from keystoneauth1 import loading

    from blockattach import unified_limits

    conf.register_opts([cfg.StrOpt('endpoint_id')], group=GROUP)
    for register in (loading.register_session_conf_options,
                     loading.register_adapter_conf_options,
                     loading.register_auth_conf_options):
        register(conf, GROUP)
    conf.set_default('service_type', 'identity', group=GROUP)
    with locations.named(conf, GROUP, 'endpoint_id'):
        if not conf[GROUP].endpoint_id:
            raise errors.ConfigurationError(
                reason='cannot use quota_driver = unified_limits: it must say which endpoint of '
                       'the catalog this service is')
    with locations.named(conf, GROUP, 'auth_type'):
        try:
            auth = loading.load_auth_from_conf_options(conf, GROUP)
        except exceptions.AuthPluginException as exc:
            raise errors.ConfigurationError(reason=f'cannot ask Keystone for limits: {exc}'
                                            ) from exc
        if auth is None:
            raise errors.ConfigurationError(
                reason='cannot ask Keystone for limits without an account')
    session = loading.load_session_from_conf_options(conf, GROUP, auth=auth)
    session.timeout = session.timeout or _SECONDS
    keystone = loading.load_adapter_from_conf_options(conf, GROUP, session=session, auth=auth)
    return unified_limits.UnifiedLimits(keystone, conf[GROUP].endpoint_id,
                                        settings.unified_limits_seconds, clock)
