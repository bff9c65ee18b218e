"""From the bytes of a connection to requests whose end is certain, by llhttp.

Behind a proxy that guesses otherwise, the rest of one client's request would be taken for the next
request of another one (RFC 9112, 6.3 and 11.2). What llhttp lets pass and HTTP forbids, or what
two programs read differently, is refused here.
"""
import collections
import dataclasses
import enum
import functools

import httptools

MOST_HEADER_BYTES = 65536
_MOST_HEADERS = 200
"""Maximum number of headers. Each takes twenty times its size, and clients send few."""
_MOST_AHEAD = 64
"""Maximum number of pipelined requests. Each takes twenty times its size in memory."""
_BESIDE = 4
"""Bytes of a header besides name and value, so that many small headers count too."""
# A body that is somewhat too large is refused by the application, with the API's error.
_MORE_BODY_BYTES = 1048576
_VERSIONS = ('1.1', '1.0')
_HOST = 'HTTP_HOST'
_LENGTH = 'HTTP_CONTENT_LENGTH'
_CODING = 'HTTP_TRANSFER_ENCODING'
_EXPECT = 'HTTP_EXPECT'


class Stage(enum.Enum):
    """What is there of the request that comes next."""

    NOTHING = 'nothing'
    HEADER = 'part of the header'
    BODY = 'header and part of the body'


class Refusal(Exception):
    """Cannot be a request. The server answers it, and the connection ends."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@dataclasses.dataclass(slots=True, eq=False)
class Request:
    """One request. ``headers`` are named as in an environ; ``length`` is that of the whole body,
    of which ``body`` has no more than the application may read."""

    method: str
    path: bytes
    query: bytes
    version: str
    headers: dict[str, str]
    body: bytearray = dataclasses.field(default_factory=bytearray)
    length: int = 0
    # The connection ends after it; whatever still arrives is discarded.
    closes: bool = False
    leaves: bool = False
    # The client sends the body when it is asked to.
    expects: bool = False
    header_size: int = 0
    # How much of the body llhttp leaves to another protocol, none of which is spoken here.
    missing: int = 0

    @property
    def size(self) -> int:
        """Size in bytes of the request in memory."""
        return self.header_size + len(self.body)


@functools.lru_cache(maxsize=512)
def _key(name: bytes) -> str | None:
    """The name in an environ. ``_`` in place of ``-`` could hide a header from a proxy: an
    application gets both under one name, so such a header is dropped."""
    if b'_' in name:
        return None
    return 'HTTP_' + name.decode('latin-1').upper().replace('-', '_')


class Incoming:
    """The requests of one connection, in their order."""

    def __init__(self, most_body: int) -> None:
        """
        :param most_body: the largest body that the application reads, in bytes
        """
        self.whole: collections.deque[Request | Refusal] = collections.deque()
        """Those that can be answered. Behind a refusal nothing comes."""
        self.stage = Stage.NOTHING
        self._most_kept = most_body + 1
        self._most_read = most_body + _MORE_BODY_BYTES
        self._parser = httptools.HttpRequestParser(self)
        self._target = b''
        self._headers: list[tuple[bytes, bytes]] = []
        self._size = 0
        self._fed = 0
        self._request: Request | None = None
        self._refusal: Refusal | None = None

    @property
    def kept(self) -> int:
        """Size in bytes of the requests whose processing has not begun."""
        coming = self._request.size if self._request is not None else (
            self._fed if self.stage is Stage.HEADER else 0)
        return coming + sum(one.size for one in self.whole if isinstance(one, Request))

    def expects(self) -> bool:
        """Whether the client waits to be asked for the body; true once."""
        request = self._request
        if request is None or not request.expects:
            return False
        request.expects = False
        return True

    def feed(self, data: bytes) -> None:
        """Something has come."""
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
        """Nothing more comes: what has begun never becomes a request."""
        if self.stage is not Stage.NOTHING:
            self._refuse(_bad('The request is incomplete.'))

    # The names of the methods below are httptools'.

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        if len(self.whole) >= _MOST_AHEAD and isinstance(last := self.whole[-1], Request):
            # The client must repeat the other requests on a new connection.
            last.closes = True
            raise _bad('Too many pipelined requests.')
        self._headers.clear()
        self._target = b''
        self._size = 0
        self.stage = Stage.HEADER

    def on_url(self, part: bytes) -> None:
        """A part of the request target."""
        self._target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header. Behind the body nothing is believed."""
        if self._request is None:
            if len(self._headers) >= _MOST_HEADERS:
                self._refusal = _long_header()
                raise self._refusal
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The header is whole."""
        try:
            self._request = self._begin()
        except Refusal as refusal:
            self._refusal = refusal
            raise
        self.stage = Stage.BODY

    def on_body(self, part: bytes) -> None:
        """A part of the body, out of its chunk if there are any."""
        request = self._request
        assert request is not None
        request.length += len(part)
        request.body += part[:max(self._most_kept - len(request.body), 0)]
        if request.length > self._most_read:
            self._refusal = _too_large()
            raise self._refusal

    def on_message_complete(self) -> None:
        """The end of a request, or of what llhttp reads of it."""
        request = self._request
        assert request is not None
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
        # Where a body in chunks ends is what programs have always disagreed about.
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
        """The client asks for another protocol. It is answered in this one, and what it sends
        after that is discarded."""
        request = self._request
        if request is None:
            return
        part = data[:request.missing]
        request.missing -= len(part)
        self.on_body(part)
        if not request.missing:
            self.on_message_complete()

    def _check_size(self) -> None:
        """Whatever pads a body in chunks has an end as well."""
        if self.stage is Stage.HEADER:
            raise _long_header()
        if self._size > MOST_HEADER_BYTES + 2 * self._most_read:
            raise _too_large()

    def _refuse(self, error: Exception) -> None:
        last = self.whole[-1] if self.whole else None
        if isinstance(last, Request) and last.closes:
            # What follows the end is discarded.
            last.leaves = True
            return
        refusal = self._refusal
        if refusal is None:
            refusal = error if isinstance(error, Refusal) else _named_by_parser(error)
        self.whole.append(refusal)
        self.stage = Stage.NOTHING


def _split(target: bytes) -> tuple[bytes, bytes]:
    """The path and the query. What a client sends to a proxy has more before them."""
    if b'#' in target:
        raise _bad('The request target must not contain a fragment.')
    if target.startswith(b'/'):
        path, _, query = target.partition(b'?')
        return path, query
    if target == b'*':
        return target, b''
    try:
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
