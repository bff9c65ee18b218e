"""Secrets that are known, and all places where they must not turn up."""
import glob
import selectors
import socket
import threading

import sqlalchemy as sa

from blockattach.testing import servers

_PART = 1 << 16
# What a client of AMQP logs in with, once a connection: how else should the broker know it?
_LOGIN = b'\x05PLAIN'


class Wiretap:
    """Stands before a broker and keeps every byte that passes, but for how clients log in."""

    def __init__(self, port):
        self._port = port
        self._listening = socket.create_server((servers.LOOPBACK, 0))
        self.port = self._listening.getsockname()[1]
        self._streams = []
        self.logins = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def heard(self):
        """All that was said so far, in both directions."""
        return b'\n'.join(bytes(stream) for stream in self._streams)

    def _accept(self):
        while True:
            try:
                client = self._listening.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client, socket.create_connection((servers.LOOPBACK, self._port)) as broker:
            kept = {client: bytearray(), broker: bytearray()}
            self._streams += kept.values()
            with selectors.DefaultSelector() as ready:
                for one, other in ((client, broker), (broker, client)):
                    ready.register(one, selectors.EVENT_READ, other)
                while True:
                    for key, _ in ready.select():
                        try:
                            part = key.fileobj.recv(_PART)
                            key.data.sendall(part)
                        except OSError:
                            return
                        if not part:
                            return
                        if key.fileobj is client and _LOGIN in part:
                            self.logins += 1
                        else:
                            kept[key.fileobj] += part


class Evidence:
    """What somebody may look into: log files, the bus, command lines, the database.

    ``find`` tells which secrets are in which of them.
    """

    def __init__(self, engine, wiretap, folder):
        self._engine = engine
        self._wiretap = wiretap
        self._folder = folder
        self._lines = set()

    def look_at_processes(self):
        """What every process on this machine was started with; they come and go, so often."""
        for path in glob.glob('/proc/[0-9]*/cmdline'):
            try:
                with open(path, 'rb') as file:
                    self._lines.add(file.read())
            except OSError:
                continue

    def started(self, word):
        """Whether a process was seen that was started so."""
        return any(word in line for line in self._lines)

    def dump(self):
        """Every row of every table, as text."""
        tables = sa.MetaData()
        tables.reflect(self._engine)
        with self._engine.connect() as connection:
            return '\n'.join(
                f'{table.name} {tuple(row)!r}' for table in tables.sorted_tables
                for row in connection.execute(table.select())).encode()

    def logs(self):
        """What processes have written, whatever it is."""
        found = b''
        for path in glob.glob(f'{self._folder}/*.log'):
            with open(path, 'rb') as file:
                found += file.read()
        return found

    def find(self, secrets):
        """Pairs of a place and the name of a secret that is there.

        :param secrets: name to text
        """
        places = {'log': self.logs(), 'bus': self._wiretap.heard(), 'database': self.dump(),
                  'arguments': b'\n'.join(self._lines)}
        return {(place, name) for place, text in places.items()
                for name, secret in secrets.items() if secret.encode() in text}
