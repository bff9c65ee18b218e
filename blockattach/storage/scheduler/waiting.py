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

# Work that a manager may have started, and that can be placed on another pool if the manager is
# down.
_PORTABLE = frozenset({'volume.create', 'volume.migrate', 'volume.retype'})


class WaitingVolumes:
    """Periodic search for volumes that wait for a pool, and their placement.

    Several schedulers may search at the same time, because only one of them can claim a work item.
    """

    def __init__(self, database: storage_db.Database, placement: placement.Placement,
                 down_after: float, placing_seconds: float, owner: str) -> None:
        """
        :param down_after: seconds without a heartbeat after which a manager counts as down
        :param placing_seconds: seconds after which a placement counts as interrupted
        :param owner: name of this process instance
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
        """Place the creation of a volume again.

        If a scheduler has already claimed space on a pool, this claim is released first.
        """
        volume = volume_queries.get_bare(self._database, claim.resource_id)
        generation = volume.generation
        if volume.pool is not None:
            # The pool may be chosen again if its manager has not claimed the creation.
            generation = volumes.unclaim(self._database, volume.id, generation,
                                         self._placing_seconds, claim.owner, tried=False)
        self._place(caller, volume, generation)

    @verbs.work('volume.extend', deadline='placing_seconds', ends=False)
    def extend(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Claim space again for the interrupted extension of a volume, on its current pool."""
        volume = volume_queries.get_bare(self._database, claim.resource_id)
        self._place(caller, volume, volume.generation)

    @verbs.work('volume.manage', deadline='placing_seconds', ends=False)
    def manage(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Place a manage operation again, on the pool of the volume."""
        volume = volume_queries.get_bare(self._database, claim.resource_id)
        self._place(caller, volume, volume.generation)

    @verbs.work('volume.migrate', deadline='placing_seconds', ends=False)
    def migrate(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Place the migration of a volume again.

        If a scheduler has already claimed space on a destination pool, this claim is released
        first.
        """
        volume = volume_queries.get_bare(self._database, claim.resource_id)
        generation = moving.unclaim(self._database, volume.id, volume.generation,
                                    self._placing_seconds, claim, tried=False)
        self._place(caller, volume, generation)

    @verbs.work('volume.retype', deadline='placing_seconds', ends=False)
    def retype(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Place the retype of a volume again, as `migrate` does for a migration."""
        self.migrate(caller, claim)

    def _place(self, caller: context.RequestContext, volume: records.Volume,
               generation: int) -> None:
        request = placing_facts.request(self._database, volume.id)
        if request.generation != generation:
            # Another scheduler has claimed capacity for the volume in the meantime.
            return
        # The context of resumed work contains the ids of the project and the request, but no user.
        caller.user_id = volume.user_id
        self._placement.place(caller, request)

    def look(self) -> None:
        """Place the volumes that wait in this process, and resume overdue placements.

        The first call also resumes the placements of earlier scheduler processes.
        """
        self._placement.place_postponed()
        first, self._first = self._first, False
        if first:
            # Calls to earlier scheduler processes may be lost. Their volumes are placed before the
            # deadlines of the placements.
            self._recovery.remember(shared=True)
        self._recovery.look()
