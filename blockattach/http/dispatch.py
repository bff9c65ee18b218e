"""From a request to an answer, always in this order:

route, authentication, project of the URL, version, body is JSON, action, target, policy, schema,
handler, answer. Whatever goes wrong is an error that `blockattach.http.faults` answers.
"""
import dataclasses
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import orjson
import webob
from webob import headers as webob_headers

from blockattach import context as request_context
from blockattach import errors
from blockattach.http import auth
from blockattach.http import faults
from blockattach.http import middleware
from blockattach.http import operation
from blockattach.http import queueing
from blockattach.http import rendering
from blockattach.http import routing
from blockattach.http import schema
from blockattach.policy import enforcer

JSON_TYPES = frozenset(('application/json', 'application/vnd.openstack.volume+json'))
MALFORMED_BODY = 'Malformed request body'
MALFORMED_URL = 'Malformed request url'
SEVERAL_HOSTS = 'The header Host must be one name.'
UNKNOWN_CODING = 'Unsupported Content-Encoding'
TOO_LARGE = 'Request is too large.'
NO_PROJECT = 'The token is not one of a project.'
_MOST_DIGITS = 18
_MOST_LEVELS = 100
"""Of lists and objects within each other. Answers repeat what clients have stored, and the JSON of
an answer cannot have more than 254."""

Check = Callable[[operation.Operation, operation.Call, webob.Response], None]
_Validators = Mapping[operation.V, schema.Validator]


class _TooLarge(Exception):
    """The body is longer than we read."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Checks:
    """The compiled schemas of one operation."""

    body: _Validators
    query: _Validators


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Limits for requests, and the URLs in answers."""

    max_body_size: int = 114688
    public_endpoint: str | None = None


class Dispatcher:
    """Serves operations. One for all threads: it keeps nothing of a request."""

    def __init__(self, operations: Iterable[operation.Operation], services: Any, *,
                 policy: enforcer.Enforcer, authenticate: auth.Authenticator,
                 negotiator: operation.Negotiator, limits: Limits | None = None,
                 check: Check | None = None) -> None:
        """Compile everything that a request will need.

        :param services: handed to handlers as it is; targets are loaded from its ``database``
        :param check: called with each answer, for tests
        :raises ValueError: the operations contradict each other, or name an unknown rule
        """
        rows = tuple(operations)
        for row in rows:
            if row.policy is not None and not policy.knows(row.policy):
                raise ValueError(f'{row.name}: no such policy rule: {row.policy}')
        self._table = routing.Table(rows)
        # By identity: rows hold schemas, which have no hash. The table keeps them alive.
        self._checks = {id(row): _compile(row) for row in rows}
        self._check = check
        self._services = services
        self._policy = policy
        self._authenticate = authenticate
        self._negotiator = negotiator
        self._limits = limits or Limits()

    def __call__(self, request: webob.Request) -> webob.Response:
        """Answer a request.

        :raises BlockattachError: see the docstring of the module
        """
        # Some servers put several headers into one, of which a proxy may have read another one.
        if ',' in request.environ.get('HTTP_HOST', ''):
            raise errors.InvalidInput(SEVERAL_HOSTS)
        match = self._match(request)
        if match is None:
            return rendering.unknown_route_response()
        context = self._identify(request, match)
        negotiated = self._negotiate(request, match)
        try:
            row, body, has_body = self._select(request, match, negotiated)
        except _TooLarge:
            return faults.response(413, TOO_LARGE)
        middleware.name_operation(request, row.name)
        if row.writes:
            middleware.check_writing(request)
        call = operation.Call(
            context=context, version=negotiated.version, extension=negotiated.extension,
            path=match.variables,
            query=operation.read_query(request.environ.get('QUERY_STRING', '')),
            body=body, headers=webob_headers.EnvironHeaders(request.environ),
            url=self._url(request, match))
        self._permit(row, call)
        checks = self._checks[id(row)]
        if has_body:
            _check(checks.body, call.version, body)
        if row.query is not None:
            _check(checks.query, call.version, dict(call.query.items()))
        response = _respond(row, row.handler(self._services, call))
        if self._check is not None:
            self._check(row, call, response)
        return response

    def _match(self, request: webob.Request) -> routing.Match | None:
        try:
            return self._table.match(request.environ['REQUEST_METHOD'],
                                     _path(request.environ) or '/')
        except UnicodeDecodeError:
            return None

    def _identify(self, request: webob.Request,
                  match: routing.Match) -> request_context.RequestContext:
        """The caller; the project in the URL must agree with it."""
        if match.project_id is not None and not auth.is_id(match.project_id):
            raise errors.InvalidInput(MALFORMED_URL)
        public = match.entry.public
        context = self._authenticate(request, match.project_id)
        if context is None:
            if public:
                return auth.anonymous(request)
            raise errors.NotAuthenticated()
        context.deadline = request.environ.get(queueing.DEADLINE)
        if match.project_id is not None and match.project_id != context.project_id:
            raise errors.InvalidInput(MALFORMED_URL)
        # Administrators see all projects; any other caller needs a project.
        if not (context.project_id or context.is_admin or public):
            raise errors.NotAuthorized(NO_PROJECT)
        return context

    def _negotiate(self, request: webob.Request, match: routing.Match) -> operation.Negotiated:
        header = request.environ.get('HTTP_OPENSTACK_API_VERSION')
        if match.entry.root:
            # How a client finds out what it may ask for must not depend on what it asks for.
            return operation.Negotiated(operation.BASE, None, '')
        negotiated = self._negotiator.negotiate(header)
        middleware.set_version_header(request, negotiated.header)
        return negotiated

    def _select(self, request: webob.Request, match: routing.Match,
                negotiated: operation.Negotiated) -> tuple[operation.Operation, Any, bool]:
        """The operation that is meant, the parsed body, and whether the body matters."""
        rows = match.entry.operations
        size = _length(request)
        if size is not None and size > self._limits.max_body_size:
            raise _TooLarge
        if rows[0].action is not None:
            body = self._read_json(request)
            return _select_action(rows, body, negotiated), body, True
        for row in rows:
            if row.serves(negotiated.version, negotiated.extension):
                matters = operation.at_version(row.body, negotiated.version) is not None
                return row, self._read_json(request) if matters else None, matters
        raise errors.RouteNotFound()

    def _read_json(self, request: webob.Request) -> Any:
        raw = self._read(request)
        if not raw:
            raise errors.InvalidInput(MALFORMED_BODY)
        kind = (request.environ.get('CONTENT_TYPE') or '').partition(';')[0].strip().lower()
        if kind and kind not in JSON_TYPES:
            raise errors.MediaTypeNotSupported()
        if request.environ.get('HTTP_CONTENT_ENCODING', 'identity').lower() != 'identity':
            raise errors.MediaTypeNotSupported(UNKNOWN_CODING)
        try:
            value = orjson.loads(raw)
        except ValueError:
            raise errors.InvalidInput(MALFORMED_BODY) from None
        # Few brackets cannot be deeply nested, so most bodies are checked no further.
        if raw.count(b'[') + raw.count(b'{') > _MOST_LEVELS and _is_deep(value):
            raise errors.InvalidInput(MALFORMED_BODY)
        # No column takes a zero character, so it is refused here. What looks like one may be an
        # escaped backslash before these letters.
        if b'\\u0000' in raw and _has_zero(value):
            raise errors.InvalidInput(MALFORMED_BODY)
        return value

    def _read(self, request: webob.Request) -> bytes:
        size = _length(request)
        if size == 0 or (size is None and not request.is_body_readable):
            return b''
        try:
            raw = bytes(request.environ['wsgi.input'].read(
                self._limits.max_body_size + 1 if size is None else size))
        except Exception:  # noqa: BLE001 - servers differ; but what fails here is the client's
            raise errors.InvalidInput(MALFORMED_BODY) from None
        if len(raw) > self._limits.max_body_size:
            raise _TooLarge
        return raw

    def _url(self, request: webob.Request, match: routing.Match) -> operation.Url:
        base = self._limits.public_endpoint or request.application_url
        project = '' if match.project_id is None else f'/{match.project_id}'
        path = _path(request.environ).removeprefix(routing.PREFIX + project)
        return operation.Url(base, project, path)

    def _permit(self, row: operation.Operation, call: operation.Call) -> None:
        """Load the target and ask the policy about it."""
        if row.target is not None:
            call.target = row.target(call.context, self._services.database, call.path['id'])
        if row.policy is None:
            return
        owner = getattr(call.target, 'project_id', None)
        try:
            self._policy.authorize(call.context, row.policy, owner)
        except errors.NotAuthorized:
            if row.refusal is None:
                raise
            raise row.refusal(call) from None


