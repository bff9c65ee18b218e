"""Connect and disconnect on the backend, and record what came of it.

The intent is in the row before the backend is touched, always. The act brings one (volume,
initiator) to what all live rows of that pair want, so it may be repeated at any time. The
generation is compared before and after; whoever has lost it leaves the row alone and puts the
target right.
"""
import contextlib
from collections.abc import Callable
from collections.abc import Sequence
from typing import NamedTuple

from oslo_log import log as oslo_log

from blockattach import context
from blockattach import errors
from blockattach import failpoints
from blockattach import log
from blockattach.db import attachment_queries
from blockattach.db import engine
from blockattach.domain import attachment_lifecycle
from blockattach.domain import connection
from blockattach.domain import records
from blockattach.volume import attachment_outcomes
from blockattach.volume import turns
from blockattach.volume import volumes

LOG = oslo_log.getLogger(__name__)

_State = attachment_lifecycle.State
# The act is done, and cannot be recorded: the row has moved on, or the turn was lost.
_OUT_OF_TURN = (errors.StaleGeneration, errors.AttachmentNotFound, errors.BackendUncertain)


class _Overtaken(Exception):
    """It was told to go once more, or the turn was lost, before the end was recorded."""


class AttachmentManager:
    """The attachments of one backend."""

    def __init__(self, database: engine.Database, manager: volumes.VolumeManager,
                 outcome: attachment_outcomes.AttachmentOutcomes) -> None:
        self._database = database
        self._manager = manager
        self._telemetry = manager.backend.telemetry
        self._turns = manager.turns
        self._outcome = outcome

    @property
    def outcome(self) -> attachment_outcomes.AttachmentOutcomes:
        """Where it is recorded how an act ended."""
        return self._outcome

    def resume_connect(self, caller: context.RequestContext, attachment_id: str,
                       generation: int) -> None:
        """`connect` once more, for a row whose caller does not wait any more."""
        row = attachment_queries.get(self._database, attachment_id)
        self._connecting([row], attachment_id, generation)
        assert row.initiator is not None
        self.connect(caller, row.volume_id, row.initiator, attachment_id, generation,
                     awaited=False)

    def connect(self, caller: context.RequestContext, volume_id: str, initiator: str,
                attachment_id: str, generation: int, awaited: bool = True) -> records.Attachment:
        """Grant the initiator of a row and store the connection.

        :param awaited: somebody waits for the answer; see `attachment_lifecycle.refusal`
        :returns: the row as it is then
        :raises BackendRefused: final; the row is back where it came from, or failed
        :raises BackendUncertain: the row keeps connecting, with its deadline
        :raises StaleGeneration: somebody else goes on with the row; nothing was changed
        :raises AttachmentNotFound: it has gone
        """
        found: list[records.Attachment] = []
        with self._turns.pair(volume_id, initiator, caller) as turn:
            failpoints.point('volume.attachments.before_grant')
            try:
                made = self._act(caller, turn, initiator, awaited, found, lambda rows: (
                    self._connecting(rows, attachment_id, generation)))
            except (errors.StaleGeneration, errors.AttachmentNotFound):
                # An earlier call may have let it in for a row that is of another host by now.
                if not self._is_of(attachment_id, initiator):
                    self._manager.exports.put_right(turn, initiator)
                raise
            failpoints.point('volume.attachments.after_grant')
            [row] = found
            try:
                if made is None:
                    raise errors.StaleGeneration(noun='attachment', id=row.id,
                                                 generation=generation)
                with self._telemetry.attaching('record'):
                    new = self._outcome.connected(caller, row, made,
                                                  () if turn.lease is None else (turn.lease,))
                turn.over = True
            except _OUT_OF_TURN:
                self._manager.exports.put_right(turn, initiator)
                raise
        left = row.previous_initiator
        if left is not None and left != initiator:
            self._revoke_previous(caller, row, left)
        return new

    def resume_disconnect(self, caller: context.RequestContext, attachment_id: str,
                          generation: int) -> None:
        """`disconnect` once more, for a row whose caller does not wait any more."""
        row = self._leaving(attachment_id, generation)
        self.disconnect(caller, row.volume_id, _initiators(row), attachment_id, generation,
                        awaited=False)

    def disconnect(self, caller: context.RequestContext, volume_id: str,
                   initiators: Sequence[str], attachment_id: str, generation: int,
                   awaited: bool = True) -> None:
        """Revoke a row's initiators, unless another row wants them, and end the row.

        A row that was told to go once more is still to go: whoever is here ends it.

        :param initiators: as the row had them when it was told to go
        :param awaited: as in `connect`
        :raises BackendRefused: final; the row is back where it came from, or failed
        :raises BackendUncertain: the row keeps disconnecting, with its deadline
        :raises StaleGeneration: it is not to go any more; nothing was changed
        :raises AttachmentNotFound: it has gone
        """
        going = _Going(volume_id, tuple(initiators), attachment_id, generation)
        while True:
            failpoints.point('volume.attachments.before_revoke')
            try:
                with contextlib.ExitStack() as ending:
                    self._disconnect(caller, going, awaited, ending)
                return
            except _Overtaken:
                row = self._leaving(attachment_id, generation)
                going = _Going(row.volume_id, _initiators(row), row.id, row.generation)

    def is_at_work(self, row: records.Attachment) -> bool:
        """Whether a thread of this process works on the row's initiator: it ends what it does."""
        return self._turns.locks.held((row.volume_id, row.initiator))

    def has_session(self, row: records.Attachment) -> bool:
        """Whether the row's initiator is logged in; raises BackendError: nobody knows."""
        return any(grant.initiator == row.initiator and grant.sessions
                   for export in self._manager.backend.target.exports()
                   if export.volume_id == row.volume_id for grant in export.grants)

    def align(self, volume_id: str, initiator: str) -> bool:
        """Bring one (volume, initiator) to what all live rows of that pair want.

        One that is being worked on is left to whoever does: he leaves it right.

        :returns: whether it was done
        """
        with self._turns.free_pair(volume_id, initiator) as turn:
            # A process that has the backend for itself takes no lease: its rows tell of it.
            if turn is None or turn.lease is not None and (
                    volume_id, initiator) in attachment_queries.at_work(
                        self._database, self._manager.host):
                return False
            self._manager.exports.align(turn, initiator)
            if turn.is_late():
                # Nothing is recorded by which it would find out what it may have hit.
                self._manager.exports.put_right(turn, initiator)
            return True

    def _disconnect(self, caller: context.RequestContext, going: '_Going',
                    awaited: bool, ending: contextlib.ExitStack) -> None:
        """Shut out whoever the row let in, and end the row; what `ending` holds goes with it.

        :raises _Overtaken: it was told to go once more meanwhile, or the turn was lost
        """
        held, found = [], list[records.Attachment]()
        for initiator in going.initiators:
            turn = ending.enter_context(self._turns.pair(going.volume_id, initiator, caller))
            held.append((turn, initiator))
            self._act(caller, turn, initiator, awaited, found, lambda rows: (
                self._disconnecting(rows, going)))
        row = found[0] if found else self._leaving(going.attachment_id, going.generation)
        failpoints.point('volume.attachments.after_revoke')
        try:
            with self._telemetry.detaching('record'):
                self._outcome.disconnected(
                    caller, row, [turn.lease for turn, _ in held if turn.lease is not None])
        except _OUT_OF_TURN as exc:
            # What was done on its account may have hit what others have begun meanwhile.
            for turn, initiator in held:
                self._manager.exports.put_right(turn, initiator)
            if isinstance(exc, errors.AttachmentNotFound):
                raise
            raise _Overtaken from exc
        for turn, _ in held:
            turn.over = True

    def _revoke_previous(self, caller: context.RequestContext, row: records.Attachment,
                     initiator: str) -> None:
        """The initiator that the row has no more; what fails, the next comparison finds."""
        try:
            with self._turns.pair(row.volume_id, initiator, caller) as turn:
                self._manager.exports.put_right(turn, initiator)
        except (errors.BackendUncertain, errors.VolumeNotFound) as exc:
            LOG.warning('Cannot shut out an initiator that was replaced; it is tried again%s',
                        log.fields(volume_id=row.volume_id, initiator=initiator, reason=exc))

    def _is_of(self, attachment_id: str, initiator: str) -> bool:
        """Whether a row has this initiator now: then whoever goes on with it sees to it."""
        try:
            return attachment_queries.get(self._database, attachment_id).initiator == initiator
        except errors.AttachmentNotFound:
            return False

    def _connecting(self, rows: Sequence[records.Attachment], attachment_id: str,
                    generation: int) -> records.Attachment:
        """The row that shall be let in, among those of its pair; it may be of another by now."""
        row = _named(rows, attachment_id) or attachment_queries.get(self._database, attachment_id)
        if row.generation != generation or row.state is not _State.CONNECTING:
            raise errors.StaleGeneration(noun='attachment', id=attachment_id,
                                         generation=generation)
        return row

    @staticmethod
    def _disconnecting(rows: Sequence[records.Attachment], going: '_Going') -> records.Attachment:
        """The row that shall go, among those of one of its pairs."""
        row = _named(rows, going.attachment_id)
        if row is None or row.generation != going.generation \
                or row.state is not _State.DISCONNECTING:
            raise _Overtaken
        return row

    def _leaving(self, attachment_id: str, generation: int) -> records.Attachment:
        """The row as it is now, told to go in this generation or a later one."""
        row = attachment_queries.get(self._database, attachment_id)
        if row.generation < generation or row.state is not _State.DISCONNECTING:
            raise errors.StaleGeneration(noun='attachment', id=attachment_id,
                                         generation=generation)
        return row

    def _act(self, caller: context.RequestContext, turn: turns.Turn, initiator: str, awaited: bool,
             found: list[records.Attachment],
             mine: Callable[[Sequence[records.Attachment]], records.Attachment],
             ) -> connection.Connection | None:
        """Bring a pair to what its rows want, on account of one of them; as `Exports.align`.

        :param found: gets that row, the first time
        :param mine: finds it, or raises
        :raises BackendRefused: the row's intent is given up
        :raises BackendUncertain: also where it was refused, and the row cannot stay as it was
        """
        def expect(rows: Sequence[records.Attachment]) -> None:
            row = mine(rows)
            if not found:
                found.append(row)

        try:
            return self._manager.exports.align(turn, initiator, expect)
        except errors.BackendRefused as exc:
            # It will say that it is in: others may have taken its word, and shut it out.
            if self._outcome.stays(found[0], awaited) and not self._manager.exports.put_right(
                    turn, initiator, found[0].id):
                raise errors.BackendUncertain(
                    reason=f'{exc}; and its host cannot be let in again') from exc
            self._outcome.refused(caller, found[0], exc, awaited)
            # With the intent, what others did on its account meanwhile is undone.
            self._manager.exports.put_right(turn, initiator)
            raise


class _Going(NamedTuple):
    """A row that was told to go."""

    volume_id: str
    initiators: tuple[str, ...]
    attachment_id: str
    generation: int


def _initiators(row: records.Attachment) -> tuple[str, ...]:
    """In the order in which their turns are had, whoever takes several."""
    return tuple(sorted({*filter(None, (row.initiator, row.previous_initiator))}))


def _named(rows: Sequence[records.Attachment],
           attachment_id: str) -> records.Attachment | None:
    return next((row for row in rows if row.id == attachment_id), None)
