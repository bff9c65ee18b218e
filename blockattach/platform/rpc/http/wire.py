"""Encoding of requests and replies: the subset of HTTP/1.1 that the client and the server use.

A request is ``POST /rpc/TOPIC`` with ``Content-Length`` or in chunks. Requests are not pipelined.
The reply is sent in chunks if heartbeats precede the reply. A heartbeat is a chunk with a space,
which JSON ignores. The proof of such a reply is in the trailer, because the body is not known
when the header is sent. Both ends belong to this project, so any deviation is rejected.
"""
import dataclasses
import enum
import math
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from urllib import parse

import httptools
import orjson

from blockattach.platform.rpc.http import trust

HEADER_BYTES = 16 * 1024
BODY_BYTES = 16 * 1024 * 1024
# Includes the overhead of a body in chunks.
_MOST_BYTES = HEADER_BYTES + 2 * BODY_BYTES
_LINE_BYTES = 4
"""Bytes of a header line in addition to its name and value."""
_MOST_HEADERS = 32
"""Maximum number of headers of a message. Clients send far fewer.

In memory, a header takes a hundred times its size.
"""
_ROOT = '/rpc/'
# Only plain data is sent, so dataclasses and datetimes raise an error like other objects.
_OPTIONS = (orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
            | orjson.OPT_PASSTHROUGH_DATETIME)

_TO, _PROOF = 'blockattach-to', 'blockattach-proof'
_AUTHORIZATION, _SCHEME = 'authorization', 'blockattach'
_NEVER = '-'
_LENGTH, _CODING, _CHUNKED = 'content-length', 'transfer-encoding', 'chunked'
_REASONS = {200: 'OK', 202: 'Accepted', 400: 'Bad Request', 401: 'Unauthorized', 403: 'Forbidden',
            421: 'Misdirected Request', 503: 'Service Unavailable'}
HEARTBEAT = b'1\r\n \r\n'


class Malformed(Exception):
    """Received data that is not a valid request or reply."""


class Kind(enum.StrEnum):
    """Kind of a message. The sender of a call waits for the result."""

    CALL = 'call'
    CAST = 'cast'


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """Message to a server.

    :ivar monitor: seconds within which the caller expects a heartbeat; None for no heartbeats
    """

    topic: str
    authority: str
    instance: str
    kind: Kind
    monitor: float | None
    body: bytes = b''

    @property
    def claims(self) -> tuple[str, ...]:
        """Values that the proof covers besides the body."""
        return ('POST', _path(self.topic), self.authority, self.instance, self.kind.value,
                _number(self.monitor))

    def written(self, proof: trust.Proof) -> bytes:
        """Return the bytes of the request with its proof."""
        return _written(f'POST {_path(self.topic)} HTTP/1.1', {
            'host': self.authority, 'content-type': 'application/json', _TO: self.to,
            _AUTHORIZATION: ' '.join((_SCHEME, *proof))}, self.body)

    @property
    def to(self) -> str:
        """Value of the header ``blockattach-to``: instance, kind and heartbeat interval."""
        return ' '.join(self.claims[3:])


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """Reply of a server.

    :ivar proof: empty if the reply has no proof
    :ivar closes: True if the server closes the connection after the reply
    """

    status: int
    body: bytes
    proof: str
    closes: bool


def encode(content: Any) -> bytes:
    """Encode plain data as JSON.

    :raises TypeError: the content is not plain data
    :raises ValueError: the content is too large
    """
    body = orjson.dumps(content, option=_OPTIONS)
    if len(body) > BODY_BYTES:
        raise ValueError(f'the message exceeds {BODY_BYTES} bytes')
    return body


def decode(body: bytes, keys: Iterable[str]) -> dict[str, Any]:
    """Decode a JSON object, and check that its keys are exactly ``keys``.

    :raises Malformed: the body is not a JSON object with these keys
    """
    try:
        content = orjson.loads(body)
    except ValueError:
        raise Malformed('the body is not JSON') from None
    if not isinstance(content, dict) or content.keys() != set(keys):
        raise Malformed('the body has unexpected members')
    return content


def answer(status: int, body: bytes = b'', proof: str | None = None,
           closes: bool = False) -> bytes:
    """Return the bytes of a complete reply.

    :param proof: None for a reply without a proof
    :param closes: True if the connection is closed after the reply
    """
    headers = {'content-type': 'application/json'}
    if proof is not None:
        headers[_PROOF] = proof
    if closes:
        headers['connection'] = 'close'
    return _written(f'HTTP/1.1 {status} {_REASONS[status]}', headers, body)


def opening() -> bytes:
    """Return the beginning of a reply in chunks, to be followed by heartbeats."""
    return (f'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{_CODING}: {_CHUNKED}\r\n'
            f'trailer: {_PROOF}\r\n\r\n').encode()


def closing(body: bytes, proof: str) -> bytes:
    """Return the end of a reply in chunks, which contains the body and the proof."""
    return b'%x\r\n%b\r\n0\r\n%b: %b\r\n\r\n' % (len(body), body, _PROOF.encode(),
                                               proof.encode())


