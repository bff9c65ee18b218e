"""Client that sends the requests of a scenario to the real API, and remembers the answers.

Each noun (`nouns`) compares the rows with these answers afterwards. So each scenario checks more
than its own assertions.
"""
from collections.abc import Callable
from typing import Any

from lab.simulation import clients

_REPEATED = (0, 409, 500, 503, 504)
_TRIES = 60


class Consumer:
    """Client of one cloud."""

    def __init__(self, consumers: clients.Consumers, wait: Callable[[float], object]) -> None:
        """
        :param wait: lets the given number of seconds pass
        """
        self._all = consumers
        self._wait = wait

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None,
            ) -> clients.Answer:
        """Send a request once, and return the answer.

        :param key: the idempotency key of the request
        """
        headers = {} if key is None else {'HTTP_IDEMPOTENCY_KEY': key}
        for noun in self._all.nouns:
            if (answer := noun.asked(method, path, body, headers)) is not None:
                return answer
        return self._all.ask(method, path, body, headers)

    def sure(self, expected: tuple[int, ...], method: str, path: str, body: Any = None) -> Any:
        """Repeat a request until its status is one of the expected, and return the body.

        :raises AssertionError: if the request fails otherwise, or too often
        """
        for _ in range(_TRIES):
            answer = self.ask(method, path, body)
            if answer.status in expected:
                return answer.body
            if answer.status not in _REPEATED:
                break
            self._wait(1.0)
        raise AssertionError(f'{method} {path} returned {answer}')

    def volume(self, volume_type: str | None = clients.MULTIATTACH, **wanted: Any) -> str:
        """Create a volume, wait until it is available, and return its ID."""
        kind = {} if volume_type is None else {'volume_type': volume_type}
        made = self.sure((202,), 'POST', '/volumes',
                         {'volume': {'size': 1, **kind, **wanted}})['volume']['id']
        status = self.settled(made)
        assert status == 'available', f'volume {made} is {status}'
        return str(made)

    def settled(self, volume_id: str) -> str | None:
        """Wait until a volume is neither being created nor being deleted.

        :returns: the status of the volume; None if it is gone
        """
        for _ in range(_TRIES * 10):
            answer = self.ask('GET', f'/volumes/{volume_id}')
            if answer.status == 404:
                return None
            if answer.status == 200:
                status = str(answer.body['volume']['status'])
                if status not in ('creating', 'deleting'):
                    return status
            self._wait(0.5)
        raise AssertionError(f'volume {volume_id} stays in transition: {answer.body}')

    def shown(self, volume_id: str) -> dict[str, Any]:
        """Return a volume as an administrator sees it."""
        return dict(self.sure((200,), 'GET', f'/volumes/{volume_id}')['volume'])

    def reserve(self, volume_id: str, host: str = 'a', **more: Any) -> str:
        """Create an attachment without a connector, and return its ID."""
        made = self.sure((200,), 'POST', '/attachments', wish(volume_id, host, False, **more))
        return str(made['attachment']['id'])

    def attach(self, volume_id: str, host: str = 'a', **more: Any) -> str:
        """Create a connected attachment, and return its ID."""
        made = self.sure((200,), 'POST', '/attachments', wish(volume_id, host, **more))
        return str(made['attachment']['id'])

    def connect(self, attachment_id: str, host: str = 'a') -> clients.Answer:
        """Send one request that connects an attachment to a host."""
        return self.ask('PUT', f'/attachments/{attachment_id}',
                        {'attachment': {'connector': clients.connector(host)}})

    def complete(self, attachment_id: str) -> None:
        self.sure((204,), 'POST', f'/attachments/{attachment_id}/action', {'os-complete': None})

    def detach(self, attachment_id: str) -> None:
        """Delete an attachment, with as many requests as are needed."""
        self.sure((200, 404), 'DELETE', f'/attachments/{attachment_id}')

    def status(self, attachment_id: str) -> str | None:
        """Return the status of an attachment; None if it is gone."""
        return self.statuses().get(attachment_id)

    def statuses(self) -> dict[str, str]:
        """Return the status of each attachment by ID."""
        return {one['id']: one['status'] for one in self.sure(
            (200,), 'GET', '/attachments/detail')['attachments']}


def instance(host: str) -> str:
    """Return the ID of the only server that runs on a host."""
    return clients.server(int.from_bytes(host.encode()[-5:], 'big'))


def wish(volume_id: str, host: str, connected: bool = True, **more: Any) -> dict[str, Any]:
    """Return the body of a request that creates an attachment."""
    wanted: dict[str, Any] = {'volume_uuid': volume_id, 'instance_uuid': instance(host), **more}
    if connected:
        wanted['connector'] = clients.connector(host)
    return {'attachment': wanted}
