"""The rule for a further attachment of a volume."""
from blockattach import context
from blockattach.domain import records
from blockattach.policy import attachments as rules
from blockattach.policy import enforcer


def forbidden_by(policy: enforcer.Enforcer, caller: context.RequestContext,
                 volume: records.Volume) -> str | None:
    """The rule that forbids the caller a further attachment of a bootable volume; None: allowed.

    Whether there are other attachments is decided with the volume's precondition
    (`blockattach.domain.multiattach.admit`). Cinder checks before, and only once the volume is in
    use, so that concurrent requests pass.
    """
    if policy.allowed(caller, rules.MULTIATTACH_BOOTABLE, volume.project_id):
        return None
    return rules.MULTIATTACH_BOOTABLE
