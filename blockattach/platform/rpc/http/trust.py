"""How processes of a site prove to each other that they are: HMAC-SHA256 by a shared key.

A request is proved over all that it says, the time and a nonce, so it cannot be changed, sent
elsewhere or sent twice; an answer is proved over the request's nonce, so it cannot be that of
another request. Nothing is encrypted.
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

WINDOW_SECONDS = 30.0
"""How much a request's time may differ from the server's; hosts must have their clocks set."""
MOST_NONCES = 100_000
"""How many are remembered; beyond that requests are refused until the oldest are out of date."""
_SECRET_BYTES = 32
_REQUEST = 'blockattach-rpc-1 request'
_ANSWER = 'blockattach-rpc-1 answer'
_NAME = re.compile(r'[A-Za-z0-9._-]{1,64}')
_NONCE = re.compile(r'[0-9a-f]{32}')


class Untrusted(Exception):
    """A request does not prove what it must. Its text never has a key or a proof in it."""


class Forbidden(Exception):
    """A request is from whom it says, who may not send to this topic."""


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """A secret that two sides share. ``topics`` are those that may be sent to; None: all."""

    name: str
    secret: bytes = dataclasses.field(repr=False)
    topics: frozenset[str] | None = None

    def __post_init__(self) -> None:
        """
        :raises ValueError: the name cannot be sent, or the secret could be guessed
        """
        if not _NAME.fullmatch(self.name):
            raise ValueError('a key name must have 1 to 64 characters of A-Z a-z 0-9 . _ -')
        if len(self.secret) < _SECRET_BYTES:
            raise ValueError(f'a key must have at least {_SECRET_BYTES} bytes')


def new_key(name: str = 'process') -> Key:
    """A key that nobody else has."""
    return Key(name, secrets.token_bytes(_SECRET_BYTES))


class Keys(Protocol):
    """The keys of one process: the one that it sends with, and by name those that it accepts."""

    @property
    def own(self) -> Key:
        """As they are now."""

    @property
    def accepted(self) -> Mapping[str, Key]:
        """As they are now."""


class Keyring:
    """Keys that do not change."""

    def __init__(self, own: Key, accepted: Iterable[Key] | None = None) -> None:
        """
        :param accepted: its own, if not given
        """
        self.own = own
        self.accepted: Mapping[str, Key] = {
            key.name: key for key in ((own,) if accepted is None else accepted)}


class Proof(NamedTuple):
    """Proof in the header of a request.

    It consists of the key name, the time, a nonce, the SHA-256 of the body, and the HMAC over
    these and the claims. The header can therefore be verified before the body is read, so that no
    body of a client without a key is kept in memory.
    """

    key: str
    time: str
    nonce: str
    digest: str
    mac: str


def prove(key: Key, clock: clocks.Clock, claims: tuple[str, ...], body: bytes) -> Proof:
    """Return the proof of a request with these claims, none of which contains a line break."""
    said = key.name, repr(_seconds(clock)), secrets.token_hex(16), _digest(body)
    return Proof(*said, _mac(key, _REQUEST, *claims, *said))


def prove_answer(key: Key, nonce: str, status: int, body: bytes) -> str:
    """The proof of the answer to the request with this nonce."""
    return _mac(key, _ANSWER, nonce, str(status), _digest(body))


def is_proved(key: Key, nonce: str, status: int, body: bytes, mac: str) -> bool:
    """Whether an answer is that of a process with this key to the request with this nonce."""
    return _same(prove_answer(key, nonce, status, body), mac)


class Verifier:
    """What a server believes."""

    def __init__(self, keys: Keys, clock: clocks.Clock, most: int = MOST_NONCES) -> None:
        self._keys = keys
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: collections.OrderedDict[str, float] = collections.OrderedDict()

    def check(self, proof: Proof, claims: tuple[str, ...]) -> Key:
        """Return the key of a request whose header is new and authentic. `check_body` verifies
        its body.

        :raises Untrusted: it may not be
        """
        key = self._keys.accepted.get(proof.key)
        if key is None:
            raise Untrusted('unknown key')
        if not _same(_mac(key, _REQUEST, *claims, *proof[:-1]), proof.mac):
            raise Untrusted('invalid proof')
        self._check_time(proof.time)
        self._remember(proof.nonce)
        return key

    def _check_time(self, text: str) -> None:
        try:
            time = float(text)
        except ValueError:
            time = math.nan
        # So that what is no number is refused as well.
        if not abs(time - _seconds(self._clock)) <= WINDOW_SECONDS:
            raise Untrusted(f'the time of the request differs by more than {WINDOW_SECONDS:g} s '
                            'from the time of this server')

    def _remember(self, nonce: str) -> None:
        if not _NONCE.fullmatch(nonce):
            raise Untrusted('malformed nonce')
        now = _seconds(self._clock)
        with self._lock:
            # One that came from the future is in the window for twice its width.
            while self._seen and abs(now - next(iter(self._seen.values()))) > 2 * WINDOW_SECONDS:
                self._seen.popitem(last=False)
            if nonce in self._seen:
                raise Untrusted('repeated nonce')
            if len(self._seen) >= self._most:
                raise Untrusted('too many requests within the time window')
            self._seen[nonce] = now


def check_body(proof: Proof, body: bytes) -> None:
    """
    :raises Untrusted: the body is not that of the request
    """
    if not _same(_digest(body), proof.digest):
        raise Untrusted('the body does not match the digest in the header')


def check_topic(key: Key, topic: str) -> None:
    """
    :raises Forbidden: the key is not for this topic
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
