"""The bus over RabbitMQ, where one answers; ``BLOCKATTACH_TEST_RABBITMQ`` names another."""
import logging
import os
import sys
import unittest
import uuid

import kombu
from oslo_config import cfg

from blockattach.rpc import transport
from blockattach.testing import servers
from blockattach.tests.unit.rpc import bus_contract

URL = servers.url(servers.RABBITMQ)

# Warnings about pool sizes and the like, which say nothing of us.
CHATTER = ('oslo_messaging', 'oslo.messaging', 'amqp')


def why_absent() -> str | None:
    """Why the broker cannot be used; None if it can."""
    connection = kombu.Connection(URL.replace('rabbit://', 'amqp://', 1), connect_timeout=5)
    try:
        with connection:
            connection.connect()
    except (OSError, *connection.connection_errors, *connection.channel_errors) as error:
        return f'cannot use RabbitMQ: {type(error).__name__}: {error}'
    return None


class RabbitBusTest(bus_contract.BusContract, unittest.TestCase):
    """Production's transport does what the contract says, so the one in process must too."""

    url = URL

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        reason = why_absent()
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
        self.exchange = f'test-{uuid.uuid4().hex}'
        super().setUp()

    def adapt(self, conf: cfg.ConfigOpts) -> None:
        """Leave nothing behind in the broker, and nobody else's exchange in the way."""
        transport.register_options(conf)
        conf.set_override('amqp_auto_delete', True, group='oslo_messaging_rabbit')
        conf.set_override('control_exchange', self.exchange)
