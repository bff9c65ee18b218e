"""Connect and disconnect on the backend, and record what came of it.

The intent is in the row before the backend is touched, always. The act brings one (volume,
initiator) to what all live rows of that pair want, so it may be repeated at any time. The
generation is compared before and after; whoever has lost it leaves the row alone and puts the
target right.
"""
from blockattach import context
from blockattach import errors
from blockattach import failpoints
from blockattach.db import attachment_queries
from blockattach.db import engine
from blockattach.db import volume_queries
from blockattach.domain import attachment_lifecycle
from blockattach.domain import connection
from blockattach.domain import records
from blockattach.volume import attachment_outcomes
from blockattach.volume import locks
from blockattach.volume import volumes

_State = attachment_lifecycle.State


class AttachmentKeeper:
    """The attachments of one backend."""

    def __init__(self, database: engine.Database, keeper: volumes.VolumeKeeper,
                 pair_locks: locks.NamedLocks,
                 outcome: attachment_outcomes.AttachmentOutcomes) -> None:
        self._database = database
        self._keeper = keeper
        self._pair_locks = pair_locks
        self._outcome = outcome

    def connect(self, caller: context.RequestContext, attachment_id: str, generation: int,
                awaited: bool = True) -> None:
        """Let the row's initiator in and store the connection.

        :param awaited: somebody waits for the answer; see `attachment_lifecycle.refusal`
        :raises BackendRefused: final; the row is back where it came from, or failed
        :raises BackendUncertain: the row keeps connecting, with its deadline
        :raises StaleGeneration: somebody else goes on with the row; nothing was changed
        """
        row = self._current(attachment_id, generation, _State.CONNECTING)
        volume = volume_queries.get(self._database, row.volume_id)
        assert row.initiator is not None
        with self._pair_locks.holding((row.volume_id, row.initiator)):
            self._current(attachment_id, generation, _State.CONNECTING)
            failpoints.point('volume.attachments.before_grant')
            made = self._act(caller, row, volume, row.initiator, awaited)
            failpoints.point('volume.attachments.after_grant')
            try:
                if made is None:
                    raise errors.StaleGeneration(noun='attachment', id=row.id,
                                                 generation=generation)
                self._outcome.connected(caller, row, made)
            except (errors.StaleGeneration, errors.AttachmentNotFound):
                self._keeper.exports.put_right(volume, row.initiator)
                raise
        left = row.previous_initiator
        if left is not None and left != row.initiator:
            with self._pair_locks.holding((row.volume_id, left)):
                self._keeper.exports.put_right(volume, left)

    def disconnect(self, caller: context.RequestContext, attachment_id: str, generation: int,
                   awaited: bool = True) -> None:
        """Shut the row's initiator out, unless another row of it still wants in, and end the row.

        A row that was told to go once more is still to go: whoever is here ends it.

        :param awaited: as in `connect`
        :raises BackendRefused: final; the row is back where it came from, or failed
        :raises BackendUncertain: the row keeps disconnecting, with its deadline
        :raises StaleGeneration: it is not to go any more; nothing was changed
        """
        row = self._leaving(attachment_id, generation)
        volume = volume_queries.get(self._database, row.volume_id)
        while True:
            failpoints.point('volume.attachments.before_revoke')
            for initiator in sorted({*filter(None, (row.initiator, row.previous_initiator))}):
                with self._pair_locks.holding((row.volume_id, initiator)):
                    self._leaving(attachment_id, row.generation)
                    self._act(caller, row, volume, initiator, awaited)
            failpoints.point('volume.attachments.after_revoke')
            try:
                self._outcome.disconnected(caller, row)
                return
            except errors.StaleGeneration:
                row = self._leaving(attachment_id, row.generation)

    def align(self, volume_id: str, initiator: str) -> None:
        """Bring one (volume, initiator) to what all live rows of that pair want.

        One that is being worked on is left to whoever does: he leaves it right.
        """
        if self._pair_locks.held((volume_id, initiator)):
            return
        with self._pair_locks.holding((volume_id, initiator)):
            try:
                volume = volume_queries.get(self._database, volume_id)
            except errors.VolumeNotFound:
                self._keeper.backend.target.revoke(volume_id, initiator)
                return
            self._keeper.exports.align(volume, initiator)

    def _current(self, attachment_id: str, generation: int,
                 state: attachment_lifecycle.State) -> records.Attachment:
        row = attachment_queries.get(self._database, attachment_id)
        if row.generation != generation or row.state is not state:
            raise errors.StaleGeneration(noun='attachment', id=attachment_id,
                                         generation=generation)
        return row

    def _leaving(self, attachment_id: str, generation: int) -> records.Attachment:
        """The row as it is now, told to go in this generation or a later one."""
        row = attachment_queries.get(self._database, attachment_id)
        if row.generation < generation or row.state is not _State.DISCONNECTING:
            raise errors.StaleGeneration(noun='attachment', id=attachment_id,
                                         generation=generation)
        return row

    def _act(self, caller: context.RequestContext, row: records.Attachment,
             volume: records.Volume, initiator: str,
             awaited: bool) -> connection.Connection | None:
        """Bring a pair to what its rows want, on account of one of them; as `Exports.align`.

        :raises BackendRefused: the row's intent is given up
        """
        try:
            return self._keeper.exports.align(volume, initiator)
        except errors.BackendRefused as exc:
            self._outcome.refused(caller, row, exc, awaited)
            # With the intent, what others did on its account meanwhile is undone.
            self._keeper.exports.put_right(volume, initiator)
            raise
