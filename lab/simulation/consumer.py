"""A client that asks for what a scenario wants, over the real API; what it is answered is
remembered.

Each noun (`nouns`) holds it against the rows afterwards, so that each scenario asserts more than
its own line.
"""
from collections.abc import Callable
from typing import Any

from lab.simulation import clients

_REPEATED = (0, 409, 500, 503, 504)
_TRIES = 60


class Consumer:
    """Of one cloud."""

    def __init__(self, consumers: clients.Consumers, wait: Callable[[float], object]) -> None:
        """
        :param wait: lets so many seconds pass
        """
        self._all = consumers
        self._wait = wait

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None,
            ) -> clients.Answer:
        """One request, made once.

        :param key: the name under which it may be sent again
        """
        headers = {} if key is None else {'HTTP_IDEMPOTENCY_KEY': key}
        for noun in self._all.nouns:
            if (answer := noun.asked(method, path, body, headers)) is not None:
                return answer
        return self._all.ask(method, path, body, headers)

    def sure(self, expected: tuple[int, ...], method: str, path: str, body: Any = None) -> Any:
        """The body of the answer to a request that is made until it is answered so.

        :raises AssertionError: it is answered otherwise, or never so
        """
        for _ in range(_TRIES):
            answer = self.ask(method, path, body)
            if answer.status in expected:
                return answer.body
            if answer.status not in _REPEATED:
                break
            self._wait(1.0)
        raise AssertionError(f'{method} {path} is answered {answer}')

    def volume(self, volume_type: str | None = clients.MULTIATTACH, **wanted: Any) -> str:
        """The id of a volume that is available."""
        kind = {} if volume_type is None else {'volume_type': volume_type}
        made = self.sure((202,), 'POST', '/volumes',
                         {'volume': {'size': 1, **kind, **wanted}})['volume']['id']
        status = self.settled(made)
        assert status == 'available', f'volume {made} is {status}'
        return str(made)

    def settled(self, volume_id: str) -> str | None:
        """The status of a volume that nobody makes or removes any more; None: it is gone."""
        for _ in range(_TRIES * 10):
            answer = self.ask('GET', f'/volumes/{volume_id}')
            if answer.status == 404:
                return None
            if answer.status == 200:
                status = str(answer.body['volume']['status'])
                if status not in ('creating', 'deleting'):
                    return status
            self._wait(0.5)
        raise AssertionError(f'volume {volume_id} is {answer.body} for ever')

    def shown(self, volume_id: str) -> dict[str, Any]:
        """A volume as an administrator sees it."""
        return dict(self.sure((200,), 'GET', f'/volumes/{volume_id}')['volume'])

    def reserve(self, volume_id: str, host: str = 'a', **more: Any) -> str:
        """The id of an attachment without a connector."""
        made = self.sure((200,), 'POST', '/attachments', wish(volume_id, host, False, **more))
        return str(made['attachment']['id'])

    def attach(self, volume_id: str, host: str = 'a', **more: Any) -> str:
        """The id of an attachment that is connected."""
        made = self.sure((200,), 'POST', '/attachments', wish(volume_id, host, **more))
        return str(made['attachment']['id'])

    def connect(self, attachment_id: str, host: str = 'a') -> clients.Answer:
        """Ask once to let a host in."""
        return self.ask('PUT', f'/attachments/{attachment_id}',
                        {'attachment': {'connector': clients.connector(host)}})

    def complete(self, attachment_id: str) -> None:
        """Say that it is used."""
        self.sure((204,), 'POST', f'/attachments/{attachment_id}/action', {'os-complete': None})

    def detach(self, attachment_id: str) -> None:
        """End an attachment, however often that must be asked."""
        self.sure((200, 404), 'DELETE', f'/attachments/{attachment_id}')

    def status(self, attachment_id: str) -> str | None:
        """Of an attachment, as it is shown; None: it is gone."""
        return self.statuses().get(attachment_id)

    def statuses(self) -> dict[str, str]:
        """Of all attachments, by their ids."""
        return {one['id']: one['status'] for one in self.sure(
            (200,), 'GET', '/attachments/detail')['attachments']}


def instance(host: str) -> str:
    """The server that a host runs: one for each."""
    return clients.server(int.from_bytes(host.encode()[-5:], 'big'))


def wish(volume_id: str, host: str, connected: bool = True, **more: Any) -> dict[str, Any]:
    """The body of a request to attach."""
    wanted: dict[str, Any] = {'volume_uuid': volume_id, 'instance_uuid': instance(host), **more}
    if connected:
        wanted['connector'] = clients.connector(host)
    return {'attachment': wanted}
