"""Parser of the requests of a connection, based on llhttp.

The end of each request must be unambiguous. If a proxy sees another end, a part of a request of
one client would be taken for a request of another client (RFC 9112, sections 6.3 and 11.2). This
module therefore rejects requests that HTTP forbids but llhttp accepts, and requests that programs
interpret differently.
"""
import collections
import dataclasses
import enum
import functools

import httptools

MOST_HEADER_BYTES = 65536
_MOST_HEADERS = 200
"""Maximum number of headers of a request. Clients send far fewer.

In memory, a header takes twenty times its size.
"""
_MOST_AHEAD = 64
"""Maximum number of pipelined requests.

In memory, a request takes twenty times its size.
"""
_BESIDE = 4
"""Bytes that are added to the size of each header, so that many small headers are limited."""
# Number of bytes by which a body may exceed the limit of the application and is still read. The
# application then rejects the request with an error of the API.
_MORE_BODY_BYTES = 1048576
_VERSIONS = ('1.1', '1.0')
_HOST = 'HTTP_HOST'
_LENGTH = 'HTTP_CONTENT_LENGTH'
_CODING = 'HTTP_TRANSFER_ENCODING'
_EXPECT = 'HTTP_EXPECT'


class Stage(enum.Enum):
    """Received part of the next request."""

    NOTHING = 'nothing'
    HEADER = 'part of the header'
    BODY = 'header and part of the body'


