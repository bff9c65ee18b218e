"""A client that writes down how each of its requests ended; it repeats one only where asked to.

The same for real processes and for simulated ones.
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
"""Statuses that end by themselves."""
GUEST = 'guest'
"""The host that comes and goes; others stay."""


class Ended(NamedTuple):
    """How a request ended. ``status`` None: its connection was cut; ``seconds`` it took."""

    what: str
    status: int | str | None
    answer: object
    seconds: float


class Api(Protocol):
    """What is asked."""

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and answer; OSError if there is no answer."""


class Client:
    """Of one cloud.

    :ivar ended: of all requests since the last `forget`
    :ivar shared: the volume that all may attach; somebody writes to it all the time
    :ivar plain: a volume that one host may attach
    :ivar leaves: whether something may have been left to a backend
    """

    def __init__(self, cloud: Any, api: Api, time: clock.Clock,
                 wait_for: Callable[[Callable[[], Any]], Any], nouns: Iterable[Any]) -> None:
        """
        :param cloud: what operations see of it
        :param wait_for: returns what a condition says in the end
        :param nouns: `nouns.NOUNS`: they know what they have left
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
        """Status and answer of one request, which is made once; no status: it was cut."""
        begun = self._clock.monotonic()
        try:
            status: int | str | None
            status, answer = self._api.ask(method, path, body)
        except TimeoutError:
            # Nobody cut it, and nobody answers: what must never be.
            status, answer = 'never', None
        except OSError as exc:
            status, answer = None, repr(exc)
        self.ended.append(Ended(f'{method} {path} {body or ""}', status, answer,
                                self._clock.monotonic() - begun))
        return status, answer

    def sure(self, expected: tuple[int, ...], method: str, path: str, body: Any = None) -> Any:
        """The answer of a request, repeated until it is one of the expected.

        :raises AssertionError: it is answered otherwise, or never so
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
        """The id of an attachment that is connected."""
        return self.sure((200,), 'POST', '/attachments', wish(volume_id, host, **more)
                         )['attachment']['id']

    def attached(self, volume_id: str, host: str = GUEST) -> str:
        """The same, completed."""
        made = self.attach(volume_id, host)
        self.sure((204,), 'POST', f'/attachments/{made}/action', {'os-complete': None})
        return made

    def volume(self, **wanted: Any) -> str:
        """The id of a volume that is available."""
        def made() -> str | None:
            found = self.sure((202,), 'POST', '/volumes', {'volume': {'size': 1, **wanted}})
            found = found['volume']['id']
            return found if self.settled(found) == 'available' else None
        found = self._wait_for(made)
        assert found, 'no volume can be made'
        return found

    def settled(self, name: str, noun: str = 'volume') -> str | None:
        """The status of something that nobody works on any more; None: it is gone."""
        found: list[str | None] = []

        def known() -> bool:
            with contextlib.suppress(OSError):
                status, shown = self._api.ask('GET', f'/{noun}s/{name}')
                found[:] = [shown[noun]['status'] if status == 200 else None]
                return status in (200, 404) and found[0] not in AT_WORK
            return False
        assert self._wait_for(known), f'{noun} {name} is {found} for ever'
        return found[0]

    def act(self, volume_id: str, action: str, body: Any = None,
            ) -> tuple[int | str | None, Any]:
        return self.ask('POST', f'/volumes/{volume_id}/action', {action: body or {}})

    def run(self, name: str, *arguments: str) -> int | None:
        """The exit status of a process that is run to its end."""
        begun = self._clock.monotonic()
        status = self.cloud.run(name, *arguments)
        self.ended.append(Ended(f'{name} {" ".join(arguments)}',
                                'never' if status is None else status, None,
                                self._clock.monotonic() - begun))
        return status

    def clear(self) -> None:
        """Remove all that is not kept, as a client does: with requests that must succeed."""
        for noun in self._nouns:
            noun.clear(self)

    def remove(self, name: str, noun: str = 'volume') -> None:
        """Until it is gone; one whose removal failed is removed again."""
        def gone() -> bool:
            # 400: somebody is at work on it at this moment.
            self.sure((202, 400, 404), 'DELETE', f'/{noun}s/{name}')
            return self.settled(name, noun) is None
        assert self._wait_for(gone), f'{noun} {name} cannot be removed'

    def left(self) -> list[str]:
        """What is there after `clear` and should not be, in words."""
        return [one for noun in self._nouns for one in noun.left(self)]

    def unanswered(self) -> list[Ended]:
        """The requests that have never ended."""
        return [one for one in self.ended if one.status == 'never']


def wish(volume_id: str, host: str = GUEST, connected: bool = True, **more: Any,
         ) -> dict[str, Any]:
    """The body of a request to attach."""
    wanted = {'volume_uuid': volume_id, 'instance_uuid': instance(host), **more}
    return {'attachment': {**wanted, 'connector': connector(host)} if connected else wanted}


def connector(host: str) -> dict[str, str]:
    """The connector of a host."""
    return {'initiator': f'iqn.2026-01.org.example:{host}', 'host': host, 'ip': '127.0.0.1'}


def instance(host: str) -> str:
    """The server that runs on a host."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, host))
