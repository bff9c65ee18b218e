"""Calls that are sent again while nobody sends heartbeats, until an answer comes.

The message has gone with a process that ended, or lies in the queue of one that comes back. Only
for methods that may be done twice.
"""
import itertools
import logging
from collections.abc import Mapping
from typing import Any

import oslo_messaging

from blockattach.conf import rpc as rpc_conf
from blockattach.log import fields
from blockattach.rpc import deadlines
from blockattach.rpc import heartbeats

LOG = logging.getLogger(__name__)

_LEAST_SECONDS = 1.0
# A caller that got one heartbeat has waited longer than one that got none, by this at least.
_WITH_SIGNS = 1 + 0.5 / heartbeats.SIGNS


class Resending:
    """Sends again after ``[rpc] repeat_interval``; gives up after ``silence_timeout``."""

    def __init__(self, settings: rpc_conf.RpcSettings, deadlines: deadlines.Deadlines) -> None:
        self._interval = settings.repeat_interval
        self._silence = settings.silence_timeout
        self._deadlines = deadlines

    def call(self, prepared: Any, name: str, outgoing: deadlines.Outgoing,
             arguments: Mapping[str, Any], server: str) -> Any:
        """The answer to one of the copies.

        :param prepared: oslo.messaging's client
        :param outgoing: has a deadline
        :raises oslo_messaging.MessagingTimeout: none in time, or no heartbeat for too long
        """
        now = self._deadlines.now()
        until, hopeless = now + (outgoing.seconds or 0), now + self._silence
        for attempt in itertools.count():
            begun = self._deadlines.now()
            left = max(until - begun, 0)
            listens = min(self._interval, max(hopeless - begun, _LEAST_SECONDS))
            listening = prepared.prepare(
                timeout=left, call_monitor_timeout=listens if left > listens else None)
            try:
                return listening.call(deadlines.Outgoing(outgoing.caller, left), name, **arguments)
            except oslo_messaging.MessagingTimeout:
                now = self._deadlines.now()
                if now - begun > listens * _WITH_SIGNS:
                    hopeless = now + self._silence
                if now >= min(until, hopeless):
                    raise
                if not attempt:
                    LOG.warning('Call is sent again: no heartbeat of its server%s',
                                fields(method=name, topic=server))
        raise AssertionError('the count has no end')
