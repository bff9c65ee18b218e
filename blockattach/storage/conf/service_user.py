"""Options of [service_user], the account of the service token."""
import dataclasses

from oslo_config import cfg

from blockattach.platform.conf import account
from blockattach.platform.conf import locations
from blockattach.platform.conf import settings as groups

GROUP = 'service_user'


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceUserSettings(account.AccountSettings):
    """Account of the service token, which is sent in addition to the token of a user."""

    send_token: bool = groups.option(
        cfg.BoolOpt, 'send_service_user_token', default=False, help=(
            'Send the token of this user to Nova and Glance in addition to the token of the '
            'requesting user, so that a request succeeds even if the token of the requesting user '
            'has expired.'))


OPTS = groups.options(ServiceUserSettings)


def settings(conf: cfg.ConfigOpts) -> ServiceUserSettings | None:
    """Return the settings of the group [service_user].

    :returns: None if service tokens are disabled
    :raises ConfigurationError: if service tokens are enabled, and no account is configured
    """
    found = account.read(conf, GROUP, ServiceUserSettings)
    if not found.send_token:
        return None
    if not found.has_account:
        raise locations.refusal(conf, GROUP, 'send_service_user_token',
                                'cannot send a service token without an account: set auth_type, '
                                'or auth_url and username')
    return found
