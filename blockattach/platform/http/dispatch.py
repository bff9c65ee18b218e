"""From a request to an answer, always in this order:

route, authentication, project of the URL, version, body is JSON, action, target, policy, schema,
handler, answer. Whatever goes wrong is an error that `blockattach.platform.http.responses`
answers.
"""
import re
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import orjson
import routes
import webob
from webob import headers as webob_headers

from blockattach.platform import context as request_context
from blockattach.platform import errors
from blockattach.platform.http import auth
from blockattach.platform.http import conditional
from blockattach.platform.http import middleware
from blockattach.platform.http import operation
from blockattach.platform.http import queueing
from blockattach.platform.http import responses
from blockattach.platform.http import streams
from blockattach.platform.policy import enforcer

PROJECT = 'project_id'
JSON_TYPES = frozenset(('application/json', 'application/vnd.openstack.volume+json'))
MALFORMED_BODY = 'Malformed request body'
MALFORMED_URL = 'Malformed request url'
SEVERAL_HOSTS = 'The Host header must contain one name.'
UNKNOWN_CODING = 'Unsupported Content-Encoding'
TOO_LARGE = 'Request is too large.'
NOT_WATCHED = ('Cannot watch attachments: no process of this service serves watch streams '
               '([watch] enabled).')
NO_PROJECT = 'A project-scoped token is required.'
_MOST_DIGITS = 18
_MOST_LEVELS = 100
"""Of lists and objects within each other. Answers repeat what clients have stored, and the JSON of
an answer cannot have more than 254."""

_VARIABLE = re.compile(r'\{\w+\}')
_ANY = '{'
"""In place of a variable, where names do not matter."""

Check = Callable[[operation.Operation, operation.Call, webob.Response], None]


class _TooLarge(Exception):
    """The body is longer than we read."""


class Route(NamedTuple):
    """The operations of one method and path; several that differ in versions or actions."""

    operations: list[operation.Operation]
    public: bool
    """Whether every one of the operations is."""
    root: bool


class Match(NamedTuple):
    """What a path means. ``project_id`` is None where the path names none."""

    route: Route
    variables: dict[str, str]
    project_id: str | None


class Table:
    """Every path of the API, as declared to Routes. A request is compared with the few of its
    method that have as many segments, and one of its own behind the version or the project.

    A slash at the end makes an empty last segment, and so another path: a client with an empty id
    gets no list instead of one resource.
    """

    def __init__(self, operations: Iterable[operation.Operation],
                 prefix: str = operation.PREFIX) -> None:
        """Declare the operations' paths.

        :raises ValueError: two operations cannot be distinguished
        """
        self._routes: dict[tuple[str, int, str], list[tuple[Any, Route]]] = {}
        by_shape: dict[tuple[str, str], dict[str, list[operation.Operation]]] = {}
        for row in operations:
            for before in ('',) if row.root else (prefix, f'{prefix}/{{{PROJECT}}}'):
                path = f'{before}{row.path}'
                by_shape.setdefault((row.method, _VARIABLE.sub(_ANY, path)), {}).setdefault(
                    path, []).append(row)
        mapper = routes.Mapper(None, register=False, explicit=True)
        # Each variable is a whole segment that must be there.
        mapper.minimization = False
        # The first that fits is taken. A brace sorts behind every letter, and so a variable behind
        # every literal.
        for (method, shape), by_path in sorted(by_shape.items()):
            if len(by_path) > 1:
                raise ValueError(f'{method}: ambiguous paths {", ".join(by_path)}')
            [(path, rows)] = by_path.items()
            _refuse_ambiguous(rows)
            mapper.connect(path)
            declared = mapper.matchlist[-1]
            declared.makeregexp([])
            segments = shape.split('/')
            literal = next((one for one in segments[2:4] if _ANY not in one), _ANY)
            self._routes.setdefault((method, len(segments), literal), []).append(
                (declared, Route(rows, all(row.public for row in rows), rows[0].root)))

    def match(self, method: str, path: str) -> Match | None:
        """What a method and path mean, or None. HEAD is GET where it is nothing of its own."""
        segments = path.split('/')
        # Routes ends its expressions by a sign that a line feed may follow.
        if '\0' not in path and not path.endswith('\n'):
            for literal in (*segments[2:4], _ANY):
                for declared, route in self._routes.get((method, len(segments), literal), ()):
                    variables = declared.match(path)
                    if variables is not False:
                        return Match(route, variables, variables.pop(PROJECT, None))
        return self.match('GET', path) if method == 'HEAD' else None


