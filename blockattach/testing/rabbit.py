"""RabbitMQ for tests: names of their own on a broker that others use too, removed afterwards."""
import uuid
from types import TracebackType
from typing import Self

import kombu

from blockattach.testing import servers

# After this the broker removes by itself what a killed process has left.
_UNUSED_SECONDS = 60


class RabbitFixture:
    """Names on the broker from construction until `close`; also a context manager.

    ``url`` is the broker as ``transport_url`` takes it, ``prefix`` what every name begins with.
    """

    def __init__(self, url: str | None = None, prefix: str | None = None) -> None:
        """
        :param url: another broker than the one that is expected
        :param prefix: by default one that nobody else has
        """
        self.url = url or servers.url(servers.RABBITMQ)
        self.prefix = prefix or f'test-{uuid.uuid4().hex}'
        self._queues: set[str] = set()
        self._exchanges = {self.prefix}

    def options(self) -> dict[tuple[str, str], str]:
        """What a configuration says to keep to these names: group and option to value."""
        return {
            ('DEFAULT', 'transport_url'): self.url,
            ('DEFAULT', 'control_exchange'): self.prefix,
            ('rpc', 'topic_prefix'): self.prefix,
            ('oslo_messaging_rabbit', 'rabbit_transient_queues_ttl'): str(_UNUSED_SECONDS)}

    def serves(self, topic: str, host: str) -> None:
        """Remember whose queues are to be removed."""
        name = f'{self.prefix}-{topic}'
        self._queues |= {name, f'{name}.{host}'}
        self._exchanges.add(f'{name}_fanout')

    def close(self) -> None:
        """Remove what was made; whoever used it has stopped."""
        with connect(self.url) as broker:
            channel = broker.default_channel
            for name in self._queues:
                kombu.Queue(name, channel=channel).delete()
            for name in self._exchanges:
                kombu.Exchange(name, channel=channel).delete()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()


def connect(url: str) -> kombu.Connection:
    """A connection to the broker of a ``transport_url``, made when it is used."""
    return kombu.Connection(url.replace('rabbit://', 'amqp://', 1),
                            connect_timeout=servers.SECONDS_TO_CONNECT)


def why_missing() -> str | None:
    """Why the expected broker cannot be used; None: it can."""
    connection = connect(servers.url(servers.RABBITMQ))
    try:
        with connection:
            connection.connect()
    except (OSError, *connection.connection_errors, *connection.channel_errors) as error:
        return f'no RabbitMQ at {connection.as_uri()}: {type(error).__name__}: {error}'
    return None
