"""Target of measurements: an endpoint, its processes, and the volumes that were created there."""
import concurrent.futures
import contextlib
from typing import Any

from bench import acts
from bench import client
from bench import processes
from blockattach.platform import clock as clocks

TYPE, SHARED_TYPE = 'bench', 'bench-multi'
_THREADS = 8
# Create volumes in advance a few at a time, because some services cannot handle more. Poll rarely,
# because polling takes CPU time from their creation.
_AT_ONCE = 8
_POLL = 0.1
_MAKING_SECONDS = 30.0
_REPAIR_SECONDS = 2.0
_LEAVING = ('attaching', 'detaching', 'in-use')
_REFUSED = (400, 404, 409)


class Target:
    """Service that is measured.

    :param name: name of the target in its rows
    :param own: processes of the service; empty if they are unknown
    :param backing: processes of database and bus
    :param forgiven: maximum number of volumes whose creation may fail and is then repeated
    :param backend: backend of the volumes; empty for any
    :ivar given_up: number of volumes whose creation failed
    """

    def __init__(self, name: str, endpoint: client.Endpoint, own: processes.Processes,
                 backing: processes.Processes, clock: clocks.Clock, forgiven: int = 0,
                 backend: str = '') -> None:
        self.name = name
        self.endpoint = endpoint
        self.own = own
        self.backing = backing
        self._clock = clock
        self._forgiven = forgiven
        self._specs = {'volume_backend_name': backend} if backend else {}
        self.type, self.shared_type = (f'{one}-{backend}' if backend else one
                                       for one in (TYPE, SHARED_TYPE))
        self.given_up = 0
        self._plain: list[str] = []
        self._shared: list[str] = []

    def prepare(self) -> None:
        """Create the two volume types if they do not exist.

        :raises Unexpected: the service responds with an unexpected status
        """
        with self._asking() as one:
            known = {kind['name'] for kind in one.json('types', 'GET', '/types?is_public=None')[
                'volume_types']}
            for name, specs in ((self.type, {}),
                                (self.shared_type, {'multiattach': '<is> True'})):
                if name not in known:
                    one.json('create type', 'POST', '/types', {'volume_type': {
                        'name': name, 'extra_specs': {**self._specs, **specs}}})

    def plain(self, count: int) -> list[str]:
        """Return available volumes, each for one host."""
        return self._enough(self._plain, count, self.type)

    def shared(self, count: int = 1) -> list[str]:
        """Return available multiattach volumes."""
        return self._enough(self._shared, count, self.shared_type)

    def crowd(self) -> str:
        """Create and return a multiattach volume."""
        fresh = self._enough([], 1, self.shared_type)
        self._shared += fresh
        return fresh[0]

    def attached(self, volume_id: str, host: str) -> str:
        """Attach a volume to a host, and return the id of the completed attachment."""
        with self._asking() as one:
            made = acts.attachment_id(acts.attach(one, volume_id, host)[1])
            acts.complete(one, made)
        return made

    def attachments(self, volume_id: str) -> list[dict[str, Any]]:
        """Return the attachments of a volume in detail."""
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
        """Return the number of volumes of a project, at most the size of a page."""
        with self._asking(project) as one:
            return len(one.json('list', 'GET', f'/volumes?limit={min(enough, 1000)}')['volumes'])

    def free(self) -> None:
        """Delete the attachments of all volumes of this target."""
        with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
            for _ in pool.map(self.detach, [*self._plain, *self._shared]):
                pass

    def detach(self, volume_id: str) -> None:
        """Delete the attachments of a volume."""
        left = [one['id'] for one in self.attachments(volume_id)]
        with self._asking() as one:
            for made in left:
                acts.detach(one, made, _REFUSED)

    def repair(self) -> None:
        """Detach the volumes after an error, and delete those that do not become available."""
        self.free()
        with contextlib.closing(self.timed()) as timed:
            for volumes in (self._plain, self._shared):
                for volume_id in list(volumes):
                    try:
                        acts.wait_available(timed, volume_id, _POLL, _REPAIR_SECONDS, _LEAVING)
                    except client.Unexpected:
                        self._remove(timed, volume_id)
                        volumes.remove(volume_id)

    def clean(self) -> None:
        """Delete the volumes of this target."""
        self.free()
        with self._asking() as one:
            for volumes in (self._plain, self._shared):
                while volumes:
                    self._remove(one, volumes.pop())

    def _enough(self, have: list[str], count: int, volume_type: str) -> list[str]:
        """Return volumes, after creating the missing ones, which are kept for later scenarios.

        :raises Unexpected: too many volumes could not be created
        """
        while len(have) < count:
            wanted = min(_AT_ONCE, count - len(have))
            have += self._create(wanted, volume_type)
        return have[:count]

    def _create(self, count: int, volume_type: str) -> list[str]:
        """Create volumes, and return those that become available. The others are deleted."""
        made: list[str] = []
        with contextlib.closing(self.timed()) as timed:
            asked = [acts.create_volume(timed, volume_type) for _ in range(count)]
            for volume_id in asked:
                try:
                    acts.wait_available(timed, volume_id, _POLL, _MAKING_SECONDS)
                except client.Unexpected:
                    self.given_up += 1
                    if self.given_up > self._forgiven:
                        raise
                    self._remove(timed, volume_id)
                else:
                    made.append(volume_id)
        return made

    @staticmethod
    def _remove(timed: client.Client, volume_id: str) -> None:
        """Delete a volume in any status."""
        status, _ = timed.ask('delete volume', 'DELETE', f'/volumes/{volume_id}', also=_REFUSED)
        if status not in (202, 404):
            path = f'/volumes/{volume_id}/action'
            timed.ask('reset', 'POST', path, {'os-reset_status': {
                'status': 'error', 'attach_status': 'detached'}}, _REFUSED)
            timed.ask('delete volume', 'DELETE', f'/volumes/{volume_id}', also=_REFUSED)

    def timed(self, project: str | None = None) -> acts.Timed:
        """Return a client of this target.

        :param project: project of the client; None for that of the endpoint
        """
        return acts.Timed(self._endpoint_of(project), self._clock)

    def _asking(self, project: str | None = None) -> 'contextlib.closing[client.Client]':
        return contextlib.closing(client.Client(self._endpoint_of(project)))

    def _endpoint_of(self, project: str | None) -> client.Endpoint:
        return self.endpoint.of_project(project) if project else self.endpoint