class Refusal(Exception):
    """Invalid request. The server sends an error response and closes the connection."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclasses.dataclass(slots=True, eq=False)
class Request:
    """Parsed request.

    :ivar headers: header values by environ key
    :ivar body: the body, cut to one byte more than the application accepts
    :ivar length: size of the whole body in bytes
    :ivar closes: True if the connection is closed after the response
    :ivar leaves: True if data that still arrives is discarded before the connection is closed
    :ivar expects: True while the client waits for ``100 Continue`` before it sends the body
    :ivar missing: bytes of the body that llhttp does not parse, because the client requests an
        upgrade to another protocol. No upgrade is supported
    """

    method: str
    path: bytes
    query: bytes
    version: str
    headers: dict[str, str]
    body: bytearray = dataclasses.field(default_factory=bytearray)
    length: int = 0
    closes: bool = False
    leaves: bool = False
    expects: bool = False
    header_size: int = 0
    missing: int = 0

    @property
    def size(self) -> int:
        """Size in bytes of the request in memory."""
        return self.header_size + len(self.body)


@functools.lru_cache(maxsize=512)
def _key(name: bytes) -> str | None:
    # In the environ, a header with "_" would have the same name as one with "-", so a client could
    # hide a header from a proxy. A header with "_" is dropped.
    if b'_' in name:
        return None
    return 'HTTP_' + name.decode('latin-1').upper().replace('-', '_')


class Incoming:
    """Received requests of a connection, in the order of their arrival."""

    def __init__(self, most_body: int) -> None:
        """
        :param most_body: size of the largest body that the application accepts, in bytes
        """
        self.whole: collections.deque[Request | Refusal] = collections.deque()
        """Complete requests in the order of their arrival. A refusal is always the last item."""
        self.stage = Stage.NOTHING
        self._most_kept = most_body + 1
        self._most_read = most_body + _MORE_BODY_BYTES
        self._parser = httptools.HttpRequestParser(self)
        self._target = b''
        self._headers: list[tuple[bytes, bytes]] = []
        self._size = 0
        self._fed = 0
        self._request: Request | None = None

    @property
    def kept(self) -> int:
        """Size in bytes of the requests whose processing has not started."""
        coming = self._request.size if self._request is not None else (
            self._fed if self.stage is Stage.HEADER else 0)
        return coming + sum(each.size for each in self.whole if isinstance(each, Request))

    def expects(self) -> bool:
        """Return True if the client waits for ``100 Continue``, once for each request."""
        request = self._request
        if request is None or not request.expects:
            return False
        request.expects = False
        return True

    def feed(self, data: bytes) -> None:
        """Parse received data. Complete requests and refusals are added to `whole`."""
        self._size += len(data)
        self._fed = len(data) + (0 if self.stage is Stage.NOTHING else self._fed)
        try:
            if self._request is not None and self._request.missing:
                self._take_missing(data)
            else:
                self._parser.feed_data(data)
            if self.stage is Stage.NOTHING:
                self._size = 0
            elif self._size > MOST_HEADER_BYTES:
                self._check_size()
        except httptools.HttpParserUpgrade as upgrade:
            self._take_missing(data[upgrade.args[0]:])
        except (httptools.HttpParserError, Refusal) as error:
            self._refuse(error)

    def end(self) -> None:
        """Handle the end of the received data. An incomplete request is refused."""
        if self.stage is not Stage.NOTHING:
            self._refuse(_bad('The request is incomplete.'))

    # The names of the methods below are httptools'.

    def on_message_begin(self) -> None:
        if len(self.whole) >= _MOST_AHEAD and isinstance(last := self.whole[-1], Request):
            # The response to the last accepted request closes the connection. The client must
            # repeat the further requests on a new connection.
            last.closes = True
            raise _bad('Too many pipelined requests.')
        self._headers.clear()
        self._target = b''
        self._size = 0
        self.stage = Stage.HEADER

    def on_url(self, part: bytes) -> None:
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers, which follow the body, are dropped because they cannot be trusted.
        if self._request is None:
            if len(self._headers) >= _MOST_HEADERS:
                raise _long_header()
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._request = self._begin()
        self.stage = Stage.BODY

    def on_body(self, part: bytes) -> None:
        """Store a part of the body, without the framing of chunks."""
        request = self._request
        assert request is not None
        request.length += len(part)
        request.body += part[:max(self._most_kept - len(request.body), 0)]
        if request.length > self._most_read:
            raise _too_large()

    def on_message_complete(self) -> None:
        """Add the complete request to `whole`, unless a part of the body is missing."""
        request = self._request
        assert request is not None
        # llhttp does not parse the body of a request for an upgrade.
        if request.missing:
            return
        self._request = None
        self.whole.append(request)
        self.stage = Stage.NOTHING

    def _begin(self) -> Request:
        parser = self._parser
        version = parser.get_http_version()
        if version not in _VERSIONS:
            raise Refusal('505 HTTP Version Not Supported', 'The HTTP version is not supported.')
        size = len(self._target) + sum(len(name) + len(value) + _BESIDE
                                       for name, value in self._headers)
        if size > MOST_HEADER_BYTES:
            raise _long_header()
        target = _split(self._target)
        headers = self._named(version)
        coding = headers.pop(_CODING, None)
        if coding is not None and coding.lower() != 'chunked':
            raise Refusal('501 Not Implemented', 'The only supported transfer coding is chunked.')
        length = int(headers.pop(_LENGTH, 0))
        if length > self._most_read:
            raise _too_large()
        request = Request(parser.get_method().decode('latin-1'), *target, version, headers,
                          header_size=size)
        upgrade = parser.should_upgrade()
        if upgrade:
            if coding is not None:
                raise Refusal('501 Not Implemented', 'Protocol upgrades are not supported.')
            request.missing = length
        # Programs disagree about the end of bodies in chunks, so no further request is read after
        # such a body.
        request.leaves = upgrade or coding is not None
        request.closes = request.leaves or not parser.should_keep_alive()
        request.expects = version == '1.1' and headers.get(_EXPECT, '').lower() == '100-continue'
        return request

    def _named(self, version: str) -> dict[str, str]:
        headers: dict[str, str] = {}
        for name, value in self._headers:
            key = _key(name)
            if key is None:
                continue
            text = value.decode('latin-1').strip(' \t')
            if key in headers:
                if key == _HOST:
                    raise _bad('The request has more than one Host header.')
                text = f'{headers[key]}, {text}'
            headers[key] = text
        if _HOST not in headers and version == '1.1':
            raise _bad('The request has no Host header.')
        return headers

    def _take_missing(self, data: bytes) -> None:
        """Store a part of the body that llhttp does not parse because of an upgrade.

        The request is handled as HTTP/1.1. Data after the body is discarded.
        """
        request = self._request
        if request is None:
            return
        part = data[:request.missing]
        request.missing -= len(part)
        self.on_body(part)
        if not request.missing:
            self.on_message_complete()

    def _check_size(self) -> None:
        """Raise Refusal if the received header or body is too large."""
        if self.stage is Stage.HEADER:
            raise _long_header()
        # Twice the body, because chunks of a few bytes have more framing than data.
        if self._size > MOST_HEADER_BYTES + 2 * self._most_read:
            raise _too_large()

    def _refuse(self, error: Exception) -> None:
        last = self.whole[-1] if self.whole else None
        if isinstance(last, Request) and last.closes:
            # Data after the last request is discarded.
            last.leaves = True
            return
        # httptools replaces errors that its callbacks raise, and keeps them as the context.
        cause = error if isinstance(error, Refusal) else error.__context__
        self.whole.append(cause if isinstance(cause, Refusal) else _named_by_parser(error))
        self.stage = Stage.NOTHING


def _split(target: bytes) -> tuple[bytes, bytes]:
    if b'#' in target:
        raise _bad('The request target must not contain a fragment.')
    if target.startswith(b'/'):
        path, _, query = target.partition(b'?')
        return path, query
    if target == b'*':
        return target, b''
    try:
        # A client that takes this server for a proxy sends a whole URL.
        url = httptools.parse_url(target)
    except httptools.HttpParserError:
        url = None
    if url is None or url.schema is None:
        raise _bad('The request target must be a path or a URL.')
    return url.path or b'/', url.query or b''


def _named_by_parser(error: Exception) -> Refusal:
    if isinstance(error, httptools.HttpParserInvalidMethodError):
        return Refusal('501 Not Implemented', 'The method is not supported.')
    return _bad(f'{error}.')


def _bad(reason: str) -> Refusal:
    return Refusal('400 Bad Request', reason)


def _long_header() -> Refusal:
    return Refusal('431 Request Header Fields Too Large', 'The request header is too large.')


def _too_large() -> Refusal:
    return Refusal('413 Content Too Large', 'The request body is too large.')
