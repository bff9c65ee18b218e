"""Report of an import, and validation of the rows of a Cinder database before their import."""
import collections
import dataclasses
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from blockattach.storage.domain import cinder_rows

Rows = list[dict[str, Any]]


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


class Checked(NamedTuple):
    """Checked rows of one table.

    :ivar good: valid rows with converted values
    :ivar bad: invalid rows as read, each with its findings
    """

    good: Rows
    bad: list[tuple[dict[str, Any], list[Finding]]]

    @property
    def findings(self) -> list[Finding]:
        """Findings about all invalid rows."""
        return [one for _, found in self.bad for one in found]

    def owners(self, column: str) -> set[Any]:
        """Return the values of this column in the invalid rows: the ids of their owners."""
        return {cinder_rows.comparable(row.get(column)) for row, _ in self.bad}


def check(table: str, rows: Sequence[dict[str, Any]]) -> Checked:
    """Validate the rows of a table."""
    checked = Checked([], [])
    for row, repeated in zip(rows, cinder_rows.duplicates(table, rows), strict=True):
        taken, wrong = cinder_rows.read(table, row)
        findings = [finding(table, row, 'damaged', text) for text in wrong]
        if repeated:
            findings.append(finding(table, row, 'twice', repeated))
        if findings:
            checked.bad.append((row, findings))
        else:
            checked.good.append(taken)
    return checked


def finding(table: str, row: cinder_rows.Row, code: str, text: str = '') -> Finding:
    """Build a finding about a row."""
    return Finding(code, table, cinder_rows.identity(table, row), text=text)
