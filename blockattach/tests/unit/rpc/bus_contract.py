"""What a bus does, whichever transport carries it. Subclass, say ``make_bus``, run."""
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
from blockattach.platform.rpc import pinning
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
    """Lets a test wait for a log line of another thread."""

    def __init__(self) -> None:
        super().__init__()
        self.records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()

    def emit(self, record: logging.LogRecord) -> None:
        self.records.put(record)


class BusTestCase(Base):
    """What tests of a bus share, whichever transport carries it."""

    url: str

    def setUp(self) -> None:
        super().setUp()
        self.settings = dataclasses.replace(SETTINGS, topic_prefix=self.make_prefix())
        self.bus = self.make_bus()
        self.ctxt = context.admin_context()

    def make_prefix(self) -> str:
        """What every topic of the test begins with."""
        return f'test-{uuid.uuid4().hex}'

    def make_bus(self, url: str | None = None,
                 releases: Sequence[pinning.Release] = history.RELEASES,
                 **more: Any) -> transport.Bus:
        """A bus of its own, closed after the test."""
        conf = private_conf()
        self.adapt(conf)
        bus = transport.Bus(transport.build_transport(conf, url or self.url), self.settings,
                            releases, **more)
        self.addCleanup(bus.close)
        return bus

    def adapt(self, conf: cfg.ConfigOpts) -> None:
        """Set what this transport needs."""

    def serve(self, endpoint: probe.ProbeEndpoint, host: str = 'one',
              bus: transport.Bus | None = None) -> serving.Server:
        """A running server, stopped after the test."""
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
        """What the bus logs from now on, in whichever thread."""
        logger = logging.getLogger('blockattach.platform.rpc')
        log = LogQueue()
        self.addCleanup(logger.setLevel, logger.level)
        logger.setLevel(level)
        logger.addHandler(log)
        self.addCleanup(logger.removeHandler, log)
        return log


