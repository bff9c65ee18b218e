"""What serves consumers on the bus."""
from blockattach.conf import api as api_conf
from blockattach.conf import locations
from blockattach.control import endpoint
from blockattach.policy import enforcer
from blockattach.rpc import serving
from blockattach.rpc import volume as volume_rpc
from blockattach.wiring import attachments
from blockattach.wiring import dependencies


def build_services(base: dependencies.Dependencies) -> list[serving.Server]:
    """What a process of its own consists of."""
    return [build_control(base)]


def build_control(base: dependencies.Dependencies) -> serving.Server:
    """Put a control service together; `start` begins.

    :raises ConfigurationError: [nova] cannot be used, or the policy cannot be read
    """
    with locations.named(base.conf, 'oslo_policy', 'policy_file'):
        policy = enforcer.Enforcer(base.conf, base.clock)
    base.reloads.add(policy.reload)
    verbs = attachments.build_attachments(base, volume_rpc.VolumeClients(base.bus),
                                          attachments.build_repeats(base))
    return base.bus.server(
        endpoint.AttachmentsEndpoint(policy, verbs, api_conf.settings(base.conf).osapi_max_limit),
        base.service.host, api_conf.queue_settings(base.conf).threads,
        lambda caller: base.admission.slot(until=caller.deadline))
