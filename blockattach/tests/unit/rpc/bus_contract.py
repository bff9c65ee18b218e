"""Contract of a bus over each transport, as test cases to subclass."""
import concurrent.futures
import dataclasses
import logging
import queue
import threading
import unittest
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_context import context as oslo_context

from blockattach.platform import context
from blockattach.platform import errors
from blockattach.platform.conf import rpc as rpc_conf
from blockattach.platform.rpc import contract
from blockattach.platform.rpc import serving
from blockattach.platform.rpc import transport
from blockattach.storage.rpc import history
from blockattach.tests.unit.rpc import probe

# A mixin, so that nobody runs it without a transport; mypy sees the assertions all the same.
if TYPE_CHECKING:
    Base = unittest.TestCase
else:
    Base = object

ENOUGH = 1000
SETTINGS = rpc_conf.RpcSettings(call_timeout=1800, silence_timeout=7200, short_call_timeout=0.2,
                                repeat_interval=2, send_retries=1)


def private_conf() -> cfg.ConfigOpts:
    """A configuration that shares nothing with the global one."""
    conf = cfg.ConfigOpts()
    conf([], project='blockattach', default_config_files=[])
    return conf


class LogQueue(logging.Handler):
    """Log handler that lets a test wait for a line of another thread."""

    def __init__(self) -> None:
        super().__init__()
        self.records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        self.records.put(record)


class BusTestCase(Base):
    """Base of the tests of a bus over each transport."""

    url: str

    def setUp(self) -> None:
        super().setUp()
        self.settings = dataclasses.replace(SETTINGS, topic_prefix=self.make_prefix())
        self.bus = self.make_bus()
        self.ctxt = context.admin_context()

    def make_prefix(self) -> str:
        """Return the prefix of each topic of the test."""
        return f'test-{uuid.uuid4().hex}'

    def make_bus(self, url: str | None = None,
                 releases: Sequence[contract.Release] = history.RELEASES,
                 **more: Any) -> transport.Bus:
        """Build another bus, which is closed after the test."""
        conf = private_conf()
        self.adapt(conf)
        bus = transport.Bus(transport.build_transport(conf, url or self.url), self.settings,
                            releases, **more)
        self.addCleanup(bus.close)
        return bus

    def adapt(self, conf: cfg.ConfigOpts) -> None:
        """Set the options that the transport needs."""

    def serve(self, endpoint: probe.ProbeEndpoint, host: str = 'one',
              bus: transport.Bus | None = None) -> serving.Server:
        """Start a server, which is stopped after the test."""
        server = (bus or self.bus).server(endpoint, host, threads=40)
        server.start()
        self.addCleanup(server.stop)
        return server

    def client(self, host: str | None = None,
               bus: transport.Bus | None = None) -> probe.ProbeClient:
        return probe.ProbeClient((bus or self.bus).client(probe.ProbeInterface, server=host))

    def heard(self, endpoint: probe.ProbeEndpoint) -> Any:
        return endpoint.heard.get(timeout=probe.LIMIT)

    def assert_unreachable(self, client: probe.ProbeClient) -> None:
        with self.assertRaises(errors.ServiceUnreachable) as caught:
            client.hurry(self.ctxt)
        self.assertFalse(caught.exception.final)

    def logged(self, level: int = logging.NOTSET) -> LogQueue:
        """Record the log of the bus from now on, in each thread."""
        logger = logging.getLogger('blockattach.platform.rpc')
        log = LogQueue()
        self.addCleanup(logger.setLevel, logger.level)
        logger.setLevel(level)
        logger.addHandler(log)
        self.addCleanup(logger.removeHandler, log)
        return log


