"""Bus over RabbitMQ, at the broker that ``BLOCKATTACH_TEST_RABBITMQ`` names."""
import logging
import os
import sys
import tempfile
import unittest
from typing import TYPE_CHECKING

import kombu
from oslo_config import cfg

from blockattach.platform.rpc import rabbit as rabbit_defaults
from blockattach.platform.rpc import serving
from blockattach.platform.rpc import transport
from blockattach.tests.fixtures import rabbit
from blockattach.tests.unit.rpc import bus_contract
from blockattach.tests.unit.rpc import bus_deadlines
from blockattach.tests.unit.rpc import bus_ends
from blockattach.tests.unit.rpc import probe

if TYPE_CHECKING:
    Base = bus_contract.BusTestCase
else:
    Base = object

# Warnings about pool sizes and the like, which say nothing of us.
CHATTER = ('oslo_messaging', 'oslo.messaging', 'amqp')


class Rabbit(Base):
    """Mixin with names of its own on the broker."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        reason = rabbit.why_missing()
        if reason is None:
            return
        if os.environ.get('CI') == 'true':
            raise AssertionError(reason)
        sys.stderr.write(reason + '\n')
        raise unittest.SkipTest(reason)

    def setUp(self) -> None:
        for name in CHATTER:
            logger = logging.getLogger(name)
            self.addCleanup(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)
        self.rabbit = rabbit.RabbitFixture()
        self.addCleanup(self.rabbit.close)
        self.url = self.rabbit.url
        super().setUp()

    def make_prefix(self) -> str:
        return self.rabbit.prefix

    def adapt(self, conf: cfg.ConfigOpts) -> None:
        transport.register_options(conf)
        for (group, name), value in self.rabbit.options().items():
            if group != 'rpc':
                conf.set_override(name, value, None if group == 'DEFAULT' else group)

    def serve(self, endpoint: probe.ProbeEndpoint, host: str = 'one',
              bus: transport.Bus | None = None) -> serving.Server:
        self.rabbit.serves('probe', host)
        return super().serve(endpoint, host, bus)


class RabbitBusTest(Rabbit, bus_contract.BusContract, unittest.TestCase):
    """Contract of the bus over RabbitMQ."""


class RabbitDeadlinesTest(Rabbit, bus_deadlines.DeadlinesContract, unittest.TestCase):
    """Contract of deadlines over RabbitMQ."""


class RabbitEndsTest(Rabbit, bus_ends.EndsContract, unittest.TestCase):
    """Contract of how calls end over RabbitMQ."""


class RabbitQueuesTest(Rabbit, bus_contract.BusTestCase, unittest.TestCase):
    """Queues on the broker with the default options."""

    def declared_anew(self, name: str, **arguments: object) -> None:
        """Declare a queue again, which the broker refuses if its properties differ."""
        with rabbit.connect(self.rabbit.url) as broker:
            kombu.Queue(name, channel=broker.default_channel, durable=True, auto_delete=False,
                        queue_arguments={'x-queue-type': 'quorum', **arguments}).queue_declare()

    def test_requests_and_answers_use_quorum_queues(self) -> None:
        self.serve(probe.ProbeEndpoint())
        self.client('one').echo(self.ctxt, 1)
        self.declared_anew(f'{self.rabbit.prefix}-probe.one')
        self.declared_anew(f'{self.rabbit.prefix}-probe')
        self.declared_anew(self.bus._transport._driver._reply_q, **{'x-expires': 60_000})


class DefaultsTest(unittest.TestCase):
    """Changed defaults of the RabbitMQ driver, without a broker."""

    def test_each_default_can_be_overridden(self) -> None:
        conf = cfg.ConfigOpts()
        transport.register_options(conf)
        with tempfile.NamedTemporaryFile('w', suffix='.conf') as file:
            file.write(f'[{rabbit_defaults.GROUP}]\n')
            for option in rabbit_defaults.DEFAULTS:
                self.assertEqual(option.value, conf[rabbit_defaults.GROUP][option.name])
                file.write(f'{option.name} = {int(option.value is not True)}\n')
            file.flush()
            conf([], default_config_files=[file.name], default_config_dirs=[])
            # As every process does, once its files have been read.
            transport.register_options(conf)
        for option in rabbit_defaults.DEFAULTS:
            with self.subTest(option.name):
                self.assertEqual(int(option.value is not True),
                                 conf[rabbit_defaults.GROUP][option.name])
