"""The Glance of a simulation: one in memory that outlives every process.

Each process reaches it by a `requests.Session` of its own, whose requests are not taken, refused,
cut in the middle, or carried out and not answered. Nothing goes through a socket.
"""
import datetime
import io
import json
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import requests
from requests import adapters

from blockattach.platform import units
from blockattach.tests.fixtures import glance
from lab.simulation import baton as batons
from lab.simulation import faults

URL = 'http://glance.example.org:9292'
MARK = units.MIB
"""Where the bytes of an image begin by which it is known; before are zeros."""
_MARK_BYTES = 64
# What an operator, or a quota, may say to anything at any time.
_REFUSALS = (404, 409, 413, 500, 503)
# Of so many pieces of 64 KiB that are taken, the connection is cut at most.
_CUT_PIECES = 2000
_TIME = '%Y-%m-%dT%H:%M:%SZ'
_FIRST_CHANGED = datetime.datetime(2026, 1, 1)  # noqa: DTZ001


def mark(image_id: str, version: int = 0) -> bytes:
    """The bytes by which an image is known.

    :param version: how often it was changed before
    """
    return f'image {image_id}{f" {version}" if version else ""}'.encode().ljust(_MARK_BYTES)


class Glance(glance.Images):
    """What there is in truth.

    :ivar kept: images that Glance has refused to remove, or was not heard to remove
    :ivar versions: of images that are known by their bytes, how often each was changed
    """

    def __init__(self, baton: batons.Baton, trouble: faults.Faults) -> None:
        super().__init__()
        self.kept: set[str] = set()
        self.versions: dict[str, int] = {}
        self._shown: dict[str, dict[str, Any]] = {}
        self._baton = baton
        self._faults = trouble

    def marked(self, image_id: str, **shown: Any) -> str:
        """An image that is known by its bytes."""
        self.versions[image_id] = 0
        self._shown[image_id] = shown
        return self.add(bytes(MARK) + mark(image_id), id=image_id, **shown)

    def change(self, image_id: str) -> None:
        """Other bytes under the same id, as an operator may bring them who makes it anew."""
        self.versions[image_id] += 1
        version = self.versions[image_id]
        self.add(bytes(MARK) + mark(image_id, version), id=image_id, **{
            **self._shown[image_id], 'updated_at': _changed_at(version)})

    def marks(self, image_id: str, since: int) -> set[bytes]:
        """The bytes that an image has, and has had since it was of a version."""
        return {mark(image_id, version)
                for version in range(since, self.versions[image_id] + 1)}

    def mark_at(self, image_id: str, updated_at: datetime.datetime | None) -> bytes | None:
        """Those that it had when it was changed at that time; None: it never was."""
        return next((mark(image_id, version)
                     for version in range(self.versions.get(image_id, -1) + 1)
                     if _changed_at(version) == f'{updated_at:{_TIME}}'), None)

    def mark_of(self, image_id: str) -> bytes:
        """What an image has where those bytes are."""
        return self.data.get(image_id, b'')[MARK:MARK + _MARK_BYTES]

    def session(self, touch: Callable[[str], None]) -> requests.Session:
        """As one process has it.

        :param touch: called before it is asked, and before it is heard
        """
        made = requests.Session()
        made.trust_env = False
        made.mount(URL, _Wire(self, self._baton, self._faults, touch))
        return made


def _changed_at(version: int) -> str:
    return f'{_FIRST_CHANGED + datetime.timedelta(seconds=version):{_TIME}}'


class _Wire(adapters.BaseAdapter):
    """Carries requests to it."""

    def __init__(self, there: Glance, baton: batons.Baton, trouble: faults.Faults,
                 touch: Callable[[str], None]) -> None:
        super().__init__()
        self._there = there
        self._baton = baton
        self._faults = trouble
        self._touch = touch

    def close(self) -> None:
        """As its ancestor's: nothing is open."""

    def send(self, request: requests.PreparedRequest, stream: bool = False, timeout: Any = None,
             verify: Any = True, cert: Any = None, proxies: Any = None) -> requests.Response:
        """As its ancestor's."""
        happens, what, path = self._faults.happens, _named(request), str(request.path_url)
        self._touch('glance')
        if happens('slow_glance', what):
            self._baton.wait(self._faults.seconds(self._faults.rates.slow_seconds))
        if what == 'DELETE':
            self._there.kept.add(path.rpartition('/')[2])
        if happens('glance_away', what):
            raise requests.ConnectionError('nobody listens')
        if happens('glance_refuses', what):
            return _answer(request, self._baton.chance.choice(_REFUSALS), {'message': 'No.'})
        status, body = self._there.reply(str(request.method), path, self._sent(request, what))
        self._touch('glance')
        if happens('glance_silent', what):
            raise requests.ReadTimeout('no answer')
        if what == 'DELETE' and status in (204, 404):
            self._there.kept.discard(path.rpartition('/')[2])
        if isinstance(body, bytes) and happens('glance_cut', what):
            return _answer(request, status, body, self._baton.chance.randrange(len(body)))
        return _answer(request, status, body)

    def _sent(self, request: requests.PreparedRequest, what: str) -> Iterator[bytes]:
        """What the other side sends, until it is cut."""
        body: Any = request.body or b''
        if isinstance(body, str | bytes):
            yield body.encode() if isinstance(body, str) else body
            return
        cut = self._baton.chance.randrange(_CUT_PIECES) \
            if self._faults.happens('glance_cut', what) else None
        for number, piece in enumerate(body):
            if number == cut:
                raise requests.ConnectionError('cut')
            yield piece


class _Cut(io.BytesIO):
    """An answer that breaks off, which its reader may notice or not."""

    def __init__(self, begin: bytes, noticed: bool) -> None:
        super().__init__(begin)
        self._noticed = noticed

    def read(self, size: int | None = -1) -> bytes:
        """As its ancestor's."""
        found = super().read(size)
        if not found and self._noticed:
            raise requests.exceptions.ChunkedEncodingError('cut')
        return found


def _named(request: requests.PreparedRequest) -> str:
    """What faults call a request: its method, and whether it is about bytes."""
    return f'{request.method}{" file" if str(request.path_url).endswith("/file") else ""}'


def _answer(request: requests.PreparedRequest, status: int, body: Any,
            cut: int | None = None) -> requests.Response:
    made = requests.Response()
    made.status_code, made.request, made.url = status, request, str(request.url)
    payload = body if isinstance(body, bytes) else b'' if body is None \
        else json.dumps(body).encode()
    made.raw = io.BytesIO(payload) if cut is None else _Cut(payload[:cut], cut % 2 == 0)
    return made
