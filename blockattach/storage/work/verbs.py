"""What is declared of an act that goes on after the answer: `work`, a mark on a method.

The method does the act on the backend, under a claim (`blockattach.storage.domain.records.Claim`),
and may be repeated at any time. All else comes with the declaration: see `Verb`.
"""
import dataclasses
from collections.abc import Callable
from typing import Any
from typing import TypeVar

from blockattach.storage.db import storage_db
from blockattach.storage.db import work as work_rows
from blockattach.storage.db import work_verbs
from blockattach.storage.domain import messages
from blockattach.storage.domain import records

_MARK = '__work__'
_Method = TypeVar('_Method', bound=Callable[..., Any])
Failure = Callable[[Any, records.Claim, work_rows.Say], object]
"""Given what has the method, moves a resource, ends its work and says so, in one transaction; it
raises StaleGeneration where the claim has been lost.
"""
Done = Callable[[Any, records.Claim, Any], object]
"""Given what has the method, the claim, and what the method has returned. It may return the claim
of further work on the resource, which the owner continues with at once.
"""


class Failed(Exception):
    """The act will not succeed, and nothing of it is there; also any BackendRefused says so.

    :ivar made: what the method would have returned
    :ivar message: to the user, in the place of the verb's own
    """

    def __init__(self, reason: str, made: object = None,
                 message: messages.Text | None = None) -> None:
        super().__init__(reason)
        self.made = made
        self.message = message


class Left(Exception):
    """This process ends before the act: the next one does it."""


@dataclasses.dataclass(frozen=True, slots=True)
class TakesLong:
    """Returned by a method instead of what it makes: the act may go on for minutes or hours, and
    nothing shall wait for it.

    :ivar rest: does the act, and returns what it has made
    """

    rest: Callable[[], object]


@dataclasses.dataclass(frozen=True, slots=True)
class Verb:
    """One act.

    :ivar name: ``noun.verb``; also in metrics, and in the failpoints ``work.NAME.before`` and
        ``.after``
    :ivar method: of what has it
    :ivar deadline: the option that says for how many seconds an attempt that does not say how it
        ended, or a process that sends no heartbeats, is left alone
    :ivar ends: how the work ends; None: not here, or by ``done`` and ``cancel``
    :ivar done: called when the method has returned and the work has ended, or ends the work
    :ivar failed: ends the work after `Failed` in place of ``ends``, unless it returns False.
        Without both, the work is repeated at the deadline
    :ivar message: the message to the user then, with the reason
    :ivar then: called after ``failed`` with what has the method, the caller, the claim and
        ``made``
    :ivar undo: called with what has the method and what the method has returned where the claim
        was lost meanwhile
    :ivar cancel: ends work that no process has, where that is safe; it raises Conflict elsewhere.
        None, and no ``ends``: it cannot be cancelled
    :ivar cancel_message: the message to the user then, written in the same transaction
    """

    name: str
    method: str
    deadline: str
    ends: work_verbs.Verb | None
    done: Done | None = None
    failed: Failure | None = None
    message: messages.Text | None = None
    then: Callable[..., None] | None = None
    undo: Callable[..., None] | None = None
    cancel: Callable[[storage_db.Database, records.Work, work_rows.Say], object] | None = None
    cancel_message: messages.Text | None = None


def work(name: str, ends: bool = True, **more: Any) -> Callable[[_Method], _Method]:
    """Declare a method to be an act; ``more`` as `Verb` has it.

    The method takes the caller's context and the claim.

    :param ends: False: the method hands the work on, and does not end it
    """
    def declare(method: _Method) -> _Method:
        row = work_verbs.VERBS.get(name) if ends else None
        texts = {} if row is None else {'message': row.failed_message,
                                        'cancel_message': row.cancelled_message}
        setattr(method, _MARK, Verb(name, method.__name__, ends=row, **{**texts, **more}))
        return method
    return declare


def declared(actor: type) -> dict[str, Verb]:
    """The acts of a class, by name."""
    return {verb.name: verb for name in dir(actor)
            if (verb := getattr(getattr(actor, name), _MARK, None)) is not None}
