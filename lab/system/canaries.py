"""Known secrets, and the places that must not contain them."""
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
# At level DEBUG, these libraries log the rows of queries, and requests and responses of Glance.
_OF_LIBRARIES = re.compile(
    rb'^.* DEBUG (?:sqlalchemy\.engine\.Engine (?:\[req-.*\] )?Row \(|keystoneauth\.session ).*$',
    re.MULTILINE)
_PART = 1 << 16
# Mechanisms with which an AMQP client sends its password once per connection.
_LOGINS = (b'\x05PLAIN', b'\x08AMQPLAIN')


def secret():
    """Return a secret that needs no quoting in any format."""
    return f'canary{random_source.token_hex(16)}'


class Wiretap:
    """Proxy of a broker that records all bytes except those of logins."""

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
        """Return the bytes of both directions so far."""
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
    """Secret that is unique in any text, and the places that may contain it.

    :ivar places: places that must contain the secret
    :ivar tolerated: other places that may contain the secret
    """

    text: str
    places: frozenset[str]
    tolerated: frozenset[str] = frozenset()

    def signs(self):
        """Yield the encodings of the secret: plain, hexadecimal and base64."""
        plain = self.text.encode()
        yield plain
        yield plain.hex().encode()
        # The offset in a longer text determines one of three encodings. Characters that depend on
        # the neighbours are cut off.
        for before in range(3):
            cut = base64.b64encode(b'.' * before + plain)[4 if before else 0:-4]
            yield cut
            yield cut.replace(b'+', b'-').replace(b'/', b'_')


class Evidence:
    """Places that other persons may read: log files, the bus, command lines and the database.

    Further places are noted by the tests. ``find`` returns the places of a secret.
    """

    def __init__(self, url, wiretap, folder):
        """
        :param url: URL of the database, of an account without a secret password
        """
        self._url = sa.make_url(url)
        self._wiretap = wiretap
        self._folder = folder
        self._lines = set()
        self._noted = collections.defaultdict(list)

    def look_at_processes(self):
        """Record the command lines of all processes, which may be short-lived."""
        for path in glob.glob('/proc/[0-9]*/cmdline'):
            try:
                with open(path, 'rb') as file:
                    self._lines.add(file.read())
            except OSError:
                continue

    def note(self, place, text):
        """Record a text at a place."""
        self._noted[place].append(text.encode())

    def started(self, word):
        """Return True if a recorded command line contains a word."""
        return any(word in line for line in self._lines)

    def dump(self):
        """Return a dump of the whole database."""
        return subprocess.run(
            ['mariadb-dump', '--no-defaults', f'--host={self._url.host}',
             f'--port={self._url.port}', f'--user={self._url.username}', self._url.database],
            check=True, capture_output=True, timeout=SECONDS).stdout

    def logs(self):
        """Return the content of all log files."""
        found = b''
        for path in glob.glob(f'{self._folder}/*.log'):
            with open(path, 'rb') as file:
                found += file.read()
        return found

    def places(self):
        """Return the content of all places."""
        logs = self.logs()
        return {**{place: b'\n'.join(texts) for place, texts in self._noted.items()},
                'log': _OF_LIBRARIES.sub(b'', logs),
                LIBRARIES: b'\n'.join(_OF_LIBRARIES.findall(logs)),
                BUS: self._wiretap.heard(), DATABASE: self.dump(),
                'arguments': b'\n'.join(self._lines)}

    def find(self, canaries):
        """Return the places of each secret, except those where it is tolerated.

        :param canaries: secrets by name
        """
        places = self.places()
        return {name: {place for place, text in places.items()
                       if any(sign in text for sign in canary.signs())} - canary.tolerated
                for name, canary in canaries.items()}
