"""Fencing of processes that hung, so that they cannot change a server after others took over.

The leases on a server have numbers, its generations. An exclusive act gets the next generation,
and so does each act that a process takes over. Acts that share a server have the same
generation. When one of them is taken over, the others continue under the new one.
"""
import os
import threading

from blockattach.compute import errors
from blockattach.compute import files

_FIRST = 1


class Fence:
    """Newest lease on each server under which one agent was called."""

    def __init__(self, path: str | None) -> None:
        """
        :param path: file that keeps the leases over a restart of the agent, or None if no server
            outlives the agent
        """
        self._path = path
        self._kept: dict[str, int] = {} if path is None else files.read(path) or {}
        self._newest = dict(self._kept)
        self._guard = threading.Lock()

    def admit(self, server_id: str, generation: int) -> None:
        """Check that no newer lease was used, and reject older leases from now on.

        :raises ActTakenOver: a newer lease was used
        """
        with self._guard:
            newest = self._newest.get(server_id, _FIRST)
            if generation < newest:
                raise errors.ActTakenOver(
                    f'lease {generation} on server {server_id} was superseded by lease {newest}')
            # No lease is older than the first, so it needs no record.
            if generation > self._kept.get(server_id, _FIRST):
                self._keep({**self._kept, server_id: generation})
            self._newest[server_id] = generation

    def forget(self, server_id: str) -> None:
        """Delete the stored lease of a server that left the host.

        The lease stays in memory until the process ends.
        """
        with self._guard:
            if server_id in self._kept:
                self._keep({one: generation for one, generation in self._kept.items()
                            if one != server_id})

    def _keep(self, kept: dict[str, int]) -> None:
        if self._path is not None:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            files.write(self._path, kept)
        self._kept = kept
