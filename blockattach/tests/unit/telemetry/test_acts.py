"""Telemetry of an operation: progress, duration and outcome."""
import os
import threading
import unittest

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform import metrics
from blockattach.platform.telemetry import acts
from blockattach.platform.telemetry import counting
from blockattach.platform.telemetry import threads
from blockattach.tests.fixtures import clock
from blockattach.tests.fixtures import polling

SECONDS = polling.LIMIT


class TelemetryTestCase(unittest.TestCase):

    def setUp(self):
        super().setUp()
        self.clock = clock.ManualClock()
        self.telemetry = acts.Telemetry(self.clock)
        self.telemetry.counts = counting.Counts(self.telemetry.readings)

    def value(self, name, **labels):
        return self.telemetry.counts.registry.get_sample_value(f'blockattach_{name}', labels)

    def seen(self):
        """Return the metric, the labels and the seconds of each operation in progress."""
        return [(act.row, act.labels, act.seconds()) for act in self.telemetry.acts()]


class ActTest(TelemetryTestCase):

    def test_operation_duration_recorded(self):
        with self.telemetry.backend('disks', 'target', 'grant'):
            self.clock.advance(2)
        labels = {'backend': 'disks', 'part': 'target', 'verb': 'grant', 'outcome': 'ok'}
        self.assertEqual((1, 2), (self.value('backend_call_seconds_count', **labels),
                                  self.value('backend_call_seconds_sum', **labels)))
        self.assertEqual((0, 1), tuple(
            self.value('backend_call_seconds_bucket', le=bucket, **labels)
            for bucket in ('1.0', '2.5')))

    def test_request_sums_durations_of_parts(self):
        for request in (self.telemetry.http(None),
                        self.telemetry.rpc_server('volume', 'connect', None)):
            with self.subTest(request.row.name):
                with request:
                    for seconds in (1, 2):
                        with self.telemetry.transaction('read'):
                            self.clock.advance(seconds)
                    with (self.assertRaises(OSError), self.telemetry.attaching('call'),
                          self.telemetry.rpc_client('volume', 'connect')):
                        self.clock.advance(4)
                        raise OSError
                    with self.telemetry.backend('disks', 'target', 'grant'):
                        self.clock.advance(8)
                    with self.telemetry.queueing('work'):
                        self.clock.advance(16)
                with self.telemetry.transaction('read'):
                    self.clock.advance(32)
                self.assertEqual({'database_seconds': 3, 'rpc_seconds': 4, 'backend_seconds': 8,
                                  'queue_seconds': 16}, request.noted.as_json())

    def test_outcome_by_error_class(self):
        for outcome, error in (('refused', errors.BackendRefused(reason='x')),
                               ('refused', errors.StaleGeneration(noun='n', id='i', generation=1)),
                               ('uncertain', errors.BackendUncertain(reason='x')),
                               ('failed', OSError()), ('failed', KeyboardInterrupt())):
            with self.subTest(error=error):
                before = self.value('rpc_server_seconds_count', topic='t', method='m',
                                    outcome=outcome) or 0
                with self.assertRaises(type(error)), self.telemetry.rpc_server('t', 'm', None):
                    raise error
                self.assertEqual(before + 1, self.value(
                    'rpc_server_seconds_count', topic='t', method='m', outcome=outcome))

    def test_labels_added_during_operation(self):
        with self.telemetry.http(None) as act:
            act.note(operation='GET /volumes', status='2xx')
        self.assertEqual(1, self.value('http_request_seconds_count', operation='GET /volumes',
                                       status='2xx'))

    def test_failed_request_counted_as_5xx(self):
        with self.assertRaises(OSError), self.telemetry.http(None):
            raise OSError
        self.assertEqual(1, self.value('http_request_seconds_count', operation='none',
                                       status='5xx'))

    def test_operations_in_progress_listed(self):
        caller = context.RequestContext(request_id='req-1')
        with self.telemetry.transaction('write'):
            self.clock.advance(3)
            with self.telemetry.placing() as inner:
                self.assertEqual([(metrics.TRANSACTION, {'kind': 'write'}, 3),
                                  (metrics.PLACING, {}, 0)], self.seen())
                self.assertIs(caller, inner.context)
                self.assertEqual((1, 1, 0), tuple(
                    self.value('in_progress', act=act) for act in (
                        'database_transaction', 'scheduler_placing', 'backend_call')))
        self.assertEqual([], self.seen())

    def test_operations_in_progress_listed_without_metrics(self):
        self.telemetry.counts = None
        with self.assertRaises(OSError), self.telemetry.transaction('read'):
            self.assertEqual([(metrics.TRANSACTION, {'kind': 'read'}, 0)], self.seen())
            raise OSError
        self.assertEqual([], self.seen())
        self.telemetry.drift('grant', detected=1)

    def test_counters_incremented(self):
        self.telemetry.drift('grant', detected=3, repaired=2)
        self.telemetry.scheduler_retry('room_taken')
        self.telemetry.pool_refused('capacity')
        self.telemetry.database_retry('attachments.move')
        self.assertEqual((3, 2, 1, 1, 1), (
            self.value('drift_found_total', drift='grant'),
            self.value('drift_repaired_total', drift='grant'),
            self.value('scheduler_retries_total', reason='room_taken'),
            self.value('scheduler_refusals_total', filter='capacity'),
            self.value('database_retries_total', verb='attachments.move')))


