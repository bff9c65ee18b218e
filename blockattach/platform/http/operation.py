"""Declarations of API operations, calls of their handlers, and negotiation of microversions.

The operations of a resource are a table of `Operation` literals.
`blockattach.platform.http.dispatch` applies each row in a fixed order, so a handler can neither
skip the policy check nor see an invalid body.

Versions are negotiated with the header ``OpenStack-API-Version: volume 3.71, blockattach 1.0``.
``volume`` is the Block Storage API. ``blockattach`` is the extension of this API by this project.
The extension has its own versions, and applies only to requests whose header names it.
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
"""Response header with the offered versions of the extension, sent with version documents.

The bodies cannot contain these versions, because clients check the bodies against strict schemas.
"""
LATEST = 'latest'
_ID_FIELDS = {'attachments': 'attachment_id', 'qos-specs': 'qos_specs_id',
              'snapshots': 'snapshot_id', 'types': 'volume_type_id', 'volumes': 'volume_id'}


_VERSION = re.compile(r'([1-9]\d{0,8})\.(0|[1-9]\d{0,8})')


class V(NamedTuple):
    """Microversion, such as ``V(3, 27)``. The order is numerical: 3.9 is lower than 3.27."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f'{self.major}.{self.minor}'


BASE = V(3, 0)
"""Version of a request that names no version."""

NONE = V(0, 0)
"""Version of a service that the client did not request, lower than any other version."""

PREFIX = '/v3'
"""Prefix of all paths of the Block Storage API, except for operations with ``root``."""

SEVERAL_KEYS = 'The Idempotency-Key header must contain one name, without a comma.'


