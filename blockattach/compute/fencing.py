"""What keeps a process that hung from changing a server that others are at since.

The leases on a server have numbers, its generations. An act that shuts others out has the next
one, and so have those acts that a process takes over. Acts that share a server have the same, and
one of them that goes on while another is taken over goes on by the new one.
"""
import os
import threading

from blockattach.compute import errors
from blockattach.compute import files

_FIRST = 1


class Fence:
    """The newest lease on each server by which one agent was asked."""

    def __init__(self, path: str | None) -> None:
        """
        :param path: of a file by which an agent that is started anew knows those on the servers
            that are here; None: none is here then
        """
        self._path = path
        self._kept: dict[str, int] = {} if path is None else files.read(path) or {}
        self._newest = dict(self._kept)
        self._guard = threading.Lock()

    def admit(self, server_id: str, generation: int) -> None:
        """Return if no lease is newer, and refuse older ones from now on.

        :raises ActTakenOver: one is
        """
        with self._guard:
            newest = self._newest.get(server_id, _FIRST)
            if generation < newest:
                raise errors.ActTakenOver(
                    f'lease {generation} on server {server_id} was superseded by lease {newest}')
            # Nothing is older than the first.
            if generation > self._kept.get(server_id, _FIRST):
                self._keep({**self._kept, server_id: generation})
            self._newest[server_id] = generation

    def forget(self, server_id: str) -> None:
        """The server is not here any more; until this process ends its lease is known."""
        with self._guard:
            if server_id in self._kept:
                self._keep({one: generation for one, generation in self._kept.items()
                            if one != server_id})

    def _keep(self, kept: dict[str, int]) -> None:
        if self._path is not None:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            files.write(self._path, kept)
        self._kept = kept
