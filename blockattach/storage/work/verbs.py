"""Declaration of asynchronous work by the decorator `work` on a method.

The method executes the work on the backend under a claim
(`blockattach.storage.domain.records.Claim`). It must be idempotent, because the work may be
repeated at any time. Everything else about the work is declared, see `Verb`.
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
"""Function that changes the resource, ends its work and creates the user message, all in one
transaction. Its arguments are the actor (the object with the declared method), the claim, and the
function that creates the message. It raises StaleGeneration if the claim has been lost.
"""
Done = Callable[[Any, records.Claim, Any], object]
"""Function that is called after the method has returned. Its arguments are the actor, the claim,
and the result of the method. It may return the claim of further work on the resource, which the
owner then executes at once.
"""


class Failed(Exception):
    """Raised if the work cannot succeed and has left nothing behind on the backend.

    A BackendRefused error has the same meaning.

    :ivar result: the result that the method would have returned
    :ivar message: user message that replaces the message of the verb; None to keep the latter
    """

    def __init__(self, reason: str, result: object = None,
                 message: messages.Text | None = None) -> None:
        super().__init__(reason)
        self.result = result
        self.message = message


class Left(Exception):
    """Raised if the process stops before the work has ended. The next process resumes the work."""


@dataclasses.dataclass(frozen=True, slots=True)
class TakesLong:
    """Value that a method returns instead of its result if the work may take minutes or hours.

    The runner executes such work in separate threads, so that no other work waits for it.

    :ivar rest: executes the remaining part of the work, and returns the result of the method
    """

    rest: Callable[[], object]


@dataclasses.dataclass(frozen=True, slots=True)
class Verb:
    """Declaration of one kind of work.

    The actor is the object with the declared method.

    :ivar name: ``noun.verb``. Metrics use this name, as do the failpoints ``work.NAME.before`` and
        ``work.NAME.after``
    :ivar method: name of the method of the actor
    :ivar deadline: name of the option with the seconds until other processes may resume the work.
        They resume it after the deadline if the attempt has not reported its end, or if its
        process no longer renews the deadline
    :ivar ends: outcomes of the work in the table of verbs. None if the method hands the work on,
        or if ``done`` and ``cancel`` end the work
    :ivar done: called after the method has returned and the work has ended. Without ``ends``, it
        ends the work itself
    :ivar failed: ends the work after `Failed` instead of ``ends``, unless it returns False. If
        both are None, failed work is repeated after its deadline
    :ivar message: user message of failed work, to which the reason is added
    :ivar then: called after failed work has ended, with the actor, the caller, the claim and
        `Failed.result`
    :ivar undo: called with the actor and the result of the method, if the claim was lost while
        the method was running
    :ivar cancel: ends work that no process executes, instead of ``ends``. It raises Conflict if
        this is not safe. If both are None, the work cannot be cancelled
    :ivar cancel_message: user message of cancelled work, created in the same transaction
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
    """Declare that a method executes work.

    The method is called with the context of the caller and the claim.

    :param name: ``noun.verb``
    :param ends: False if the method hands the work on instead of ending it
    :param more: other fields of `Verb`
    """
    def declare(method: _Method) -> _Method:
        row = work_verbs.VERBS.get(name) if ends else None
        texts = {} if row is None else {'message': row.failed_message,
                                        'cancel_message': row.cancelled_message}
        setattr(method, _MARK, Verb(name, method.__name__, ends=row, **{**texts, **more}))
        return method
    return declare


def declared(actor: type) -> dict[str, Verb]:
    """Return the declarations of the methods of a class, by ``noun.verb``."""
    return {verb.name: verb for name in dir(actor)
            if (verb := getattr(getattr(actor, name), _MARK, None)) is not None}
