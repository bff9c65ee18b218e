"""Watch streams of attachment events, which miss nothing and block nobody."""
import datetime
import http.client
import json
import socket

from blockattach.platform import clock as clocks
from blockattach.platform.webserver import server
from blockattach.storage import watching
from blockattach.storage.api.resources.attachments import watching as rendering
from blockattach.storage.conf import watch as watch_conf
from blockattach.storage.db import models
from blockattach.storage.db import purging
from blockattach.tests.api import base
from blockattach.tests.fixtures import http as fixture
from blockattach.tests.fixtures import make
from blockattach.tests.fixtures import polling

ASKED = 'volume 3.71, blockattach 1.5'
MOVES = ['create', 'connect', 'connected', 'complete']
MANY = 1500
LARGE = 10000
"""Number and bytes of events that exceed the send buffer of a client that does not read."""


class Stream:
    """Client that reads the events of a watch stream one by one."""

    def __init__(self, port, query='', persona=None, last=None, path='/attachments?watch=true',
                 room=None):
        """Start the watch request.

        :param room: size of the receive buffer in bytes, or None for the system's default
        """
        self._connection = http.client.HTTPConnection('127.0.0.1', port, timeout=polling.LIMIT)
        if room is not None:
            self._connection.sock = socket.socket()
            self._connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
            self._connection.sock.connect(('127.0.0.1', port))
        headers = {'X-Auth-Token': persona.token, 'OpenStack-API-Version': ASKED}
        if last is not None:
            headers['Last-Event-ID'] = str(last)
        self._connection.request('GET', f'/v3/{persona.project_id}{path}{query}', headers=headers)
        self.answer = self._connection.getresponse()
        self.status = self.answer.status
        self.last = last

    def next(self):
        """Return the name and the data of the next event, or None at the end. Comments are
        skipped.
        """
        found = {}
        while line := self.answer.readline():
            name, _, value = line.decode().rstrip('\n').partition(':')
            if name:
                found[name] = value.strip()
            elif found:
                self.last = int(found.get('id', self.last or 0))
                return found['event'], json.loads(found['data'])
        return None

    def take(self, number):
        """Return the data of the next events."""
        return [self.next()[1] for _ in range(number)]

    def close(self):
        self.answer.close()
        self._connection.close()


class WatchTestCase(base.ApiTestCase):

    WATCHING = {}

    def setUp(self):
        super().setUp()
        self.server = self.serve()

    def serve(self, hub=True):
        made = server.Server(self.http, '127.0.0.1', 0)
        if hub:
            made.hub = watching.Hub(
                self.http.database, watch_conf.WatchSettings(**self.WATCHING),
                rendering.render, clocks.Clock())
        made.start()
        self.addCleanup(made.stop)
        return made

    def watch(self, query='', persona=None, last=None, of=None):
        """Start a watch stream, and wait until the server is ready."""
        stream = Stream((of or self.server).port, query, persona or self.http.as_member, last)
        self.addCleanup(stream.close)
        self.assertEqual(200, stream.status)
        if last is None:
            self.assertEqual(('ready', {}), stream.next())
        return stream

    def fill(self, reason=None):
        """Insert a long history of the only attachment."""
        with self.http.database.writer() as connection:
            [row] = connection.execute(models.attachment_events.select()).mappings()
            connection.execute(models.attachment_events.insert(), [
                {name: value for name, value in row.items() if name not in ('id', 'position')} | {
                    'generation': number, 'reason': reason} for number in range(2, MANY)])

    def ask(self, query, headers=None, persona=None):
        return (persona or self.http.as_member).send('GET', f'/attachments{query}', None, None, {
            'OpenStack-API-Version': ASKED, **(headers or {})})


