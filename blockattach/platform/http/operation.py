"""One row of the API: everything that is promised about one operation, what its handler gets, and
which version a client gets. It checks what comes in against its schemas.

A resource is a literal table of `Operation`; `blockattach.platform.http.dispatch` enforces each
row in a fixed order, so a handler can neither forget the policy nor see an unchecked body.

Versions are negotiated by ``OpenStack-API-Version: volume 3.71, blockattach 1.0``, a list of
services. ``volume`` is the API that all clients know; ``blockattach`` is what goes beyond it, with
a version history of its own, for clients that ask for it.
"""
import dataclasses
import functools
import hashlib
import json
import re
import uuid
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from urllib import parse

import fastjsonschema
import orjson
from webob import multidict

from blockattach.platform import context as request_context
from blockattach.platform import errors
from blockattach.platform import idempotency
from blockattach.platform.http import schema
from blockattach.platform.http.schema import Schema

VERSION_HEADER = 'OpenStack-API-Version'
VOLUME = 'volume'
EXTENSION = 'blockattach'
OFFER_HEADER = 'Blockattach-API-Versions'
"""Sent with the version documents, whose bodies clients check against strict schemas."""
LATEST = 'latest'
_ID_FIELDS = {'attachments': 'attachment_id', 'qos-specs': 'qos_specs_id',
              'snapshots': 'snapshot_id', 'types': 'volume_type_id', 'volumes': 'volume_id'}


_VERSION = re.compile(r'([1-9]\d{0,8})\.(0|[1-9]\d{0,8})')


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

PREFIX = '/v3'
"""What every path of the block-storage API begins with, but its roots."""

SEVERAL_KEYS = 'The Idempotency-Key header must contain one name, without a comma.'


def read_query(text: str) -> multidict.MultiDict:
    """Take a query string apart. A name may come several times; its last value counts.

    :raises InvalidInput: it is not UTF-8 behind its percent signs, or has a zero character
    """
    try:
        pairs = parse.parse_qsl(text, keep_blank_values=True, errors='strict')
    except ValueError:
        raise errors.InvalidInput('Query string is not UTF-8 encoded') from None
    if '%00' in text or '\0' in text:
        raise errors.InvalidInput('Query string contains a null character')
    return multidict.MultiDict(pairs)


@dataclasses.dataclass(slots=True)
class Call:
    """One request as a handler sees it: checked, parsed, and its target loaded and permitted."""

    context: request_context.RequestContext
    version: V = BASE
    extension: V | None = None
    """The negotiated version of ``blockattach``; None where the client did not ask for it."""
    path: dict[str, str] = dataclasses.field(default_factory=dict)
    """The variables of the operation's path, without the project id."""
    query: multidict.MultiDict = dataclasses.field(default_factory=multidict.MultiDict)
    body: Any = None
    """The parsed JSON, if the operation has a schema for its body."""
    target: Any = None
    """What the operation's ``target`` returned."""
    facts: Any = None
    """What the operation's ``facts`` returned."""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    base_url: str = ''
    """What stands before ``/v3`` in links: the public endpoint, else what the client called."""
    project: str = ''
    """``/`` and the project id if the request named one, else nothing."""
    url_path: str = ''
    """The path below ``/v3`` and the project."""
    prefix: str = PREFIX

    def link(self, path: str) -> str:
        """The address of something of the API, ``path`` from the noun on: ``/volumes/<id>``."""
        return f'{self.base_url}{self.prefix}{self.project}{path}'

    def links(self, path: str) -> list[dict[str, str]]:
        """The address with the version and, as a bookmark, without it."""
        return [{'rel': 'self', 'href': self.link(path)},
                {'rel': 'bookmark', 'href': f'{self.base_url}{self.project}{path}'}]

    def next_link(self, marker: str) -> str:
        """The URL of the next page: this query from ``marker`` on.

        What was passed over before the first page (``offset``) is not passed over again.
        """
        kept = [pair for pair in self.query.items() if pair[0] not in ('marker', 'offset')]
        return f'{self.link(self.url_path)}?{parse.urlencode([*kept, ("marker", marker)])}'

    def named(self) -> idempotency.Request | None:
        """What the client calls this request (``Idempotency-Key``), so that a repeat makes nothing
        twice; None: it has no name. Equal bodies are the same, however their keys were ordered.

        :raises InvalidInput: the name is empty or too long, or there are several
        """
        key = self.headers.get('Idempotency-Key')
        if key is None:
            return None
        # Many servers join repeated headers with a comma, so the intended name is unknown.
        if ',' in key:
            raise errors.InvalidInput(SEVERAL_KEYS)
        digest = hashlib.sha256(orjson.dumps(self.body, option=orjson.OPT_SORT_KEYS)).hexdigest()
        return idempotency.named(self.context.project_id or '', self.context.user_id or '', 'POST',
                                 self.url_path, key, digest)


class Answer(NamedTuple):
    """What a handler returns where the operation's own status or a plain value do not do.

    ``body`` of bytes is sent as it is (name its Content-Type in ``headers``), None is an empty
    body, anything else becomes JSON.
    """

    body: Any
    status: int | None = None
    headers: Mapping[str, str] | None = None


