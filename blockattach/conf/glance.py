"""[glance]: how to ask Glance, from which volumes are filled and to which they are uploaded."""
import dataclasses

from oslo_config import cfg

from blockattach.conf import settings as groups

GROUP = 'glance'


def _address(url: str | None) -> str | None:
    return (url or '').rstrip('/') or None


@dataclasses.dataclass(frozen=True, slots=True)
class GlanceSettings:
    """The group as the client takes it. ``timeout`` in seconds; addresses without slash at the
    end."""

    auth_url: str | None = groups.option(
        cfg.URIOpt, read=_address, schemes=['http', 'https'], help=(
            'Where Keystone is: Glance is looked up in the catalog.'))
    region_name: str | None = groups.option(cfg.StrOpt, help=(
        'Region of Glance in the catalog. Empty: the first one.'))
    interface: str = groups.option(
        cfg.StrOpt, default='public', choices=['public', 'internal', 'admin'], help=(
            'Which of the addresses in the catalog.'))
    endpoint_override: str | None = groups.option(
        cfg.URIOpt, read=_address, schemes=['http', 'https'], help=(
            'Where Glance is, without its version (https://image.example.org): no catalog is '
            'looked into.'))
    username: str | None = groups.option(cfg.StrOpt, help=(
        'Account by which volume services read images and upload volumes: users are asked for '
        'their tokens by the API only, and images may outlast those. Needs auth_url, and a role '
        'to which Glance shows the images of all projects and which may write their data '
        '(admin, by default). Empty: no token, which only a Glance without Keystone takes.'))
    password: str | None = groups.option(cfg.StrOpt, secret=True, help='Password of username.')
    user_domain_name: str = groups.option(cfg.StrOpt, default='Default', help=(
        'Domain of username.'))
    project_name: str = groups.option(cfg.StrOpt, default='service', help=(
        'Project in which username has its role.'))
    project_domain_name: str = groups.option(cfg.StrOpt, default='Default', help=(
        'Domain of project_name.'))
    timeout: float = groups.option(cfg.FloatOpt, default=30, min=0.01, help=(
        'Seconds to wait for Glance to go on: for an answer, or for the next piece of an image.'))
    retries: int = groups.option(cfg.IntOpt, 'num_retries', default=3, min=0, help=(
        'How often a request is repeated that Glance could not be reached with.'))
    cafile: str | None = groups.option(cfg.StrOpt, help=(
        'Certificates of the authorities of Glance and Keystone. Empty: '
        "the system's."))
    insecure: bool = groups.option(cfg.BoolOpt, default=False, help=(
        'Believe any certificate. Tokens can then be read on the way.'))

    @property
    def has_account(self) -> bool:
        """Whether the service can ask for itself."""
        return bool(self.auth_url and self.username)

    @property
    def configured(self) -> bool:
        """Whether there is a Glance for volumes: one that volume services can ask, too."""
        return self.has_account or bool(self.endpoint_override)


OPTS = groups.options(GlanceSettings)


def settings(conf: cfg.ConfigOpts) -> GlanceSettings:
    """Read the group."""
    return groups.read(conf, GROUP, GlanceSettings)
