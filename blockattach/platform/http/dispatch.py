"""Dispatcher of API requests to the handlers of operations.

The steps are always taken in this order: route, authentication, project of the URL, microversion,
JSON body, action, target, policy, schema, handler, response. A failed step raises an error, and
`blockattach.platform.http.responses` builds the error response.
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
"""Maximum nesting of lists and objects in a request body.

Responses contain values that clients have stored, and orjson encodes at most 254 levels.
"""

_VARIABLE = re.compile(r'\{\w+\}')
_ANY = '{'
"""Replacement of each variable in a path. Paths are compared without the names of variables."""

Check = Callable[[operation.Operation, operation.Call, webob.Response], None]


class _TooLarge(Exception):
    """Request body that is longer than the configured limit."""


class Route(NamedTuple):
    """Operations with the same method and path, which differ in their versions or actions."""

    operations: list[operation.Operation]
    public: bool
    """True if all the operations are public."""
    root: bool


class Match(NamedTuple):
    """Route and variables of a request path.

    :ivar project_id: None if the path contains no project id
    """

    route: Route
    variables: dict[str, str]
    project_id: str | None


class Table:
    """Routing table of the API.

    A path with a trailing slash has an empty last segment, and is therefore a different path. A
    client that sends an empty id gets 404 instead of the list.
    """

    def __init__(self, operations: Iterable[operation.Operation],
                 prefix: str = operation.PREFIX) -> None:
        """
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
        # Without minimization each variable is required, and is a whole segment.
        mapper.minimization = False
        # The first matching route is used. Literal segments must therefore precede variables, and
        # do, because a brace sorts after every letter.
        for (method, shape), by_path in sorted(by_shape.items()):
            if len(by_path) > 1:
                raise ValueError(f'{method}: ambiguous paths {", ".join(by_path)}')
            [(path, rows)] = by_path.items()
            _refuse_ambiguous(rows)
            mapper.connect(path)
            declared = mapper.matchlist[-1]
            declared.makeregexp([])
            segments = shape.split('/')
            # The patterns of Routes are compared one after the other, so a request is only
            # compared with the patterns of its method, number of segments and literal segment
            # after the version or project.
            literal = next((one for one in segments[2:4] if _ANY not in one), _ANY)
            self._routes.setdefault((method, len(segments), literal), []).append(
                (declared, Route(rows, all(row.public for row in rows), rows[0].root)))

    def match(self, method: str, path: str) -> Match | None:
        """Return the match of a method and path, or None if there is no such operation.

        HEAD is routed as GET unless an operation with the method HEAD matches.
        """
        segments = path.split('/')
        # Routes ends its regular expressions with "$", which also matches before a trailing line
        # feed.
        if '\0' not in path and not path.endswith('\n'):
            for literal in (*segments[2:4], _ANY):
                for declared, route in self._routes.get((method, len(segments), literal), ()):
                    variables = declared.match(path)
                    if variables is not False:
                        return Match(route, variables, variables.pop(PROJECT, None))
        return self.match('GET', path) if method == 'HEAD' else None


