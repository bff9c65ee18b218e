"""Who is let in to the volumes of one backend: one act, which may be repeated at any time."""
import contextlib

from blockattach.db import engine
from blockattach.db import grants
from blockattach.domain import connection
from blockattach.domain import records
from blockattach.volume import backends
from blockattach.volume import locks


class Exports:
    """Brings the target to what the rows want, pair by pair."""

    def __init__(self, database: engine.Database, backend: backends.KeptBackend) -> None:
        self._database = database
        self._backend = backend
        self._locks = locks.SharedLocks()

    def locked(self) -> list[str]:
        """The volumes that somebody works on now."""
        return self._locks.names()

    def alone(self, volume_id: str) -> contextlib.AbstractContextManager[None]:
        """While what concerns a volume as a whole is done; nobody is let in or shut out then."""
        return self._locks.alone(volume_id)

    def align(self, volume: records.Volume, initiator: str) -> connection.Connection | None:
        """Bring one initiator to what all its live rows on the volume want; None: shut out.

        The caller holds the pair's lock.
        """
        with self._locks.shared(volume.id):
            wanted = grants.wanted(self._database, volume.id, initiator)
            telemetry = self._backend.telemetry
            if wanted:
                with telemetry.attaching('export'):
                    export = self._backend.export_of(volume)
                with telemetry.attaching('grant'):
                    return self._backend.target.grant(export, wanted[0])
            with telemetry.detaching('revoke'):
                self._backend.target.revoke(volume.id, initiator)
            return None

    def unexport_unused(self, volume_id: str) -> None:
        """Offer a volume no longer, unless somebody shall be let in."""
        with self.alone(volume_id):
            if not grants.wanted(self._database, volume_id):
                self._backend.target.unexport(volume_id)
