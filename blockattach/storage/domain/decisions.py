"""Rules as tables: the first row whose condition holds decides."""
from collections.abc import Callable
from collections.abc import Iterable
from typing import Generic
from typing import NamedTuple
from typing import TypeVar

Facts = TypeVar('Facts')
Outcome = TypeVar('Outcome')


class Row(NamedTuple, Generic[Facts, Outcome]):
    """One row of a table over ``Facts``. Rows of one number belong together."""

    number: int
    condition: Callable[[Facts], bool]
    outcome: Outcome


def decide(table: Iterable[Row[Facts, Outcome]], facts: Facts) -> Row[Facts, Outcome]:
    """The row that decides. A table ends with a row that always holds."""
    return next(row for row in table if row.condition(facts))
