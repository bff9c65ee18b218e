"""Dependencies that all handlers of work on one backend share."""
import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING

from blockattach.platform import context
from blockattach.storage import objects
from blockattach.storage.db import storage_db
from blockattach.storage.db.volumes import placing_facts
from blockattach.storage.domain import image_cache
from blockattach.storage.domain import records
from blockattach.storage.rpc import scheduler as scheduler_rpc
from blockattach.storage.volume import backends
from blockattach.storage.volume import lease
from blockattach.storage.volume import pacing

if TYPE_CHECKING:
    from blockattach.storage.images import moving

Notify = Callable[[Sequence[str], str], Mapping[str, str]]
"""Function that notifies servers of the new size of a volume. Its arguments are the ids of the
servers and of the volume. It returns the reasons of failures by server id."""


def _no_event(volume_id: str, done: bool) -> None:
    """Send no event, because no server uses the volumes of this service."""


@dataclasses.dataclass(frozen=True, slots=True)
class WorkContext:
    """Dependencies of the handlers of work. The handlers keep no state of their own.

    :ivar retry_seconds: time in seconds after which a failed deletion is retried
    :ivar scheduler: selects another pool for a volume that this backend cannot create or receive
    :ivar schedule_seconds: time in seconds after which the scheduler is asked again
    :ivar served: all backends of this process by ``host@backend``; volumes move between them
    :ivar cache: settings of the image cache; None if no images are cached
    :ivar mover: download and upload of images; None if Glance is not configured
    :ivar reimaged: notifies the server of a volume whether a reimage has succeeded
    :ivar notify: notifies servers; None if no server uses the volumes of this service
    :ivar notice_seconds: time in seconds without a heartbeat after which another process takes
        over a notification
    """

    database: storage_db.Database
    backend: backends.KeptBackend
    leases: lease.Leases
    pace: pacing.Pace
    retry_seconds: float
    scheduler: scheduler_rpc.SchedulerInterface
    schedule_seconds: float
    served: Mapping[str, backends.KeptBackend] = dataclasses.field(default_factory=dict)
    cache: image_cache.Settings | None = None
    mover: 'moving.ImageMover | None' = None
    reimaged: Callable[[str, bool], None] = _no_event
    notify: Notify | None = None
    notice_seconds: float = 0.0

    def copied(self, claim: records.Claim) -> Callable[[int], None]:
        """Return the callback (`blockattach.storage.drivers.base.Copied`) of a copy for work.

        The callback ends the copy when the claim of the work is lost.
        """
        return self.pace.of_claim(self.database, claim)

    def place_again(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Ask the scheduler for another pool, unless a scheduler has already selected one.

        :param claim: claim of the work that failed on this backend
        """
        request = placing_facts.request(self.database, claim.resource_id)
        if request.generation == claim.generation + 1:
            self.scheduler.place_volume(caller, objects.VolumeRequest.from_domain(request))