Checker = Callable[[Any], None]
Handler = Callable[[Any, Call], Any]
Facts = Callable[[Any, Call], Any]
Target = Callable[[request_context.RequestContext, Any, str], Any]


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
    :ivar target: ``(caller's context, database, {id} of the path)`` to the record that is acted
        on; raises NotFound. What it returns without a ``project_id`` of its own counts as the
        caller's
    :ivar facts: ``(services, call)`` to all that the answer is composed of besides the target and
        what the call says itself: what the caller may see, other rows; plain values. With it the
        answer has an ``ETag``, and is not composed for a client that has it (`conditional`)
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
    facts: Facts | None = None
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
    def checkers(self) -> tuple[dict[V, Checker], dict[V, Checker]]:
        """For body and query string, by the version that each begins with.

        :raises fastjsonschema.JsonSchemaDefinitionException: one is no schema
        """
        return ({since: checker(one) for since, one in (self.body or {}).items()},
                {since: checker(one, 'query parameters')
                 for since, one in (self.query or {}).items()})

    def check(self, call: Call) -> None:
        """Return if body and query string are as the schemas of that version say.

        :raises InvalidInput: with a reason in the form that clients of this API know
        """
        of_body, of_query = (at_version(one, call.version) for one in self.checkers)
        if of_body is not None:
            of_body(call.body)
        if of_query is not None:
            of_query(dict(call.query.items()))

    @functools.cached_property
    def id_field(self) -> str | None:
        """The field of a log line for the id in its path; None: it has none, or no such field."""
        _, noun, *rest = self.path.split('/')
        return _ID_FIELDS.get(noun) if '{id}' in rest[:1] else None

    @functools.cached_property
    def name(self) -> str:
        """For logs, documents and failures of tests."""
        action = f' ({self.action})' if self.action else ''
        return f'{self.method} {self.path}{action}'


def action(path: str, name: str, handler: Handler, body: Schema, *, since: V = BASE,
           **more: Any) -> Operation:
    """A row of ``POST .../action``: its name is the only key of the body, under which ``body`` is.
    Unless ``more`` says otherwise, it is answered 202 and without a body.
    """
    promised: dict[str, Any] = {'status': 202, 'answer': {since: {'type': 'null'}}, **more}
    return Operation('POST', path, handler, since=since, action=name,
                     body={since: schema.wrapped(name, body)}, **promised)


def at_version(by_version: Mapping[V, Any] | None, version: V) -> Any:
    """What holds at a version: the entry with the highest version not above it, or None."""
    if not by_version:
        return None
    begun = [since for since in by_version if since <= version]
    return by_version[max(begun)] if begun else None


class Range(NamedTuple):
    """What is offered, both ends included."""

    minimum: V
    maximum: V


class Negotiated(NamedTuple):
    """The negotiated versions; ``header`` is their header of the answer."""

    version: V
    extension: V | None
    header: str


Negotiate = Callable[[str | None], Negotiated]
"""`negotiate` with what is offered."""


def negotiate(offered: Range, extensions: Range, header: str | None,
              service_type: str = VOLUME) -> Negotiated:
    """The versions that a request gets by its header; the lowest where it names none.

    :param service_type: what clients call the API

    :raises VersionInvalid: an item of ours is malformed
    :raises VersionNotAcceptable: an item of ours is outside of what is offered
    """
    version: V | None = None
    extension: V | None = None
    for item in (header or '').split(','):
        service, asked = (*item.split(None, 1), '', '')[:2]
        if service == service_type and version is None:
            version = _choose(asked.strip(), offered)
        elif service == EXTENSION and extension is None:
            extension = _choose(asked.strip(), extensions)
    if version is None:
        version = offered.minimum
    header = f'{service_type} {version}'
    if extension is not None:
        header = f'{header}, {EXTENSION} {extension}'
    return Negotiated(version, extension, header)


def _choose(asked: str, offered: Range) -> V:
    if asked == LATEST:
        return offered.maximum
    match = _VERSION.fullmatch(asked)
    if match is None:
        raise errors.VersionInvalid(version=asked)
    version = V(int(match[1]), int(match[2]))
    if not offered.minimum <= version <= offered.maximum:
        raise errors.VersionNotAcceptable(requested=version, minimum=offered.minimum,
                                          maximum=offered.maximum)
    return version


def checker(one: Schema, what: str = 'field/attribute') -> Checker:
    """Compile a schema into what returns if a value is as it says, and raises InvalidInput if not.
    Only for an invalid value jsonschema finds the reason, since clients know its texts:
    ``'attachment' is a required property``.

    :param what: how an error names the value: a body has fields
    :raises fastjsonschema.JsonSchemaDefinitionException: it is no schema
    """
    accepts = _compiled(json.dumps(one))

    def check(value: Any) -> None:
        try:
            accepts(value)
        except fastjsonschema.JsonSchemaValueException as failure:
            raise errors.InvalidInput(_reason(one, value, what) or failure.message) from None
    return check


@functools.cache
def _compiled(text: str) -> Callable[[Any], Any]:
    """Compiled schemas, shared by versions of an operation and applications of a process."""
    made: Callable[[Any], Any] = fastjsonschema.compile(
        json.loads(text), formats={'uuid': _is_uuid}, use_default=False)
    return made


def _is_uuid(value: object) -> bool:
    """Whether it is a UUID, with or without dashes; ``type`` checks other types."""
    if not isinstance(value, str):
        return True
    try:
        parsed = uuid.UUID(value)
    except ValueError:
        return False
    return value.lower().replace('-', '') == parsed.hex


def _reason(one: Schema, value: Any, what: str) -> str | None:
    # Loaded by the first value that is wrong: many processes never see one.
    import jsonschema
    from jsonschema import exceptions as jsonschema_exceptions

    formats = jsonschema.FormatChecker(formats=())
    formats.checks('uuid')(_is_uuid)
    failure = jsonschema_exceptions.best_match(
        jsonschema.Draft7Validator(one, format_checker=formats).iter_errors(value))
    if failure is None:
        return None
    value = repr(failure.instance)
    message = errors.shortened(failure.message.replace(value, errors.shortened(value, 100)))
    if not failure.path:
        return message
    return (f'Invalid input for {what} {failure.path[-1]}. '
            f'Value: {errors.shortened(str(failure.instance))}. {message}')