class Reader:
    """Parser of a message that arrives in pieces. httptools calls the ``on_...`` methods.

    :ivar whole: True if the message is complete
    :ivar in_body: True if the header is complete
    """

    parser: httptools.HttpRequestParser | httptools.HttpResponseParser

    def __init__(self) -> None:
        self.whole = False
        self.in_body = False
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._size = 0
        self._header_size = 0

    def feed(self, data: bytes) -> None:
        """Parse received data.

        :raises Malformed: the data is not a valid message
        """
        self._size += len(data)
        try:
            self.parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # httptools replaces errors that its callbacks raise, and keeps them as the context.
            if isinstance(error.__context__, Malformed):
                raise error.__context__ from None
            raise Malformed(f'invalid HTTP: {type(error).__name__}') from None
        if not self.in_body and self._size > HEADER_BYTES:
            raise Malformed('the header is too large')
        if self._size > _MOST_BYTES:
            raise Malformed('the body is too large')

    def on_message_begin(self) -> None:
        """Reject a second message, because messages are not pipelined."""
        if self.whole:
            raise Malformed('data follows the message')

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header, or a line of the trailer."""
        self._header_size += len(name) + len(value) + _LINE_BYTES
        key = name.decode('latin-1').lower()
        if self.in_body and not self._may_trail(key):
            raise Malformed('unexpected trailer')
        if key in self._headers:
            raise Malformed('duplicate header')
        if len(self._headers) >= _MOST_HEADERS:
            raise Malformed('too many headers')
        self._headers[key] = value.decode('latin-1').strip(' \t')

    def on_headers_complete(self) -> None:
        if self._header_size > HEADER_BYTES:
            raise Malformed('the header is too large')
        if self.parser.get_http_version() != '1.1':
            raise Malformed('not HTTP/1.1')
        length, coding = self._headers.get(_LENGTH), self._headers.get(_CODING)
        if (length is None) == (coding is None) or coding not in (None, _CHUNKED):
            raise Malformed('exactly one of Content-Length and chunked encoding is required')
        if length is not None and int(length) > BODY_BYTES:
            raise Malformed('the body is too large')
        self._check_start()
        self.in_body = True

    def on_body(self, part: bytes) -> None:
        self._body += part
        if len(self._body) > BODY_BYTES:
            raise Malformed('the body is too large')

    def on_message_complete(self) -> None:
        self.whole = True

    def _may_trail(self, key: str) -> bool:
        return False

    def _check_start(self) -> None:
        """Check the start line, and the headers that only requests or only replies have."""


class RequestReader(Reader):
    """Parser of requests, for the server."""

    def __init__(self) -> None:
        super().__init__()
        self._target = b''
        self.parser = self._requests = httptools.HttpRequestParser(self)

    @property
    def begun(self) -> bool:
        """True if a part of the request has arrived."""
        return self._size > 0

    def on_url(self, part: bytes) -> None:
        self._target += part
        self._header_size += len(part)

    @property
    def body(self) -> bytes:
        """Part of the body that has arrived so far."""
        return bytes(self._body)

    def request(self) -> tuple[Request, trust.Proof]:
        """Return the request without its body, and its proof, once the header is complete.

        :raises Malformed: a part of the header is missing or invalid
        """
        get = self._headers.get
        try:
            instance, kind, monitor = get(_TO, '').split(' ')
            scheme, *proof = get(_AUTHORIZATION, '').split(' ')
            request = Request(parse.unquote(self._target.decode('ascii').removeprefix(_ROOT)),
                              get('host', ''), instance, Kind(kind),
                              float(monitor) if monitor != _NEVER else None)
            proved = trust.Proof(*proof)
        except (TypeError, ValueError):
            raise Malformed('the recipient or the proof is missing or invalid') from None
        if request.monitor is not None and not 0 < request.monitor < math.inf:
            raise Malformed('invalid heartbeat interval')
        # The proof covers the canonical form, so a header in another form would not be covered.
        if (self._target, get(_TO), scheme) != (_path(request.topic).encode(), request.to,
                                                _SCHEME):
            raise Malformed('the header is not in canonical form')
        return request, proved

    def _check_start(self) -> None:
        target = self._target
        if self._requests.get_method() != b'POST' or not target.startswith(_ROOT.encode()):
            raise Malformed('not POST /rpc/TOPIC')
        if not target.isascii() or 'expect' in self._headers or self.parser.should_upgrade():
            raise Malformed('unsupported target, Expect header, or upgrade')


class AnswerReader(Reader):
    """Parser of replies, for the client."""

    def __init__(self) -> None:
        super().__init__()
        self.parser = self._answers = httptools.HttpResponseParser(self)

    def answer(self) -> Answer:
        """Return the complete reply, without the heartbeats."""
        return Answer(self._answers.get_status_code(), bytes(self._body).lstrip(b' '),
                      self._headers.get(_PROOF, ''),
                      self._headers.get('connection', '').lower() == 'close')

    def _may_trail(self, key: str) -> bool:
        return key == _PROOF

    def _check_start(self) -> None:
        if self._answers.get_status_code() not in _REASONS:
            raise Malformed('unexpected status')


def _path(topic: str) -> str:
    return _ROOT + parse.quote(topic, safe='')


def _number(seconds: float | None) -> str:
    return _NEVER if seconds is None else repr(float(seconds))


def _written(start: str, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [start, *(f'{name}: {value}' for name, value in headers.items()),
             f'{_LENGTH}: {len(body)}', '', '']
    return '\r\n'.join(lines).encode() + body
