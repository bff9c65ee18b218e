"""Private names of the installed oslo.messaging."""
import inspect
import re
import unittest

from oslo_messaging._drivers import base
from oslo_messaging._drivers import common
from oslo_messaging._metrics import client as metrics
from oslo_messaging._tracing import client as tracing

from blockattach.platform.rpc import inproc
from blockattach.platform.rpc import oslo_drivers
from blockattach.platform.rpc.http import driver as http
from blockattach.tests.rules import sources

OWNER = 'blockattach/platform/rpc/oslo_drivers.py'
PRIVATE = re.compile(r'^\s*(?:from|import) oslo_messaging\._', re.M)


class PrivateNamesTest(unittest.TestCase):

    def test_private_names_imported_by_one_module(self):
        self.assertEqual([OWNER], [path for path, text in sources.texts('.py')
                                   if not path.startswith('blockattach/tests/')
                                   and PRIVATE.search(text)])

    def test_driver_signatures_match_base(self):
        for driver in (inproc.InprocDriver, http.HttpDriver):
            for name in ('send', 'send_notification', 'listen', 'listen_for_notifications'):
                with self.subTest(driver.__name__, method=name):
                    self.assertEqual(
                        list(inspect.signature(getattr(base.BaseDriver, name)).parameters),
                        list(inspect.signature(getattr(driver, name)).parameters))

    def test_abstract_methods_implemented(self):
        for private, ours in (
                (base.BaseDriver, (inproc.InprocDriver, http.HttpDriver)),
                (base.Listener, (inproc.InprocListener, http.HttpListener)),
                (base.RpcIncomingMessage, (oslo_drivers.Message,))):
            for one in ours:
                with self.subTest(one.__name__):
                    self.assertEqual(
                        set(), private.__abstractmethods__ & one.__abstractmethods__
                        - {'heartbeat', 'requeue'})

    def test_used_attributes_exist(self):
        self.assertTrue(callable(common.serialize_remote_exception))
        self.assertTrue(callable(common.deserialize_remote_exception))
        self.assertTrue(metrics.oslo_messaging_metrics)
        self.assertTrue(tracing.oslo_messaging_tracing)
        self.assertEqual(['ctxt', 'message'],
                         list(inspect.signature(base.RpcIncomingMessage).parameters)[:2])
        self.assertEqual(['batch_size', 'batch_timeout'],
                         list(inspect.signature(base.Listener).parameters)[:2])
