"""Cost of features: clouds that differ in one setting."""
import contextlib
import http.server
import threading
from collections.abc import Iterator
from collections.abc import Mapping

from bench import client
from bench import cloud as clouds
from bench import scenarios
from bench import session as sessions
from blockattach.tests.fixtures import servers

AS_IT_IS = 'baseline'
PLAYED = ('attach-cycle', 'show-volume')
CLIENTS = 8
_NOTIFIED = 'notified'
_CLUSTER = 'shelf'


def features(collector: str) -> dict[str, Mapping[str, Mapping[str, str]]]:
    """Return the options of each feature by group.

    :param collector: URL of a trace collector
    """
    return {
        AS_IT_IS: {},
        'classic queues': {'oslo_messaging_rabbit': {'rabbit_quorum_queue': 'false',
                                                     'rabbit_transient_quorum_queue': 'false'}},
        'calls over HTTP': {'rpc': {'calls': 'http'}},
        'no broker': {'DEFAULT': {'transport_url': 'http://'}},
        'notifications': {'oslo_messaging_notifications': {
            'driver': 'messagingv2', 'topics': f'{clouds.PREFIX}-{_NOTIFIED}'}},
        'metrics': {'metrics': {'port': str(servers.free_port())}},
        'tracing of 10 % of requests': {'tracing': {'endpoint': collector,
                                                    'sample_ratio': '0.1'}},
        'tracing of all requests': {'tracing': {'endpoint': collector}},
        'no history': {'database': {'attachment_history_days': '0'}},
        'debug = true': {'DEFAULT': {'debug': 'true'}},
        'cluster with one member': {'service': {'cluster': _CLUSTER}},
    }


def compare_features(session: sessions.Session) -> None:
    """Measure attach cycles and shows with each feature."""
    with _collector() as endpoint:
        for name, options in features(endpoint).items():
            with contextlib.ExitStack() as running:
                cloud = clouds.Cloud(session.shape(options=options), session.clock)
                running.callback(cloud.close)
                cloud.also_serves(_NOTIFIED, 'info')
                cloud.also_serves('volume', f'{_CLUSTER}@{clouds.BACKEND}')
                try:
                    cloud.start()
                except (clouds.CannotMeasure, client.Unexpected) as exc:
                    session.say(f'{name}: not measured: {exc}')
                    continue
                target = session.target(cloud, name)
                for _ in range(session.plan.rounds):
                    for scenario in PLAYED:
                        session.play(target, scenario, scenarios.Load(
                            CLIENTS, session.plan.seconds, session.plan.warmup))


@contextlib.contextmanager
def _collector() -> Iterator[str]:
    """Run a trace collector that discards all traces, and yield its URL."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers['Content-Length']))
            self.send_response(200)
            self.send_header('Content-Length', '0')
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Log nothing."""

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f'http://127.0.0.1:{server.server_port}/v1/traces'
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
