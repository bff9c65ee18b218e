"""Options of [nova], the access to Nova and the detach rule."""
import dataclasses

from oslo_config import cfg

from blockattach.platform.conf import account
from blockattach.platform.conf import settings as groups

GROUP = 'nova'


@dataclasses.dataclass(frozen=True, slots=True)
class NovaSettings(account.AccountSettings):
    """Settings of the Nova client.

    ``timeout`` is in seconds, and URLs have no trailing slash.
    """

    detach_rule: str = groups.option(
        cfg.StrOpt, default='auto', choices=[
            ('auto', 'Enforce the rule if this group configures access to Nova, or if [api] '
                     'auth_strategy is keystone.'),
            ('on', 'Always enforce the rule. While Nova cannot be asked, only services can detach '
                   'a volume that a server uses.'),
            ('off', 'Never enforce the rule, for deployments without Nova.')], help=(
            'Whether to reject requests to delete an attachment that a server still uses, unless '
            'the caller is a service (CVE-2023-2088).'))
    endpoint_override: str | None = groups.option(
        cfg.URIOpt, read=account.address, schemes=['http', 'https'], help=(
            'URL of Nova with the version, such as https://compute.example.org/v2.1, which is '
            'used instead of looking up the endpoint in the catalog.'))
    username: str | None = groups.option(cfg.StrOpt, deprecated_name='user_name', help=(
        'User name with which this service authenticates to Nova for its own requests. The '
        'scheduler asks for the host of a server (filter instance_locality). The volume service '
        'asks whether a server still needs an attachment ([attachments]), and sends events for '
        'extended volumes. Requires auth_url, and a role that can see the hosts and the servers '
        'of all projects and can send external events. If unset, requests are sent without a '
        'token, which requires a Nova without Keystone.'))
    timeout: float = groups.option(cfg.FloatOpt, default=15, min=0.01, help=(
        'Timeout in seconds of a request to Nova, including its requests to Keystone.'))

    @property
    def knows_hosts(self) -> bool:
        """True if this service can send requests to Nova without the token of a user."""
        return self.has_account or bool(self.endpoint_override)

    @property
    def configured(self) -> bool:
        """True if the group [nova] configures access to Nova, with or without an account."""
        return bool(self.auth_url or self.endpoint_override or self.plugin is not None)

    def rule_holds(self, keystone: bool) -> bool:
        """Return True if the detach rule applies (`blockattach.storage.domain.detach_rule`).

        :param keystone: True if Keystone authenticates callers. Without Keystone, no caller can
            prove to be a service.
        """
        if self.detach_rule == 'auto':
            return self.configured or keystone
        return self.detach_rule == 'on'


OPTS = groups.options(NovaSettings)


def settings(conf: cfg.ConfigOpts) -> NovaSettings:
    """Return the settings of the group [nova]."""
    return account.read(conf, GROUP, NovaSettings)