class Dispatcher:
    """WebOb handler that dispatches requests to operations.

    All threads share an instance, which keeps no state of a request.
    """

    def __init__(self, operations: Iterable[operation.Operation], services: Any, *,
                 policy: enforcer.Enforcer, authenticate: auth.Authenticator,
                 negotiate: operation.Negotiate, max_body_size: int = 114688,
                 public_endpoint: str | None = None, watch_endpoint: str | None = None,
                 check: Check | None = None,
                 prefix: str = operation.PREFIX) -> None:
        """Compile the routing table and all schemas, so that no request waits for them.

        :param services: object that is passed to handlers unchanged. Its attribute ``database`` is
            used to load targets
        :param max_body_size: maximum size of a request body in bytes
        :param public_endpoint: beginning of the links in responses; None to use the URL of the
            request
        :param watch_endpoint: URL to which requests for streams are redirected if this server
            cannot stream; None to reject such requests
        :param check: function with which tests check each response
        :param prefix: prefix of all paths except the paths of root operations
        :raises ValueError: operations contradict each other, or an operation names an unknown
            policy rule
        """
        rows = tuple(operations)
        for row in rows:
            if row.policy is not None and not policy.knows(row.policy):
                raise ValueError(f'{row.name}: unknown policy rule {row.policy}')
            # Compiled now, so that no request has to wait for it.
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
        """Return the response to a request.

        :raises BlockattachError: a step failed (see the docstring of the module)
        """
        # Some servers join repeated headers with a comma. A proxy may have routed the request by a
        # name that this service would not use.
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
        # Before the schema is checked, so that a caller without rights gets 403 whatever the body.
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
        """Return the response that starts a stream, or a redirect if this server cannot stream.

        :raises InvalidInput: no server of this service serves streams
        """
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
        """Return the value of the handler, or an answer with status 304 if the ETag matches."""
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
        """Return the context of the caller.

        :raises InvalidInput: the project in the URL is malformed, or is not the project of the
            caller
        :raises NotAuthenticated: the operation is not public, and the caller is unknown
        :raises NotAuthorized: the operation is not public, and the caller is neither an
            administrator nor in a project
        """
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
        # Administrators see the resources of all projects. Any other caller needs a project.
        if not (context.project_id or context.is_admin or public):
            raise errors.NotAuthorized(NO_PROJECT)
        return context

    def _versions(self, request: webob.Request, match: Match) -> operation.Negotiated:
        if match.route.root:
            # Clients discover the supported versions with this request, so it must not fail
            # because of an unsupported version.
            return operation.Negotiated(operation.BASE, None, '')
        negotiated = self._negotiate(request.environ.get('HTTP_OPENSTACK_API_VERSION'))
        request.environ[middleware.VERSION] = negotiated.header
        return negotiated

    def _select(self, request: webob.Request, match: Match,
                negotiated: operation.Negotiated) -> tuple[operation.Operation, Any]:
        """Return the operation of a request, and its parsed body.

        The body is None if the operation is no action and has no schema for its body.

        :raises RouteNotFound: no operation of the path exists in the negotiated versions
        """
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
        # The full check is slow. Few brackets cannot be deeply nested, so most bodies need no
        # check. A match of the escaped null character may also be an escaped backslash followed
        # by "u0000".
        suspect = raw.count(b'[') + raw.count(b'{') > _MOST_LEVELS or b'\\u0000' in raw
        if suspect and not _can_be_stored(value):
            raise errors.InvalidInput(MALFORMED_BODY)
        return value

    def _read(self, request: webob.Request) -> bytes:
        size = _length(request)
        if size == 0 or (size is None and not request.is_body_readable):
            return b''
        try:
            # A body of unknown length is read up to one byte more than the limit, which shows that
            # the body is too large.
            raw = bytes(request.environ['wsgi.input'].read(
                self._max_body_size + 1 if size is None else size))
        except Exception:  # noqa: BLE001 - each server has other errors for a failed client
            raise errors.InvalidInput(MALFORMED_BODY) from None
        if len(raw) > self._max_body_size:
            raise _TooLarge
        return raw

    def _permit(self, row: operation.Operation, call: operation.Call) -> None:
        """Load the target of an operation, and check the policy.

        The policy is checked for the project of the target. If the target has none, the project of
        the caller is used.

        :raises NotFound: the target does not exist
        :raises NotAuthorized: the policy denies the operation
        """
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
            # A caller without rights gets the error of a missing resource, and cannot find out
            # whether the resource exists.
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
    """Return the decoded path of a request.

    :raises UnicodeDecodeError: the path is not UTF-8
    """
    # WSGI passes the bytes of the path as Latin-1.
    path: str = environ['PATH_INFO']
    return path.encode('latin-1').decode()


def _can_be_stored(value: Any, levels: int = _MOST_LEVELS) -> bool:
    """Return True if a JSON value has at most ``levels`` levels and no null character."""
    if not isinstance(value, dict | list):
        # PostgreSQL rejects null characters in text columns.
        return not isinstance(value, str) or '\0' not in value
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    return all(levels > 0 and _can_be_stored(part, levels - 1) for part in parts)


def _length(request: webob.Request) -> int | None:
    """Return the value of ``Content-Length``, or None if the header is missing or empty.

    :raises InvalidInput: the value is not a number
    """
    text = request.environ.get('CONTENT_LENGTH')
    if not text:
        return None
    # Not every WSGI server validates the header.
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
