"""Overload of one process over HTTP, where requests wait for a slot."""
import concurrent.futures
import http.client
import json
import pathlib
import re
import urllib.parse
import urllib.request

from blockattach.testing import stack
from blockattach.tests.functional import base

SECONDS = 120
SETTINGS = """
[api]
threads = 2
request_threads = {threads}
queue_size = {size}
queue_timeout = {timeout}
backend_places = 2
backend_queue_size = 100
[fast]
store = fake
target = fake
[slow]
store = fake
target = fake
[volume]
enabled_backends = fast, slow
[metrics]
port = {metrics}
"""
JOINS = 250


class BackPressureTestCase(base.StackTestCase):
    """Service with two backends, one of which a test can block."""

    def serve(self, threads=64, size=4096, timeout=60):
        self.metrics = stack.free_port()
        self.service = self.a_stack(settings=SETTINGS.format(
            threads=threads, size=size, timeout=timeout, metrics=self.metrics))
        self.api = base.Api(self.service.endpoint, SECONDS)
        self.many = concurrent.futures.ThreadPoolExecutor(64)
        self.addCleanup(self.many.shutdown)
        # Cleanups run in reverse order, so the backend is released before the threads are joined.
        self.addCleanup(self.release)

    def volume(self, backend):
        """Create a multiattach volume on a backend."""
        name = f'on {backend}'
        made = self.api.ask('POST', '/types', {'volume_type': {'name': name, 'extra_specs': {
            'multiattach': '<is> True', 'volume_backend_name': backend}}})
        self.assertEqual(200, made[0], made)
        return self.a_volume(self.api, volume_type=name)

    @property
    def held(self):
        return pathlib.Path(self.service.state_dir) / 'hold-slow'

    def hold(self):
        """Block the slow backend, so that it grants nothing."""
        self.held.touch()

    def release(self):
        self.held.unlink(missing_ok=True)

    def join(self, volume_id, host):
        return self.api.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
            'connector': base.connector(host)}})

    def join_and_leave(self, volume_id, host):
        status, made = self.join(volume_id, host)
        self.assertEqual(200, status, made)
        path = f'/attachments/{made["attachment"]["id"]}'
        self.assertEqual(204, self.api.ask('POST', f'{path}/action', {'os-complete': {}})[0])
        self.assertEqual(200, self.api.ask('DELETE', path)[0])

    def states(self, volume_id):
        return [one['status'] for one in self.api.list('attachments')
                if one['volume_id'] == volume_id]

    def begin(self, count, volume_id, first=0):
        return [self.many.submit(self.join, volume_id, f'host-{number}')
                for number in range(first, first + count)]

    def until_connecting(self, volume_id, count):
        """Wait until the blocked backend has begun this number of attachments."""
        self.assertTrue(base.wait_for(
            lambda: self.states(volume_id).count('attaching') >= count))

    def health(self, path='/healthcheck'):
        parts = urllib.parse.urlsplit(self.service.url)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)
        try:
            connection.request('GET', path)
            return connection.getresponse().status
        finally:
            connection.close()

    def measured(self, series):
        """Return the value of a metric."""
        with urllib.request.urlopen(f'http://127.0.0.1:{self.metrics}/',
                                    timeout=SECONDS) as answer:
            found = re.search(rf'^blockattach_{re.escape(series)} (\S+)$',
                              answer.read().decode(), re.M)
        return float(found[1]) if found else 0

    def raw(self, volume_id, host):
        """Attach a volume, and return status, headers and body of the response."""
        parts = urllib.parse.urlsplit(self.service.endpoint)
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)
        try:
            connection.request('POST', f'{parts.path}/attachments', json.dumps({'attachment': {
                'volume_uuid': volume_id, 'instance_uuid': base.instance(host),
                'connector': base.connector(host)}}), {
                    'OpenStack-API-Version': 'volume 3.71', 'Content-Type': 'application/json'})
            answer = connection.getresponse()
            return answer.status, answer.headers, json.loads(answer.read())
        finally:
            connection.close()

    def assert_refused(self, found, words):
        status, headers, body = found
        self.assertEqual(503, status, body)
        self.assertEqual('5', headers['Retry-After'])
        self.assertTrue(headers['x-openstack-request-id'])
        self.assertEqual({'code': 503, 'retryAfter': '5'}, {
            key: value for key, value in body['serviceUnavailable'].items() if key != 'message'})
        self.assertIn(words, body['serviceUnavailable']['message'])