class WatchTest(WatchTestCase):

    def test_watch_shows_each_transition(self):
        volume_id = self.volume()
        stream = self.watch()
        attachment_id = self.attached(volume_id, connector=make.connector(host='compute-1'))
        seen = stream.take(4)
        self.assertEqual(MOVES, [one['event'] for one in seen])
        self.assertEqual({(attachment_id, volume_id, make.PROJECT, base.SERVER)}, {
            (one['attachment_id'], one['volume_id'], one['project_id'], one['instance'])
            for one in seen})
        self.assertEqual(('attached', 'compute-1'), (seen[-1]['to'], seen[-1]['host']))

    def test_watch_response_headers(self):
        answer = self.watch().answer
        self.assertEqual('text/event-stream; charset=UTF-8', answer.getheader('Content-Type'))
        self.assertIsNone(answer.getheader('Content-Length'))
        self.assertEqual('no-store', answer.getheader('Cache-Control'))

    def test_watch_filtered_by_volume_host_or_server(self):
        volumes = [self.volume(), self.volume()]
        by_volume = self.watch(f'&volume_id={volumes[1]}')
        by_host = self.watch('&host=compute-2')
        by_server = self.watch(f'&instance_id={base.OTHER_SERVER}')
        self.attached(volumes[0], connector=make.connector(host='compute-1'))
        other = self.attached(volumes[1], base.OTHER_SERVER,
                              make.connector(host='compute-2'))
        for stream, moves in ((by_volume, MOVES), (by_host, MOVES[1:]), (by_server, MOVES)):
            seen = stream.take(len(moves))
            self.assertEqual(moves, [one['event'] for one in seen])
            self.assertEqual({other}, {one['attachment_id'] for one in seen})

    def test_watch_scope_by_project(self):
        stranger = self.watch(persona=self.http.as_stranger)
        everything = self.watch('&all_tenants=1', self.http.as_admin)
        self.reserve(self.volume())
        self.assertEqual('create', everything.take(1)[0]['event'])
        theirs = self.http.as_stranger.post('/volumes', {'volume': {'size': 1}}).body['volume']
        made = self.http.as_stranger.post('/attachments', {'attachment': {
            'volume_uuid': theirs['id'], 'instance_uuid': base.SERVER}})
        self.assertEqual(made.body['attachment']['id'], stranger.take(1)[0]['attachment_id'])

    def test_watch_resumes_after_last_event_id(self):
        stream = self.watch()
        self.reserve(self.volume())
        stream.take(1)
        stream.close()
        missed = self.reserve(self.volume())
        again = self.watch(last=stream.last)
        self.assertEqual('ready', again.next()[0])
        self.assertEqual([missed], [one['attachment_id'] for one in again.take(1)])
        later = self.reserve(self.volume())
        self.assertEqual([later], [one['attachment_id'] for one in again.take(1)])

    def test_watch_resumes_after_restart(self):
        stream = self.watch()
        self.reserve(self.volume())
        stream.take(1)
        self.server.stop()
        self.assertEqual(('end', {'reason': 'stopping'}), stream.next())
        self.assertIsNone(stream.next())
        missed = self.reserve(self.volume())
        again = self.watch(last=stream.last, of=self.serve())
        self.assertEqual('ready', again.next()[0])
        self.assertEqual([missed], [one['attachment_id'] for one in again.take(1)])

    def test_watch_resumes_over_long_history(self):
        stream = self.watch()
        self.reserve(self.volume())
        stream.take(1)
        self.fill()
        later = self.reserve(self.volume())
        again = self.watch(last=stream.last)
        self.assertEqual('ready', again.next()[0])
        self.assertEqual(list(range(2, MANY)),
                         [one['generation'] for one in again.take(MANY - 2)])
        self.assertEqual(later, again.take(1)[0]['attachment_id'])

    def test_watch_reports_purged_events_as_missed(self):
        stream = self.watch()
        for _ in range(2):
            self.reserve(self.volume())
        stream.take(1)
        old = stream.last
        with self.http.database.writer() as connection:
            connection.execute(models.attachment_events.update().values(
                created_at=self.http.database.clock.utcnow() - datetime.timedelta(days=31)))
        self.reserve(self.volume())
        stream.take(2)
        purging.purge_expired(self.http.database)
        again = self.watch(last=old)
        self.assertEqual(['missed', 'ready', 'attachment'],
                         [again.next()[0] for _ in range(3)])

    def test_watch_serves_many_clients_and_drops_closed(self):
        streams = [self.watch() for _ in range(20)]
        streams.pop().close()
        attachment_id = self.reserve(self.volume())
        self.assertEqual({attachment_id}, {
            stream.take(1)[0]['attachment_id'] for stream in streams})