class Dispatcher:
    """Serves operations. One for all threads: it keeps nothing of a request."""

    def __init__(self, operations: Iterable[operation.Operation], services: Any, *,
                 policy: enforcer.Enforcer, authenticate: auth.Authenticator,
                 negotiate: operation.Negotiate, max_body_size: int = 114688,
                 public_endpoint: str | None = None, watch_endpoint: str | None = None,
                 check: Check | None = None,
                 prefix: str = operation.PREFIX) -> None:
        """Compile everything that a request will need.

        :param services: handed to handlers as it is; targets are loaded from its ``database``
        :param public_endpoint: what links of answers begin with; None: as the client asked
        :param watch_endpoint: where streams are served, if not here; None: nowhere
        :param check: called with each answer, for tests
        :param prefix: what every path begins with, but those of roots
        :raises ValueError: the operations contradict each other, or name an unknown rule
        """
        rows = tuple(operations)
        for row in rows:
            if row.policy is not None and not policy.knows(row.policy):
                raise ValueError(f'{row.name}: unknown policy rule {row.policy}')
            # So that no request has to wait for it.
            _ = row.checkers
        self._table = Table(rows, prefix)
        self._prefix = prefix
        self._check = check
        self._services = services
        self._policy = policy
        self._authenticate = authenticate
        self._negotiate = negotiate
        self._max_body_size = max_body_size
        self._public_endpoint = public_endpoint
        self._watch_endpoint = watch_endpoint

    def __call__(self, request: webob.Request) -> webob.Response:
        """Answer a request.

        :raises BlockattachError: see the docstring of the module
        """
        # Some servers put several headers into one, of which a proxy may have read another one.
        if ',' in request.environ.get('HTTP_HOST', ''):
            raise errors.InvalidInput(SEVERAL_HOSTS)
        match = self._match(request)
        if match is None:
            raise errors.RouteNotFound()
        context = self._identify(request, match)
        negotiated = self._versions(request, match)
        try:
            row, body = self._select(request, match, negotiated)
        except _TooLarge:
            return responses.failure(413, TOO_LARGE)
        act = request.environ[middleware.ACT]
        act.note(operation=row.name)
        if row.id_field is not None:
            act.noted.about({row.id_field: match.variables['id']})
        if row.writes and middleware.MUST_NOT_WRITE in request.environ:
            raise errors.NotAuthorized(request.environ[middleware.MUST_NOT_WRITE])
        project = '' if match.project_id is None else f'/{match.project_id}'
        call = operation.Call(
            context=context, version=negotiated.version, extension=negotiated.extension,
            path=match.variables,
            query=operation.read_query(request.environ.get('QUERY_STRING', '')),
            body=body, headers=webob_headers.EnvironHeaders(request.environ),
            base_url=self._public_endpoint or request.application_url,
            project=project, prefix=self._prefix,
            url_path=_path(request.environ).removeprefix(self._prefix + project))
        self._permit(row, call)
        row.check(call)
        value = self._handle(row, call)
        if isinstance(value, streams.Watch):
            return self._stream(request, value)
        response = responses.success(row.status, value)
        if self._check is not None:
            self._check(row, call, response)
        return response

    def _stream(self, request: webob.Request, watch: streams.Watch) -> webob.Response:
        """An answer without an end, where this server can give one; else another one's address."""
        hub = request.environ.get(streams.HUB)
        if hub is None:
            if self._watch_endpoint is None:
                raise errors.InvalidInput(NOT_WATCHED)
            return webob.Response(status=307, headerlist=[
                ('Location', f'{self._watch_endpoint}{request.path_qs}'), ('Content-Length', '0')])
        hub.admit()
        if request.environ['REQUEST_METHOD'] == 'GET':
            request.environ[streams.TAKEN] = watch
        return webob.Response(status=200, app_iter=[], headerlist=list(streams.HEADERS.items()))

    def _handle(self, row: operation.Operation, call: operation.Call) -> Any:
        """What the handler returns; it is not asked for what the client has."""
        if row.facts is None:
            return row.handler(self._services, call)
        call.facts = row.facts(self._services, call)
        tag = conditional.tag(call)
        if tag is None:
            return row.handler(self._services, call)
        headers = {'ETag': tag}
        if conditional.has(call.headers.get('If-None-Match'), tag):
            return operation.Answer(None, 304, headers)
        return operation.Answer(row.handler(self._services, call), headers=headers)

    def _match(self, request: webob.Request) -> Match | None:
        try:
            return self._table.match(request.environ['REQUEST_METHOD'],
                                     _path(request.environ) or '/')
        except UnicodeDecodeError:
            return None

    def _identify(self, request: webob.Request, match: Match) -> request_context.RequestContext:
        """The caller; the project in the URL must agree with it."""
        if match.project_id is not None and not auth.is_id(match.project_id):
            raise errors.InvalidInput(MALFORMED_URL)
        public = match.route.public
        context = self._authenticate(request, match.project_id)
        if context is None:
            if public:
                return auth.anonymous(request)
            raise errors.NotAuthenticated()
        context.is_admin = self._policy.is_admin(context)
        context.deadline = request.environ.get(queueing.DEADLINE)
        if match.project_id is not None and match.project_id != context.project_id:
            raise errors.InvalidInput(MALFORMED_URL)
        # Administrators see all projects; any other caller needs a project.
        if not (context.project_id or context.is_admin or public):
            raise errors.NotAuthorized(NO_PROJECT)
        return context

    def _versions(self, request: webob.Request, match: Match) -> operation.Negotiated:
        if match.route.root:
            # How a client finds out what it may ask for must not depend on what it asks for.
            return operation.Negotiated(operation.BASE, None, '')
        negotiated = self._negotiate(request.environ.get('HTTP_OPENSTACK_API_VERSION'))
        request.environ[middleware.VERSION] = negotiated.header
        return negotiated

    def _select(self, request: webob.Request, match: Match,
                negotiated: operation.Negotiated) -> tuple[operation.Operation, Any]:
        """The operation that is meant, and the parsed body if it matters."""
        rows, body = match.route.operations, None
        size = _length(request)
        if size is not None and size > self._max_body_size:
            raise _TooLarge
        if rows[0].action is not None:
            body = self._read_json(request)
            rows = _of_action(rows, body)
        for row in rows:
            if row.serves(negotiated.version, negotiated.extension):
                matters = operation.at_version(row.body, negotiated.version) is not None
                if matters and row.action is None:
                    body = self._read_json(request)
                return row, body
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
        # Most bodies are looked at no further: few brackets cannot be deeply nested. What looks
        # like a zero character may be an escaped backslash before these letters.
        suspect = raw.count(b'[') + raw.count(b'{') > _MOST_LEVELS or b'\\u0000' in raw
        if suspect and not _can_be_stored(value):
            raise errors.InvalidInput(MALFORMED_BODY)
        return value

    def _read(self, request: webob.Request) -> bytes:
        size = _length(request)
        if size == 0 or (size is None and not request.is_body_readable):
            return b''
        try:
            raw = bytes(request.environ['wsgi.input'].read(
                self._max_body_size + 1 if size is None else size))
        except Exception:  # noqa: BLE001 - servers differ; but what fails here is the client's
            raise errors.InvalidInput(MALFORMED_BODY) from None
        if len(raw) > self._max_body_size:
            raise _TooLarge
        return raw

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


