"""Whether the broker takes messages now: asked at the start of a process, and while it runs."""
import oslo_messaging
from oslo_config import cfg

from blockattach.conf import rpc as rpc_conf

_WITHOUT_BROKER = 'inproc'
_NO_METHOD = '(0, 0): '
"""What amqp puts before a refusal that no method of its protocol brought about."""


class BrokerProbe:
    """Sends a message that nobody waits for; the broker drops it.

    :ivar needed: whether there is a broker; else the bus ends where the process does
    :ivar broker: where it is, without passwords
    :ivar reconnects: how often it was there again after it had not been
    """

    def __init__(self, conf: cfg.ConfigOpts, transport: oslo_messaging.Transport,
                 settings: rpc_conf.RpcSettings, place: str | None = None) -> None:
        """
        :param place: the URL of the transport, where it is not ``transport_url``
        """
        self.reconnects = 0
        self._away = False
        url = oslo_messaging.TransportURL.parse(conf, place)
        self.needed = url.transport != _WITHOUT_BROKER
        self.broker = (', '.join(f'{host.hostname}:{host.port}' for host in url.hosts)
                       if self.needed else 'inside the process')
        # A single attempt: the present state is asked for.
        self._client = oslo_messaging.get_rpc_client(
            transport, oslo_messaging.Target(topic=f'{settings.topic_prefix}-nobody'), retry=0)

    def wrong(self) -> str | None:
        """Why the broker accepts nothing, without its password; None: it does."""
        if not self.needed:
            return None
        try:
            self._client.cast({}, 'reach')
        except Exception as error:
            # The driver's, its library's, or that of the library below: they share no ancestor.
            self._away = True
            reason = str(error).removeprefix(_NO_METHOD)
            return f'cannot reach the message broker at {self.broker}: {reason}'
        if self._away:
            self._away = False
            self.reconnects += 1
        return None
