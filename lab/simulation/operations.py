"""What is registered of a noun: how clients play it at random, and what is done with it while a
process dies, over the API, over the bus or by blockattach-manage.

Nouns are listed in `lab.simulation.nouns`.
"""
import collections
import contextlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from lab.simulation import clients
from lab.simulation import recording

MANAGER, SCHEDULER, API, CONTROL = 'volume-1', 'scheduler-1', 'api-1', 'control-1'
MANAGE, CONSUMER = 'manage', 'consumer'
PROJECT = '00000000000000000000000000000002'
USER = '00000000000000000000000000000001'
START, STOP = 'start', 'stop'
"""Of each process, by a supervisor: no operation of a client."""


class Operation(NamedTuple):
    """What is done while a process dies.

    `prepare` makes what it needs and is not disturbed; `act` is, so each of its requests may end
    in any way. `undo` comes after all, and is not disturbed. Whatever is left is removed by the
    `Noun.clear` of all nouns.
    ``core``: what the promises are about: a process is killed at each place that it passes, and
    elsewhere only at those that no other operation passes. ``hindered``: places at which a process
    fails all the while, besides.
    ``others``: the manager dies in it anyway. ``again``: how a command may end that is repeated
    after its death.
    """

    name: str
    act: Callable[[recording.Client, Any], object]
    prepare: Callable[[recording.Client], Any] = lambda client: None
    core: bool = False
    hindered: tuple[tuple[str, str], ...] = ()
    undo: Callable[[recording.Client], object] = lambda client: None
    others: bool = False
    again: tuple[int, ...] = (0,)


class Noun(NamedTuple):
    """One of them.

    ``played``: at random; None: it is not. ``operations``: during each of which processes die.
    ``clear`` removes what these have left, and ``left`` says what it could not remove.
    ``commands``: what a command does on a database that is open, by its words.
    ``at_work``: statements that count what is under way.
    ``passed``: failpoints that requests at random must come by, by how they begin; ``rare``: but
    not these. ``unreached``: by pattern those that no operation passes, each with the reason.
    ``seeds``: with their operations, what the gate plays of it (`hunting.FIXED`), together with
    the nouns that it ``needs``. ``in_memory``: why its operations are not walked with processes of
    their own as well (`lab.faults`).
    """

    name: str
    played: type[clients.Played] | None = None
    operations: tuple[Operation, ...] = ()
    clear: Callable[[recording.Client], object] = lambda client: None
    left: Callable[[recording.Client], Iterable[str]] = lambda client: ()
    commands: Mapping[tuple[str, ...], Callable[..., None]] = {}
    at_work: tuple[str, ...] = ()
    passed: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()
    unreached: Mapping[str, str] = {}
    seeds: tuple[tuple[int, int], ...] = ()
    needs: tuple[str, ...] = ()
    in_memory: str = ''


def volume(client: recording.Client) -> str:
    """Made for an operation."""
    return client.volume()


def command(client: recording.Client, words: tuple[str, ...]) -> int | None:
    """Run a process to its end; its exit status."""
    return client.run(*words)


def manage(*arguments: str) -> Callable[[recording.Client], tuple[str, ...]]:
    """A command of the operator."""
    return lambda client: (MANAGE, *arguments)


@contextlib.contextmanager
def hindered(client, operation, *armed):
    """While it lasts, processes fail as the operation wants it, and as is said.

    :param armed: processes, each with PLACE=ACTION
    """
    texts = collections.defaultdict(list)
    for name, text in (*operation.hindered, *armed):
        texts[name].append(text)
    for name, of_process in texts.items():
        client.cloud.switches[name].set(*of_process)
    try:
        yield
    finally:
        for name in texts:
            client.cloud.switches[name].set()