def _refuse_ambiguous(rows: list[operation.Operation]) -> None:
    for index, one in enumerate(rows):
        for other in rows[index + 1:]:
            if (one.action is None) != (other.action is None):
                raise ValueError(f'{one.name} and {other.name}: only one is an action')
            apart = (one.action != other.action
                     or (one.until is not None and one.until < other.since)
                     or (other.until is not None and other.until < one.since))
            if not apart:
                raise ValueError(f'{one.name} is defined twice for one version')


def _path(environ: Mapping[str, Any]) -> str:
    """The path as the client wrote it; WSGI hands its bytes over as Latin-1.

    :raises UnicodeDecodeError: it is not UTF-8
    """
    path: str = environ['PATH_INFO']
    return path.encode('latin-1').decode()


def _can_be_stored(value: Any, levels: int = _MOST_LEVELS) -> bool:
    """Whether it has no more levels, and no zero character, which no column takes."""
    if not isinstance(value, dict | list):
        return not isinstance(value, str) or '\0' not in value
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    return all(levels > 0 and _can_be_stored(part, levels - 1) for part in parts)


def _length(request: webob.Request) -> int | None:
    """The declared length of the body. Not every server validates it."""
    text = request.environ.get('CONTENT_LENGTH')
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise errors.InvalidInput(MALFORMED_BODY)
    return int(text)


def _of_action(rows: list[operation.Operation], body: Any) -> list[operation.Operation]:
    if not isinstance(body, dict) or len(body) != 1:
        raise errors.InvalidInput(MALFORMED_BODY)
    action = next(iter(body))
    named = [row for row in rows if row.action == action]
    if not named:
        raise errors.InvalidInput(f'There is no such action: {errors.shortened(action)}')
    return named
