"""Builders of the attachment operations, and of the RPC server by which consumers call them."""
import functools
from typing import TYPE_CHECKING

from oslo_config import cfg
from oslo_log import log as oslo_log

from blockattach.platform import context
from blockattach.platform import log
from blockattach.platform.conf import api as api_conf
from blockattach.platform.conf import locations
from blockattach.platform.policy import enforcer
from blockattach.platform.rpc import serving
from blockattach.storage.conf import nova as nova_conf
from blockattach.storage.conf import service_user
from blockattach.storage.control import attachments
from blockattach.storage.control import backend_calls
from blockattach.storage.control import detach_rule
from blockattach.storage.control import endpoint
from blockattach.storage.control import repeats
from blockattach.storage.db.attachments import attachment_queries
from blockattach.storage.rpc import volume as volume_rpc
from blockattach.wiring import dependencies
from blockattach.wiring import rules as policy_rules

if TYPE_CHECKING:
    from blockattach.storage import nova as nova_client

LOG = oslo_log.getLogger(__name__)


def build_services(base: dependencies.Dependencies) -> list[serving.Server]:
    """Build the services of a control process."""
    return [build_control(base)]


def build_control(base: dependencies.Dependencies) -> serving.Server:
    """Build the RPC server of the attachment methods for consumers, such as Nova.

    :raises ConfigurationError: [nova] or [keystone_authtoken] cannot be used, or the policy cannot
        be read
    """
    with locations.named(base.conf, 'oslo_policy', 'policy_file'):
        policy = enforcer.Enforcer(base.conf, policy_rules.list_rules(), base.clock)
    base.reloads.add(policy.reload, policy.wrong)
    verbs = build_attachments(base, volume_rpc.VolumeClients(base.bus), build_repeats(base))
    return base.bus.server(
        endpoint.AttachmentsEndpoint(policy, verbs, api_conf.settings(base.conf).osapi_max_limit),
        base.service.host, api_conf.queue_settings(base.conf).threads,
        lambda caller: base.admission.slot(until=caller.deadline))


def build_repeats(base: dependencies.Dependencies) -> repeats.Repeats:
    """Build the registry of idempotency keys."""
    return repeats.Repeats(base.database, base.control.idempotency_key_seconds,
                           base.control.backend_seconds)


def build_attachments(base: dependencies.Dependencies, volume_services: volume_rpc.VolumeClients,
                      named: repeats.Repeats) -> attachments.AttachmentControl:
    """Build the operations on attachments.

    :raises ConfigurationError: [nova] or [keystone_authtoken] cannot be used
    """
    return attachments.AttachmentControl(
        backend_calls.BackendCalls(base.database, base.attachment_notifications, volume_services,
                                   base.control.backend_seconds, base.telemetry, base.admission),
        named, build_detach_rule(base))


def build_detach_rule(base: dependencies.Dependencies) -> detach_rule.DetachRule:
    """Build the rule that users must detach volumes of servers through Nova, as in Cinder.

    With Keystone, a warning is logged if the rule is off. If the rule applies but this service has
    no access to Nova, a warning is logged too, because users cannot detach such volumes then.

    :raises ConfigurationError: [keystone_authtoken] is invalid. The rule uses its option
        ``service_token_roles``
    """
    settings = nova_conf.settings(base.conf)
    keystone = api_conf.settings(base.conf).auth_strategy == 'keystone'
    holds = settings.rule_holds(keystone)
    if keystone and not holds:
        LOG.warning('Allowing users to detach volumes of running servers%s', log.fields(
            reason='[nova] detach_rule is off'))
    elif holds and not settings.configured:
        LOG.warning('Cannot query Nova for attachments, only services can detach volumes of '
                    'servers%s', log.fields(
                        reason='[nova] auth_url and endpoint_override are not set'))
    return detach_rule.DetachRule(
        _nova(base.conf, settings), functools.partial(attachment_queries.get, base.database),
        holds, _service_roles(base, keystone))


def _nova(conf: cfg.ConfigOpts,
          settings: nova_conf.NovaSettings) -> 'nova_client.NovaClient | None':
    if not settings.configured:
        return None
    # Imported only if needed, because keystoneauth is large.
    from blockattach.platform import identity
    from blockattach.storage import nova as nova_client

    service = service_user.settings(conf)
    return nova_client.NovaClient(settings, None if service is None else identity.own(service))


def _service_roles(base: dependencies.Dependencies, keystone: bool) -> tuple[str, ...]:
    """Return the roles that make a token a service token. One of these roles is sufficient."""
    if not keystone:
        return context.SERVICE_ROLES
    from blockattach.wiring import authentication

    authentication.register_keystone(base.conf)
    return tuple(base.conf.keystone_authtoken.service_token_roles)
