"""A row of the table of invariants, and what it finds."""
import dataclasses
import enum
from collections.abc import Callable
from collections.abc import Iterable
from typing import NamedTuple

from blockattach.domain.invariants import observed

RECONCILE = 'blockattach-manage reconcile'
DERIVE = 'blockattach-manage attachments derive {volume_id}'
COUNT = 'blockattach-manage attachments derive --counts'
END = 'openstack volume attachment delete {attachment_id}'
RESET = 'openstack volume set --state available {volume_id}'
ASK = 'blockattach-manage attachments check --volume-id {volume_id} --format json'


class Severity(enum.StrEnum):
    """What a violation means for the owner of the data."""

    DATA = 'data'
    """A host may read or write without permission."""
    SERVICE = 'service'
    """A user cannot reach the own data, or work never ends."""
    ACCOUNT = 'account'
    """A count or a status is wrong, without any harm yet."""


class Found(NamedTuple):
    """What breaks an invariant: of which thing, and how."""

    volume_id: str | None
    attachment_id: str | None
    said: str


class Row(NamedTuple):
    """One invariant.

    ``settled``: it may be untrue for a moment while somebody works, so it is asked of what nobody
    works on. ``repair`` is a command, with ``{volume_id}`` and ``{attachment_id}`` to fill in.
    """

    name: str
    promise: str
    meaning: str
    severity: Severity
    settled: bool
    repair: str
    judge: Callable[[observed.Facts], Iterable[Found]]


@dataclasses.dataclass(frozen=True, slots=True)
class Violation:
    """One that was found."""

    invariant: str
    promise: str
    severity: Severity
    volume_id: str | None
    attachment_id: str | None
    said: str
    repair: str
