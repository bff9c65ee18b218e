"""Source of the quota limits of projects in Keystone (unified limits)."""
from collections.abc import Callable
from collections.abc import Mapping

from oslo_config import cfg

from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.platform.conf import locations
from blockattach.storage.conf import quota as quota_conf

GROUP = 'oslo_limit'
"""Option group of the library oslo.limit."""
_SECONDS = 15

Source = Callable[[str], Mapping[str, int]]


def source(conf: cfg.ConfigOpts, clock: clocks.Clock) -> Source | None:
    """Return a function that takes a project id, and returns the project's limits by name.

    :returns: None if the configuration selects limits in the database instead of Keystone
    :raises ConfigurationError: [oslo_limit] lacks options for Keystone, or oslo.limit is not
        installed
    """
    settings = quota_conf.settings(conf)
    if settings.quota_driver == quota_conf.DATABASE:
        return None
    with locations.named(conf, quota_conf.GROUP, 'quota_driver'):
        try:
            # oslo.limit is an optional dependency that takes long to import.
            from blockattach.platform import unified_limits
        except ImportError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot read limits from Keystone: {exc}. Install blockattach[limits]'
            ) from exc
    _configure(conf)
    return unified_limits.UnifiedLimits(settings.unified_limits_seconds, clock)


def _configure(conf: cfg.ConfigOpts) -> None:
    """Read [oslo_limit], and copy its options to the global configuration object.

    :raises ConfigurationError: a required option is missing, or the account cannot be loaded
    """
    from keystoneauth1 import exceptions
    from keystoneauth1 import loading
    from oslo_limit import opts

    opts.register_opts(conf)
    loading.register_session_conf_options(conf, GROUP)
    loading.register_adapter_conf_options(conf, GROUP, include_deprecated=False)
    loading.register_auth_conf_options(conf, GROUP)
    conf.set_default('timeout', _SECONDS, group=GROUP)
    ours = conf[GROUP]
    with locations.named(conf, GROUP, 'endpoint_id'):
        if not (ours.endpoint_id or ours.endpoint_service_type or ours.endpoint_service_name):
            raise errors.ConfigurationError(
                reason='cannot use quota_driver = unified_limits: set endpoint_id, '
                       'endpoint_service_type, or endpoint_service_name')
    with locations.named(conf, GROUP, 'auth_type'):
        try:
            account = loading.load_auth_from_conf_options(conf, GROUP)
        except exceptions.AuthPluginException as exc:
            raise errors.ConfigurationError(reason=f'cannot read limits from Keystone: {exc}'
                                            ) from exc
        if account is None:
            raise errors.ConfigurationError(
                reason='cannot read limits from Keystone without an account')
    # oslo.limit reads only the global object of oslo.config. This service does not use that object
    # elsewhere, so it contains nothing else.
    section = ours.auth_section or GROUP
    loading.register_auth_conf_options(cfg.CONF, section)
    cfg.CONF.register_opts(loading.get_auth_plugin_conf_options(conf[section].auth_type),
                           group=section)
    for group in {GROUP, section}:
        for name in cfg.CONF[group].keys() & conf[group].keys():
            cfg.CONF.set_override(name, conf[group][name], group=group)