class SlowBackendTest(BackPressureTestCase):

    def test_others_go_on_while_a_backend_answers_nobody(self):
        """More requests for a blocked backend than workers do not delay the other backend."""
        self.serve()
        slow, fast = self.volume('slow'), self.volume('fast')
        self.hold()
        waiting = self.begin(20, slow)
        self.until_connecting(slow, 2)
        for number in range(10):
            self.join_and_leave(fast, f'other-{number}')
        self.assertFalse(any(one.done() for one in waiting))
        # Queued requests have not changed the database.
        self.assertEqual(['attaching'] * 2, self.states(slow))
        self.release()
        self.assertEqual([200] * 20, [one.result(SECONDS)[0] for one in waiting])
        self.assertEqual(20, len(self.states(slow)))

    def test_volumes_are_made_while_a_backend_grants_nothing(self):
        self.serve()
        slow = self.volume('slow')
        self.hold()
        waiting = self.begin(10, slow)
        self.until_connecting(slow, 2)
        self.assertEqual('available', self.settled(self.api, self.a_volume(
            self.api, volume_type='on slow')))
        self.release()
        self.assertEqual([200] * 10, [one.result(SECONDS)[0] for one in waiting])

    def test_a_request_that_waits_for_too_long_is_answered_when_to_retry(self):
        # Other requests must not reach the timeout, even on a machine that is suspended for a
        # moment.
        self.serve(timeout=4)
        slow, fast = self.volume('slow'), self.volume('fast')
        self.hold()
        waiting = self.begin(2, slow)
        self.until_connecting(slow, 2)
        self.assert_refused(self.raw(slow, 'late'), 'timed out in the queue')
        backend = self.api.list('services', '/os-services?binary=cinder-volume')
        name = next(one['host'] for one in backend if one['host'].endswith('@slow'))
        self.assertEqual(1, self.measured(
            f'queue_refused_total{{queue="{name}",refusal="queue.timeout"}}'))
        self.assertEqual((2, 2, 0), tuple(
            self.measured(f'queue_{what}{{queue="{name}"}}')
            for what in ('slots', 'slots_busy', 'waiting')))
        self.assertEqual(['attaching'] * 2, self.states(slow))
        self.join_and_leave(fast, 'other')
        self.release()
        self.assertEqual([200] * 2, [one.result(SECONDS)[0] for one in waiting])
        # The client may retry.
        self.assertEqual(200, self.join(slow, 'late')[0])


class QueueTest(BackPressureTestCase):

    def test_more_clients_than_threads(self):
        """Connections wait for a thread, while health checks are answered. All requests succeed.
        """
        self.serve(threads=4)
        slow = self.volume('slow')
        self.assertTrue(base.wait_for(lambda: self.health() == 200))
        self.hold()
        waiting = self.begin(40, slow)
        self.assertTrue(base.wait_for(lambda: self.measured(
            'waiting_work{threads="http"}') >= 30))
        for path in ('/healthcheck', '/healthcheck/live'):
            self.assertEqual(200, self.health(path))
        self.release()
        self.assertEqual([200] * 40, [one.result(SECONDS)[0] for one in waiting])
        self.assertEqual(40, len(self.states(slow)))

    def test_request_beyond_full_queue_rejected(self):
        self.serve(threads=4, size=3)
        slow = self.volume('slow')
        self.hold()
        waiting = self.begin(30, slow)
        done, _ = concurrent.futures.wait(waiting, SECONDS, concurrent.futures.FIRST_COMPLETED)
        self.assertEqual({503}, {one.result()[0] for one in done})
        self.assertTrue(base.wait_for(lambda: sum(one.done() for one in waiting) >= 23))
        self.assert_refused(self.raw(slow, 'one-more'), 'queue is full')
        self.assertEqual(200, self.health('/healthcheck/live'))
        self.release()
        statuses = [one.result(SECONDS)[0] for one in waiting]
        self.assertEqual({200, 503}, set(statuses))
        self.assertEqual(statuses.count(200), len(self.states(slow)))

    def test_many_hosts_join_one_volume(self):
        self.serve(threads=16)
        fast = self.volume('fast')
        answers = [one.result(SECONDS) for one in self.begin(JOINS, fast)]
        self.assertEqual([200] * JOINS, [status for status, _ in answers])
        self.assertEqual(JOINS, len({made['attachment']['id'] for _, made in answers}))
        self.assertEqual(JOINS, len(self.states(fast)))

    def test_all_ends_in_a_final_state_also_after_refusals(self):
        """Some of too many clients are refused, and no attachment stays incomplete."""
        self.serve(threads=8, size=8)
        fast = self.volume('fast')

        def cycle(number):
            status, made = self.join(fast, f'host-{number}')
            if status == 200:
                path = f'/attachments/{made["attachment"]["id"]}/action'
                # A refused client repeats the request.
                base.wait_for(lambda: self.api.ask('POST', path, {'os-complete': {}})[0] == 204,
                              SECONDS)
            return status
        statuses = set(self.many.map(cycle, range(200)))
        self.assertLessEqual(statuses, {200, 503})
        self.assertIn(200, statuses)
        self.assertTrue(base.wait_for(
            lambda: not {'attaching', 'detaching'} & set(self.attach_statuses(fast))),
            self.attach_statuses(fast))

    def attach_statuses(self, volume_id):
        """Return the statuses of the attachments of a volume. A busy API is asked again."""
        found = base.wait_for(lambda: (answer := self.api.ask('GET', '/attachments/detail'))[
            0] == 200 and answer[1])
        return [one['status'] for one in found['attachments'] if one['volume_id'] == volume_id]
