#!/usr/bin/env python3
"""Print what each consumer asks of the API and how it is answered, by the tables of the contract
tests.
"""
import re
import sys
from collections.abc import Iterator

import rst
from blockattach.tests.contracts import calls
from blockattach.tests.contracts import cinder_csi
from blockattach.tests.contracts import ironic
from blockattach.tests.contracts import nova
from blockattach.tests.contracts import openstacksdk
from blockattach.tests.contracts import shells

CONSUMERS = (nova.CONSUMER, ironic.CONSUMER, cinder_csi.CONSUMER, openstacksdk.CONSUMER,
             shells.CINDER, shells.OPENSTACK)
# Whatever an id in a path or a query stands for, the request is the same one.
_KEPT = re.compile(r'\{\w+\}')
_NAMED = 'vol-{project}'
# Each command of a shell begins so.
_SHELLS = ('cinder', 'openstack')
_FIRST = ('GET /', 'GET /v3')


def _request(call: calls.Call) -> str:
    """As one names it: of an action, with its name."""
    asked = _KEPT.sub('{id}', call.asks.replace(_NAMED, 'NAME')).replace('%3A', ':')
    if asked.endswith('/action') and call.body:
        asked += f' ({next(iter(call.body))})'
    return asked


def _rows(consumer: calls.Consumer) -> Iterator[tuple[str, ...]]:
    """Each request of each function once, with each way in which it is answered."""
    answers: dict[tuple[str, str, str], list[str]] = {}
    for flow in consumer.flows:
        for call in flow.calls:
            if not call.by or (consumer.client in _SHELLS and call.asks in _FIRST):
                continue
            key = rst.literal(call.by), rst.literal(_request(call)), call.version or ''
            answer = str(call.answered) + (f': {call.raises}' if call.raises else '')
            if answer not in answers.setdefault(key, []):
                answers[key].append(answer)
    for key, found in answers.items():
        yield (*key, '; '.join(sorted(found)))


def document() -> str:
    """A table for each consumer."""
    parts = [rst.NOTICE]
    for consumer in CONSUMERS:
        parts += [rst.heading(consumer.name, '-'), f'\nVersion {consumer.source}.\n',
                  rst.table(('consumer code', 'request', 'version', 'response'), _rows(consumer),
                            (24, 44, 8, 24))]
    return ''.join(parts)


if __name__ == '__main__':
    sys.stdout.write(document())
