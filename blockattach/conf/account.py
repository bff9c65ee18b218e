"""What the groups of other services of the cloud have in common: where they are, and as whom they
are asked.
"""
import dataclasses

from oslo_config import cfg

from blockattach.conf import settings as groups


def address(url: str | None) -> str | None:
    """An address without slash at the end; None: none is given."""
    return (url or '').rstrip('/') or None


@dataclasses.dataclass(frozen=True, slots=True)
class AccountSettings:
    """The options of such a group as a client takes them; addresses without slash at the end."""

    auth_url: str | None = groups.option(
        cfg.URIOpt, read=address, schemes=['http', 'https'], help=(
            'Where Keystone is: the service is looked up in the catalog.'))
    region_name: str | None = groups.option(cfg.StrOpt, help=(
        'Region of the service in the catalog. Empty: the first one.'))
    interface: str = groups.option(
        cfg.StrOpt, default='public', choices=['public', 'internal', 'admin'], help=(
            'Which of the addresses in the catalog.'))
    endpoint_override: str | None = groups.option(
        cfg.URIOpt, read=address, schemes=['http', 'https'], help=(
            'Where the service is: no catalog is looked into.'))
    username: str | None = groups.option(cfg.StrOpt, help=(
        'Account by which this service asks for itself. Needs auth_url.'))
    password: str | None = groups.option(cfg.StrOpt, secret=True, help='Password of username.')
    user_domain_name: str = groups.option(cfg.StrOpt, default='Default', help=(
        'Domain of username.'))
    project_name: str = groups.option(cfg.StrOpt, default='service', help=(
        'Project in which username has its role.'))
    project_domain_name: str = groups.option(cfg.StrOpt, default='Default', help=(
        'Domain of project_name.'))
    cafile: str | None = groups.option(cfg.StrOpt, help=(
        'Certificates of the authorities of the service and of Keystone. Empty: '
        "the system's."))
    insecure: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Believe any certificate. Tokens can then be read on the way.'))

    @property
    def has_account(self) -> bool:
        """Whether this service can ask for itself, by an account of Keystone's."""
        return bool(self.auth_url and self.username)

    @property
    def is_basic(self) -> bool:
        """Whether it does so by name and password, without Keystone."""
        return bool(self.username and not self.auth_url)

    @property
    def keystone(self) -> str:
        """Where Keystone's API v3 is."""
        return f'{str(self.auth_url).removesuffix("/v3")}/v3'
