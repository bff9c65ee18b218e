"""The load that `tools/benchmark` puts on a service: a process of its own, told by JSON.

Reads a job (one line) from standard input, opens its connections and says ``ready``; begins with
the next line, and ends by printing how long each operation took and what went wrong.
"""
import collections
import dataclasses
import http.client
import json
import sys
import threading
import urllib.parse
import uuid
from collections.abc import Callable
from typing import Any

from blockattach import clock

_TIMEOUT_SECONDS = 30
_ERRORS_KEPT = 5


class Unexpected(Exception):
    """The service answered otherwise than the operation must be answered."""


class Client:
    """One keep-alive connection. ``url`` ends with the version, or with a project behind it."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self._prefix = parts.path.rstrip('/')
        self._connection = http.client.HTTPConnection(
            parts.hostname or '', parts.port or 80, timeout=_TIMEOUT_SECONDS)
        self._headers = {'OpenStack-API-Version': 'volume 3.71', 'Accept': 'application/json',
                         'Content-Type': 'application/json'}
        project = self._prefix.rpartition('/v3')[2].strip('/')
        if project:
            self._headers['X-Auth-Token'] = f'benchmark:{project}'

    def ask(self, status: int, method: str, path: str, body: Any = None) -> bytes:
        """The body of the answer.

        :raises Unexpected: the status is another
        :raises OSError: the connection failed
        """
        text = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, self._prefix + path, text, self._headers)
            response = self._connection.getresponse()
            answer = response.read()
        except http.client.HTTPException as exc:
            self._connection.close()
            raise Unexpected(f'{method} {path}: {type(exc).__name__}') from exc
        except OSError:
            self._connection.close()
            raise
        if response.status != status:
            raise Unexpected(f'{method} {path.partition("?")[0]}: {response.status} '
                             f'{answer[:200].decode(errors="replace")}')
        return answer

    def ask_json(self, status: int, method: str, path: str, body: Any = None) -> Any:
        """The same, read."""
        return json.loads(self.ask(status, method, path, body))

    def close(self) -> None:
        """Give the connection back."""
        self._connection.close()


@dataclasses.dataclass(frozen=True, slots=True)
class Item:
    """What one thread works on: a volume of its own, and where needed an attachment of it."""

    volume_id: str
    attachment_id: str
    host: str


def connector(host: str) -> dict[str, Any]:
    """What a host tells of itself."""
    return {'initiator': f'iqn.2026-01.org.example:{host}', 'host': host, 'ip': '127.0.0.1',
            'platform': 'x86_64', 'os_type': 'linux', 'multipath': False,
            'mountpoint': '/dev/vdb'}


def attach_cycle(client: Client, item: Item) -> None:
    """Create with a connector, complete, delete: three requests."""
    body = {'attachment': {'volume_uuid': item.volume_id, 'instance_uuid': str(uuid.uuid4()),
                           'connector': connector(item.host)}}
    created = client.ask_json(200, 'POST', '/attachments', body)['attachment']['id']
    _finish(client, created, lambda: None)


def attach_reserve(client: Client, item: Item) -> None:
    """Create, update with a connector, complete, delete: as Nova does it, four requests."""
    body = {'attachment': {'volume_uuid': item.volume_id, 'instance_uuid': str(uuid.uuid4())}}
    created = client.ask_json(200, 'POST', '/attachments', body)['attachment']['id']
    connected = {'attachment': {'connector': connector(item.host)}}
    _finish(client, created, lambda: client.ask(200, 'PUT', f'/attachments/{created}', connected))


def _finish(client: Client, attachment_id: str, connect: Callable[[], object]) -> None:
    """The volume is free again in the end, also when a step went wrong."""
    try:
        connect()
        client.ask(204, 'POST', f'/attachments/{attachment_id}/action', {'os-complete': None})
    finally:
        client.ask(200, 'DELETE', f'/attachments/{attachment_id}')


def show_volume(client: Client, item: Item) -> None:
    """One volume by its id."""
    client.ask(200, 'GET', f'/volumes/{item.volume_id}')


def show_attachment(client: Client, item: Item) -> None:
    """One attachment by its id."""
    client.ask(200, 'GET', f'/attachments/{item.attachment_id}')


def list_detail(client: Client, _item: Item) -> None:
    """The first page of all volumes with all that is known of them; the page has 1,000."""
    client.ask(200, 'GET', '/volumes/detail')


SCENARIOS: dict[str, Callable[[Client, Item], None]] = {
    'attach-cycle': attach_cycle,
    'attach-reserve': attach_reserve,
    'show-volume': show_volume,
    'show-attachment': show_attachment,
    'list-detail': list_detail,
}


class Load:
    """Threads that repeat one scenario until the time is over."""

    def __init__(self, scenario: str, url: str, seconds: float, items: list[Item]) -> None:
        self._act = SCENARIOS[scenario]
        self._url = url
        self._seconds = seconds
        self._items = items
        self._clock = clock.Clock()
        self._lock = threading.Lock()
        self.milliseconds: list[float] = []
        self.errors: collections.Counter[str] = collections.Counter()
        self.seconds = 0.0

    def run(self) -> None:
        """Return when the last operation that was begun in time has ended."""
        begin = self._clock.monotonic()
        threads = [threading.Thread(target=self._repeat, args=(item, begin + self._seconds))
                   for item in self._items]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.seconds = self._clock.monotonic() - begin

    def _repeat(self, item: Item, end: float) -> None:
        client = Client(self._url)
        taken: list[float] = []
        errors: collections.Counter[str] = collections.Counter()
        while (begin := self._clock.monotonic()) < end:
            try:
                self._act(client, item)
            except (Unexpected, OSError, ValueError) as exc:
                errors[str(exc) or type(exc).__name__] += 1
            else:
                taken.append((self._clock.monotonic() - begin) * 1000)
        client.close()
        with self._lock:
            self.milliseconds += taken
            self.errors += errors


def main() -> int:
    """Do one job."""
    job = json.loads(sys.stdin.readline())
    load = Load(job['scenario'], job['url'], job['seconds'],
                [Item(**item) for item in job['items']])
    print('ready', flush=True)
    sys.stdin.readline()
    load.run()
    print(json.dumps({'milliseconds': load.milliseconds, 'seconds': load.seconds,
                      'failed': sum(load.errors.values()),
                      'errors': dict(load.errors.most_common(_ERRORS_KEPT))}))
    return 0


if __name__ == '__main__':
    sys.exit(main())
