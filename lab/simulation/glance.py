"""Simulated Glance in memory, which outlives every process.

Each process reaches it through a `requests.Session` of its own, without sockets. A request may be
refused, cut off in the middle, never sent, or executed without an answer.
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
"""Offset of the mark that identifies the data of an image. Zeros precede the mark."""
_MARK_BYTES = 64
# Status codes that operators or quotas may cause for any request.
_REFUSALS = (404, 409, 413, 500, 503)
# Upper bound of the number of 64 KiB pieces after which an upload is cut off.
_CUT_PIECES = 2000
_TIME = '%Y-%m-%dT%H:%M:%SZ'
_FIRST_CHANGED = datetime.datetime(2026, 1, 1)  # noqa: DTZ001


def mark(image_id: str, version: int = 0) -> bytes:
    """Return the bytes that identify the data of an image.

    :param version: number of earlier changes of the data
    """
    return f'image {image_id}{f" {version}" if version else ""}'.encode().ljust(_MARK_BYTES)


class Glance(glance.Images):
    """All images in memory.

    :ivar kept: images whose deletion failed or was not confirmed
    :ivar versions: number of changes of each marked image
    """

    def __init__(self, baton: batons.Baton, trouble: faults.Faults) -> None:
        super().__init__()
        self.kept: set[str] = set()
        self.versions: dict[str, int] = {}
        self._shown: dict[str, dict[str, Any]] = {}
        self._baton = baton
        self._faults = trouble

    def marked(self, image_id: str, **shown: Any) -> str:
        """Add an image whose data contains its mark."""
        self.versions[image_id] = 0
        self._shown[image_id] = shown
        return self.add(bytes(MARK) + mark(image_id), id=image_id, **shown)

    def change(self, image_id: str) -> None:
        """Replace the data of an image under the same ID, as an operator may do."""
        self.versions[image_id] += 1
        version = self.versions[image_id]
        self.add(bytes(MARK) + mark(image_id, version), id=image_id, **{
            **self._shown[image_id], 'updated_at': _changed_at(version)})

    def marks(self, image_id: str, since: int) -> set[bytes]:
        """Return the marks of an image from version ``since`` to the current one."""
        return {mark(image_id, version)
                for version in range(since, self.versions[image_id] + 1)}

    def mark_at(self, image_id: str, updated_at: datetime.datetime | None) -> bytes | None:
        """Return the mark of the version with this ``updated_at``, or None if there is none."""
        return next((mark(image_id, version)
                     for version in range(self.versions.get(image_id, -1) + 1)
                     if _changed_at(version) == f'{updated_at:{_TIME}}'), None)

    def mark_of(self, image_id: str) -> bytes:
        """Return the bytes at the place of the mark in the data of an image."""
        return self.data.get(image_id, b'')[MARK:MARK + _MARK_BYTES]

    def session(self, touch: Callable[[str], None]) -> requests.Session:
        """Return a session of one process.

        :param touch: called before a request is executed, and before its answer is delivered
        """
        made = requests.Session()
        made.trust_env = False
        made.mount(URL, _Wire(self, self._baton, self._faults, touch))
        return made


def _changed_at(version: int) -> str:
    return f'{_FIRST_CHANGED + datetime.timedelta(seconds=version):{_TIME}}'


class _Wire(adapters.BaseAdapter):
    """Transport adapter that carries requests to the simulated Glance."""

    def __init__(self, there: Glance, baton: batons.Baton, trouble: faults.Faults,
                 touch: Callable[[str], None]) -> None:
        super().__init__()
        self._there = there
        self._baton = baton
        self._faults = trouble
        self._touch = touch

    def close(self) -> None:
        pass

    def send(self, request: requests.PreparedRequest, stream: bool = False, timeout: Any = None,
             verify: Any = True, cert: Any = None, proxies: Any = None) -> requests.Response:
        happens, what, path = self._faults.happens, _named(request), str(request.path_url)
        self._touch('glance')
        if happens('slow_glance', what):
            self._baton.wait(self._faults.seconds(self._faults.rates.slow_seconds))
        if what == 'DELETE':
            self._there.kept.add(path.rpartition('/')[2])
        if happens('glance_away', what):
            raise requests.ConnectionError('connection refused')
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
        """Yield the body of a request, until it is cut off."""
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
    """Body of an answer that is cut off. The reader gets an error only if ``noticed``."""

    def __init__(self, begin: bytes, noticed: bool) -> None:
        super().__init__(begin)
        self._noticed = noticed

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        if not found and self._noticed:
            raise requests.exceptions.ChunkedEncodingError('cut')
        return found


def _named(request: requests.PreparedRequest) -> str:
    """Return the name of a request for faults: its method, and whether it concerns image data."""
    return f'{request.method}{" file" if str(request.path_url).endswith("/file") else ""}'


def _answer(request: requests.PreparedRequest, status: int, body: Any,
            cut: int | None = None) -> requests.Response:
    made = requests.Response()
    made.status_code, made.request, made.url = status, request, str(request.url)
    payload = body if isinstance(body, bytes) else b'' if body is None \
        else json.dumps(body).encode()
    made.raw = io.BytesIO(payload) if cut is None else _Cut(payload[:cut], cut % 2 == 0)
    return made
