"""Who is let in to the volumes of one backend: one act, which may be repeated at any time."""
import contextlib
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from types import TracebackType

from oslo_log import log as oslo_log

from blockattach import errors
from blockattach import log
from blockattach.db import desired_state
from blockattach.db import engine
from blockattach.db import grants
from blockattach.domain import connection
from blockattach.domain import records
from blockattach.volume import backends
from blockattach.volume import locks
from blockattach.volume import turns

LOG = oslo_log.getLogger(__name__)

Expect = Callable[[Sequence[records.Attachment]], None]

# Whoever was overtaken so often leaves the pair to the next comparison.
_TRIES = 3


class Exports:
    """Brings the target to what the rows want, pair by pair."""

    def __init__(self, database: engine.Database, backend: backends.KeptBackend,
                 turns: turns.Turns) -> None:
        self._turns = turns
        self._database = database
        self._backend = backend
        self._locks = locks.SharedLocks(turns.waiting)

    def locked(self) -> list[str]:
        """The volumes that somebody works on now."""
        return self._locks.names()

    def alone(self, volume_id: str) -> contextlib.AbstractContextManager[None]:
        """While what concerns a volume as a whole is done; nobody is let in or shut out then."""
        return self._locks.alone(volume_id)

    def align(self, turn: turns.Turn, initiator: str,
              expect: Expect | None = None,
              also: str | None = None) -> connection.Connection | None:
        """Bring one initiator to what all its live rows on the volume want; None: shut out.

        The caller holds the pair's lock, and the turn is the pair's.

        :param expect: told the pair's rows before anything is done; what it raises ends it
        :param also: a row that shall be let in, though it does not say so yet
        :raises BackendRefused: the target is as it was
        :raises BackendUncertain: also for whatever nobody foresaw
        """
        return self._align(turn, initiator, expect, also, self._overtaken(turn, initiator))

    def _align(self, turn: turns.Turn, initiator: str, expect: Expect | None, also: str | None,
               acting: contextlib.AbstractContextManager[None]) -> connection.Connection | None:
        """``acting``: around what is asked of the target."""
        with self._locks.shared(turn.volume_id):
            with _Uncertain(turn, initiator):
                found = self._desired(turn, initiator, also)
            if expect is not None:
                expect(found.rows)
            with _Uncertain(turn, initiator):
                return self._act(turn, initiator, found, acting)

    def _desired(self, turn: turns.Turn, initiator: str,
                 also: str | None) -> desired_state.DesiredState:
        """A turn without a lease begins when nobody else has one.

        Its intent is in the row already, and whoever takes a lease looks for intents afterwards:
        at least one of the two sees the other.
        """
        def look() -> desired_state.DesiredState | None:
            found = desired_state.get(self._database, turn.volume_id, initiator, also)
            return found if turn.lease is not None or found.leased_by is None else None

        return self._turns.wait(look, turn.until, turn.volume_id)

    def _act(self, turn: turns.Turn, initiator: str, found: desired_state.DesiredState,
             acting: contextlib.AbstractContextManager[None]) -> connection.Connection | None:
        telemetry = self._backend.telemetry
        if found.volume is not None and found.grant is not None:
            with telemetry.attaching('export'):
                export = self._backend.export_of(found.volume)
            turn.check()
            with telemetry.attaching('grant'), acting:
                made = self._backend.target.grant(export, found.grant)
            return self._backend.for_consumer(made, export, found.volume)
        turn.check()
        with telemetry.detaching('revoke'), acting:
            self._backend.target.revoke(turn.volume_id, initiator)
        return None

    @contextlib.contextmanager
    def _overtaken(self, turn: turns.Turn, initiator: str) -> Iterator[None]:
        """Who fails after his turn may have hit what others have done meanwhile: it is put right.

        Who does not fail finds it out when he records what he did.
        """
        try:
            yield
        except Exception:
            if turn.is_late():
                self.put_right(turn, initiator)
            raise

    def put_right(self, turn: turns.Turn, initiator: str, also: str | None = None) -> bool:
        """The same where nothing is recorded afterwards: who was overtaken meanwhile does it
        again, a few times. It never fails: what it cannot do, the next comparison of target and
        rows does. A turn that was lost is had again first.

        :returns: whether it was done
        """
        try:
            for _ in range(_TRIES):
                with _Uncertain(turn, initiator):
                    turn.regain()
                if self._align_in_time(turn, initiator, also):
                    return True
            LOG.warning('Cannot put a grant right in time; it is tried again%s',
                        _fields(turn, initiator))
        except errors.BackendError:
            LOG.warning('Cannot put a grant right; it is tried again%s',
                        _fields(turn, initiator), exc_info=True)
        return False

    def _align_in_time(self, turn: turns.Turn, initiator: str, also: str | None) -> bool:
        """Whether it was done within the turn.

        :raises BackendError: it failed within the turn
        """
        try:
            self._align(turn, initiator, None, also, contextlib.nullcontext())
        except errors.BackendError:
            if not turn.is_late():
                raise
        return not turn.is_late()

    def unexport_unused(self, volume_id: str) -> bool:
        """Offer a volume no longer, unless somebody shall be let in; whether it was done.

        :raises BackendUncertain: whoever was paused for so long may have been overtaken
        """
        with self.alone(volume_id), self._turns.whole(volume_id, wait=False) as turn:
            if turn is None or grants.wanted(self._database, volume_id):
                return False
            turn.check()
            self._backend.target.unexport(volume_id)
            return True


class _Uncertain:
    """Whatever a backend does not say itself tells nothing of how far it came."""

    __slots__ = ('_initiator', '_turn')

    def __init__(self, turn: turns.Turn, initiator: str) -> None:
        self._turn = turn
        self._initiator = initiator

    def __enter__(self) -> None:
        """Nothing to do before."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if not isinstance(error, Exception) or isinstance(error, errors.BackendError):
            return
        if not isinstance(error, errors.DatabaseUnavailable):
            LOG.error('Cannot tell how far the backend came%s',
                      _fields(self._turn, self._initiator), exc_info=error)
        raise errors.BackendUncertain(reason=str(error)) from error


def _fields(turn: turns.Turn, initiator: str) -> log.Fields:
    return log.fields(volume_id=turn.volume_id, initiator=initiator)
