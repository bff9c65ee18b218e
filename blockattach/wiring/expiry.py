"""Expiry of reservations, where the operator has set limits."""
from typing import TYPE_CHECKING

from oslo_log import log as oslo_log

from blockattach import periodic
from blockattach.conf import attachments as attachments_conf
from blockattach.conf import nova as nova_conf
from blockattach.domain import attachment_lifecycle
from blockattach.domain import expiry_rule
from blockattach.volume import expiry
from blockattach.volume import manager as managers
from blockattach.wiring import dependencies

if TYPE_CHECKING:
    from blockattach.nova import client as nova_client

LOG = oslo_log.getLogger(__name__)

# One that has waited for long enough waits for at most a tenth more, and for at most a minute.
_PART = 10
_SHORTEST, _LONGEST = 1.0, 60.0
_State = attachment_lifecycle.State


def build_expiry(base: dependencies.Dependencies,
                 manager: managers.VolumeManager) -> list[periodic.Periodic]:
    """One backend's; nothing where all may wait without end."""
    settings = attachments_conf.settings(base.conf)
    limits = {state: float(seconds) for state, seconds in (
        (_State.RESERVED, settings.reserve_timeout),
        (_State.CONNECTED, settings.complete_timeout)) if seconds}
    seconds = [*limits.values(), *filter(None, [settings.detach_timeout])]
    if not seconds:
        return []
    nova = _nova(base)
    expirer = expiry.Expirer(
        base.database, manager, limits, None if nova is None else nova.look, base.telemetry,
        nova=_unasked(base), detach_seconds=settings.detach_timeout)
    return [periodic.Periodic(
        f'expire-{manager.host}', expirer.look,
        min(max(min(seconds) / _PART, _SHORTEST), _LONGEST),
        base.clock, base.threads.begin)]


def _unasked(base: dependencies.Dependencies) -> expiry_rule.Nova:
    """What there is where nobody can be asked."""
    settings = nova_conf.settings(base.conf)
    nobody = settings.detach_rule == 'off' and not settings.configured
    return expiry_rule.Nova.NONE if nobody else expiry_rule.Nova.UNKNOWN


def _nova(base: dependencies.Dependencies) -> 'nova_client.Servers | None':
    """Loaded only where there is one to ask: keystoneauth is large."""
    settings = nova_conf.settings(base.conf)
    if not settings.configured:
        return None
    if not settings.knows_hosts:
        LOG.warning('Cannot ask Nova which servers need their attachments: [nova] has no '
                    'username, so reservations that name a server do not expire')
        return None
    from blockattach.nova import client as nova_client

    return nova_client.Servers(settings)
