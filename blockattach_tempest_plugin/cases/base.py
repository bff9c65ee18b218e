"""Base class of the test cases, with helpers for volumes, attachments and concurrent requests."""
import threading
import unittest
import uuid
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import ClassVar

from blockattach_tempest_plugin import client
from blockattach_tempest_plugin import clouds
from blockattach_tempest_plugin import promised

# Cinder sends `computeFault` with 406, and clients expect this key.
KEYS = {400: 'badRequest', 403: 'forbidden', 404: 'itemNotFound', 406: 'computeFault',
        409: 'conflictingRequest', 415: 'badMediaType'}
"""Key of the response body of a failure, by status code."""


def connector(host: str = 'one', **more: Any) -> dict[str, Any]:
    """Return the connector of a host."""
    return {'initiator': f'iqn.2026-01.org.example:{clouds.PREFIX}{host}', 'ip': '192.0.2.1',
            'host': f'{clouds.PREFIX}{host}', **more}


def server() -> str:
    """Return the ID of a server that does not exist."""
    return str(uuid.uuid4())


def cases(check: str, table: Iterable[tuple[Any, ...]]) -> Callable[[type], type]:
    """Return a class decorator that adds a test method for each row of a table.

    :param check: name of the method that a test calls
    :param table: rows, each with the sentence that names the test and the arguments of ``check``
    """
    def add(group: type) -> type:
        for sentence, *arguments in table:
            setattr(group, f'test_{sentence}', _case(check, arguments))
        return group
    return add


def _case(check: str, arguments: list[Any]) -> Callable[[Any], None]:
    def case(self: Any) -> None:
        getattr(self, check)(*arguments)
    return case


def at_once(*calls: Callable[[], client.Answer]) -> list[client.Answer]:
    """Make calls concurrently, and return their answers in the same order.

    An exception of a call is raised in the calling thread.
    """
    answers: list[client.Answer | BaseException] = [AssertionError('no answer')] * len(calls)
    barrier = threading.Barrier(len(calls))

    def run(number: int, call: Callable[[], client.Answer]) -> None:
        try:
            barrier.wait()
            answers[number] = call()
        except BaseException as exc:  # noqa: BLE001, it is raised by the thread of the case
            answers[number] = exc

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = []
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
        found.append(answer)
    return found


