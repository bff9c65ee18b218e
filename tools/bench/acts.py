"""Operations that clients repeat, with the requests that a consumer sends."""
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
    """Resources that one client thread uses.

    :ivar attachment_id: attachment of the volume; empty if the operation needs none
    """

    volume_id: str = ''
    attachment_id: str = ''
    host: str = 'host-0'
    snapshot_id: str = ''


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """Job of a load process.

    There is one item for each thread, unless ``threads`` is given.

    :param seconds: duration of the measurement
    :param warmup: seconds before the measurement whose operations do not count
    :param path: request path of a list scenario
    :param poll: seconds between the first two polls of a volume that is being created
    :param rounds: number of rounds of scenarios in which all threads start together
    :param hosts: number of hosts that attach in a storm, divided among the threads
    :param first: number of the first of these hosts
    :param stay: True if a storm keeps its attachments
    :param rate: operations to start per second regardless of unfinished ones; 0 to start an
        operation when the last one has ended
    :param threads: number of threads that execute the operation once for each item; 0 to repeat
        the operation for the duration of the job
    :param pools: two pools between which volumes are migrated
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
        """Number of concurrent clients."""
        return self.threads or len(self.items)

    def plain(self) -> dict[str, Any]:
        """Return the job as a dictionary for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def read(cls, values: dict[str, Any]) -> 'Job':
        """Return the job of a dictionary from JSON."""
        return cls(**{**values, 'endpoint': client.Endpoint(**values['endpoint']),
                      'items': tuple(Item(**item) for item in values['items'])})


class Timed(client.Client):
    """API client that records the duration of each step in milliseconds."""

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
        """Wait between two polls."""
        self.clock.wait(self._never, seconds)


def merged(clients: list[Timed]) -> dict[str, list[float]]:
    """Return the durations of all clients by step."""
    found: dict[str, list[float]] = {}
    for one in clients:
        for step, taken in one.steps.items():
            found.setdefault(step, []).extend(taken)
    return found


Act = Callable[[Timed, Item, Job], None]


def connector(host: str) -> dict[str, Any]:
    """Return the connector properties of a host."""
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
    """Complete an attachment."""
    timed.ask('complete', 'POST', f'/attachments/{attachment_id}/action', {'os-complete': {}})


def detach(timed: client.Client, attachment_id: str, also: tuple[int, ...] = ()) -> None:
    """Delete an attachment."""
    timed.ask('delete', 'DELETE', f'/attachments/{attachment_id}', also=also)


def attach_cycle(timed: Timed, item: Item, job: Job) -> None:
    """Create an attachment with a connector, complete it and delete it: three requests."""
    made = attachment_id(attach(timed, item.volume_id, item.host)[1])
    try:
        complete(timed, made)
    finally:
        detach(timed, made)


def reserve_cycle(timed: Timed, item: Item, job: Job) -> None:
    """Create, update, complete and delete an attachment: four requests, as Nova sends them."""
    made = attachment_id(timed.ask('reserve', 'POST', '/attachments', {'attachment': {
        'volume_uuid': item.volume_id, 'instance_uuid': str(uuid.uuid4())}})[1])
    try:
        timed.ask('update', 'PUT', f'/attachments/{made}',
                  {'attachment': {'connector': connector(item.host)}})
        complete(timed, made)
    finally:
        detach(timed, made)


def attachment_id(answer: bytes) -> str:
    """Return the id of the attachment in a response."""
    return str(client.json.loads(answer)['attachment']['id'])


def create_available(timed: Timed, item: Item, job: Job) -> None:
    """Create a volume, wait until it is available, delete it, and wait until it is gone."""
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
    """Request a new volume, and return its id."""
    return str(timed.json('create volume', 'POST', '/volumes', {'volume': {
        'size': 1, 'name': name, 'volume_type': volume_type}})['volume']['id'])


def wait_available(timed: Timed, resource_id: str, poll: float, seconds: float = _WAIT_SECONDS,
                   meanwhile: tuple[str, ...] = ('creating',), noun: str = 'volume') -> None:
    """Poll until a volume or snapshot is available.

    :param resource_id: id of the volume or snapshot
    :param poll: seconds between the first two polls
    :param seconds: timeout
    :param meanwhile: statuses that are allowed until then
    :raises Unexpected: another status, or a timeout
    """
    deadline = timed.clock.monotonic() + seconds
    pauses = _pauses(poll)
    while (status := status_of(timed, resource_id, noun)) != 'available':
        if status not in meanwhile or timed.clock.monotonic() > deadline:
            raise client.Unexpected(f'create {noun}', 0, f'the {noun} is {status}')
        timed.pause(next(pauses))


def wait_gone(timed: Timed, resource_id: str, poll: float, noun: str = 'volume') -> None:
    """Poll until a volume or snapshot no longer exists.

    :param resource_id: id of the volume or snapshot
    :param poll: seconds between the first two polls
    :raises Unexpected: a timeout
    """
    deadline = timed.clock.monotonic() + _WAIT_SECONDS
    pauses = _pauses(poll)
    while timed.ask('look', 'GET', f'/{noun}s/{resource_id}', also=(_NOT_FOUND,))[0] != _NOT_FOUND:
        if timed.clock.monotonic() > deadline:
            raise client.Unexpected(f'delete {noun}', 0, f'the {noun} was not deleted')
        timed.pause(next(pauses))


def _pauses(first: float) -> Iterator[float]:
    """Yield the seconds between polls.

    The intervals grow, so that polling delays neither a fast service nor a slow one.
    """
    while True:
        yield first
        first = min(3 * first, max(first, _LONGEST_PAUSE))


def status_of(timed: client.Client, resource_id: str, noun: str = 'volume') -> str:
    """Return the status of a volume or snapshot."""
    return str(timed.json('look', 'GET', f'/{noun}s/{resource_id}')[noun]['status'])


def show_volume(timed: Timed, item: Item, job: Job) -> None:
    """Show a volume."""
    timed.ask('show volume', 'GET', f'/volumes/{item.volume_id}')


def show_attachment(timed: Timed, item: Item, job: Job) -> None:
    """Show an attachment."""
    timed.ask('show attachment', 'GET', f'/attachments/{item.attachment_id}')


def list_path(timed: Timed, item: Item, job: Job) -> None:
    """List a page of the path of the job."""
    timed.ask('list', 'GET', job.path)


REPEATED: dict[str, Act] = {
    'attach-cycle': attach_cycle,
    'reserve-cycle': reserve_cycle,
    'create-available': create_available,
    'show-volume': show_volume,
    'show-attachment': show_attachment,
    'list': list_path,
}
"""Repeated operations by the name of the scenario in a job."""