def read_query(text: str) -> multidict.MultiDict:
    """Parse a query string. If a name is repeated, consumers use its last value.

    :raises InvalidInput: the decoded text is not UTF-8, or contains a null character
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
    """Request as a handler sees it: parsed, validated and authorized, with its target loaded."""

    context: request_context.RequestContext
    version: V = BASE
    extension: V | None = None
    """Negotiated version of ``blockattach``; None if the client did not request the extension."""
    path: dict[str, str] = dataclasses.field(default_factory=dict)
    """Variables of the path, without the project id."""
    query: multidict.MultiDict = dataclasses.field(default_factory=multidict.MultiDict)
    body: Any = None
    """Parsed JSON; None if the operation has no schema for its body."""
    target: Any = None
    """Record that the operation's ``target`` returned."""
    facts: Any = None
    """Value that the operation's ``facts`` returned."""
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    base_url: str = ''
    """URL before ``/v3`` in links: the public endpoint, or else the URL that the client used."""
    project: str = ''
    """``/`` and the project id in the URL of the request; empty if it has none."""
    url_path: str = ''
    """Path below ``/v3`` and the project."""
    prefix: str = PREFIX

    def link(self, path: str) -> str:
        """Return the URL of a resource.

        :param path: path that begins with the collection, such as ``/volumes/<id>``
        """
        return f'{self.base_url}{self.prefix}{self.project}{path}'

    def links(self, path: str) -> list[dict[str, str]]:
        """Return the links of a resource: its URL, and its bookmark, which has no version."""
        return [{'rel': 'self', 'href': self.link(path)},
                {'rel': 'bookmark', 'href': f'{self.base_url}{self.project}{path}'}]

    def next_link(self, marker: str) -> str:
        """Return the URL of the next page, which starts after ``marker``.

        The filters of this request are kept.
        """
        # Without `offset`, because the first page has already skipped those rows.
        kept = [pair for pair in self.query.items() if pair[0] not in ('marker', 'offset')]
        return f'{self.link(self.url_path)}?{parse.urlencode([*kept, ("marker", marker)])}'

    def named(self) -> idempotency.Request | None:
        """Return the idempotent request that the header ``Idempotency-Key`` identifies.

        A repeated request with the same key creates nothing. The digest of the body does not
        depend on the order of members in the JSON.

        :returns: None if the request has no such header
        :raises InvalidInput: the key is empty or too long, or the header contains several keys
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
    """Response of a handler that sets its own status or headers.

    :ivar body: bytes are sent unchanged, and need a Content-Type in ``headers``. None is sent as
        an empty body, and any other value as JSON
    :ivar status: None for the status of the operation
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
    """Operation of the API, which is a row in the table of its resource.

    :ivar path: path that begins with the collection, such as ``/attachments/{id}``. It is served
        below ``/v3`` and below ``/v3/{project_id}``. With ``root`` it is the whole path
    :ivar handler: function of ``(services, call)`` that returns a JSON-serializable value or an
        `Answer`
    :ivar since: first version with the operation; requests with lower versions get 404
    :ivar until: last version with the operation; None if there is no last version yet
    :ivar policy: rule that is checked for the project of the target, or for the project of the
        caller if the target has none; None for no check
    :ivar refusal: error instead of NotAuthorized, for resources whose existence is hidden from
        callers that the policy denies
    :ivar target: function of ``(context of the caller, database, {id} of the path)`` that returns
        the record on which the operation acts, or raises NotFound. A record without a
        ``project_id`` belongs to the project of the caller
    :ivar facts: function of ``(services, call)`` that returns plain values. These are all values
        on which the response depends besides the target and the call, such as other rows and the
        rights of the caller. The response then has an ``ETag``, and a client that has the current
        response gets status 304 (`conditional`)
    :ivar body: schemas of the body, by the first version to which each applies; None if the body
        is ignored
    :ivar query: schemas of the query parameters, by the first version to which each applies. Of a
        repeated parameter, the last value is checked
    :ivar answer: schemas of the response, by the first version to which each applies; checked in
        tests only
    :ivar extended: functions that extend the schema of the response, by version of
        ``blockattach``
    :ivar parameters: additional query parameters by version of ``blockattach``. A version maps the
        parameter names to schemas with descriptions, for handlers and documents
    :ivar faults: errors in addition to those that every operation of this kind can raise; for
        documents and tests
    :ivar action: for ``POST .../action``, the only key of the body, which selects this row
    :ivar extension: first version of ``blockattach`` with the operation; requests that do not
        name ``blockattach`` get 404. None if the operation does not belong to the extension
    :ivar public: True if the operation needs no token
    :ivar root: True if ``path`` is the whole path, without version and project
    :ivar writes: True for a GET that changes something
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
        """Return True if the operation exists in the negotiated versions.

        :param extension: version of ``blockattach``; None if the client did not request the
            extension
        """
        if version < self.since or (self.until is not None and version > self.until):
            return False
        return self.extension is None or (extension is not None and extension >= self.extension)

    @functools.cached_property
    def checkers(self) -> tuple[dict[V, Checker], dict[V, Checker]]:
        """Validators of the body and of the query string, by the first version of each schema.

        :raises fastjsonschema.JsonSchemaDefinitionException: a schema is invalid
        """
        return ({since: checker(one) for since, one in (self.body or {}).items()},
                {since: checker(one, 'query parameters')
                 for since, one in (self.query or {}).items()})

    def check(self, call: Call) -> None:
        """Validate the body and query string against the schemas of the negotiated version.

        :raises InvalidInput: the body or the query string is invalid. The reason has the form of
            Cinder's errors
        """
        of_body, of_query = (at_version(one, call.version) for one in self.checkers)
        if of_body is not None:
            of_body(call.body)
        if of_query is not None:
            of_query(dict(call.query.items()))

    @functools.cached_property
    def id_field(self) -> str | None:
        """Log field for the id in the path; None if the path has no id or there is no field."""
        _, noun, *rest = self.path.split('/')
        return _ID_FIELDS.get(noun) if '{id}' in rest[:1] else None

    @functools.cached_property
    def name(self) -> str:
        """Name of the operation in logs and documents: method, path and action."""
        action = f' ({self.action})' if self.action else ''
        return f'{self.method} {self.path}{action}'


def action(path: str, name: str, handler: Handler, body: Schema, *, since: V = BASE,
           **more: Any) -> Operation:
    """Return the operation of an action, ``POST .../action``.

    The response has status 202 and no body, unless ``more`` has other values.

    :param name: name of the action, which is the only key of the request body
    :param body: schema of the value of this key
    :param more: further attributes of `Operation`
    """
    promised: dict[str, Any] = {'status': 202, 'answer': {since: {'type': 'null'}}, **more}
    return Operation('POST', path, handler, since=since, action=name,
                     body={since: schema.wrapped(name, body)}, **promised)


def at_version(by_version: Mapping[V, Any] | None, version: V) -> Any:
    """Return the entry of the highest version that is not above ``version``.

    :returns: None if there is no such entry
    """
    if not by_version:
        return None
    begun = [since for since in by_version if since <= version]
    return by_version[max(begun)] if begun else None


class Range(NamedTuple):
    """Range of offered versions. Both ends are included."""

    minimum: V
    maximum: V


class Negotiated(NamedTuple):
    """Negotiated versions of a request.

    :ivar extension: version of ``blockattach``; None if the client did not request the extension
    :ivar header: value of ``OpenStack-API-Version`` in the response
    """

    version: V
    extension: V | None
    header: str


Negotiate = Callable[[str | None], Negotiated]
"""`negotiate` with bound version ranges, called with the header of the request."""


def negotiate(offered: Range, extensions: Range, header: str | None,
              service_type: str = VOLUME) -> Negotiated:
    """Return the versions for a request, by its header ``OpenStack-API-Version``.

    :param header: None if the request has no such header. Without an item for the API, the request
        gets the lowest offered version
    :param service_type: service type of the API in the header. Items of other services are ignored
    :raises VersionInvalid: the version of the API or of the extension is malformed
    :raises VersionNotAcceptable: the version of the API or of the extension is out of its range
    """
    version: V | None = None
    extension: V | None = None
    for item in (header or '').split(','):
        service, requested = (*item.split(None, 1), '', '')[:2]
        if service == service_type and version is None:
            version = _choose(requested.strip(), offered)
        elif service == EXTENSION and extension is None:
            extension = _choose(requested.strip(), extensions)
    if version is None:
        version = offered.minimum
    header = f'{service_type} {version}'
    if extension is not None:
        header = f'{header}, {EXTENSION} {extension}'
    return Negotiated(version, extension, header)


def _choose(requested: str, offered: Range) -> V:
    if requested == LATEST:
        return offered.maximum
    match = _VERSION.fullmatch(requested)
    if match is None:
        raise errors.VersionInvalid(version=requested)
    version = V(int(match[1]), int(match[2]))
    if not offered.minimum <= version <= offered.maximum:
        raise errors.VersionNotAcceptable(requested=version, minimum=offered.minimum,
                                          maximum=offered.maximum)
    return version


def checker(value_schema: Schema, what: str = 'field/attribute') -> Checker:
    """Compile a schema into a function that raises InvalidInput if a value is invalid.

    :param what: word for the invalid part of the value in error texts
    :raises fastjsonschema.JsonSchemaDefinitionException: the schema is invalid
    """
    accepts = _compiled(json.dumps(value_schema))

    def check(value: Any) -> None:
        try:
            accepts(value)
        except fastjsonschema.JsonSchemaValueException as failure:
            raise errors.InvalidInput(
                # fastjsonschema is fast, but clients know the texts of jsonschema, such as
                # "'attachment' is a required property".
                _reason(value_schema, value, what) or failure.message) from None
    return check


@functools.cache
def _compiled(text: str) -> Callable[[Any], Any]:
    validate: Callable[[Any], Any] = fastjsonschema.compile(
        json.loads(text), formats={'uuid': _is_uuid}, use_default=False)
    return validate


def _is_uuid(value: object) -> bool:
    """Return True if a value is a UUID, with or without dashes, or is not a string."""
    # The keyword `type` of the schema rejects values of other types.
    if not isinstance(value, str):
        return True
    try:
        parsed = uuid.UUID(value)
    except ValueError:
        return False
    return value.lower().replace('-', '') == parsed.hex


def _reason(value_schema: Schema, value: Any, what: str) -> str | None:
    # Imported at the first invalid value, because many processes never get an invalid value.
    import jsonschema
    from jsonschema import exceptions as jsonschema_exceptions

    formats = jsonschema.FormatChecker(formats=())
    formats.checks('uuid')(_is_uuid)
    failure = jsonschema_exceptions.best_match(
        jsonschema.Draft7Validator(value_schema, format_checker=formats).iter_errors(value))
    if failure is None:
        return None
    value = repr(failure.instance)
    message = errors.shortened(failure.message.replace(value, errors.shortened(value, 100)))
    if not failure.path:
        return message
    return (f'Invalid input for {what} {failure.path[-1]}. '
            f'Value: {errors.shortened(str(failure.instance))}. {message}')
