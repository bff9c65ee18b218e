"""Common options of the groups for other OpenStack services: endpoint and credentials.
"""
import contextlib
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeVar

from oslo_config import cfg
from oslo_config import types

from blockattach.platform.conf import locations
from blockattach.platform.conf import settings as groups

if TYPE_CHECKING:
    from keystoneauth1 import loading

_A = TypeVar('_A', bound='AccountSettings')
_INTERFACES = ('public', 'internal', 'admin', 'publicURL', 'internalURL', 'adminURL')
_SECTION, _TYPE = 'auth_section', 'auth_type'


def address(url: str | None) -> str | None:
    """Return a URL without a trailing slash, or None if the URL is unset or empty."""
    return (url or '').rstrip('/') or None


@dataclasses.dataclass(frozen=True, slots=True)
class AccountSettings:
    """Settings for requests to another OpenStack service. URLs have no trailing slash."""

    auth_type: str | None = groups.option(cfg.StrOpt, help=(
        'keystoneauth plugin with which this service authenticates, such as v3password or '
        'v3applicationcredential. Set the options of the plugin in this group. If unset, username '
        'and password are used.'))
    auth_section: str | None = groups.option(cfg.StrOpt, help=(
        'Group that contains auth_type and the options of the plugin. Defaults to this group.'))
    auth_url: str | None = groups.option(
        cfg.URIOpt, read=address, schemes=['http', 'https'], help=(
            'URL of Keystone. The endpoint of the service is looked up in the catalog.'))
    region_name: str | None = groups.option(cfg.StrOpt, help=(
        'Region of the service in the catalog. If unset, the first region is used.'))
    interface: str | tuple[str, ...] = groups.option(
        cfg.ListOpt, 'valid_interfaces', default=['public'], deprecated_name='interface',
        item_type=types.String(choices=_INTERFACES), help=(
            'Interfaces of the endpoint in the catalog (public, internal, admin), in order of '
            'preference. The first interface that exists is used.'))
    endpoint_override: str | None = groups.option(
        cfg.URIOpt, read=address, schemes=['http', 'https'], help=(
            'URL of the service, which is used instead of looking up the endpoint in the '
            'catalog.'))
    username: str | None = groups.option(cfg.StrOpt, deprecated_name='user_name', help=(
        'User name with which this service authenticates for its own requests. Requires '
        'auth_url.'))
    password: str | None = groups.option(cfg.StrOpt, secret=True, help='Password of username.')
    user_domain_name: str = groups.option(cfg.StrOpt, default='Default', help=(
        'Domain of username.'))
    project_name: str = groups.option(cfg.StrOpt, default='service', help=(
        'Project in which username has its role.'))
    project_domain_name: str = groups.option(cfg.StrOpt, default='Default', help=(
        'Domain of project_name.'))
    cafile: str | None = groups.option(cfg.StrOpt, help=(
        'CA bundle (PEM) that verifies the certificates of the service and of Keystone. If unset, '
        'the CA bundle of the system is used.'))
    insecure: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Disable the verification of TLS certificates. Tokens can then be intercepted.'))
    certfile: str | None = groups.option(cfg.StrOpt, help=(
        'Client certificate of this service (PEM), for servers that require a client '
        'certificate.'))
    keyfile: str | None = groups.option(cfg.StrOpt, help=(
        'Private key of certfile (PEM). If unset, certfile must contain the key.'))
    plugin: Mapping[str, Any] | None = dataclasses.field(default=None, repr=False)

    @property
    def has_account(self) -> bool:
        """True if the group contains a Keystone account of this service."""
        return self.plugin is not None or bool(self.auth_url and self.username)

    @property
    def interfaces(self) -> list[str]:
        """Interfaces of the endpoint in order of preference."""
        return [self.interface] if isinstance(self.interface, str) else list(self.interface)

    @property
    def is_basic(self) -> bool:
        """True if requests use HTTP basic authentication instead of Keystone."""
        return bool(self.username and not self.auth_url and self.plugin is None)

    @property
    def keystone(self) -> str:
        """URL of the Keystone v3 API."""
        return f'{str(self.auth_url).removesuffix("/v3")}/v3'


def read(conf: cfg.ConfigOpts, group: str, kind: type[_A]) -> _A:
    """Read an option group with an endpoint and credentials into its settings.

    :param kind: class of the settings
    :raises ConfigurationError: the keystoneauth plugin does not exist, or a required option of the
        plugin is not set
    """
    section = conf[group][_SECTION] or group
    loader = register(conf, group)
    if loader is None:
        return groups.read(conf, group, kind, plugin=None)
    given = {option.dest: _given(conf, section, option.dest) for option in loader.get_options()}
    plugin = {name: value for name, value in given.items() if value is not None}
    missing = [option.name for option in loader.get_options()
               if option.required and option.dest not in plugin]
    if missing:
        raise locations.refusal(conf, section, _TYPE,
                                f'cannot authenticate to Keystone without {", ".join(missing)}')
    return groups.read(conf, group, kind, auth_type=str(conf[section][_TYPE]), plugin=plugin,
                       auth_url=address(plugin.get('auth_url')))


def register(conf: cfg.ConfigOpts, group: str) -> 'loading.BaseLoader[Any] | None':
    """Register the options of the keystoneauth plugin of a group, and return the plugin loader.

    :returns: None if the group names no plugin
    :raises ConfigurationError: the plugin does not exist
    """
    section = conf[group][_SECTION] or group
    # Already registered if the section is this group, or the group of another account.
    with contextlib.suppress(cfg.DuplicateOptError):
        conf.register_opt(cfg.StrOpt(_TYPE), group=section)
    name = conf[section][_TYPE]
    if not name:
        return None
    # Imported late, because loading takes long and most accounts have only a name and a password.
    from keystoneauth1 import exceptions
    from keystoneauth1 import loading

    try:
        loader: loading.BaseLoader[Any] = loading.get_plugin_loader(name)
    except exceptions.NoMatchingPlugin as exc:
        raise locations.refusal(conf, section, _TYPE,
                                f'cannot authenticate to Keystone: {exc}') from exc
    for option in loading.get_auth_plugin_conf_options(loader):
        # Options of this service with the same name are read as well.
        with contextlib.suppress(cfg.DuplicateOptError):
            conf.register_opt(option, group=section)
    return loader


def _given(conf: cfg.ConfigOpts, section: str, name: str) -> Any:
    """Return the configured value of an option, or None if only a default applies."""
    # Defaults such as that of user_domain_name are for accounts without a plugin. A plugin may get
    # the ID of the domain instead.
    place = conf.get_location(name, section)
    if place is None or place.location in (cfg.Locations.opt_default, cfg.Locations.set_default):
        return None
    return conf[section][name] or None