class ReadingTest(TelemetryTestCase):

    def test_failed_reading_omitted_and_logged(self):
        def fail():
            raise OSError('the disk is on fire')

        self.telemetry.readings.add('a', fail)
        self.telemetry.readings.add('b', lambda: {metrics.CONNECTIONS: {('busy',): 4}})
        with self.assertLogs('blockattach.platform.telemetry.readings', 'WARNING') as logged:
            self.assertEqual(4, self.value('database_connections', use='busy'))
        self.assertIn('the disk is on fire', logged.output[0])

    def test_readings_share_metric(self):
        for name in ('one', 'two'):
            self.telemetry.readings.add(name, lambda name=name: {
                metrics.POOL_FREE: {(name,): 1}})
        self.assertEqual((1, 1), tuple(self.value('pool_free_bytes', pool=name)
                                       for name in ('one', 'two')))

    def test_reading_of_same_name_replaced(self):
        for free in (1, 2):
            self.telemetry.readings.add('disks', lambda free=free: {
                metrics.POOL_FREE: {('pool',): free}})
        self.assertEqual(2, self.value('pool_free_bytes', pool='pool'))

    def test_thread_pool_reports_usage(self):
        entered, gate = threading.Semaphore(0), threading.Event()

        def work(fails):
            entered.release()
            self.assertTrue(gate.wait(SECONDS))
            if fails:
                raise OSError
            return 'done'

        with threads.CountedThreads('volume-worker', self.telemetry.readings, 2) as pool:
            begun = [pool.submit(work, fails=fails) for fails in (True, False, False)]
            for _ in range(2):
                self.assertTrue(entered.acquire(timeout=SECONDS))
            self.assertEqual((2, 2, 1), self.use())
            gate.set()
            self.assertIsInstance(begun[0].exception(SECONDS), OSError)
            self.assertEqual('done', begun[2].result(SECONDS))
        self.assertEqual((2, 0, 0), self.use())

    def test_background_threads_have_lower_priority(self):
        def priority():
            return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

        before = priority()
        for into in (self.telemetry.readings, None):
            with threads.Threads().executor('copies', 1, into, background=True) as pool:
                self.assertGreater(pool.submit(priority).result(SECONDS), before)
            with threads.Threads().executor('others', 1, into) as pool:
                self.assertEqual(before, pool.submit(priority).result(SECONDS))
        self.assertEqual(before, priority())

    def use(self):
        return tuple(self.value(name, threads='volume-worker')
                     for name in ('threads', 'threads_busy', 'waiting_work'))