class Cases(unittest.TestCase):
    """Group of test cases. A runner derives a class that has a cloud."""

    cloud: ClassVar[clouds.Cloud]

    def setUp(self) -> None:
        """Skip the case if only blockattach guarantees its behavior, and the service is another.

        With `clouds.Cloud.shows_differences`, no case is skipped for this reason.
        """
        super().setUp()
        self.api = self.cloud.member
        name = self._testMethodName
        if (name in promised.PROMISED and self.cloud.extension is None
                and not self.cloud.shows_differences):
            self.skipTest('the behavior is guaranteed by blockattach only')

    def volume(self, owner: client.Client | None = None, **fields: Any) -> str:
        """Create a volume, and return its ID. The volume is deleted after the test."""
        return self._new(False, owner, **fields)

    def shared_volume(self, owner: client.Client | None = None) -> str:
        """Create a multiattach volume, and return its ID. The volume is deleted after the test."""
        if self.cloud.multiattach_type is None:
            self.skipTest('no multiattach volume type is available')
        return self._new(True, owner)

    def _new(self, multiattach: bool, owner: client.Client | None, **fields: Any) -> str:
        volume_id = self.cloud.a_volume(multiattach, owner, **fields)
        self.addCleanup(self.cloud.discard, volume_id)
        return volume_id

    def needs(self, caller: client.Client | None, what: str) -> client.Client:
        """Return the caller, or skip the test if there is none."""
        if caller is None:
            self.skipTest(f'no {what} is available')
        return caller

    def needs_admin(self) -> client.Client:
        """Return an administrator, or skip the test if there is none."""
        return self.needs(self.cloud.admin, 'administrator')

    def needs_other(self) -> client.Client:
        """Return a caller of another project, or skip the test if there is none."""
        return self.needs(self.cloud.other, 'user of another project without the admin role')

    def needs_version(self, version: str) -> None:
        """Skip the test unless the service supports the microversion."""
        offered = tuple(map(int, self.api.version.split('.')))
        if offered < tuple(map(int, version.split('.'))):
            self.skipTest(f'microversion {version} is not supported')

    def needs_extension(self, version: str = '1.0') -> None:
        """Skip the test unless the service supports this version of the blockattach extension."""
        wanted = tuple(map(int, version.split('.')))
        if self.cloud.extension is None or self.cloud.extension < wanted:
            self.skipTest(f'the extension blockattach {version} is not supported')

    def needs_servers(self) -> None:
        """Skip the test if no caller may end the connection of a server."""
        if not self.cloud.asks_servers and self.cloud.service is None:
            self.skipTest('only a service user can terminate the connection of a server, and no '
                          'service user is available')

    def answered(self, answer: client.Answer, *statuses: int) -> Any:
        """Assert that an answer has one of the status codes (default 200), and return its body."""
        self.assertIn(answer.status, statuses or (200,), answer.text[:500])
        return answer.body

    def refused(self, answer: client.Answer, status: int, text: str = '') -> None:
        """Assert that an answer is a failure with this code, the key in `KEYS`, and a message.

        :param text: text that the message must contain
        """
        self.answered(answer, status)
        self.assertEqual(KEYS[status], answer.fault, answer.text[:500])
        self.assertEqual(status, answer.body[answer.fault]['code'])
        self.assertIn(text, answer.message)
        self.assertNotEqual('', answer.message)

    def reserve(self, volume_id: str, **fields: Any) -> str:
        """Create an attachment, and return its ID."""
        return str(self.answered(self.api.create(volume_id, **fields))['attachment']['id'])

    def connect(self, volume_id: str, host: str = 'one', **fields: Any) -> str:
        """Create an attachment with a connector, and return its ID."""
        return self.reserve(volume_id, connector=connector(host), **fields)

    def attach(self, volume_id: str, host: str = 'one', **fields: Any) -> str:
        """Create and complete an attachment, and return its ID."""
        attachment_id = self.connect(volume_id, host, **fields)
        self.answered(self.api.complete(attachment_id), 204)
        return attachment_id

    def end(self, attachment_id: str) -> Any:
        """Delete an attachment as a permitted caller, and return the remaining attachments."""
        return self.answered(self.cloud.ender.delete(attachment_id))['attachments']

    def shown(self, attachment_id: str, **more: str) -> Any:
        """Return the details of an attachment."""
        return self.answered(self.api.show(attachment_id, **more))['attachment']

    def shown_volume(self, volume_id: str) -> Any:
        return self.answered(self.api.get(f'/volumes/{volume_id}'))['volume']

    def attachments_of(self, volume_id: str, query: str = '', detail: bool = False) -> Any:
        """Return the list of the attachments of a volume."""
        path = '/attachments/detail' if detail else '/attachments'
        return self.answered(self.api.get(f'{path}?volume_id={volume_id}{query}'))['attachments']

    def states(self, volume_id: str) -> list[str]:
        """Return the sorted statuses of the attachments of a volume."""
        return sorted(one['status'] for one in self.attachments_of(volume_id))

    def has_status(self, volume_id: str, status: str) -> None:
        """Assert that a volume has this status."""
        self.assertEqual(status, self.shown_volume(volume_id)['status'])

    def act(self, volume_id: str, action: str, value: Any = None, status: int = 202) -> Any:
        """Send a volume action, assert that it is accepted, and return the body."""
        return self.answered(self.api.act(volume_id, action, value), status)

    def codes(self, answers: list[client.Answer]) -> list[int]:
        """Return the sorted status codes of answers."""
        return sorted(answer.status for answer in answers)
