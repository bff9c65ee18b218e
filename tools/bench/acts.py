"""The operations that clients repeat: each is what a consumer does, request by request."""
import collections
import dataclasses
import threading
import uuid
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

from bench import client
from blockattach.platform import clock as clocks

_WAIT_SECONDS = 30.0
_LONGEST_PAUSE = 0.4
_NOT_FOUND = 404


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """What one thread works on: a volume of its own, and where needed an attachment of it."""

    volume_id: str = ''
    attachment_id: str = ''
    host: str = 'host-0'
    snapshot_id: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """What a load process gets to do. ``items`` has one for each thread, unless there are
    ``threads``.

    :param threads: how many do the act once on each item; 0: it is repeated until the time is over
    :param pools: two of them: volumes are moved from one to the other
    :param path: what a list scenario asks for
    :param poll: seconds between the first two looks at a volume that is being made
    :param rounds: of the scenarios in which all threads meet
    :param hosts: how many join in a storm; they are shared out among the threads
    :param first: the number of the first of them
    :param stay: a storm leaves its attachments
    :param rate: operations a second that are begun, whatever becomes of them; 0: as they end
    """

    scenario: str
    endpoint: client.Endpoint
    items: tuple[Item, ...]
    seconds: float = 1
    warmup: float = 0
    path: str = ''
    volume_type: str = ''
    poll: float = 0.03
    rounds: int = 1
    hosts: int = 0
    first: int = 0
    stay: bool = False
    rate: float = 0
    threads: int = 0
    pools: tuple[str, ...] = ()

    @property
    def clients(self) -> int:
        """How many are at work at once."""
        return self.threads or len(self.items)

    def plain(self) -> dict[str, Any]:
        """As JSON carries it."""
        return dataclasses.asdict(self)

    @classmethod
    def read(cls, values: dict[str, Any]) -> 'Job':
        """From what JSON carried."""
        return cls(**{**values, 'endpoint': client.Endpoint(**values['endpoint']),
                      'items': tuple(Item(**item) for item in values['items'])})


class Timed(client.Client):
    """A client that remembers how long each step took, in milliseconds."""

    def __init__(self, endpoint: client.Endpoint, clock: clocks.Clock) -> None:
        super().__init__(endpoint)
        self.clock = clock
        self.steps: dict[str, list[float]] = collections.defaultdict(list)
        self._never = threading.Event()

    def ask(self, step: str, method: str, path: str, body: Any = None,
            also: tuple[int, ...] = ()) -> tuple[int, bytes]:
        begin = self.clock.monotonic()
        answer = super().ask(step, method, path, body, also)
        self.steps[step].append((self.clock.monotonic() - begin) * 1000)
        return answer

    def pause(self, seconds: float) -> None:
        """Let time pass between two looks."""
        self.clock.wait(self._never, seconds)


def merged(clients: list[Timed]) -> dict[str, list[float]]:
    """The steps of many clients."""
    found: dict[str, list[float]] = {}
    for one in clients:
        for step, taken in one.steps.items():
            found.setdefault(step, []).extend(taken)
    return found


Act = Callable[[Timed, Item, Job], None]


def connector(host: str) -> dict[str, Any]:
    """The connector of a host."""
    return {'initiator': f'iqn.2026-01.org.example:{host}', 'host': host, 'ip': '192.0.2.20',
            'platform': 'x86_64', 'os_type': 'linux', 'multipath': False,
            'mountpoint': '/dev/vdb', 'mode': 'rw'}


def attach(timed: client.Client, volume_id: str, host: str, also: tuple[int, ...] = (),
           instance: str | None = None) -> tuple[int, bytes]:
    """Create an attachment with a connector."""
    return timed.ask('create', 'POST', '/attachments', {'attachment': {
        'volume_uuid': volume_id, 'instance_uuid': instance or str(uuid.uuid4()),
        'connector': connector(host)}}, also)


def complete(timed: client.Client, attachment_id: str) -> None:
    """The host has plugged it in."""
    timed.ask('complete', 'POST', f'/attachments/{attachment_id}/action', {'os-complete': {}})


def detach(timed: client.Client, attachment_id: str, also: tuple[int, ...] = ()) -> None:
    """Delete an attachment."""
    timed.ask('delete', 'DELETE', f'/attachments/{attachment_id}', also=also)


def attach_cycle(timed: Timed, item: Item, job: Job) -> None:
    """Create with a connector, complete, delete: three requests."""
    made = attachment_id(attach(timed, item.volume_id, item.host)[1])
    try:
        complete(timed, made)
    finally:
        detach(timed, made)


