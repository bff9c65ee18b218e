"""Options of [glance], the access to the image service."""
import dataclasses

from oslo_config import cfg

from blockattach.platform.conf import account
from blockattach.platform.conf import settings as groups

GROUP = 'glance'


@dataclasses.dataclass(frozen=True, slots=True)
class GlanceSettings(account.AccountSettings):
    """Settings of the Glance client.

    ``timeout`` is in seconds, and URLs have no trailing slash.
    """

    endpoint_override: str | None = groups.option(
        cfg.URIOpt, read=account.address, schemes=['http', 'https'], help=(
            'URL of Glance without the version, such as https://image.example.org, which is used '
            'instead of looking up the endpoint in the catalog.'))
    username: str | None = groups.option(cfg.StrOpt, deprecated_name='user_name', help=(
        'User name with which volume services download images and upload volumes. The tokens of '
        'users are used by the API only, because a copy can outlast a token. Requires '
        'auth_url, and a role with access to the images of all projects and to their data (by '
        'default admin). If unset, requests are sent without a token, which requires a Glance '
        'without Keystone.'))
    timeout: float = groups.option(cfg.FloatOpt, default=30, min=0.01, help=(
        'Timeout in seconds for a response of Glance, or for the next chunk of an image.'))
    retries: int = groups.option(cfg.IntOpt, 'num_retries', default=3, min=0, help=(
        'Number of retries of a request if Glance cannot be reached.'))

    @property
    def configured(self) -> bool:
        """True if the volume services can use Glance, which requires an account or a URL."""
        return self.has_account or bool(self.endpoint_override)


OPTS = groups.options(GlanceSettings)


def settings(conf: cfg.ConfigOpts) -> GlanceSettings:
    """Return the settings of the group [glance]."""
    return account.read(conf, GROUP, GlanceSettings)
