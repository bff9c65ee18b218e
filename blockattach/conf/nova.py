"""[nova]: how to ask Nova for the user of an attachment, and when the rule on detaching holds."""
import dataclasses

from oslo_config import cfg

from blockattach.conf import account
from blockattach.conf import settings as groups

GROUP = 'nova'


@dataclasses.dataclass(frozen=True, slots=True)
class NovaSettings(account.AccountSettings):
    """The group as the client takes it. ``timeout`` in seconds; addresses without slash at the
    end."""

    detach_rule: str = groups.option(
        cfg.StrOpt, default='auto', choices=[
            ('auto', 'As soon as this group says how to reach Nova, and always with '
                     '[api] auth_strategy = keystone.'),
            ('on', 'Always. While Nova cannot be asked, only services detach what a server '
                   'uses.'),
            ('off', 'Never: for services that no Nova uses.')], help=(
            'When to refuse that anybody but a service ends an attachment which a server '
            'still uses (CVE-2023-2088).'))
    endpoint_override: str | None = groups.option(
        cfg.URIOpt, read=account.address, schemes=['http', 'https'], help=(
            'Where Nova is, with its version (https://compute.example.org/v2.1): no '
            'catalog is looked into.'))
    username: str | None = groups.option(cfg.StrOpt, deprecated_name='user_name', help=(
        'Account by which the service asks for itself: a scheduler on '
        'which host a server runs, for the filter instance_locality, and '
        'a volume service whether a server still needs an attachment '
        '([attachments]), and that its volume is larger. Needs auth_url, and a '
        'role to which Nova shows hosts and the servers of all projects, and '
        'that may send external events. Empty: it asks without a '
        'token, which only a Nova without Keystone answers.'))
    timeout: float = groups.option(cfg.FloatOpt, default=15, min=0.01, help=(
        'Seconds to wait for a whole answer of Nova, with what Keystone is asked '
        'for it.'))

    @property
    def knows_hosts(self) -> bool:
        """Whether Nova can be asked without anybody's token."""
        return self.has_account or bool(self.endpoint_override)

    @property
    def configured(self) -> bool:
        """Whether Nova can be found."""
        return bool(self.auth_url or self.endpoint_override or self.plugin is not None)

    def rule_holds(self, keystone: bool) -> bool:
        """Whether the rule on detaching holds.

        :param keystone: Keystone authenticates callers; without it none can prove to be a service
        """
        if self.detach_rule == 'auto':
            return self.configured or keystone
        return self.detach_rule == 'on'


OPTS = groups.options(NovaSettings)


def settings(conf: cfg.ConfigOpts) -> NovaSettings:
    """Read the group."""
    return account.read(conf, GROUP, NovaSettings)