class BusContract(BusTestCase):
    """Behaviours that hold over every transport."""

    def test_a_call_is_answered(self) -> None:
        self.serve(probe.ProbeEndpoint())
        value = {'text': 'ü', 'number': 1, 'none': None, 'list': [True, 1.5]}
        self.assertEqual(['probe', value], self.client('one').echo(self.ctxt, value))

    def test_a_call_reaches_the_server_it_names(self) -> None:
        self.serve(probe.ProbeEndpoint('first'), 'host@first')
        self.serve(probe.ProbeEndpoint('second'), 'host@second')
        for _ in range(4):
            self.assertEqual(['second', 1], self.client('host@second').echo(self.ctxt, 1))

    def test_servers_of_a_topic_share_its_calls(self) -> None:
        self.serve(probe.ProbeEndpoint('first'), 'first')
        self.serve(probe.ProbeEndpoint('second'), 'second')
        names: set[str] = set()
        # Where each has its consumer by now: over a broker that is begun by a thread.
        for _ in range(ENOUGH):
            names.add(self.client().echo(self.ctxt, 1)[0])
            if len(names) > 1:
                break
        self.assertEqual({'first', 'second'}, names)

    def test_a_cast_is_done_by_one(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        self.client('one').note(self.ctxt, [1])
        self.assertEqual([1], self.heard(endpoint))
        self.assertTrue(endpoint.heard.empty())

    def test_a_fanout_is_heard_by_all(self) -> None:
        endpoints = [probe.ProbeEndpoint(name) for name in ('a', 'b', 'c')]
        for endpoint in endpoints:
            self.serve(endpoint, endpoint.name)
        self.client().announce(self.ctxt, 'all')
        self.assertEqual(['all'] * 3, [self.heard(endpoint) for endpoint in endpoints])
        self.assertTrue(all(endpoint.heard.empty() for endpoint in endpoints))

    def test_a_fanout_that_nobody_hears_is_no_error(self) -> None:
        self.client().announce(self.ctxt, 'nobody')

    def test_nobody_there_is_unreachable(self) -> None:
        self.assert_unreachable(self.client('absent'))

    def test_a_call_given_up_is_not_made_later(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.assert_unreachable(self.client('one'))
        self.serve(endpoint)
        self.client('one').echo(self.ctxt, 1)
        self.assertTrue(endpoint.heard.empty())

    def test_an_error_arrives_as_it_was_raised(self) -> None:
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

    def test_a_finer_error_of_a_driver_arrives_as_the_contract_has_it(self) -> None:
        self.serve(probe.ProbeEndpoint())
        with self.assertRaisesRegex(errors.BackendRefused, '^the target says no$') as caught:
            self.client('one').fail(self.ctxt, 'finer')
        self.assertIs(errors.BackendRefused, type(caught.exception))

    def test_an_unforeseen_error_is_uncertain_and_reveals_nothing(self) -> None:
        self.serve(probe.ProbeEndpoint())
        for how, name in (('unforeseen', 'Unforeseen'), ('builtin', 'KeyError')):
            with (self.subTest(how), self.assertLogs('blockattach.platform.rpc', 'ERROR'),
                  self.assertRaises(errors.BackendUncertain) as caught):
                self.client('one').fail(self.ctxt, how)
            self.assertIn(name, str(caught.exception))
            self.assertNotIn('hunter2', str(caught.exception))

    def test_a_failing_cast_is_logged_and_harms_no_other(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        log = self.logged()
        self.client('one').note(self.ctxt, 'fail')
        record = log.records.get(timeout=probe.LIMIT)
        self.assertEqual(logging.ERROR, record.levelno)
        self.client('one').note(self.ctxt, 'next')
        self.assertEqual('next', self.heard(endpoint))

    def test_what_is_served_has_one_line_but_for_news(self) -> None:
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

    def test_what_is_no_plain_data_fails_at_the_sender(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        with self.assertRaises((TypeError, ValueError)):
            self.client('one').note(self.ctxt, object())
        with self.assertRaises((TypeError, ValueError)):
            self.client('one').echo(self.ctxt, object())
        self.client('one').echo(self.ctxt, 1)
        self.assertTrue(endpoint.heard.empty())

    def test_nothing_is_passed_by_reference(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        sent = {'keep': True, 'list': [1]}
        self.client('one').echo(self.ctxt, sent)
        sent['list'] = 'changed by the sender'
        self.assertEqual([1], endpoint.kept['list'])
        answer = self.client('one').echo(self.ctxt, 'kept')
        answer['list'].append(2)
        self.assertEqual([1], endpoint.kept['list'])

    def test_a_fanout_gives_each_its_own(self) -> None:
        endpoints = [probe.ProbeEndpoint(name) for name in ('a', 'b')]
        for endpoint in endpoints:
            self.serve(endpoint, endpoint.name)
        self.client().announce(self.ctxt, [1])
        first, second = (self.heard(endpoint) for endpoint in endpoints)
        first.append(2)
        self.assertEqual([1], second)

    def test_the_context_goes_along_without_the_token(self) -> None:
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

    def test_a_context_of_a_consumers_own_will_do(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        ctxt = oslo_context.RequestContext(user_id='u', project_id='p', roles=['member'],
                                           service_roles=['service'], overwrite=False)
        self.client('one').echo(ctxt, 1)
        seen = endpoint.contexts[0]
        self.assertEqual(('u', 'p', ['member'], ['service'], ctxt.request_id),
                         (seen.user_id, seen.project_id, seen.roles, seen.service_roles,
                          seen.request_id))

    def test_arguments_in_the_wrong_form_are_refused_clearly(self) -> None:
        endpoint = probe.ProbeEndpoint()
        self.serve(endpoint)
        invoke = self.bus.client(probe.ProbeInterface, server='one')
        for arguments in ({}, {'value': 1, 'more': 2}):
            with self.subTest(arguments), self.assertRaises(errors.InvalidInput) as caught:
                invoke(self.ctxt, 'echo', **arguments)
            self.assertIn('echo', str(caught.exception))
        self.assertEqual([], endpoint.contexts)

    def test_many_threads_get_each_its_own_answer(self) -> None:
        self.serve(probe.ProbeEndpoint())
        client = self.client('one')

        def ask(thread: int) -> list[Any]:
            return [client.echo(self.ctxt, [thread, number]) for number in range(10)]

        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            for thread, answers in enumerate(pool.map(ask, range(32))):
                self.assertEqual([['probe', [thread, number]] for number in range(10)], answers)

    def test_a_server_works_on_many_calls_at_once(self) -> None:
        endpoint = probe.ProbeEndpoint()
        endpoint.gate = threading.Barrier(32)
        self.serve(endpoint)
        client = self.client('one')
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            answers = list(pool.map(lambda _: client.meet(self.ctxt), range(32)))
        self.assertEqual([True] * 32, answers)

    def test_stop_lets_what_was_begun_end(self) -> None:
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

    def test_a_call_outlives_the_server_that_it_was_lost_with(self) -> None:
        endpoint = probe.ProbeEndpoint()
        endpoint.gate.set()
        log = self.logged()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            call = pool.submit(self.client('one').persist, self.ctxt)
            self.assertIn('Resending call', log.records.get(timeout=probe.LIMIT).getMessage())
            self.serve(endpoint)
            self.assertTrue(call.result(probe.LIMIT))

    def test_a_stopped_server_hears_nothing_until_it_is_started_again(self) -> None:
        endpoint = probe.ProbeEndpoint()
        server = self.serve(endpoint)
        server.stop()
        self.assert_unreachable(self.client('one'))
        server.start()
        self.client('one').echo(self.ctxt, 1)
        self.assertTrue(endpoint.heard.empty())

    def test_a_server_that_was_never_started_can_be_stopped(self) -> None:
        self.bus.server(probe.ProbeEndpoint(), 'one').stop()

    def test_only_the_interface_can_be_called(self) -> None:
        self.serve(probe.ProbeEndpoint())
        invoke = self.bus.client(probe.RogueInterface, server='one')
        with (self.assertLogs('blockattach.platform.rpc', 'WARNING'),
              self.assertRaises(errors.ConfigurationError)):
            invoke(self.ctxt, 'secret')

    def test_a_method_newer_than_the_server_is_refused_clearly(self) -> None:
        self.serve(probe.ProbeEndpoint())
        young = probe.YoungClient(self.bus.client(probe.YoungInterface, server='one'))
        with (self.assertLogs('blockattach.platform.rpc', 'WARNING'),
              self.assertRaises(errors.ConfigurationError) as caught):
            young.grown(self.ctxt)
        self.assertTrue(caught.exception.final)
        self.assertIn('grown of version 1.1', str(caught.exception))
        self.assertEqual(['probe', 1], young.echo(self.ctxt, 1))

    def test_a_newer_server_understands_an_older_client(self) -> None:
        self.serve(probe.YoungEndpoint())
        self.assertEqual(['probe', 1], self.client('one').echo(self.ctxt, 1))
        young = probe.YoungClient(self.bus.client(probe.YoungInterface, server='one'))
        self.assertEqual('probe', young.grown(self.ctxt))


class WithoutBrokerContract(BusContract):
    """What our own transports do besides."""

    def test_servers_of_a_topic_alternate(self) -> None:
        for name in ('a', 'b', 'c'):
            self.serve(probe.ProbeEndpoint(name), name)
        names = [self.client().echo(self.ctxt, 1)[0] for _ in range(9)]
        self.assertEqual(['a', 'b', 'c'] * 3, names)

    def test_two_transports_of_one_url_meet(self) -> None:
        self.serve(probe.ProbeEndpoint())
        other = self.make_bus()
        self.assertEqual(['probe', 1], self.client('one', other).echo(self.ctxt, 1))
