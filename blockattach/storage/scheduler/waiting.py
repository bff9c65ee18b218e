"""Repeated placement of volumes whose placement was interrupted or whose manager is down."""
import functools

from blockattach.platform import context
from blockattach.storage.db import storage_db
from blockattach.storage.db.services import services
from blockattach.storage.db.volumes import moving
from blockattach.storage.db.volumes import placing_facts
from blockattach.storage.db.volumes import volume_queries
from blockattach.storage.db.volumes import volumes
from blockattach.storage.domain import records
from blockattach.storage.scheduler import placement
from blockattach.storage.work import recover
from blockattach.storage.work import runner
from blockattach.storage.work import verbs

# Verbs whose work may have started on a manager that is down, and can be taken from it.
_PORTABLE = frozenset({'volume.create', 'volume.migrate', 'volume.retype'})


class WaitingVolumes:
    """Periodic search for volumes that wait for a placement.

    Several schedulers may search at the same time, because each work item is claimed by only one
    of them.
    """

    def __init__(self, database: storage_db.Database, placement: placement.Placement,
                 down_after: float, placing_seconds: float, owner: str) -> None:
        """
        :param down_after: seconds without a heartbeat after which a manager is down
        :param placing_seconds: seconds after which a placement is considered interrupted
        :param owner: name of the process instance
        """
        self._database = database
        self._placement = placement
        self._placing_seconds = placing_seconds
        running = runner.Runner(database, [self], None, owner, lambda option: placing_seconds)
        self._recovery = recover.Recovery([recover.of_work(database, running, functools.partial(
            services.silent_managers, database, down_after), _PORTABLE)], owner)
        self._first = True

    @verbs.work('volume.create', deadline='placing_seconds', ends=False)
    def create(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Place a new volume again.

        The volume is first taken from its pool if the manager of the pool is down or has not
        claimed the volume.
        """
        volume = volume_queries.get_bare(self._database, claim.resource_id)
        generation = volume.generation
        if volume.pool is not None:
            # The pool may be chosen again if its manager has not claimed the volume.
            generation = volumes.unclaim(self._database, volume.id, generation,
                                         self._placing_seconds, claim.owner, tried=False)
        self._place(caller, volume, generation)

    @verbs.work('volume.extend', deadline='placing_seconds', ends=False)
    def extend(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Claim the capacity for an extension again, or notify the manager again."""
        volume = volume_queries.get_bare(self._database, claim.resource_id)
        self._place(caller, volume, volume.generation)

    @verbs.work('volume.manage', deadline='placing_seconds', ends=False)
    def manage(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Check the pool of a volume to manage again, or notify the manager again."""
        volume = volume_queries.get_bare(self._database, claim.resource_id)
        self._place(caller, volume, volume.generation)

    @verbs.work('volume.migrate', deadline='placing_seconds', ends=False)
    def migrate(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Find a pool for a volume to migrate again.

        The volume is first taken from its destination if the manager of that pool is down or has
        not claimed the volume.
        """
        volume = volume_queries.get_bare(self._database, claim.resource_id)
        generation = moving.unclaim(self._database, volume.id, volume.generation,
                                    self._placing_seconds, claim, tried=False)
        self._place(caller, volume, generation)

    @verbs.work('volume.retype', deadline='placing_seconds', ends=False)
    def retype(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Find a pool for a volume to retype again, as `migrate` does."""
        self.migrate(caller, claim)

    def _place(self, caller: context.RequestContext, volume: records.Volume,
               generation: int) -> None:
        request = placing_facts.request(self._database, volume.id)
        if request.generation != generation:
            # Another scheduler has claimed capacity for the volume meanwhile.
            return
        # The context of resumed work has the project and the request, but no user.
        caller.user_id = volume.user_id
        self._placement.place(caller, request)

    def look(self) -> None:
        """Place every volume that has waited too long for a pool or for a manager that is down."""
        self._placement.place_postponed()
        first, self._first = self._first, False
        if first:
            # Requests to earlier scheduler processes may be lost. Place their volumes without
            # waiting for the deadlines.
            self._recovery.remember(shared=True)
        self._recovery.look()
