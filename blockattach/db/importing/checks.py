"""Checks of the rows of a Cinder database, before anything is made of them."""
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from blockattach.db.importing import report
from blockattach.domain import cinder_rows

Rows = list[dict[str, Any]]


class Checked(NamedTuple):
    """Rows of one table.

    :ivar good: with their values as they are used
    :ivar bad: as they were read, each with the findings about it
    """

    good: Rows
    bad: list[tuple[dict[str, Any], list[report.Finding]]]

    @property
    def findings(self) -> list[report.Finding]:
        """All findings."""
        return [one for _, found in self.bad for one in found]

    def owners(self, column: str) -> set[Any]:
        """Return the rows on which bad ones hang, by this column."""
        return {cinder_rows.comparable(row.get(column)) for row, _ in self.bad}


def check(table: str, rows: Sequence[dict[str, Any]]) -> Checked:
    """Sort rows of a table into good and bad ones."""
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
    """Return a finding about a row."""
    return report.Finding(code, table, cinder_rows.identity(table, row), text=text)
