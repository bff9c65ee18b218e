"""Nova's one call that the service makes, on loopback: who uses an attachment.

    with NovaStandIn() as nova:
        nova.use(server_id, volume_id, attachment_id)
        settings = NovaSettings(endpoint_override=nova.url)

Unless told otherwise no server uses anything, which Nova says with 404. It also has the call of
Keystone's that leads there, the caller's catalog, and what a client needs that asks Nova for a
server before it attaches a volume: a token, the catalog with it, and the servers.
"""
import json
import threading
import urllib.parse
from collections.abc import Mapping
from http import server
from typing import Any
from typing import NamedTuple
from typing import Self

_ADDRESS = '127.0.0.1'
_VERSION = '/v2.1'
_NEWEST = '2.96'
_REGION = 'one'
_LONGEST_SILENCE = 60.0
_NOT_FOUND = {'itemNotFound': {'code': 404, 'message': 'Not found.'}}


class Request(NamedTuple):
    """What was asked; names of headers in lower case."""

    path: str
    headers: Mapping[str, str]
    body: Any = None


class Reply(NamedTuple):
    """What is answered in place of the truth; a body of bytes as it is, else as JSON."""

    status: int
    body: Any
    headers: Mapping[str, str] = {}


class NovaStandIn:
    """Answers from construction until `close`."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answer: Reply | None = None
        self.sees_all = True
        """Whether whoever asks may see the servers of all projects."""
        self._used: dict[str, str] = {}
        self._servers: dict[str, dict[str, Any]] = {}
        self._awake = threading.Event()
        self._awake.set()
        self._server = server.ThreadingHTTPServer((_ADDRESS, 0), _handler(self))
        self._server.daemon_threads = False
        self.keystone_url = f'http://{_ADDRESS}:{self._server.server_port}'
        self.url = self.keystone_url + _VERSION
        self._published = {'identity': f'{self.keystone_url}/v3', 'compute': self.url}
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,),
                                        name='nova-stand-in')
        self._thread.start()

    def use(self, server_id: str, volume_id: str, attachment_id: str) -> None:
        """Let a server use a volume by an attachment."""
        self._used[f'{_VERSION}/servers/{server_id}/os-volume_attachments/{volume_id}'] = (
            attachment_id)

    def run(self, server_id: str, name: str, **shown: Any) -> None:
        """Let there be a server.

        :param shown: what else is told of it, by Nova's own keys
        """
        self._servers[server_id] = {'id': server_id, 'name': name, 'status': 'ACTIVE',
                                    'OS-EXT-STS:task_state': None, **shown}

    def end(self, server_id: str) -> None:
        """Let there be a server no more; what it used is forgotten."""
        del self._servers[server_id]
        self._used = {path: used_by for path, used_by in self._used.items()
                      if f'/{server_id}/' not in path}

    def publish(self, service_type: str, url: str) -> None:
        """Let the catalog say where another service is."""
        self._published[service_type] = url

    def fall_asleep(self) -> None:
        """Answer nothing any more, until `close`."""
        self._awake.clear()

    def close(self) -> None:
        """Answer what is asked, and listen no more."""
        self._awake.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def reply(self, request: Request) -> Reply:
        """What is answered to a request, which is kept."""
        self.requests.append(request)
        self._awake.wait(_LONGEST_SILENCE)
        if self.answer is not None:
            return self.answer
        if request.path == '/v3/auth/catalog':
            return Reply(200, {'catalog': self._catalog()})
        if request.path == '/v3/auth/tokens' and request.body is not None:
            return self._token(request.body['auth'])
        return self._of_nova(request.path)

    def _of_nova(self, path: str) -> Reply:
        used_by = self._used.get(path)
        if used_by is not None:
            return Reply(200, {'volumeAttachment': {
                'attachment_id': used_by, 'device': '/dev/vdb', 'tag': None,
                'delete_on_termination': False}})
        if path.rstrip('/') == _VERSION:
            return Reply(200, {'version': {
                'id': 'v2.1', 'status': 'CURRENT', 'version': _NEWEST, 'min_version': '2.1',
                'links': [{'rel': 'self', 'href': f'{self.url}/'}]}})
        asked = urllib.parse.urlsplit(path)
        if asked.path == f'{_VERSION}/servers':
            if not self.sees_all:
                return Reply(403, {'forbidden': {'code': 403, 'message': 'Not yours.'}})
            return Reply(200, {'servers': [{'id': one['id'], 'name': one['name']}
                                           for one in self._servers.values()]})
        of_servers, _, server_id = asked.path.rpartition('/')
        if of_servers != f'{_VERSION}/servers':
            return Reply(404, _NOT_FOUND)
        if server_id == 'detail':
            wanted = urllib.parse.parse_qs(asked.query).get('name')
            return Reply(200, {'servers': [
                known for known in self._servers.values()
                if wanted is None or known['name'] in wanted]})
        if server_id not in self._servers:
            return Reply(404, _NOT_FOUND)
        return Reply(200, {'server': self._servers[server_id]})

    def _token(self, auth: Mapping[str, Any]) -> Reply:
        """For whoever asks, of the project that he asks for: of the kind that the service takes
        where it has no Keystone."""
        user, project = auth['identity']['password']['user'], auth['scope']['project']
        user_id = user.get('id') or user['name']
        project_id = project.get('id') or project['name']
        domain = {'id': 'default', 'name': 'Default'}
        return Reply(201, {'token': {
            'methods': ['password'], 'issued_at': '2026-01-01T00:00:00.000000Z',
            'expires_at': '2999-01-01T00:00:00.000000Z',
            'user': {'id': user_id, 'name': user_id, 'domain': domain},
            'project': {'id': project_id, 'name': project_id, 'domain': domain},
            'roles': [{'id': 'member', 'name': 'member'}], 'catalog': self._catalog(),
        }}, {'X-Subject-Token': f'{user_id}:{project_id}'})

    def _catalog(self) -> list[dict[str, Any]]:
        return [{'type': service_type, 'name': service_type, 'id': service_type, 'endpoints': [
                    {'id': service_type, 'interface': 'public', 'region': _REGION,
                     'region_id': _REGION, 'url': url}]}
                for service_type, url in self._published.items()]


def _handler(stand_in: NovaStandIn) -> type[server.BaseHTTPRequestHandler]:
    class Handler(server.BaseHTTPRequestHandler):
        """One request after the other on a connection."""

        protocol_version = 'HTTP/1.0'

        def do_GET(self) -> None:  # noqa: N802
            """As the standard library calls it."""
            self._answer(None)

        def do_POST(self) -> None:  # noqa: N802
            """As the standard library calls it."""
            self._answer(json.loads(self.rfile.read(int(self.headers['Content-Length']))))

        def _answer(self, asked: Any) -> None:
            status, body, headers = stand_in.reply(Request(
                self.path, {name.lower(): value for name, value in self.headers.items()}, asked))
            payload = body if isinstance(body, bytes) else json.dumps(body).encode()
            try:
                self.send_response(status)
                for name, value in {'Content-Type': 'application/json', **headers,
                                    'Content-Length': str(len(payload))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(payload)
            except ConnectionError:
                # Whoever asked has waited long enough.
                return

        def log_message(self, format: str, *args: object) -> None:
            """Tell nobody."""

    return Handler
