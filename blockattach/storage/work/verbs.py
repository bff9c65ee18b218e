"""Declaration of asynchronous work by the decorator `work` on a method.

The method executes the work on the backend under a claim
(`blockattach.storage.domain.records.Claim`). It must be idempotent, because the work may be
repeated at any time. The decorator declares how the work ends, fails and is cancelled (`Verb`). A
kind of work is named ``noun.verb``, such as ``volume.extend``.
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
"""Function that ends failed work.

In one transaction, it changes the resource, deletes the work item and creates the user message.
Its arguments are the actor (the object with the declared method), the claim, and the function that
creates the message. It raises StaleGeneration if the claim has been lost.
"""
Done = Callable[[Any, records.Claim, Any], object]
"""Function that is called after the declared method has returned.

Its arguments are the actor, the claim, and the result of the method. It may return the claim on
further work on the resource. The runner then executes this work at once.
"""


class Failed(Exception):
    """Raised if the work cannot succeed and has left nothing on the backend.

    A BackendRefused error has the same meaning.

    :ivar result: value that is passed to `Verb.then`, or to `Verb.undo` if the claim was lost
    :ivar message: user message that replaces `Verb.message`; None to use `Verb.message`
    """

    def __init__(self, reason: str, result: object = None,
                 message: messages.Text | None = None) -> None:
        super().__init__(reason)
        self.result = result
        self.message = message


class Left(Exception):
    """Raised if the process stops before the work has ended. Another process resumes the work."""


@dataclasses.dataclass(frozen=True, slots=True)
class TakesLong:
    """Value that a method returns instead of its result if the work may take minutes or hours.

    The runner executes such work in separate threads, so that no other work waits for it.

    :ivar rest: function that executes the remaining part of the work, and returns the result of
        the method
    """

    rest: Callable[[], object]


@dataclasses.dataclass(frozen=True, slots=True)
class Verb:
    """Declaration of one kind of work.

    The actor is the object with the declared method.

    :ivar name: ``noun.verb``. Metrics use this name, and so do the failpoints ``work.NAME.before``
        and ``work.NAME.after``
    :ivar method: name of the method of the actor
    :ivar deadline: name of the option with the seconds until the deadline of the work. Another
        process may resume the work after the deadline, unless the owner has ended the work or has
        renewed the deadline
    :ivar ends: outcomes of the work in `blockattach.storage.db.work_verbs.VERBS`. None if the
        method passes the work on to another process, or if ``done`` and ``cancel`` end the work
    :ivar done: called after the method has returned. If ``ends`` has an outcome for success, the
        work has ended before the call. Otherwise, ``done`` must end the work
    :ivar failed: ends the work after `Failed` instead of ``ends``, unless it returns False. If
        ``failed`` is None and ``ends`` has no outcome for failed work, the work is repeated after
        its deadline
    :ivar message: user message about failed work, to which the reason is added
    :ivar then: called after failed work has ended, with the actor, the caller, the claim and
        `Failed.result`
    :ivar undo: called with the actor and the result of the method if the claim was lost while the
        method was running
    :ivar cancel: ends work that an operator cancels, instead of ``ends``. It raises Conflict if
        the cancellation is not safe. If ``cancel`` and ``ends`` are both None, the work cannot be
        cancelled
    :ivar cancel_message: user message about cancelled work
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
    """Declare that a method executes one kind of work.

    The method is called with the context of the caller and the claim.

    :param name: ``noun.verb``
    :param ends: False to ignore the outcomes in `blockattach.storage.db.work_verbs.VERBS`, because
        the method passes the work on to another process
    :param more: values of other fields of `Verb`
    """
    def declare(method: _Method) -> _Method:
        row = work_verbs.VERBS.get(name) if ends else None
        texts = {} if row is None else {'message': row.failed_message,
                                        'cancel_message': row.cancelled_message}
        setattr(method, _MARK, Verb(name, method.__name__, ends=row, **{**texts, **more}))
        return method
    return declare


def declared(actor: type) -> dict[str, Verb]:
    """Return the declarations of work by the methods of a class, by ``noun.verb``."""
    return {verb.name: verb for name in dir(actor)
            if (verb := getattr(getattr(actor, name), _MARK, None)) is not None}
