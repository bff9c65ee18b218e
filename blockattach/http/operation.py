"""One row of the API: everything that is promised about one operation, and what its handler gets.

A resource is a literal table of `Operation`; `blockattach.http.dispatch` enforces each row in a
fixed order, so a handler can neither forget the policy nor see an unchecked body.
"""
import dataclasses
import functools
import hashlib
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple
from urllib import parse

import orjson

from blockattach import context as request_context
from blockattach import errors

Schema = Mapping[str, Any]


class V(NamedTuple):
    """A microversion: ``V(3, 27)``. Ordered as numbers are: 3.9 comes before 3.27."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f'{self.major}.{self.minor}'


BASE = V(3, 0)
"""The version of a request that names none."""

NONE = V(0, 0)
"""Below every version: what the client did not ask for."""


class Query:
    """The query string: like a mapping, but a name may come several times."""

    __slots__ = ('pairs',)

    def __init__(self, pairs: Sequence[tuple[str, str]] = ()) -> None:
        self.pairs = tuple(pairs)

    @classmethod
    def parse(cls, text: str) -> 'Query':
        """Take a query string apart.

        :raises InvalidInput: it is not UTF-8 behind its percent signs, or has a zero character
        """
        if not text:
            return cls()
        try:
            pairs = parse.parse_qsl(text, keep_blank_values=True, errors='strict')
        except ValueError:
            raise errors.InvalidInput('Query string is not UTF-8 encoded') from None
        if '%00' in text or '\0' in text:
            raise errors.InvalidInput('Query string has a zero character')
        return cls(pairs)

    def get(self, name: str, default: str | None = None) -> str | None:
        """The last value of the name."""
        for key, value in reversed(self.pairs):
            if key == name:
                return value
        return default

    def all(self, name: str) -> list[str]:
        """Every value of the name, in order."""
        return [value for key, value in self.pairs if key == name]

    def as_dict(self) -> dict[str, str]:
        """The last value of each name: what a schema checks."""
        return dict(self.pairs)

    def replaced(self, name: str, value: str, *left_out: str) -> str:
        """The query string with one name set anew, the others as they came."""
        kept = [pair for pair in self.pairs if pair[0] not in (name, *left_out)]
        return parse.urlencode([*kept, (name, value)])

    def __contains__(self, name: str) -> bool:
        return any(key == name for key, _ in self.pairs)

    def __iter__(self) -> Iterator[str]:
        return iter(self.as_dict())

    def __len__(self) -> int:
        return len(self.pairs)


@dataclasses.dataclass(frozen=True, slots=True)
class Url:
    """Where the request came to, as links of the answer need it."""

    base: str = ''
    """What stands before ``/v3``: the public endpoint, else what the client called."""
    project: str = ''
    """``/`` and the project id if the request named one, else nothing."""
    path: str = ''
    """The path below ``/v3`` and the project."""


@dataclasses.dataclass(slots=True)
class Call:
    """One request as a handler sees it: checked, parsed, and its target loaded and permitted."""

    context: request_context.RequestContext
    version: V = BASE
    extension: V | None = None
    """The negotiated version of ``blockattach``; None where the client did not ask for it."""
    path: dict[str, str] = dataclasses.field(default_factory=dict)
    """The variables of the operation's path, without the project id."""
    query: Query = dataclasses.field(default_factory=Query)
    body: Any = None
    """The parsed JSON, if the operation has a schema for its body."""
    target: Any = None
    """What the operation's ``target`` returned."""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    url: Url = dataclasses.field(default_factory=Url)

    def link(self, path: str) -> str:
        """The address of something of the API, ``path`` from the noun on: ``/volumes/<id>``."""
        return f'{self.url.base}/v3{self.url.project}{path}'

    def bookmark(self, path: str) -> str:
        """The URL without the version: what the API calls a bookmark."""
        return f'{self.url.base}{self.url.project}{path}'

    def next_link(self, marker: str) -> str:
        """The URL of the next page: this query from ``marker`` on.

        What was passed over before the first page (``offset``) is not passed over again.
        """
        return f'{self.link(self.url.path)}?{self.query.replaced("marker", marker, "offset")}'

    @property
    def idempotency_key(self) -> str | None:
        """What the client calls this request, so that a repeat makes nothing twice."""
        return self.headers.get('Idempotency-Key')

    @property
    def body_digest(self) -> str:
        """Equal for equal bodies, however their keys were ordered: 64 hexadecimal digits."""
        return hashlib.sha256(orjson.dumps(self.body, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Answer(NamedTuple):
    """What a handler returns where the operation's own status or a plain value do not do.

    ``body`` of bytes is sent as it is (name its Content-Type in ``headers``), None is an empty
    body, anything else becomes JSON.
    """

    body: Any
    status: int | None = None
    headers: Mapping[str, str] | None = None


Handler = Callable[[Any, Call], Any]
Target = Callable[[Any, Call], Any]


@dataclasses.dataclass(frozen=True)
class Operation:
    """One row of a resource's table.

    :ivar path: from the noun on, ``/attachments/{id}``: served below ``/v3`` and below
        ``/v3/{project_id}``; with ``root`` the whole path
    :ivar handler: ``(services, call)`` to a JSON-able value or an `Answer`
    :ivar since: the first version that has it; below it is not found
    :ivar until: the last version that has it
    :ivar policy: rule that is asked, on the project of the target or else of the caller
    :ivar refusal: error instead of NotAuthorized, where a caller that policy denies must not learn
        that the resource exists
    :ivar target: ``(services, call)`` to the record that is acted on; raises NotFound. What it
        returns without a ``project_id`` of its own counts as the caller's
    :ivar body: schema by the version it begins with; None: a body does not matter
    :ivar query: schema of the query string by version (last value of each name)
    :ivar answer: schema of the answer by version; checked in tests only
    :ivar extended: by version of ``blockattach``: what it makes of the answer's schema
    :ivar parameters: by version of ``blockattach``: what it adds to the query string, a described
        schema by name; for handlers and documents
    :ivar faults: what may go wrong besides what every operation of its kind has; for documents
        and tests
    :ivar action: for ``POST .../action``: the only key of the body, which selects this row
    :ivar extension: version of ``blockattach`` that has it; absent unless it is asked for
    :ivar public: needs no token
    :ivar root: ``path`` is the whole path, without version and project
    :ivar writes: a GET that changes something
    """

    method: str
    path: str
    handler: Handler
    since: V = BASE
    until: V | None = None
    policy: str | None = None
    refusal: Callable[[Call], errors.BlockattachError] | None = None
    target: Target | None = None
    body: Mapping[V, Schema] | None = None
    query: Mapping[V, Schema] | None = None
    answer: Mapping[V, Schema] | None = None
    extended: Mapping[V, Callable[[Schema], Schema]] | None = None
    parameters: Mapping[V, Mapping[str, Schema]] | None = None
    faults: tuple[type[errors.BlockattachError], ...] = ()
    status: int = 200
    action: str | None = None
    extension: V | None = None
    public: bool = False
    root: bool = False
    writes: bool = False
    summary: str = ''

    def serves(self, version: V, extension: V | None) -> bool:
        """Whether the operation exists for a client of these versions."""
        if version < self.since or (self.until is not None and version > self.until):
            return False
        return self.extension is None or (extension is not None and extension >= self.extension)

    @functools.cached_property
    def name(self) -> str:
        """For logs, documents and failures of tests."""
        action = f' ({self.action})' if self.action else ''
        return f'{self.method} {self.path}{action}'


def at_version(by_version: Mapping[V, Any] | None, version: V) -> Any:
    """What holds at a version: the entry with the highest version not above it, or None."""
    if not by_version:
        return None
    begun = [since for since in by_version if since <= version]
    return by_version[max(begun)] if begun else None
