"""Mutual authentication of the processes of a site, by HMAC-SHA256 with shared keys.

The proof of a request covers its content, the time and a nonce. A request can therefore not be
changed, redirected or replayed. The proof of a reply covers the nonce of the request, so a reply
cannot be used for another request. Nothing is encrypted here.

The keys of a site are in a file with lines ``NAME SECRET [INTERFACE ...]``. A process
authenticates its requests with the first key, and accepts requests with any of the keys. A key is
valid for the interfaces of its line, or for all interfaces if the line has none. Keys can
therefore be replaced without an interruption. First the new key is added as the last line on all
hosts. Then it becomes the first line on all hosts. Then the old key is removed. Processes notice
each change of the file.
"""
import binascii
import collections
import dataclasses
import datetime
import hashlib
import hmac
import math
import re
import secrets
import threading
from collections.abc import Iterable
from collections.abc import Mapping
from typing import NamedTuple
from typing import Protocol

from blockattach.platform import clock as clocks
from blockattach.platform import errors
from blockattach.platform.conf import changing
from blockattach.platform.secrets import key_file

WINDOW_SECONDS = 30.0
"""Maximum difference in seconds between the time of a request and the time of the server.

The clocks of the hosts must be synchronized.
"""
MOST_NONCES = 100_000
"""Maximum number of remembered nonces.

If it is reached, requests are rejected until the oldest nonces have expired.
"""
_SECRET_BYTES = 32
_REQUEST = 'blockattach-rpc-1 request'
_ANSWER = 'blockattach-rpc-1 answer'
_NAME = re.compile(r'[A-Za-z0-9._-]{1,64}')
_NONCE = re.compile(r'[0-9a-f]{32}')
_COMMENT = '#'
_FIRST, _BYTES = 'site', 32


class Untrusted(Exception):
    """Request without a valid proof. The text contains neither a key nor a proof."""


class Forbidden(Exception):
    """Authenticated request with a key that is not valid for the topic."""


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """Named secret that the processes of a site share.

    :ivar topics: topics for which the key is valid; None for all topics
    """

    name: str
    secret: bytes = dataclasses.field(repr=False)
    topics: frozenset[str] | None = None

    def __post_init__(self) -> None:
        """Check the key.

        :raises ValueError: ``name`` contains characters that cannot be sent, or ``secret`` is too
            short
        """
        if not _NAME.fullmatch(self.name):
            raise ValueError('a key name must have 1 to 64 characters of A-Z a-z 0-9 . _ -')
        if len(self.secret) < _SECRET_BYTES:
            raise ValueError(f'a key must have at least {_SECRET_BYTES} bytes')


def new_key(name: str = 'process') -> Key:
    """Return a new random key."""
    return Key(name, secrets.token_bytes(_SECRET_BYTES))


class Keys(Protocol):
    """Keys of a process, which may change at any time."""

    @property
    def own(self) -> Key:
        """Key that authenticates the requests of this process."""

    @property
    def accepted(self) -> Mapping[str, Key]:
        """Keys that may authenticate requests to this process, by name."""


class Keyring:
    """Fixed set of keys. Implements `Keys`."""

    def __init__(self, own: Key, accepted: Iterable[Key] | None = None) -> None:
        """
        :param accepted: keys that may authenticate requests to this process; None for ``own`` only
        """
        self.own = own
        self.accepted: Mapping[str, Key] = {
            key.name: key for key in ((own,) if accepted is None else accepted)}


class Proof(NamedTuple):
    """Proof in the header of a request.

    It consists of the key name, the time, a nonce, the SHA-256 of the body, and the HMAC over
    these values and the claims (`wire.Request.claims`). The header can therefore be verified
    before the body is read, so that no body of a client without a key is kept in memory.
    """

    key: str
    time: str
    nonce: str
    digest: str
    mac: str


def prove(key: Key, clock: clocks.Clock, claims: tuple[str, ...], body: bytes) -> Proof:
    """Return the proof of a request.

    :param claims: values that the proof covers besides the body; none contains a line break
    """
    said = key.name, repr(_seconds(clock)), secrets.token_hex(16), _digest(body)
    return Proof(*said, _mac(key, _REQUEST, *claims, *said))


def prove_answer(key: Key, nonce: str, status: int, body: bytes) -> str:
    """Return the proof of a reply.

    :param nonce: nonce of the request
    """
    return _mac(key, _ANSWER, nonce, str(status), _digest(body))


def is_proved(key: Key, nonce: str, status: int, body: bytes, mac: str) -> bool:
    """Return True if the proof of a reply is from a process that has the key.

    :param nonce: nonce of the request
    :param mac: proof that the reply contains
    """
    return _same(prove_answer(key, nonce, status, body), mac)


