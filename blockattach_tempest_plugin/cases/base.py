"""What cases share: volumes that are gone afterwards, attachments, calls at the same moment."""
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

KEYS = {400: 'badRequest', 403: 'forbidden', 404: 'itemNotFound', 406: 'computeFault',
        409: 'conflictingRequest', 415: 'badMediaType'}
"""The key of a failure's body, by its code."""


def connector(host: str = 'one', **more: Any) -> dict[str, Any]:
    """The connector of a host."""
    return {'initiator': f'iqn.2026-01.org.example:{clouds.PREFIX}{host}', 'ip': '192.0.2.1',
            'host': f'{clouds.PREFIX}{host}', **more}


def server() -> str:
    """The id of a server that does not exist."""
    return str(uuid.uuid4())


def cases(check: str, table: Iterable[tuple[Any, ...]]) -> Callable[[type], type]:
    """A case for each row of a table: its sentence, and what the method ``check`` is given."""
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
    """Make calls at the same moment; their answers in the same order."""
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
    """A group of cases. Who runs them gives them a cloud, in a class of its own."""

    cloud: ClassVar[clouds.Cloud]

    def setUp(self) -> None:
        """Skip what is promised elsewhere."""
        super().setUp()
        self.api = self.cloud.member
        name = self._testMethodName
        if (name in promised.PROMISED and self.cloud.extension is None
                and not self.cloud.shows_differences):
            self.skipTest('the behavior is guaranteed by blockattach only')

    def volume(self, owner: client.Client | None = None, **fields: Any) -> str:
        """The id of a new volume, which is gone afterwards."""
        return self._new(False, owner, **fields)

    def shared_volume(self, owner: client.Client | None = None) -> str:
        """The same for many hosts."""
        if self.cloud.multiattach_type is None:
            self.skipTest('no multiattach volume type is available')
        return self._new(True, owner)

    def _new(self, multiattach: bool, owner: client.Client | None, **fields: Any) -> str:
        volume_id = self.cloud.a_volume(multiattach, owner, **fields)
        self.addCleanup(self.cloud.discard, volume_id)
        return volume_id

    def needs(self, caller: client.Client | None, what: str) -> client.Client:
        """A caller, or skip."""
        if caller is None:
            self.skipTest(f'no {what} is available')
        return caller

    def needs_admin(self) -> client.Client:
        """An administrator, or skip."""
        return self.needs(self.cloud.admin, 'administrator')

    def needs_other(self) -> client.Client:
        """A caller of another project, or skip."""
        return self.needs(self.cloud.other, 'user of another project without the admin role')

    def needs_version(self, version: str) -> None:
        """Skip where this microversion is not offered."""
        offered = tuple(map(int, self.api.version.split('.')))
        if offered < tuple(map(int, version.split('.'))):
            self.skipTest(f'microversion {version} is not supported')

    def needs_extension(self, version: str = '1.0') -> None:
        """Skip where this version of blockattach's own API is not offered."""
        wanted = tuple(map(int, version.split('.')))
        if self.cloud.extension is None or self.cloud.extension < wanted:
            self.skipTest(f'the extension blockattach {version} is not supported')

    def needs_servers(self) -> None:
        """Skip where nobody can end the connection of a server."""
        if not self.cloud.asks_servers and self.cloud.service is None:
            self.skipTest('only a service user can terminate the connection of a server, and no '
                          'service user is available')

    def answered(self, answer: client.Answer, *statuses: int) -> Any:
        """The body of an answer with one of these codes."""
        self.assertIn(answer.status, statuses or (200,), answer.text[:500])
        return answer.body

    def refused(self, answer: client.Answer, status: int, text: str = '') -> None:
        """A failure has its code, its form and a message."""
        self.answered(answer, status)
        self.assertEqual(KEYS[status], answer.fault, answer.text[:500])
        self.assertEqual(status, answer.body[answer.fault]['code'])
        self.assertIn(text, answer.message)
        self.assertNotEqual('', answer.message)

    def reserve(self, volume_id: str, **fields: Any) -> str:
        """The id of a new attachment."""
        return str(self.answered(self.api.create(volume_id, **fields))['attachment']['id'])

    def connect(self, volume_id: str, host: str = 'one', **fields: Any) -> str:
        """The id of a new attachment with a connector."""
        return self.reserve(volume_id, connector=connector(host), **fields)

    def attach(self, volume_id: str, host: str = 'one', **fields: Any) -> str:
        """The id of a new attachment that is complete."""
        attachment_id = self.connect(volume_id, host, **fields)
        self.answered(self.api.complete(attachment_id), 204)
        return attachment_id

    def end(self, attachment_id: str) -> Any:
        """Delete an attachment, by who may; what is left."""
        return self.answered(self.cloud.ender.delete(attachment_id))['attachments']

    def shown(self, attachment_id: str, **more: str) -> Any:
        """An attachment as it is shown."""
        return self.answered(self.api.show(attachment_id, **more))['attachment']

    def shown_volume(self, volume_id: str) -> Any:
        """A volume as it is shown."""
        return self.answered(self.api.get(f'/volumes/{volume_id}'))['volume']

    def attachments_of(self, volume_id: str, query: str = '', detail: bool = False) -> Any:
        """The attachments of a volume as they are listed."""
        path = '/attachments/detail' if detail else '/attachments'
        return self.answered(self.api.get(f'{path}?volume_id={volume_id}{query}'))['attachments']

    def states(self, volume_id: str) -> list[str]:
        """The states of its attachments, sorted."""
        return sorted(one['status'] for one in self.attachments_of(volume_id))

    def has_status(self, volume_id: str, status: str) -> None:
        """A volume has this status."""
        self.assertEqual(status, self.shown_volume(volume_id)['status'])

    def act(self, volume_id: str, action: str, value: Any = None, status: int = 202) -> Any:
        """An action that is accepted."""
        return self.answered(self.api.act(volume_id, action, value), status)

    def codes(self, answers: list[client.Answer]) -> list[int]:
        """Their codes, sorted."""
        return sorted(answer.status for answer in answers)
