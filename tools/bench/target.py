"""What is measured: an endpoint, its processes, and the volumes that were made there for it."""
import concurrent.futures
import contextlib
from typing import Any

from bench import acts
from bench import client
from bench import processes
from blockattach import clock as clocks

TYPE, SHARED_TYPE = 'bench', 'bench-multi'
_THREADS = 8
# Volumes that are made beforehand: who looks often takes the processors from their making.
_POLL = 0.5


class Target:
    """One of the services that are compared.

    :param name: what its rows are called
    :param own: the processes of the service; empty where they are not known
    :param backing: database and bus
    """

    def __init__(self, name: str, endpoint: client.Endpoint, own: processes.Processes,
                 backing: processes.Processes, clock: clocks.Clock) -> None:
        self.name = name
        self.endpoint = endpoint
        self.own = own
        self.backing = backing
        self._clock = clock
        self._plain: list[str] = []
        self._shared: list[str] = []

    def prepare(self) -> None:
        """Make the two volume types, where they are missing.

        :raises Unexpected: it does not answer as it must
        """
        with self._asking() as one:
            known = {kind['name'] for kind in one.json('types', 'GET', '/types?is_public=None')[
                'volume_types']}
            for name, specs in ((TYPE, {}), (SHARED_TYPE, {'multiattach': '<is> True'})):
                if name not in known:
                    one.json('create type', 'POST', '/types', {'volume_type': {
                        'name': name, 'extra_specs': specs}})

    def plain(self, count: int) -> list[str]:
        """So many volumes that are available, each for one host."""
        return self._enough(self._plain, count, TYPE)

    def shared(self, count: int = 1) -> list[str]:
        """So many volumes that are available, each for many hosts."""
        return self._enough(self._shared, count, SHARED_TYPE)

    def crowd(self) -> str:
        """A volume for many hosts that was not used before."""
        fresh = self._create(1, SHARED_TYPE)
        self._shared += fresh
        return fresh[0]

    def attached(self, volume_id: str, host: str) -> str:
        """The id of a completed attachment."""
        with self._asking() as one:
            made = acts.attachment_id(acts.attach(one, volume_id, host)[1])
            acts.complete(one, made)
        return made

    def attachments(self, volume_id: str) -> list[dict[str, Any]]:
        """Those of a volume, in detail."""
        found: list[dict[str, Any]] = []
        with self._asking() as one:
            while True:
                marker = f'&marker={found[-1]["id"]}' if found else ''
                page = one.json('list', 'GET', '/attachments/detail?limit=1000&volume_id='
                                               f'{volume_id}{marker}')['attachments']
                found += page
                if len(page) < 1000:
                    return found

    def count(self, project: str, enough: int) -> int:
        """How many volumes a project has, as far as a page tells."""
        with self._asking(project) as one:
            return len(one.json('list', 'GET', f'/volumes?limit={min(enough, 1000)}')['volumes'])

    def free(self) -> None:
        """Detach whatever is attached to volumes of ours."""
        with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(self._free, [*self._plain, *self._shared]):
                pass

    def clean(self) -> None:
        """Leave the service as it was found."""
        self.free()
        with self._asking() as one:
            for volumes in (self._plain, self._shared):
                while volumes:
                    one.ask('delete volume', 'DELETE', f'/volumes/{volumes.pop()}', also=(404,))

    def _free(self, volume_id: str) -> None:
        left = [one['id'] for one in self.attachments(volume_id)]
        with self._asking() as one:
            for made in left:
                acts.detach(one, made, (404,))

    def _enough(self, have: list[str], count: int, volume_type: str) -> list[str]:
        missing = count - len(have)
        if missing > 0:
            shares = [missing // _THREADS + (number < missing % _THREADS)
                      for number in range(_THREADS)]
            with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
                for made in pool.map(lambda share: self._create(share, volume_type), shares):
                    have += made
        return have[:count]

    def _create(self, count: int, volume_type: str) -> list[str]:
        with contextlib.closing(self.timed()) as timed:
            made = [acts.create_volume(timed, volume_type) for _ in range(count)]
            for volume_id in made:
                acts.wait_available(timed, volume_id, _POLL)
        return made

    def timed(self) -> acts.Timed:
        """A client of this target."""
        return acts.Timed(self.endpoint, self._clock)

    def _asking(self, project: str | None = None) -> 'contextlib.closing[client.Client]':
        endpoint = self.endpoint.of_project(project) if project else self.endpoint
        return contextlib.closing(client.Client(endpoint))
