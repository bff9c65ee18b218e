"""What clients were answered of attachments, remembered apart from the service, and compared with
its rows.

An attachment that a client was answered stays until a client deletes it, what was answered as
read-only stays so, a request that failed for good has changed nothing, and there is nothing that
no client asked for.
"""
import dataclasses
from collections import Counter
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping

from blockattach.storage.domain import quotas
from blockattach.storage.domain.invariants import observed

READ_ONLY = 'ro'
_WRITES = 'rw'
_REFUSED_TO_GO = 'error_detaching'

Held = dict[str, tuple[str, str | None, str | None]]
"""The live rows of a volume: state, initiator and mode of each."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Answered:
    """An attachment that a client was answered.

    ``endings``: of its volume when it was asked for.
    """

    volume_id: str
    read_only: bool
    endings: int


class Promises:
    """What all clients together were answered."""

    def __init__(self, endings: Mapping[str, int], ending: Mapping[str, int]) -> None:
        """
        :param endings: how often something was asked for that may end any attachment of a volume
        :param ending: how many such requests are, or may be, under way
        """
        self._endings = endings
        self._ending = ending
        self._answered: dict[str, _Answered] = {}
        self._known: set[str] = set()
        """Attachments that a client was answered, or has used."""
        self._ended: set[str] = set()
        """Those that a client has deleted."""
        self._gone: set[str] = set()
        self._forsaken: Counter[tuple[str, str]] = Counter()

    def answered(self, attachment_id: str, volume_id: str, mode: str | None, endings: int) -> None:
        """A client was answered that there is an attachment, and how it may use the volume."""
        if attachment_id not in self._ended:
            self._answered[attachment_id] = _Answered(volume_id, mode == READ_ONLY, endings)
        self._known.add(attachment_id)

    def end(self, attachment_id: str) -> None:
        """A client is about to delete an attachment."""
        self._answered.pop(attachment_id, None)
        self._known.add(attachment_id)
        self._ended.add(attachment_id)

    def use(self, attachment_id: str) -> None:
        """A client is about to use an attachment, its own or another's: it knows of it."""
        self._known.add(attachment_id)

    def gone(self, attachment_id: str) -> None:
        """A client was answered that an attachment is gone."""
        self._gone.add(attachment_id)

    def forsake(self, volume_id: str, server_id: str) -> None:
        """A client has asked for an attachment, and will never learn whether it is there.
        """
        self._forsaken[volume_id, server_id] += 1

    def is_read_only(self, attachment_id: str) -> bool:
        """Whether a client was answered so when it asked for it."""
        found = self._answered.get(attachment_id)
        return found is not None and found.read_only

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """What is not as it was answered, at any moment."""
        live = {row.id: row for row in facts.attachments if not row.deleted}
        for name, one in list(self._answered.items()):
            if one.endings != self._endings[one.volume_id] or self._ending[one.volume_id]:
                del self._answered[name]
            elif name not in live:
                yield f'P4 answered_stays: attachment {name} is gone, and nobody has ended it'
            elif one.read_only and live[name].mode == _WRITES:
                yield f'P5 read_only_stays: attachment {name} was said to be ro, and may write'
        for name in sorted(self._gone & live.keys()):
            yield f'P6 gone_is_gone: attachment {name} was said to be gone, and is there'

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """What no client was answered, nor has given up asking for; when no work is under way.
        What there is counts as answered from now on.
        """
        for row in facts.attachments:
            if row.deleted or row.legacy_reservation or row.id in self._known:
                continue
            asked = row.volume_id, row.instance_uuid or ''
            self._known.add(row.id)
            if row.state == _REFUSED_TO_GO:
                # One that the storage refuses to release says so, whichever client asked for it.
                continue
            if not self._forsaken[asked]:
                yield (f'P2 nobody_is_forgotten: nobody knows of attachment {row.id} of volume '
                       f'{row.volume_id}, which is {row.state}')
            self._forsaken[asked] -= 1
        self._forsaken.clear()


def moved(before: Held, after: Held) -> Iterable[str]:
    """What a request has changed that says that it has changed nothing."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f'attachment {name} was {before.get(name)} and is {after.get(name)}'


def too_many(facts: observed.Facts, quota: int) -> Iterator[str]:
    """Projects with more attachments than they may have."""
    live = Counter(row.project_id for row in facts.attachments if not row.deleted)
    for project_id, number in live.items():
        if number > quota != quotas.UNLIMITED:
            yield (f'P6 quota_holds: project {project_id} has {number} attachments and may have '
                   f'{quota}')
