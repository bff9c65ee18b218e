"""Answers that clients got about attachments, and their comparison with the rows.

The answers are remembered apart from the service. An attachment that a client was given stays
until a client deletes it. An attachment that was answered as read-only stays read-only. A request
that failed definitely has changed nothing. No attachment exists that no client asked for.
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
"""State, initiator and mode of each live attachment of a volume, by ID."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Answered:
    """Attachment that a client was given.

    ``endings`` is the count of the volume's endings when the attachment was requested.
    """

    volume_id: str
    read_only: bool
    endings: int


class Promises:
    """Answers about attachments that all clients got."""

    def __init__(self, endings: Mapping[str, int], ending: Mapping[str, int]) -> None:
        """
        :param endings: by volume, the number of requests that may end any of its attachments
        :param ending: by volume, the number of such requests that are or may be under way
        """
        self._endings = endings
        self._ending = ending
        self._answered: dict[str, _Answered] = {}
        self._known: set[str] = set()
        """Attachments that a client was given or has used."""
        self._ended: set[str] = set()
        """Attachments that a client has deleted."""
        self._gone: set[str] = set()
        self._forsaken: Counter[tuple[str, str]] = Counter()

    def answered(self, attachment_id: str, volume_id: str, mode: str | None, endings: int) -> None:
        """Note that a client was given an attachment, with an access mode."""
        if attachment_id not in self._ended:
            self._answered[attachment_id] = _Answered(volume_id, mode == READ_ONLY, endings)
        self._known.add(attachment_id)

    def end(self, attachment_id: str) -> None:
        """Note that a client is about to delete an attachment."""
        self._answered.pop(attachment_id, None)
        self._known.add(attachment_id)
        self._ended.add(attachment_id)

    def use(self, attachment_id: str) -> None:
        """Note that a client is about to use an attachment, which therefore is known."""
        self._known.add(attachment_id)

    def gone(self, attachment_id: str) -> None:
        """Note that a client was answered that an attachment is gone."""
        self._gone.add(attachment_id)

    def forsake(self, volume_id: str, server_id: str) -> None:
        """Note that a client does not learn whether its requested attachment exists."""
        self._forsaken[volume_id, server_id] += 1

    def is_read_only(self, attachment_id: str) -> bool:
        """Return True if a client was given the attachment as read-only."""
        found = self._answered.get(attachment_id)
        return found is not None and found.read_only

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the attachments that differ from the answers, at any moment."""
        live = {row.id: row for row in facts.attachments if not row.deleted}
        for name, one in list(self._answered.items()):
            if one.endings != self._endings[one.volume_id] or self._ending[one.volume_id]:
                del self._answered[name]
            elif name not in live:
                yield f'P4 answered_stays: attachment {name} is gone, but no client deleted it'
            elif one.read_only and live[name].mode == _WRITES:
                yield f'P5 read_only_stays: attachment {name} was answered ro, but may write'
        for name in sorted(self._gone & live.keys()):
            yield f'P6 gone_is_gone: attachment {name} was reported gone, but exists'

    def unknown(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the attachments that no client knows or has given up, while no work is under way.

        The existing attachments count as answered afterwards.
        """
        for row in facts.attachments:
            if row.deleted or row.legacy_reservation or row.id in self._known:
                continue
            asked = row.volume_id, row.instance_uuid or ''
            self._known.add(row.id)
            if row.state == _REFUSED_TO_GO:
                # The storage refuses to release the attachment, which its status shows.
                continue
            if not self._forsaken[asked]:
                yield (f'P2 nobody_is_forgotten: no client knows attachment {row.id} of volume '
                       f'{row.volume_id}, which is {row.state}')
            self._forsaken[asked] -= 1
        self._forsaken.clear()


def moved(before: Held, after: Held) -> Iterable[str]:
    """Yield the changes made by a request whose answer says that it changed nothing."""
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            yield f'attachment {name} was {before.get(name)} and is {after.get(name)}'


def too_many(facts: observed.Facts, quota: int) -> Iterator[str]:
    """Yield the projects with more attachments than their quota."""
    live = Counter(row.project_id for row in facts.attachments if not row.deleted)
    for project_id, number in live.items():
        if number > quota != quotas.UNLIMITED:
            yield (f'P6 quota_holds: project {project_id} has {number} attachments, but its quota '
                   f'is {quota}')
