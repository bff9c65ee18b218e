"""A way to a database server that breaks exactly where the client commits.

`BreakingProxy` passes everything on until it is armed. Then the next COMMIT breaks the connection,
as a network does: the client hears nothing more, and only the server knows what has happened.
"""
import contextlib
import enum
import selectors
import socket
import threading
from types import TracebackType
from typing import Self

import sqlalchemy as sa

from blockattach.testing import servers

# What PyMySQL and psycopg2 send, whole: COM_QUERY of MySQL, a simple query of PostgreSQL.
COMMITS = (b'\x07\x00\x00\x00\x03COMMIT', b'Q\x00\x00\x00\x0bCOMMIT\x00')
SECONDS = 60.0
_PART = 1 << 16


class Where(enum.Enum):
    """What the server hears of the COMMIT that breaks."""

    BEFORE = 'nothing: it rolls back'
    AFTER = 'all of it: it commits, and its answer is lost'
    LATE = 'nothing before `BreakingProxy.release`, then all of it'


class BreakingProxy:
    """Listens from construction until `close`; also a context manager. ``broken`` counts."""

    def __init__(self, url: str) -> None:
        """
        :param url: the database as SQLAlchemy names it
        """
        place = sa.make_url(url)
        default = {'postgresql': 5432}.get(place.get_backend_name(), 3306)
        self._server = place.host or servers.LOOPBACK, place.port or default
        self._listening = socket.create_server((servers.LOOPBACK, 0))
        self.url = place.set(
            host=servers.LOOPBACK, port=self._listening.getsockname()[1]
        ).render_as_string(hide_password=False)
        self._armed: list[Where] = []
        self._released = threading.Event()
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.broken = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, where: Where, times: int = 1) -> None:
        """Break the connection at the next COMMITs."""
        with self._lock:
            self._armed = [where] * times

    def release(self) -> None:
        """Let what came `Where.LATE` reach the server."""
        self._released.set()

    def close(self) -> None:
        """Break all connections, and let none in."""
        self._released.set()
        # A close alone would not wake whoever waits for it.
        _shut(self._listening)
        self._listening.close()
        with self._lock:
            for one in self._open:
                _shut(one)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listening.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with (client, contextlib.suppress(OSError),
              socket.create_connection(self._server, timeout=SECONDS) as server):
            with self._lock:
                self._open |= {client, server}
            try:
                self._pass_on(client, server)
            finally:
                with self._lock:
                    self._open -= {client, server}

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        """Until one side ends, or a COMMIT breaks."""
        said = b''
        with selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ)
            ready.register(server, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    part = key.fileobj.recv(_PART)  # type: ignore[union-attr]
                    if not part:
                        return
                    if key.fileobj is server:
                        said = b''
                        client.sendall(part)
                        continue
                    # Client and server take turns: this is all of one message, or its beginning.
                    said += part
                    where = self._breaks(said)
                    if where is not None:
                        self._break(where, client, server, part)
                        return
                    server.sendall(part)

    def _breaks(self, said: bytes) -> Where | None:
        with self._lock:
            if said in COMMITS and self._armed:
                self.broken += 1
                return self._armed.pop()
        return None

    def _break(self, where: Where, client: socket.socket, server: socket.socket,
               commit: bytes) -> None:
        if where is Where.LATE:
            _shut(client)
            self._released.wait(SECONDS)
        if where is not Where.BEFORE:
            server.sendall(commit)
            server.recv(_PART)
        _shut(client)


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
