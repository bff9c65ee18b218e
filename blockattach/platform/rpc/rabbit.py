"""Defaults of the RabbitMQ driver that differ from the defaults of oslo.messaging.

`blockattach.platform.rpc.transport` and the documentation use the table `DEFAULTS`. Options that
an operator sets under ``[oslo_messaging_rabbit]`` take precedence.
"""
import re
from typing import NamedTuple

from oslo_config import cfg

GROUP = 'oslo_messaging_rabbit'
_TLS = '[SSL'
"""First characters of the error texts of the module ssl."""
_WORD = re.compile(r'[a-z]+(?:_[a-z]+)+')


class Default(NamedTuple):
    """Default of this service for an option of the RabbitMQ driver."""

    name: str
    value: bool | int | float
    reason: str


DEFAULTS = (
    Default('rabbit_quorum_queue', True,
            'Requests survive the loss of a broker node. Choose the type once per virtual host: '
            'the broker rejects the declaration of an existing exchange or queue with another '
            'type.'),
    Default('rabbit_transient_quorum_queue', True,
            'Replies and fanouts survive the loss of a broker node as well. RabbitMQ 4 deprecates '
            'the transient queues that would be used otherwise.'),
    Default('rabbit_transient_queues_ttl', 300,
            'Time in seconds after which the broker deletes the reply queue of a stopped process. '
            'Each process creates a queue with a unique name. Reused names (use_queue_manager) '
            'are assigned twice if a program runs twice on a host, and one process then receives '
            'the replies of the other.'),
    Default('rpc_conn_pool_size', 100,
            'Greater than [rpc] threads, so that no reply waits for a connection. Connections are '
            'opened on demand.'),
    Default('heartbeat_timeout_threshold', 30,
            'Time in seconds after which a silent broker is considered down. A dedicated thread '
            'sends the heartbeats regardless of the load, so no reserve is needed.'),
    Default('heartbeat_rate', 15,
            'Number of connection checks per heartbeat timeout; the driver checks twice as often. '
            'A reading thread notices a stop request only at a check, so a process stops within '
            'one to two seconds.'),
    Default('rabbit_interval_max', 5,
            'Maximum interval between connection attempts in seconds, so that all processes '
            'reconnect soon after the broker is back.'),
    Default('kombu_reconnect_delay', 0.2,
            'Additional delay in seconds before the first attempt.'),
    Default('kombu_missing_consumer_retry_timeout', 10,
            'Time in seconds for which a reply to a missing queue is retried. A queue that '
            'survives the loss of a node is missing only if its process has stopped.'),
)


def option_in(conf: cfg.ConfigOpts, text: str) -> str | None:
    """Return the first option of the RabbitMQ driver that an error text names, or None.

    The driver validates its options only when it opens a connection. Its errors have no attribute
    for the option, so the text is searched.
    """
    if _TLS in text:
        return 'ssl'
    # Option names without an underscore also occur as plain words in other errors.
    return next((word for word in _WORD.findall(text) if word in conf[GROUP]), None)


def set_defaults(conf: cfg.ConfigOpts) -> None:
    """Apply `DEFAULTS` to the options of the driver, which must be registered."""
    for option in DEFAULTS:
        conf.set_default(option.name, option.value, group=GROUP)
