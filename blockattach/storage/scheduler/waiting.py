"""Work on volumes whose placing was interrupted, or whose manager is dead: placed anew."""
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

# What may have begun on a manager that is dead, and can be taken from it.
_PORTABLE = frozenset({'volume.create', 'volume.migrate', 'volume.retype'})


class WaitingVolumes:
    """What a scheduler looks for from time to time. Several may: one of them claims it."""

    def __init__(self, database: storage_db.Database, placement: placement.Placement,
                 down_after: float, placing_seconds: float, owner: str) -> None:
        """
        :param owner: names the process instance
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
        """Place a volume. It is taken first from a pool whose manager is dead, or has not claimed
        it.
        """
        volume = volume_queries.get_bare(self._database, claim.resource_id)
        generation = volume.generation
        if volume.pool is not None:
            generation = volumes.unclaim(self._database, volume.id, generation,
                                         self._placing_seconds, claim.owner, tried=False)
        self._place(caller, volume, generation)

    @verbs.work('volume.extend', deadline='placing_seconds', ends=False)
    def extend(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Find the room for a volume that shall be larger, or hand it over once more."""
        volume = volume_queries.get_bare(self._database, claim.resource_id)
        self._place(caller, volume, volume.generation)

    @verbs.work('volume.manage', deadline='placing_seconds', ends=False)
    def manage(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Let the pool of a volume that shall be managed be judged, or hand it over once more."""
        volume = volume_queries.get_bare(self._database, claim.resource_id)
        self._place(caller, volume, volume.generation)

    @verbs.work('volume.migrate', deadline='placing_seconds', ends=False)
    def migrate(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """Find a pool for a volume that shall go elsewhere; it is taken first from one whose
        manager is dead, or has not claimed it.
        """
        volume = volume_queries.get_bare(self._database, claim.resource_id)
        generation = moving.unclaim(self._database, volume.id, volume.generation,
                                    self._placing_seconds, claim, tried=False)
        self._place(caller, volume, generation)

    @verbs.work('volume.retype', deadline='placing_seconds', ends=False)
    def retype(self, caller: context.RequestContext, claim: records.Claim) -> None:
        """The same for one that shall have another type."""
        self.migrate(caller, claim)

    def _place(self, caller: context.RequestContext, volume: records.Volume,
               generation: int) -> None:
        request = placing_facts.request(self._database, volume.id)
        if request.generation != generation:
            # Another scheduler was faster: what it claimed is not waiting any more.
            return
        caller.user_id = volume.user_id
        self._placement.place(caller, request)

    def look(self) -> None:
        """Place every volume that waits for a pool, or for a manager that is dead, too long."""
        self._placement.place_postponed()
        first, self._first = self._first, False
        if first:
            # The schedulers that were asked before may be gone.
            self._recovery.remember(shared=True)
        self._recovery.look()
