"""Who may attach a volume that is attached already, or is going to be."""
from blockattach import context
from blockattach.domain import records
from blockattach.policy import attachments as rules
from blockattach.policy import enforcer


def forbidden_by(policy: enforcer.Enforcer, caller: context.RequestContext,
                 volume: records.Volume) -> str | None:
    """The rule that keeps the caller from joining others on a volume to boot from; None: he may.

    Whether there are others is judged under the volume's lock
    (`blockattach.domain.multiattach.admit`). Cinder looks before, and only once the volume is in
    use, so that those who come together pass.
    """
    if policy.allowed(caller, rules.MULTIATTACH_BOOTABLE, volume.project_id):
        return None
    return rules.MULTIATTACH_BOOTABLE