class Verifier:
    """Verifier of the proofs of requests, which remembers nonces to detect repeated requests."""

    def __init__(self, keys: Keys, clock: clocks.Clock, most: int = MOST_NONCES) -> None:
        self._keys = keys
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: collections.OrderedDict[str, float] = collections.OrderedDict()

    def check(self, proof: Proof, claims: tuple[str, ...]) -> Key:
        """Check that the header of a request is authentic and new, and return its key.

        `check_body` checks the body.

        :raises Untrusted: the header is not authentic, or was received before
        """
        key = self._keys.accepted.get(proof.key)
        if key is None:
            raise Untrusted('unknown key')
        if not _same(_mac(key, _REQUEST, *claims, *proof[:-1]), proof.mac):
            raise Untrusted('invalid proof')
        # Only after the HMAC, so that clients without a key cannot fill the memory of nonces.
        self._check_time(proof.time)
        self._remember(proof.nonce)
        return key

    def _check_time(self, text: str) -> None:
        try:
            time = float(text)
        except ValueError:
            time = math.nan
        # The comparison is negated, so that NaN is rejected as well.
        if not abs(time - _seconds(self._clock)) <= WINDOW_SECONDS:
            raise Untrusted(f'the time of the request differs by more than {WINDOW_SECONDS:g} s '
                            'from the time of this server')

    def _remember(self, nonce: str) -> None:
        if not _NONCE.fullmatch(nonce):
            raise Untrusted('malformed nonce')
        now = _seconds(self._clock)
        with self._lock:
            # A request from a clock that is ahead is valid for up to twice the window. The
            # absolute value also covers a wall clock that was set back.
            while self._seen and abs(now - next(iter(self._seen.values()))) > 2 * WINDOW_SECONDS:
                self._seen.popitem(last=False)
            if nonce in self._seen:
                raise Untrusted('repeated nonce')
            if len(self._seen) >= self._most:
                raise Untrusted('too many requests within the time window')
            self._seen[nonce] = now


def check_body(proof: Proof, body: bytes) -> None:
    """Check that a body is the body whose digest the proof in the header contains.

    :raises Untrusted: the digest of ``body`` differs
    """
    if not _same(_digest(body), proof.digest):
        raise Untrusted('the body does not match the digest in the header')


def check_topic(key: Key, topic: str) -> None:
    """Check that a key is valid for a topic.

    :raises Forbidden: the key is not valid for the topic
    """
    if key.topics is not None and topic not in key.topics:
        raise Forbidden(f'key {key.name} is not valid for {topic}')


def _mac(key: Key, *lines: str) -> str:
    return binascii.hexlify(
        hmac.digest(key.secret, '\n'.join(lines).encode(), 'sha256')).decode()


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def _same(expected: str, given: str) -> bool:
    return hmac.compare_digest(expected.encode(), given.encode())


def _seconds(clock: clocks.Clock) -> float:
    return clock.utcnow().replace(tzinfo=datetime.UTC).timestamp()


class KeyFile:
    """Keys that are read from a file again after each change of the file. Implements `Keys`."""

    def __init__(self, path: str, topic_prefix: str) -> None:
        """Read the file. A missing file is created with a new key, readable by its owner only.

        :param topic_prefix: prefix that is added to the interface names of the file to form topics
        :raises ConfigurationError: the file cannot be created or read, is accessible to other
            users, or contains no key or an invalid line
        """
        self._prefix = topic_prefix
        try:
            key_file.make(path, _new_key)
            changing.check_private(path)
        except OSError as exc:
            raise errors.ConfigurationError(
                reason=f'cannot use {path}: {exc.strerror or exc}') from exc
        self._file = changing.ChangingFile(path, self._parse)

    def wrong(self) -> str | None:
        """Return the reason why the changed file cannot be read, or None if it was read."""
        return self._file.wrong()

    @property
    def own(self) -> Key:
        return next(iter(self.accepted.values()))

    @property
    def accepted(self) -> Mapping[str, Key]:
        return self._file.said()

    def _parse(self, text: str) -> Mapping[str, Key]:
        keys = {}
        for number, line in enumerate(text.splitlines(), 1):
            name, *parts = line.partition(_COMMENT)[0].split() or ('',)
            if not name:
                continue
            try:
                key = Key(name, bytes.fromhex(parts[0]) if parts else b'', frozenset(
                    f'{self._prefix}-{each}' for each in parts[1:]) or None)
            except ValueError:
                # The text of the error may contain a part of the secret.
                key = None
            if key is None or name in keys:
                raise errors.ConfigurationError(
                    reason=f'line {number} is not NAME SECRET [INTERFACE ...] with a unique NAME '
                           f'and a SECRET of at least 64 hexadecimal digits')
            keys[name] = key
        if not keys:
            raise errors.ConfigurationError(reason='the file contains no key')
        return keys



def _new_key() -> bytes:
    return f'{_FIRST} {secrets.token_hex(_BYTES)}'.encode()
