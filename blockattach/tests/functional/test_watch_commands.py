"""Command `openstack volume attachment watch`."""
import json
import pathlib
import re
import signal
import tempfile
import uuid

import webob

from blockattach.platform import clock as clocks
from blockattach.platform.webserver import server
from blockattach.storage import watching
from blockattach.storage.api.resources.attachments import watching as rendering
from blockattach.storage.conf import watch as watch_conf
from blockattach.tests.fixtures import forks
from blockattach.tests.fixtures import polling
from blockattach.tests.fixtures import served
from blockattach.tests.functional import attachment_commands

EVENT = 'id: %d\nevent: %s\ndata: %s\n\n'
MOVE = {'attachment_id': 'a', 'volume_id': 'v', 'project_id': 'p', 'instance': None,
        'host': 'compute-1', 'at': '2026-01-01T00:00:00', 'generation': 2, 'event': 'complete',
        'from': 'connected', 'to': 'attached', 'user_id': 'u', 'request_id': 'r', 'reason': None}


class WatchTest(attachment_commands.AttachmentCommandsTestCase):

    def setUp(self):
        super().setUp()
        self.server = server.Server(self.api, '127.0.0.1', 0)
        self.server.hub = watching.Hub(
            self.api.database, watch_conf.WatchSettings(), rendering.render, clocks.Clock())
        self.server.start()
        self.addCleanup(self.server.stop)
        self.there = self.service
        self.service = self.at(self.server.port)
        self.of = self.volume()

    @staticmethod
    def at(port):
        return type('At', (), {'endpoint': f'http://127.0.0.1:{port}/v3'})

    def attach(self):
        """Create an attachment with four transitions."""
        status, body = self.plain.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': self.of.id, 'instance_uuid': str(uuid.uuid4())}})
        self.assertEqual(200, status, body)
        made = body['attachment']['id']
        self.plain.ask('PUT', f'/attachments/{made}', {'attachment': {'connector': {
            'host': 'compute-1', 'initiator': f'{attachment_commands.IQN}1'}}})
        self.plain.ask('POST', f'/attachments/{made}/action', {'os-complete': None})
        return made

    def test_watch_prints_one_transition_per_line(self):
        made = self.attach()
        lines = self.output('watch', self.of.name, '--after', '0', '--count', '4').splitlines()
        self.assertEqual(
            ['create: reserved', 'connect: reserved -> connecting',
             'connected: connecting -> connected', 'complete: connected -> attached'],
            [line.split('  ')[1] for line in lines])
        self.assertRegex(lines[3], rf'^20\S+  complete: connected -> attached  volume {self.of.id}'
                                   rf'  attachment {made}  host compute-1  server \S+  by user ')

    def test_watch_prints_json_after_position(self):
        made = self.attach()
        first, second = map(json.loads, self.output(
            'watch', self.of.id, '--json', '--after', '0', '--count', '2').splitlines())
        self.assertEqual(('create', made, self.of.id), (
            first['event'], first['attachment_id'], first['volume_id']))
        [again] = map(json.loads, self.output(
            'watch', self.of.id, '--json', '--after', str(first['position']), '--count',
            '1').splitlines())
        self.assertEqual(second, again)

    def test_watch_filters_by_volume_and_host(self):
        self.attach()
        self.of = self.volume()
        made = self.attach()
        for options in (('--host', 'compute-1', self.of.id), (self.of.name,)):
            with self.subTest(options):
                [line] = self.output('watch', '--json', '--after', '0', '--count', '1',
                                     *options).splitlines()
                self.assertEqual(made, json.loads(line)['attachment_id'])

    def test_watch_ends_on_interrupt(self):
        with tempfile.NamedTemporaryFile('r') as output, tempfile.NamedTemporaryFile('r') as said:
            process = forks.Fork(
                ['openstack', '--os-auth-type', 'none', '--os-endpoint', self.service.endpoint,
                 'volume', 'attachment', 'watch', '--after', '0', self.of.id],
                pathlib.Path(output.name), errors=pathlib.Path(said.name),
                environment={'NO_PROXY': '127.0.0.1'})
            try:
                self.attach()
                polling.until(lambda: 'complete:' in pathlib.Path(output.name).read_text())
                process.send_signal(signal.SIGINT)
                self.assertEqual(0, process.wait())
            finally:
                process.kill()
            self.assertNotIn('Traceback', said.read())

    def test_watch_with_invalid_arguments_rejected(self):
        self.assert_refused("'x' is not a number", 'watch', '--after', 'x', status=2)
        self.assert_refused("'0' is not a number from 1 to", 'watch', '--count', '0', status=2)
        self.assert_refused("Volume 'nothing' not found", 'watch', 'nothing')
        self.service = self.there
        self.assert_refused('HTTP 4', 'watch')


class Cut:
    """WSGI application before the service that answers watch requests with prepared streams."""

    def __init__(self, application, *streams):
        self._application, self._streams = application, list(streams)
        self.asked_from = []

    def __call__(self, environ, start_response):
        request = webob.Request(environ)
        if 'watch' not in request.GET:
            return self._application(environ, start_response)
        self.asked_from.append(request.headers.get('Last-Event-ID'))
        status, body = self._streams.pop(0)
        response = webob.Response(status=status, body=body.encode(),
                                  content_type='text/event-stream')
        response.headers[attachment_commands.VERSION] = 'volume 3.54, blockattach 1.5'
        return response(environ, start_response)


class CutTest(attachment_commands.AttachmentCommandsTestCase):
    """Event stream that is interrupted repeatedly."""

    def watch(self, *streams, count=2):
        cut = Cut(self.api, *streams)
        self.service = self.enterContext(served.Served(cut))
        self.addCleanup(setattr, self, 'service', type(self).service)
        done = self.run_command('watch', '--json', '--count', str(count))
        self.assertEqual(0, done.status, done.errors)
        return cut, [json.loads(line)['position'] for line in done.output.splitlines()], \
            done.errors

    def test_watch_resumes_after_lost_connection(self):
        move = json.dumps(MOVE)
        cut, positions, said = self.watch(
            (200, ': hello\n\n' + EVENT % (4, 'ready', '{}') + EVENT % (5, 'attachment', move)
             + EVENT % (5, 'end', '{"reason": "renew"}')),
            (200, ': hello\n'), (503, 'x'), (502, 'x'),
            (200, EVENT % (7, 'attachment', move) + 'id: 8\nevent: attachment\nda'))
        self.assertEqual([None, '5', '5', '5', '5'], cut.asked_from)
        self.assertEqual([5, 7], positions)
        self.assertEqual(1, len(re.findall('The connection was lost. Reconnecting', said)))

    def test_watch_reports_missed_events_and_truncation(self):
        move = json.dumps(MOVE)
        _, positions, said = self.watch(
            (200, EVENT % (4, 'missed', '{}') + EVENT % (5, 'attachment', move)
             + EVENT % (5, 'end', '{"reason": "slow"}')),
            (200, EVENT % (6, 'attachment', move)))
        self.assertEqual([5, 6], positions)
        self.assertIn('Some changes were missed', said)
        self.assertIn('too many events were unread', said)
