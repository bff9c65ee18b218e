"""Secrets that are known, and all places where they must not turn up."""
import base64
import collections
import glob
import re
import secrets as random_source
import selectors
import socket
import subprocess
import threading
from typing import NamedTuple

import sqlalchemy as sa

from blockattach.tests.fixtures import servers

SECONDS = 180
CONFIGURATION, KEYS, CLIENTS = 'configuration', 'keys', 'clients'
BUS, DATABASE, LIBRARIES = 'bus', 'database', 'log of libraries'
# Where their level is DEBUG, these write the rows that are read, in a request or not, and what is
# sent to Glance and answered.
_OF_LIBRARIES = re.compile(
    rb'^.* DEBUG (?:sqlalchemy\.engine\.Engine (?:\[req-.*\] )?Row \(|keystoneauth\.session ).*$',
    re.MULTILINE)
_PART = 1 << 16
# What a client of AMQP logs in with, once a connection: how else should the broker know it?
_LOGINS = (b'\x05PLAIN', b'\x08AMQPLAIN')


def secret():
    """One that needs no quotes anywhere."""
    return f'canary{random_source.token_hex(16)}'


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
                        if key.fileobj is client and any(
                                login in part for login in _LOGINS):
                            self.logins += 1
                        else:
                            kept[key.fileobj] += part


class Canary(NamedTuple):
    """A secret that stands out in any text, and the places where it belongs.

    :ivar tolerated: other places where it may be
    """

    text: str
    places: frozenset[str]
    tolerated: frozenset[str] = frozenset()

    def signs(self):
        """How it looks in a text: as it is, or as bytes are written."""
        plain = self.text.encode()
        yield plain
        yield plain.hex().encode()
        # In a longer text it begins at one of three places; what its neighbours say is left out.
        for before in range(3):
            cut = base64.b64encode(b'.' * before + plain)[4 if before else 0:-4]
            yield cut
            yield cut.replace(b'+', b'-').replace(b'/', b'_')


class Evidence:
    """What somebody may look into (log files, the bus, command lines, a dump of the database), and
    where secrets belong: what is noted.

    ``find`` says where a secret is.
    """

    def __init__(self, url, wiretap, folder):
        """
        :param url: the database, of an account whose password is no secret
        """
        self._url = sa.make_url(url)
        self._wiretap = wiretap
        self._folder = folder
        self._lines = set()
        self._noted = collections.defaultdict(list)

    def look_at_processes(self):
        """What every process on this machine was started with; they come and go, so often."""
        for path in glob.glob('/proc/[0-9]*/cmdline'):
            try:
                with open(path, 'rb') as file:
                    self._lines.add(file.read())
            except OSError:
                continue

    def note(self, place, text):
        """What was said or kept there."""
        self._noted[place].append(text.encode())

    def started(self, word):
        """Whether a process was seen that was started so."""
        return any(word in line for line in self._lines)

    def dump(self):
        """The whole database, as a backup has it."""
        return subprocess.run(
            ['mariadb-dump', '--no-defaults', f'--host={self._url.host}',
             f'--port={self._url.port}', f'--user={self._url.username}', self._url.database],
            check=True, capture_output=True, timeout=SECONDS).stdout

    def logs(self):
        """What processes have written, whatever it is."""
        found = b''
        for path in glob.glob(f'{self._folder}/*.log'):
            with open(path, 'rb') as file:
                found += file.read()
        return found

    def places(self):
        """All that there is, by place."""
        logs = self.logs()
        return {**{place: b'\n'.join(texts) for place, texts in self._noted.items()},
                'log': _OF_LIBRARIES.sub(b'', logs),
                LIBRARIES: b'\n'.join(_OF_LIBRARIES.findall(logs)),
                BUS: self._wiretap.heard(), DATABASE: self.dump(),
                'arguments': b'\n'.join(self._lines)}

    def find(self, canaries):
        """Of each the places where it is, but for those where it is tolerated.

        :param canaries: by name
        """
        places = self.places()
        return {name: {place for place, text in places.items()
                       if any(sign in text for sign in canary.signs())} - canary.tolerated
                for name, canary in canaries.items()}
