"""Builders of the objects that notify Nova, and of the expiry of abandoned attachments."""
from typing import TYPE_CHECKING

from oslo_log import log as oslo_log

from blockattach.platform import log
from blockattach.platform import periodic
from blockattach.storage.conf import attachments as attachments_conf
from blockattach.storage.conf import nova as nova_conf
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import expiry_rule
from blockattach.storage.volume import expiry
from blockattach.storage.volume import manager as managers
from blockattach.storage.volume import work_context
from blockattach.wiring import dependencies

if TYPE_CHECKING:
    from blockattach.storage import nova as nova_client

LOG = oslo_log.getLogger(__name__)

_NO_NOVA = 'access to Nova is not configured'
_NO_ACCOUNT = 'no Nova user is configured'
# The interval of the task is a tenth of the shortest limit, between one second and one minute.
_PART = 10
_SHORTEST, _LONGEST = 1.0, 60.0
_State = attachment_lifecycle.State


def build_expiry(base: dependencies.Dependencies,
                 manager: managers.VolumeManager) -> list[periodic.Periodic]:
    """Build the periodic task that expires abandoned attachments of a backend.

    :returns: list with the task, empty if no timeout of attachments is configured
    """
    settings = attachments_conf.settings(base.conf)
    limits = {state: float(seconds) for state, seconds in (
        (_State.RESERVED, settings.reserve_timeout),
        (_State.CONNECTED, settings.complete_timeout)) if seconds}
    seconds = [*limits.values(), *filter(None, [settings.detach_timeout])]
    if not seconds:
        return []
    nova = nova_conf.settings(base.conf)
    nobody = nova.detach_rule == 'off' and not nova.configured
    servers = _servers(nova)
    expirer = expiry.Expirer(
        base.database, manager, limits, None if servers is None else servers.look, base.telemetry,
        nova=expiry_rule.Nova.NONE if nobody else expiry_rule.Nova.UNKNOWN,
        detach_seconds=settings.detach_timeout)
    return [periodic.Periodic(
        f'expire-{manager.host}', expirer.look,
        min(max(min(seconds) / _PART, _SHORTEST), _LONGEST),
        base.clock, base.threads.begin)]


def build_notify(settings: nova_conf.NovaSettings) -> work_context.Notify | None:
    """Build the function that notifies Nova about the extend of an attached volume.

    If Nova or its account is not configured, the function sends nothing to Nova, and returns the
    reason for each server.

    :returns: None if Nova is not configured and ``[nova] detach_rule`` is off, which means that
        there are no servers
    """
    if not settings.configured:
        if settings.detach_rule == 'off':
            return None
        return lambda servers, volume_id: dict.fromkeys(servers, _NO_NOVA)
    if not settings.knows_hosts:
        return lambda servers, volume_id: dict.fromkeys(servers, _NO_ACCOUNT)
    from blockattach.storage import nova as nova_client

    return nova_client.ServerEvents(settings).volume_extended


def _servers(settings: nova_conf.NovaSettings) -> 'nova_client.Servers | None':
    """Return a client that queries servers in Nova, or None without an account for Nova."""
    if not settings.configured:
        return None
    if not settings.knows_hosts:
        LOG.warning('Cannot query Nova for servers, reservations with a server do not expire%s',
                    log.fields(reason='[nova] username is not set'))
        return None
    # Imported only if needed, because keystoneauth is large.
    from blockattach.storage import nova as nova_client

    return nova_client.Servers(settings)
