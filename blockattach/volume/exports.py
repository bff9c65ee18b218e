"""Who is let in to the volumes of one backend: one act, which may be repeated at any time."""
import contextlib

from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.db import engine
from blockattach.db import grants
from blockattach.domain import connection
from blockattach.domain import records
from blockattach.volume import backends
from blockattach.volume import locks

LOG = oslo_log.getLogger(__name__)


class Exports:
    """Brings the target to what the rows want, pair by pair."""

    def __init__(self, database: engine.Database, backend: backends.KeptBackend) -> None:
        self._database = database
        self._backend = backend
        self._locks = locks.SharedLocks()

    def alone(self, volume_id: str) -> contextlib.AbstractContextManager[None]:
        """While what concerns a volume as a whole is done; nobody is let in or shut out then."""
        return self._locks.alone(volume_id)

    def align(self, volume: records.Volume, initiator: str) -> connection.Connection | None:
        """Bring one initiator to what all its live rows on the volume want; None: shut out.

        The caller holds the pair's lock.

        :raises BackendRefused: the target is as it was
        :raises BackendUncertain: also for whatever nobody foresaw
        """
        try:
            with self._locks.shared(volume.id):
                wanted = grants.wanted(self._database, volume.id, initiator)
                if wanted:
                    return self._backend.target.grant(self._backend.export_of(volume), wanted[0])
                self._backend.target.revoke(volume.id, initiator)
                return None
        except errors.BackendError:
            raise
        except Exception as exc:
            LOG.exception('Cannot tell how far the backend came%s', _fields(volume, initiator))
            raise errors.BackendUncertain(reason=str(exc)) from exc

    def put_right(self, volume: records.Volume, initiator: str) -> None:
        """The same where nobody waits for it, so it never fails: what it cannot do, the next
        comparison of target and rows does.
        """
        try:
            self.align(volume, initiator)
        except errors.BackendError:
            LOG.warning('Cannot put a grant right; it is tried again%s',
                        _fields(volume, initiator), exc_info=True)

    def unexport_unused(self, volume_id: str) -> None:
        """Offer a volume no longer, unless somebody shall be let in."""
        with self.alone(volume_id):
            if not grants.wanted(self._database, volume_id):
                self._backend.target.unexport(volume_id)


def _fields(volume: records.Volume, initiator: str) -> log.Fields:
    return log.fields(volume_id=volume.id, initiator=initiator)
