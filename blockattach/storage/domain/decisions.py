"""Decision tables: the first row whose condition holds decides."""
from collections.abc import Callable
from collections.abc import Iterable
from typing import Generic
from typing import NamedTuple
from typing import TypeVar

Facts = TypeVar('Facts')
Outcome = TypeVar('Outcome')


class Row(NamedTuple, Generic[Facts, Outcome]):
    """Row of a decision table.

    :ivar number: number of the row for logs and comments. Several rows may share a number
    :ivar condition: function that returns True if the row applies to the facts
    """

    number: int
    condition: Callable[[Facts], bool]
    outcome: Outcome


def decide(table: Iterable[Row[Facts, Outcome]], facts: Facts) -> Row[Facts, Outcome]:
    """Return the first row whose condition holds. The last row of a table must always hold."""
    return next(row for row in table if row.condition(facts))
