"""Validation of the rows of a Cinder database before their import."""
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from blockattach.storage.db.importing import report
from blockattach.storage.domain import cinder_rows

Rows = list[dict[str, Any]]


class Checked(NamedTuple):
    """Checked rows of one table.

    :ivar good: valid rows with converted values
    :ivar bad: invalid rows as read, each with its findings
    """

    good: Rows
    bad: list[tuple[dict[str, Any], list[report.Finding]]]

    @property
    def findings(self) -> list[report.Finding]:
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


def finding(table: str, row: cinder_rows.Row, code: str, text: str = '') -> report.Finding:
    """Build a finding about a row."""
    return report.Finding(code, table, cinder_rows.identity(table, row), text=text)
