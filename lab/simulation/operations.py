"""Registration of a noun: its random play by clients, and its operations for killing processes.

An operation goes over the API, over the bus, or runs blockattach-manage. `lab.simulation.nouns`
lists the nouns.
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
"""Start and stop of a process by a supervisor, which are not operations of a client."""


class Operation(NamedTuple):
    """Operation during which a process dies.

    `prepare` creates what the operation needs, and is not disturbed. `act` is disturbed, so that
    each of its requests may end in any way. `undo` follows at the end, and is not disturbed. The
    `Noun.clear` of all nouns removes the remaining resources.

    ``core``: the promises concern this operation. A process is killed at each place that it passes
    in a core operation, and in another one only at places that no earlier operation passes.
    ``hindered``: the places at which a process fails during the whole operation. ``others``: the
    operation itself kills the volume manager. ``again``: the exit statuses allowed for a command
    that is repeated after its death.
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
    """Noun of the API, with all that tests know of it.

    ``played``: the class of its random play; None if it is not played. ``operations``: operations
    during each of which processes die. ``clear`` removes the resources that these have created,
    and ``left`` describes those that it could not remove. ``commands``: by command words, the
    function of a command on an open database. ``at_work``: SQL statements that count the work
    under way. ``passed``: prefixes of failpoints that random requests must pass. ``rare``:
    exceptions from these. ``unreached``: by pattern, the reason why no operation passes a
    failpoint. ``seeds``: the seeds and numbers of operations that the gate runs (`hunting.FIXED`),
    together with the nouns in ``needs``. ``in_memory``: the reason why its operations are not run
    with real processes too (`lab.faults`).
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
    """Create a volume for an operation."""
    return client.volume()


def command(client: recording.Client, words: tuple[str, ...]) -> int | None:
    """Run a process to its end, and return its exit status."""
    return client.run(*words)


def manage(*arguments: str) -> Callable[[recording.Client], tuple[str, ...]]:
    """Return the preparation of an operation that runs blockattach-manage."""
    return lambda client: (MANAGE, *arguments)


@contextlib.contextmanager
def hindered(client, operation, *armed):
    """Inject the faults of an operation into processes, while the context lasts.

    :param armed: additional faults, each a process and PLACE=ACTION
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
