"""Who may attach a volume that is attached already, or is going to be."""
from blockattach import context
from blockattach.domain import records
from blockattach.policy import attachments as rules
from blockattach.policy import enforcer


def authorize(policy: enforcer.Enforcer, caller: context.RequestContext,
              volume: records.Volume) -> None:
    """Return if the caller may make one more attachment of the volume.

    A rule of its own keeps several servers from booting from one volume; Cinder asks it only once
    the volume is in use, so that those who come together pass.

    :raises NotAuthorized: he may not
    """
    if volume.multiattach and volume.bootable and volume.lowest_rank is not None:
        policy.authorize(caller, rules.MULTIATTACH_BOOTABLE, volume.project_id)