class RefusedTest(WatchTestCase):

    def test_invalid_watch_request_rejected(self):
        for query, last, word in (
                ('watch=perhaps', None, 'boolean'), ('watch=true&status=attached', None, 'Cannot'),
                ('watch=true', 'x', 'Last-Event-ID'), ('watch=true', '999', 'Last-Event-ID')):
            with self.subTest(query):
                asked = Stream(self.server.port, persona=self.http.as_member, last=last,
                               path=f'/attachments?{query}')
                self.addCleanup(asked.close)
                self.assertEqual(400, asked.status)
                self.assertIn(word, asked.answer.read().decode())
        self.assertEqual(0, self.server.hub.count())

    def test_watch_forbidden_without_role(self):
        self.assert_status(403, self.ask('?watch=true', persona=self.http.as_nobody))

    def test_watch_rejected_where_not_served(self):
        self.assert_fault(400, 'Cannot watch attachments', self.ask('?watch=true'))

    def test_watch_rejected_without_extension(self):
        self.assert_status(400, self.http.as_member.get('/attachments?watch=true'))
        self.assertEqual([], self.ask('?watch=false').body['attachments'])


class ElsewhereTest(base.ApiTestCase):

    def test_watch_redirected_to_public_endpoint(self):
        self.http = fixture.ApiFixture(options={'watch': {
            'public_endpoint': 'https://watch.example.org/'}})
        self.addCleanup(self.http.close)
        reply = self.http.as_member.send('GET', '/attachments?watch=true&host=a', None, None, {
            'OpenStack-API-Version': ASKED})
        self.assertEqual(
            (307, f'https://watch.example.org/v3/{make.PROJECT}/attachments?watch=true&host=a'),
            (reply.status, reply.headers['Location']))


class FullTest(WatchTestCase):

    WATCHING = {'most_watchers': 1}

    def test_watch_beyond_stream_limit_unavailable(self):
        first = self.watch()
        refused = Stream(self.server.port, persona=self.http.as_member)
        self.addCleanup(refused.close)
        self.assertEqual(503, refused.status)
        first.close()
        polling.until(lambda: self.server.hub.count() == 0)
        self.watch()


class SlowTest(WatchTestCase):

    WATCHING = {'buffer_bytes': 4096}

    def test_slow_watch_client_cut_off_and_resumes(self):
        attachment_id, volume_id = self.reserve(self.volume()), self.volume()
        slow = Stream(self.server.port, persona=self.http.as_member, room=4096)
        self.addCleanup(slow.close)
        other = self.watch(f'&volume_id={volume_id}')
        self.fill('x' * LARGE)
        self.reserve(volume_id)
        # The events before it were sent by then, and the slow client delayed none of them.
        other.take(1)
        self.assertEqual('ready', slow.next()[0])
        seen = []
        while (found := slow.next())[0] == 'attachment':
            seen.append(found[1]['generation'])
        self.assertEqual((('end', {'reason': 'slow'}), None), (found, slow.next()))
        self.assertEqual(list(range(2, len(seen) + 2)), seen)
        self.assertLess(len(seen), MANY - 2)
        again = self.watch(f'&volume_id={self.shown_volume_of(attachment_id)}', last=slow.last)
        self.assertEqual('ready', again.next()[0])
        self.assertEqual(len(seen) + 2, again.take(1)[0]['generation'])

    def shown_volume_of(self, attachment_id):
        shown = self.http.as_member.get(f'/attachments/{attachment_id}')
        return shown.body['attachment']['volume_id']


class LongTest(WatchTestCase):

    WATCHING = {'longest_seconds': 0.0}

    def test_watch_stream_ends_for_token_renewal(self):
        stream = self.watch()
        self.assertEqual(('end', {'reason': 'renew'}), stream.next())
        self.assertIsNone(stream.next())