def _path(environ: Mapping[str, Any]) -> str:
    """The path as the client wrote it; WSGI hands its bytes over as Latin-1.

    :raises UnicodeDecodeError: it is not UTF-8
    """
    path: str = environ['PATH_INFO']
    return path.encode('latin-1').decode()


def _has_zero(value: Any) -> bool:
    """Whether a text or a name in it has the zero character."""
    if isinstance(value, dict):
        return any('\0' in name or _has_zero(part) for name, part in value.items())
    if isinstance(value, list):
        return any(map(_has_zero, value))
    return isinstance(value, str) and '\0' in value


def _is_deep(value: Any) -> bool:
    """Whether it has more levels than `_MOST_LEVELS`."""
    level = [value]
    for _ in range(_MOST_LEVELS + 1):
        level = [part for one in level if isinstance(one, dict | list)
                 for part in (one.values() if isinstance(one, dict) else one)]
    return bool(level)


def _length(request: webob.Request) -> int | None:
    """The declared length of the body. Not every server validates it."""
    text = request.environ.get('CONTENT_LENGTH')
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise errors.InvalidInput(MALFORMED_BODY)
    return int(text)


def _select_action(rows: tuple[operation.Operation, ...], body: Any,
                   negotiated: operation.Negotiated) -> operation.Operation:
    if not isinstance(body, dict) or len(body) != 1:
        raise errors.InvalidInput(MALFORMED_BODY)
    action = next(iter(body))
    named = [row for row in rows if row.action == action]
    if not named:
        raise errors.InvalidInput(f'There is no such action: {errors.shortened(action)}')
    for row in named:
        if row.serves(negotiated.version, negotiated.extension):
            return row
    raise errors.RouteNotFound()


def _compile(row: operation.Operation) -> _Checks:
    body = {since: schema.Validator(one) for since, one in (row.body or {}).items()}
    query = {since: schema.Validator(one, 'query parameters')
             for since, one in (row.query or {}).items()}
    return _Checks(body, query)


def _check(validators: _Validators, version: operation.V, value: Any) -> None:
    validator = operation.at_version(validators, version)
    if validator is not None:
        validator.check(value)


def _respond(row: operation.Operation, value: Any) -> webob.Response:
    status, headers = row.status, None
    if isinstance(value, operation.Answer):
        status = row.status if value.status is None else value.status
        value, headers = value.body, value.headers
    if value is None:
        return rendering.empty_response(status, headers)
    if isinstance(value, bytes):
        return rendering.bytes_response(status, value, headers or {})
    return rendering.json_response(status, value, headers)
