"""Report of an import."""
import collections
import dataclasses
from typing import NamedTuple


class Finding(NamedTuple):
    """Row that is refused or changed.

    :ivar code: key of `REFUSED` or `CHANGED` in `blockattach.storage.domain.importing`
    :ivar table: table in Cinder
    :ivar holder: host of an attachment, or its server if Cinder has not stored the host; empty for
        other rows
    :ivar text: problem of the row; empty if the code is sufficient
    """

    code: str
    table: str
    id: str
    holder: str = ''
    text: str = ''


@dataclasses.dataclass(slots=True)
class Report:
    """Numbers of rows by table, and the rows that are refused or changed.

    :ivar found: live rows in Cinder, by tables of this service
    :ivar there: rows that exist here already, by tables of this service
    :ivar taken: imported rows, by tables of this service
    :ivar left: rows that are not imported, by the keys of
        `blockattach.storage.domain.importing.LEFT`
    """

    found: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    there: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    taken: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    left: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    changed: list[Finding] = dataclasses.field(default_factory=list)
    refused: list[Finding] = dataclasses.field(default_factory=list)
