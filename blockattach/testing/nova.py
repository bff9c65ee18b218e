"""Nova's one call that the service makes, on loopback: who uses an attachment.

    with NovaStandIn() as nova:
        nova.use(server_id, volume_id, attachment_id)
        settings = NovaSettings(endpoint_override=nova.url)

Unless told otherwise no server uses anything, which Nova says with 404. It also has the one call
of Keystone's that leads there: the caller's catalog.
"""
import json
import threading
from collections.abc import Mapping
from http import server
from typing import Any
from typing import NamedTuple
from typing import Self

_ADDRESS = '127.0.0.1'
_VERSION = '/v2.1'
_LONGEST_SILENCE = 60.0


class Request(NamedTuple):
    """What was asked; names of headers in lower case."""

    path: str
    headers: Mapping[str, str]


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
        self._used: dict[str, str] = {}
        self._awake = threading.Event()
        self._awake.set()
        self._server = server.ThreadingHTTPServer((_ADDRESS, 0), _handler(self))
        self._server.daemon_threads = False
        self.keystone_url = f'http://{_ADDRESS}:{self._server.server_port}'
        self.url = self.keystone_url + _VERSION
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,),
                                        name='nova-stand-in')
        self._thread.start()

    def use(self, server_id: str, volume_id: str, attachment_id: str) -> None:
        """Let a server use a volume by an attachment."""
        self._used[f'{_VERSION}/servers/{server_id}/os-volume_attachments/{volume_id}'] = (
            attachment_id)

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
            return Reply(200, {'catalog': [{'type': 'compute', 'name': 'nova', 'endpoints': [
                {'interface': 'public', 'region': 'one', 'region_id': 'one', 'url': self.url}]}]})
        used_by = self._used.get(request.path)
        if used_by is None:
            return Reply(404, {'itemNotFound': {'code': 404, 'message': 'Not found.'}})
        return Reply(200, {'volumeAttachment': {
            'attachment_id': used_by, 'device': '/dev/vdb', 'tag': None,
            'delete_on_termination': False}})


def _handler(stand_in: NovaStandIn) -> type[server.BaseHTTPRequestHandler]:
    class Handler(server.BaseHTTPRequestHandler):
        """One request after the other on a connection."""

        protocol_version = 'HTTP/1.0'

        def do_GET(self) -> None:  # noqa: N802
            """As the standard library calls it."""
            status, body, headers = stand_in.reply(Request(
                self.path, {name.lower(): value for name, value in self.headers.items()}))
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
