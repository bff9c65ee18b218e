"""[glance]: how to ask Glance, from which volumes are filled and to which they are uploaded."""
import dataclasses

from oslo_config import cfg

from blockattach.conf import account
from blockattach.conf import settings as groups

GROUP = 'glance'


@dataclasses.dataclass(frozen=True, slots=True)
class GlanceSettings(account.AccountSettings):
    """The group as the client takes it. ``timeout`` in seconds; addresses without slash at the
    end."""

    endpoint_override: str | None = groups.option(
        cfg.URIOpt, read=account.address, schemes=['http', 'https'], help=(
            'Where Glance is, without its version (https://image.example.org): no catalog is '
            'looked into.'))
    username: str | None = groups.option(cfg.StrOpt, deprecated_name='user_name', help=(
        'Account by which volume services read images and upload volumes: users are asked for '
        'their tokens by the API only, and images may outlast those. Needs auth_url, and a role '
        'to which Glance shows the images of all projects and which may write their data '
        '(admin, by default). Empty: no token, which only a Glance without Keystone takes.'))
    timeout: float = groups.option(cfg.FloatOpt, default=30, min=0.01, help=(
        'Seconds to wait for Glance to go on: for an answer, or for the next piece of an image.'))
    retries: int = groups.option(cfg.IntOpt, 'num_retries', default=3, min=0, help=(
        'How often a request is repeated that Glance could not be reached with.'))

    @property
    def configured(self) -> bool:
        """Whether there is a Glance for volumes: one that volume services can ask, too."""
        return self.has_account or bool(self.endpoint_override)


OPTS = groups.options(GlanceSettings)


def settings(conf: cfg.ConfigOpts) -> GlanceSettings:
    """Read the group."""
    return account.read(conf, GROUP, GlanceSettings)
