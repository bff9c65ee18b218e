"""Client that records how each of its requests ended.

Real and simulated processes are tested with the same client. It repeats a request only where the
caller asks for that.
"""
import contextlib
import uuid
from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import NamedTuple
from typing import Protocol

from blockattach.platform import clock

REPEATED = (409, 500, 503, 504)
AT_WORK = ('creating', 'deleting', 'downloading', 'extending', 'managing', 'reverting', 'retyping',
           'unmanaging', 'uploading')
"""Transitional statuses, which end without another request."""
GUEST = 'guest'
"""Host that operations attach and detach. Other hosts stay attached."""


class Ended(NamedTuple):
    """End of a request, after ``seconds``. ``status`` is None if its connection was cut."""

    what: str
    status: int | str | None
    answer: object
    seconds: float


class Api(Protocol):
    """API to which the client sends its requests."""

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Send a request, and return its status and answer.

        :raises OSError: if there is no answer
        """


class Client:
    """Client of one cloud.

    :ivar ended: all requests since the last `forget`
    :ivar shared: a volume that all hosts may attach, to which one of them writes all the time
    :ivar plain: a volume that one host may attach
    :ivar leaves: True if an operation may have left a volume or snapshot unmanaged on a backend
    """

    def __init__(self, cloud: Any, api: Api, time: clock.Clock,
                 wait_for: Callable[[Callable[[], Any]], Any], nouns: Iterable[Any]) -> None:
        """
        :param cloud: the cloud, as operations use it
        :param wait_for: waits until a condition is true, and returns its last value
        :param nouns: `nouns.NOUNS`, which remove the resources of their operations
        """
        self.cloud = cloud
        self._api = api
        self._clock = time
        self._wait_for = wait_for
        self._nouns = tuple(nouns)
        self.ended: list[Ended] = []
        self.shared = self.plain = ''
        self.kept_volumes: set[str] = set()
        self.kept_attachments: set[str] = set()
        self.leaves = False

    def forget(self) -> None:
        self.ended = []

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int | str | None, Any]:
        """Send a request once, and return its status and answer.

        :returns: the status is None if the connection was cut, and ``never`` if no answer came
        """
        begun = self._clock.monotonic()
        try:
            status: int | str | None
            status, answer = self._api.ask(method, path, body)
        except TimeoutError:
            # The connection is open, but no answer came, which is always a fault.
            status, answer = 'never', None
        except OSError as exc:
            status, answer = None, repr(exc)
        self.ended.append(Ended(f'{method} {path} {body or ""}', status, answer,
                                self._clock.monotonic() - begun))
        return status, answer

    def sure(self, expected: tuple[int, ...], method: str, path: str, body: Any = None) -> Any:
        """Repeat a request until its status is one of the expected, and return its answer.

        :raises AssertionError: if the request fails otherwise, or too often
        """
        heard: list[tuple[int, Any]] = []

        def tried() -> bool:
            with contextlib.suppress(OSError):
                heard.append(self._api.ask(method, path, body))
                return heard[-1][0] not in REPEATED or heard[-1][0] in expected
            return False
        self._wait_for(tried)
        assert heard and heard[-1][0] in expected, f'{method} {path}: {heard[-3:]}'
        return heard[-1][1]

    def attach(self, volume_id: str, host: str = GUEST, **more: Any) -> str:
        """Create a connected attachment, and return its ID."""
        return self.sure((200,), 'POST', '/attachments', wish(volume_id, host, **more)
                         )['attachment']['id']

    def attached(self, volume_id: str, host: str = GUEST) -> str:
        """Create a connected attachment, complete it, and return its ID."""
        made = self.attach(volume_id, host)
        self.sure((204,), 'POST', f'/attachments/{made}/action', {'os-complete': None})
        return made

    def volume(self, **wanted: Any) -> str:
        """Create a volume, wait until it is available, and return its ID."""
        def made() -> str | None:
            found = self.sure((202,), 'POST', '/volumes', {'volume': {'size': 1, **wanted}})
            found = found['volume']['id']
            return found if self.settled(found) == 'available' else None
        found = self._wait_for(made)
        assert found, 'no volume can be created'
        return found

    def settled(self, name: str, noun: str = 'volume') -> str | None:
        """Wait until a resource is in no transitional status.

        :returns: its status; None if it is gone
        """
        found: list[str | None] = []

        def known() -> bool:
            with contextlib.suppress(OSError):
                status, shown = self._api.ask('GET', f'/{noun}s/{name}')
                found[:] = [shown[noun]['status'] if status == 200 else None]
                return status in (200, 404) and found[0] not in AT_WORK
            return False
        assert self._wait_for(known), f'{noun} {name} stays {found}'
        return found[0]

    def act(self, volume_id: str, action: str, body: Any = None,
            ) -> tuple[int | str | None, Any]:
        return self.ask('POST', f'/volumes/{volume_id}/action', {action: body or {}})

    def run(self, name: str, *arguments: str) -> int | None:
        """Run a process to its end, and return its exit status."""
        begun = self._clock.monotonic()
        status = self.cloud.run(name, *arguments)
        self.ended.append(Ended(f'{name} {" ".join(arguments)}',
                                'never' if status is None else status, None,
                                self._clock.monotonic() - begun))
        return status

    def clear(self) -> None:
        """Remove all resources that are not kept, by requests that must succeed."""
        for noun in self._nouns:
            noun.clear(self)

    def remove(self, name: str, noun: str = 'volume') -> None:
        """Delete a resource until it is gone. A failed deletion is repeated."""
        def gone() -> bool:
            # Status 400 means that work on the resource is under way.
            self.sure((202, 400, 404), 'DELETE', f'/{noun}s/{name}')
            return self.settled(name, noun) is None
        assert self._wait_for(gone), f'{noun} {name} cannot be deleted'

    def left(self) -> list[str]:
        """Describe the resources that remain after `clear`."""
        return [one for noun in self._nouns for one in noun.left(self)]

    def unanswered(self) -> list[Ended]:
        """Return the requests that got no answer in time."""
        return [one for one in self.ended if one.status == 'never']


def wish(volume_id: str, host: str = GUEST, connected: bool = True, **more: Any,
         ) -> dict[str, Any]:
    """Return the body of a request that creates an attachment."""
    wanted = {'volume_uuid': volume_id, 'instance_uuid': instance(host), **more}
    return {'attachment': {**wanted, 'connector': connector(host)} if connected else wanted}


def connector(host: str) -> dict[str, str]:
    """Return the connector properties of a host."""
    return {'initiator': f'iqn.2026-01.org.example:{host}', 'host': host, 'ip': '127.0.0.1'}


def instance(host: str) -> str:
    """Return the ID of the server that runs on a host."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, host))
