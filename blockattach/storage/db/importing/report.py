"""Report of an import, and validation of rows of a Cinder database.

A finding is a row that is refused or changed, with the reason.
"""
import collections
import dataclasses
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from blockattach.storage.domain import cinder_rows

Rows = list[dict[str, Any]]


class Finding(NamedTuple):
    """Row that is refused or changed, with the reason.

    :ivar code: key of `REFUSED` or `CHANGED` in `blockattach.storage.domain.importing`
    :ivar table: name of the table in Cinder
    :ivar id: key of the row as printable text
    :ivar holder: for an attachment, its host, or its server if Cinder has not stored the host;
        otherwise empty
    :ivar text: description of the problem; empty if the code says enough
    """

    code: str
    table: str
    id: str
    holder: str = ''
    text: str = ''


@dataclasses.dataclass(slots=True)
class Report:
    """Numbers of rows by table, and the rows that are refused or changed.

    :ivar found: numbers of rows read from Cinder, by table of this service
    :ivar there: numbers of rows that already exist in this service, by table
    :ivar taken: numbers of imported rows, by table of this service
    :ivar left: numbers of rows that are not supported here, by the keys of
        `blockattach.storage.domain.importing.LEFT`
    :ivar changed: findings about changed rows
    :ivar refused: findings about refused rows
    """

    found: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    there: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    taken: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    left: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    changed: list[Finding] = dataclasses.field(default_factory=list)
    refused: list[Finding] = dataclasses.field(default_factory=list)


class Checked(NamedTuple):
    """Result of `check` for the rows of one table.

    :ivar good: valid rows with converted values
    :ivar bad: invalid rows as read from Cinder, each with its findings
    """

    good: Rows
    bad: list[tuple[dict[str, Any], list[Finding]]]

    @property
    def findings(self) -> list[Finding]:
        """Findings about the invalid rows."""
        return [one for _, found in self.bad for one in found]

    def owners(self, column: str) -> set[Any]:
        """Return the ids of the objects to which the invalid rows belong.

        :param column: column with the id of the object, such as ``volume_type_id``
        """
        return {cinder_rows.comparable(row.get(column)) for row, _ in self.bad}


def check(table: str, rows: Sequence[dict[str, Any]]) -> Checked:
    """Validate and convert the rows of a table in Cinder. Duplicate rows are invalid."""
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
    """Build a finding from a row of a table in Cinder."""
    return Finding(code, table, cinder_rows.identity(table, row), text=text)
