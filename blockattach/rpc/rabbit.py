"""RabbitMQ as we want it: what differs from oslo.messaging's own defaults and ways.

The table is read by `blockattach.rpc.transport` and by the documentation. Whatever an operator
sets under ``[oslo_messaging_rabbit]`` counts more.
"""
import re
from typing import NamedTuple

from oslo_config import cfg

GROUP = 'oslo_messaging_rabbit'
_TLS = '[SSL'
"""First characters of errors of the module ssl."""
_WORD = re.compile(r'[a-z]+(?:_[a-z]+)+')


class Default(NamedTuple):
    """One option of the driver, as we set it."""

    name: str
    value: bool | int | float
    reason: str


DEFAULTS = (
    Default('rabbit_quorum_queue', True,
            'Requests survive the loss of a broker node. Choose once per virtual host: an '
            'exchange or queue that exists already in the other kind is refused by the broker.'),
    Default('rabbit_transient_quorum_queue', True,
            'Answers and fanouts survive it too, and RabbitMQ 4 deprecates the '
            'transient queues that they would be in otherwise.'),
    Default('rabbit_transient_queues_ttl', 300,
            'Seconds after which the broker removes the queue for answers of a process that is '
            'gone. Each process makes one with a name of its own: names that are used again '
            '(use_queue_manager) are given twice where a program runs twice on a host, and then '
            'one process takes the answers of the other.'),
    Default('rpc_conn_pool_size', 100,
            'More than [rpc] threads, so that no answer waits for a connection. They are made '
            'when needed.'),
    Default('heartbeat_timeout_threshold', 30,
            'Seconds after which a silent broker counts as gone. A thread of its own sends the '
            'heartbeats, whatever the others do, so they need no reserve.'),
    Default('heartbeat_rate', 15,
            'Looks at a connection in that time, twice as many in fact. A thread that reads sees '
            'only then that it shall end, so a process stops within one to two seconds.'),
    Default('rabbit_interval_max', 5,
            'Seconds between two attempts to reach a broker, at most: all are back soon after '
            'it is.'),
    Default('kombu_reconnect_delay', 0.2,
            'Seconds to wait in addition before the first attempt.'),
    Default('kombu_missing_consumer_retry_timeout', 10,
            'Seconds to try to answer a caller whose queue does not exist: a queue that survives '
            'its node is missing only because the caller is gone.'),
)


def option_in(conf: cfg.ConfigOpts, text: str) -> str | None:
    """Return the first option of the driver that an error names, or None.

    The driver validates its options when it opens a connection, and raises plain errors.
    """
    if _TLS in text:
        return 'ssl'
    # Option names without an underscore also occur as plain words in other errors.
    return next((word for word in _WORD.findall(text) if word in conf[GROUP]), None)


def set_defaults(conf: cfg.ConfigOpts) -> None:
    """Set the table as the driver's defaults; its options are registered."""
    for option in DEFAULTS:
        conf.set_default(option.name, option.value, group=GROUP)