def reserve_cycle(timed: Timed, item: Item, job: Job) -> None:
    """Create, update with a connector, complete, delete: as Nova does it, four requests."""
    made = attachment_id(timed.ask('reserve', 'POST', '/attachments', {'attachment': {
        'volume_uuid': item.volume_id, 'instance_uuid': str(uuid.uuid4())}})[1])
    try:
        timed.ask('update', 'PUT', f'/attachments/{made}',
                  {'attachment': {'connector': connector(item.host)}})
        complete(timed, made)
    finally:
        detach(timed, made)


def attachment_id(answer: bytes) -> str:
    """Of the attachment in an answer."""
    return str(client.json.loads(answer)['attachment']['id'])


def create_available(timed: Timed, item: Item, job: Job) -> None:
    """Create a volume, wait until it is available, delete it, wait until it is gone."""
    begin = timed.clock.monotonic()
    volume_id = create_volume(timed, job.volume_type)
    try:
        wait_available(timed, volume_id, job.poll)
    except client.Unexpected:
        timed.ask('delete volume', 'DELETE', f'/volumes/{volume_id}', also=(400, _NOT_FOUND, 409))
        raise
    timed.steps['to available'].append((timed.clock.monotonic() - begin) * 1000)
    begin = timed.clock.monotonic()
    timed.ask('delete volume', 'DELETE', f'/volumes/{volume_id}')
    wait_gone(timed, volume_id, job.poll)
    timed.steps['to gone'].append((timed.clock.monotonic() - begin) * 1000)


def create_volume(timed: client.Client, volume_type: str, name: str = 'bench') -> str:
    """The id of a volume that is being made."""
    return str(timed.json('create volume', 'POST', '/volumes', {'volume': {
        'size': 1, 'name': name, 'volume_type': volume_type}})['volume']['id'])


def wait_available(timed: Timed, made: str, poll: float, seconds: float = _WAIT_SECONDS,
                   meanwhile: tuple[str, ...] = ('creating',), noun: str = 'volume') -> None:
    """Look until the volume, or snapshot, is there, or free again.

    :param meanwhile: the statuses it may have until then
    :raises Unexpected: it will not be
    """
    deadline = timed.clock.monotonic() + seconds
    pauses = _pauses(poll)
    while (status := status_of(timed, made, noun)) != 'available':
        if status not in meanwhile or timed.clock.monotonic() > deadline:
            raise client.Unexpected(f'create {noun}', 0, f'the {noun} is {status}')
        timed.pause(next(pauses))


def wait_gone(timed: Timed, made: str, poll: float, noun: str = 'volume') -> None:
    """Look until nothing is there.

    :raises Unexpected: it stays
    """
    deadline = timed.clock.monotonic() + _WAIT_SECONDS
    pauses = _pauses(poll)
    while timed.ask('look', 'GET', f'/{noun}s/{made}', also=(_NOT_FOUND,))[0] != _NOT_FOUND:
        if timed.clock.monotonic() > deadline:
            raise client.Unexpected(f'delete {noun}', 0, f'the {noun} was not deleted')
        timed.pause(next(pauses))


def _pauses(first: float) -> Iterator[float]:
    """Seconds between polls: after a long wait they are rare, so that polling delays neither a
    quick service nor a slow one."""
    while True:
        yield first
        first = min(3 * first, max(first, _LONGEST_PAUSE))


def status_of(timed: client.Client, made: str, noun: str = 'volume') -> str:
    """The status of a volume, or snapshot."""
    return str(timed.json('look', 'GET', f'/{noun}s/{made}')[noun]['status'])


def show_volume(timed: Timed, item: Item, job: Job) -> None:
    """One volume by its id."""
    timed.ask('show volume', 'GET', f'/volumes/{item.volume_id}')


def show_attachment(timed: Timed, item: Item, job: Job) -> None:
    """One attachment by its id."""
    timed.ask('show attachment', 'GET', f'/attachments/{item.attachment_id}')


def list_path(timed: Timed, item: Item, job: Job) -> None:
    """A page of whatever the job names."""
    timed.ask('list', 'GET', job.path)


REPEATED: dict[str, Act] = {
    'attach-cycle': attach_cycle,
    'reserve-cycle': reserve_cycle,
    'create-available': create_available,
    'show-volume': show_volume,
    'show-attachment': show_attachment,
    'list': list_path,
}
"""By what a job calls them."""
