"""What a run of the import has found and done, as values."""
import collections
import dataclasses
from typing import NamedTuple


class Finding(NamedTuple):
    """Row that is refused or changed; ``code`` is a key of a table of `domain.importing`.

    :ivar table: table in Cinder
    :ivar holder: of an attachment: its host; its server where Cinder has not kept the host
    :ivar text: problem of the row, unless the code says everything
    """

    code: str
    table: str
    id: str
    holder: str = ''
    text: str = ''


@dataclasses.dataclass(slots=True)
class Report:
    """Counts by the names of tables here, and what is not taken as it is."""

    found: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    there: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    taken: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    left: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    changed: list[Finding] = dataclasses.field(default_factory=list)
    refused: list[Finding] = dataclasses.field(default_factory=list)