class BusContract(BusTestCase):
    """Behavior that holds over each transport."""

    def test_call_returns_answer(self) -> None:
        self.serve(probe.ProbeEndpoint())
        value = {'text': 'ü', 'number': 1, 'none': None, 'list': [True, 1.5]}
        self.assertEqual(['probe', value], self.client('one').echo(self.ctxt, value))

    def test_call_reaches_named_server(self) -> None:
        self.serve(probe.ProbeEndpoint('first'), 'host@first')
        self.serve(probe.ProbeEndpoint('second'), 'host@second')
        for _ in range(4):
            self.assertEqual(['second', 1], self.client('host@second').echo(self.ctxt, 1))

    def test_servers_of_topic_share_calls(self) -> None:
        self.serve(probe.ProbeEndpoint('first'), 'first')
        self.serve(probe.ProbeEndpoint('second'), 'second')
        names: set[str] = set()
        # Where each has its consumer by now: over a broker that is begun by a thread.
        for _ in range(ENOUGH):
            names.add(self.client().echo(self.ctxt, 1)[0])
            if len(names) > 1:
                break
        self.assertEqual({'first', 'second'}, names)

    def test_cast_handled_by_one_server(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        self.client('one').note(self.ctxt, [1])
        self.assertEqual([1], self.heard(endpoint))
        self.assertTrue(endpoint.heard.empty())

    def test_fanout_reaches_all_servers(self) -> None:
        endpoints = [probe.ProbeEndpoint(name) for name in ('a', 'b', 'c')]
        for endpoint in endpoints:
            self.serve(endpoint, endpoint.name)
        self.client().announce(self.ctxt, 'all')
        self.assertEqual(['all'] * 3, [self.heard(endpoint) for endpoint in endpoints])
        self.assertTrue(all(endpoint.heard.empty() for endpoint in endpoints))

    def test_fanout_without_servers_succeeds(self) -> None:
        self.client().announce(self.ctxt, 'nobody')

    def test_call_to_absent_server_unreachable(self) -> None:
        self.assert_unreachable(self.client('absent'))

    def test_timed_out_call_not_delivered_later(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.assert_unreachable(self.client('one'))
        self.serve(endpoint)
        self.client('one').echo(self.ctxt, 1)
        self.assertTrue(endpoint.heard.empty())

    def test_error_keeps_class_and_arguments(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        for how in ('stale', 'no pool', 'refused'):
            sent = endpoint.errors[how]
            assert isinstance(sent, errors.BlockattachError)
            with self.subTest(how), self.assertRaises(type(sent)) as caught:
                self.client('one').fail(self.ctxt, how)
            self.assertIs(type(sent), type(caught.exception))
            self.assertEqual(sent.kwargs, caught.exception.kwargs)
            self.assertEqual(str(sent), str(caught.exception))

    def test_driver_error_sent_as_contract_class(self) -> None:
        self.serve(probe.ProbeEndpoint())
        with self.assertRaisesRegex(errors.BackendRefused, '^the target says no$') as caught:
            self.client('one').fail(self.ctxt, 'finer')
        self.assertIs(errors.BackendRefused, type(caught.exception))

    def test_unforeseen_error_uncertain_without_message(self) -> None:
        self.serve(probe.ProbeEndpoint())
        for how, name in (('unforeseen', 'Unforeseen'), ('builtin', 'KeyError')):
            with (self.subTest(how), self.assertLogs('blockattach.platform.rpc', 'ERROR'),
                  self.assertRaises(errors.BackendUncertain) as caught):
                self.client('one').fail(self.ctxt, how)
            self.assertIn(name, str(caught.exception))
            self.assertNotIn('hunter2', str(caught.exception))

    def test_failed_cast_logged_and_next_handled(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        log = self.logged()
        self.client('one').note(self.ctxt, 'fail')
        record = log.records.get(timeout=probe.LIMIT)
        self.assertEqual(logging.ERROR, record.levelno)
        self.client('one').note(self.ctxt, 'next')
        self.assertEqual('next', self.heard(endpoint))

    def test_each_message_except_fanout_logged_once(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        log = self.logged(logging.INFO)
        client = self.client('one')
        client.echo(self.ctxt, 1)
        with self.assertRaises(errors.StaleGeneration):
            client.fail(self.ctxt, 'stale')
        client.announce(self.ctxt, 'news')
        self.assertEqual('news', self.heard(endpoint))
        client.note(self.ctxt, 'noted')
        self.assertEqual('noted', self.heard(endpoint))
        # A cast's line is written after what the endpoint does.
        for method, outcome in (('echo', 'ok'), ('fail', 'refused'), ('note', 'ok')):
            record = log.records.get(timeout=probe.LIMIT)
            self.assertRegex(record.getMessage(), '^Message handled '
                             rf'method=probe.{method} outcome={outcome} seconds=[0-9.e-]+')
            self.assertEqual(outcome == 'refused', ' code=' in record.getMessage())

    def assert_refused(self, message: dict[str, Any], ctxt: dict[str, Any] | None = None) -> None:
        """Send a message that the clients of this service never send."""
        target = oslo_messaging.Target(topic=f'{self.settings.topic_prefix}-probe', server='one')
        with (self.subTest(message=message, ctxt=ctxt),
              self.assertNoLogs('oslo_messaging', 'ERROR'),
              self.assertNoLogs('blockattach.platform.rpc', 'ERROR'),
              self.assertRaises(errors.InvalidInput)):
            self.bus._transport._send(target, ctxt or {}, message, wait_for_reply=True,
                                      timeout=probe.LIMIT)

    def test_malformed_message_refused(self) -> None:
        """The log has no traceback, because this process has not failed."""
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        for change in ({'method': None}, {'method': ''}, {'method': ['echo']},
                       {'method': {'echo': 1}}, {'method': 7}, {'method': 'target'},
                       {'args': [1]}, {'args': None},
                       {'args': 'value'}, {'args': {}}, {'args': {'value': 1, 'more': 2}},
                       {'args': {'value': 1, 'ctxt': 2}}, {'args': {'value': 1, 'self': 2}},
                       {'args': {'value': {'blockattach_object.name': 1}}},
                       {'args': {'value': {'blockattach_object.name': 'Nothing'}}},
                       {'version': 'newest'}, {'version': '1'}, {'version': 1.0},
                       {'version': '1.0.0'}):
            self.assert_refused({'method': 'echo', 'version': '1.0', 'args': {'value': 1},
                                 **change})
        self.assert_refused({})
        self.assert_refused({'version': '1.0', 'args': {}})
        self.assertEqual(['probe', 1], self.client('one').echo(self.ctxt, 1))
        self.assertEqual(1, len(endpoint.contexts))

    def test_unknown_method_refused(self) -> None:
        """The sender learns that the server is of another release or has another interface."""
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        target = oslo_messaging.Target(topic=f'{self.settings.topic_prefix}-probe', server='one')
        for change, name in (({'method': 'later'}, 'NoSuchMethod'),
                             ({'method': '__init__'}, 'NoSuchMethod'),
                             ({'version': '1.99'}, 'UnsupportedVersion'),
                             ({'namespace': 'other'}, 'UnsupportedVersion'),
                             ({'namespace': []}, 'UnsupportedVersion')):
            with (self.subTest(change), self.assertNoLogs('oslo_messaging', 'ERROR'),
                  self.assertRaises(oslo_messaging.RemoteError) as caught):
                self.bus._transport._send(
                    target, {}, {'method': 'echo', 'version': '1.0', 'args': {}, **change},
                    wait_for_reply=True, timeout=probe.LIMIT)
            self.assertEqual(name, caught.exception.exc_type)
        self.assertEqual([], endpoint.contexts)

    def test_malformed_caller_refused(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        for ctxt in ({'user': 1}, {'project_id': ['p']}, {'roles': 'admin'}, {'roles': {}},
                     {'service_roles': 1}, {'is_admin': 'no'}, {'request_id': {}},
                     {'traceparent': 1}, {'blockattach_deadline': 'soon'},
                     {'blockattach_deadline': {}}, {'blockattach_deadline': {
                         'sender': 'x', 'sent': 'now', 'seconds': 1}}):
            self.assert_refused({'method': 'echo', 'version': '1.0', 'args': {'value': 1}}, ctxt)
        self.assertEqual(['probe', 1], self.client('one').echo(self.ctxt, 1))
        self.assertEqual(1, len(endpoint.contexts))

    def test_argument_not_serializable_fails_at_sender(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        with self.assertRaises((TypeError, ValueError)):
            self.client('one').note(self.ctxt, object())
        with self.assertRaises((TypeError, ValueError)):
            self.client('one').echo(self.ctxt, object())
        self.client('one').echo(self.ctxt, 1)
        self.assertTrue(endpoint.heard.empty())

    def test_arguments_and_answers_copied(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        sent = {'keep': True, 'list': [1]}
        self.client('one').echo(self.ctxt, sent)
        sent['list'] = 'changed by the sender'
        self.assertEqual([1], endpoint.kept['list'])
        answer = self.client('one').echo(self.ctxt, 'kept')
        answer['list'].append(2)
        self.assertEqual([1], endpoint.kept['list'])

    def test_fanout_copies_arguments_for_each_server(self) -> None:
        endpoints = [probe.ProbeEndpoint(name) for name in ('a', 'b')]
        for endpoint in endpoints:
            self.serve(endpoint, endpoint.name)
        self.client().announce(self.ctxt, [1])
        first, second = (self.heard(endpoint) for endpoint in endpoints)
        first.append(2)
        self.assertEqual([1], second)

    def test_context_sent_without_token(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        ctxt = context.RequestContext(auth_token='hunter2', user_id='u', project_id='p',
                                      roles=['member'], service_roles=['service'],
                                      is_admin=True, overwrite=False)
        self.client('one').echo(ctxt, 1)
        seen = endpoint.contexts[0]
        self.assertIsInstance(seen, context.RequestContext)
        self.assertIsNone(seen.auth_token)
        for field in ('user_id', 'project_id', 'roles', 'service_roles', 'is_admin',
                      'request_id'):
            self.assertEqual(getattr(ctxt, field), getattr(seen, field), field)

    def test_plain_oslo_context_accepted(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        ctxt = oslo_context.RequestContext(user_id='u', project_id='p', roles=['member'],
                                           service_roles=['service'], overwrite=False)
        self.client('one').echo(ctxt, 1)
        seen = endpoint.contexts[0]
        self.assertEqual(('u', 'p', ['member'], ['service'], ctxt.request_id),
                         (seen.user_id, seen.project_id, seen.roles, seen.service_roles,
                          seen.request_id))

    def test_wrong_arguments_name_method(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        invoke = self.bus.client(probe.ProbeInterface, server='one')
        for arguments in ({}, {'value': 1, 'more': 2}):
            with self.subTest(arguments), self.assertRaises(errors.InvalidInput) as caught:
                invoke(self.ctxt, 'echo', **arguments)
            self.assertIn('echo', str(caught.exception))
        self.assertEqual([], endpoint.contexts)

    def test_concurrent_calls_get_own_answers(self) -> None:
        self.serve(probe.ProbeEndpoint())
        client = self.client('one')

        def ask(thread: int) -> list[Any]:
            return [client.echo(self.ctxt, [thread, number]) for number in range(10)]

        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            for thread, answers in enumerate(pool.map(ask, range(32))):
                self.assertEqual([['probe', [thread, number]] for number in range(10)], answers)

    def test_server_handles_calls_concurrently(self) -> None:
        endpoint = probe.ProbeEndpoint()
        endpoint.gate = threading.Barrier(32)
        self.serve(endpoint)
        client = self.client('one')
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(lambda _: client.meet(self.ctxt), range(32)))
        self.assertEqual([True] * 32, answers)

    def test_stop_waits_for_running_call(self) -> None:
        endpoint = probe.ProbeEndpoint()
        server = self.serve(endpoint)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            call = pool.submit(self.client('one').meet, self.ctxt)
            self.assertTrue(endpoint.entered.acquire(timeout=probe.LIMIT))
            stop = pool.submit(server.stop)
            assert isinstance(endpoint.gate, threading.Event)
            endpoint.gate.set()
            self.assertTrue(call.result(probe.LIMIT))
            stop.result(probe.LIMIT)

    def test_repeatable_call_resent_to_new_server(self) -> None:
        endpoint = probe.ProbeEndpoint()
        endpoint.gate.set()
        log = self.logged()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            call = pool.submit(self.client('one').persist, self.ctxt)
            self.assertIn('Retrying RPC call', log.records.get(timeout=probe.LIMIT).getMessage())
            self.serve(endpoint)
            self.assertTrue(call.result(probe.LIMIT))

    def test_stopped_server_unreachable_until_restart(self) -> None:
        endpoint = probe.ProbeEndpoint()
        server = self.serve(endpoint)
        server.stop()
        self.assert_unreachable(self.client('one'))
        server.start()
        self.client('one').echo(self.ctxt, 1)
        self.assertTrue(endpoint.heard.empty())

    def test_stop_without_start_succeeds(self) -> None:
        self.bus.server(probe.ProbeEndpoint(), 'one').stop()

    def test_method_outside_interface_refused(self) -> None:
        self.serve(probe.ProbeEndpoint())
        invoke = self.bus.client(probe.RogueInterface, server='one')
        with (self.assertLogs('blockattach.platform.rpc', 'WARNING'),
              self.assertRaises(errors.ConfigurationError)):
            invoke(self.ctxt, 'secret')

    def test_method_newer_than_server_refused(self) -> None:
        self.serve(probe.ProbeEndpoint())
        young = probe.YoungClient(self.bus.client(probe.YoungInterface, server='one'))
        with (self.assertLogs('blockattach.platform.rpc', 'WARNING'),
              self.assertRaises(errors.ConfigurationError) as caught):
            young.grown(self.ctxt)
        self.assertTrue(caught.exception.final)
        self.assertIn('grown of version 1.1', str(caught.exception))
        self.assertEqual(['probe', 1], young.echo(self.ctxt, 1))

    def test_newer_server_serves_older_client(self) -> None:
        self.serve(probe.YoungEndpoint())
        self.assertEqual(['probe', 1], self.client('one').echo(self.ctxt, 1))
        young = probe.YoungClient(self.bus.client(probe.YoungInterface, server='one'))
        self.assertEqual('probe', young.grown(self.ctxt))


class WithoutBrokerContract(BusContract):
    """Additional behavior of the transports without a broker."""

    def test_servers_of_topic_called_in_turn(self) -> None:
        for name in ('a', 'b', 'c'):
            self.serve(probe.ProbeEndpoint(name), name)
        names = [self.client().echo(self.ctxt, 1)[0] for _ in range(9)]
        self.assertEqual(['a', 'b', 'c'] * 3, names)

    def test_transports_of_same_url_connected(self) -> None:
        self.serve(probe.ProbeEndpoint())
        other = self.make_bus()
        self.assertEqual(['probe', 1], self.client('one', other).echo(self.ctxt, 1))
