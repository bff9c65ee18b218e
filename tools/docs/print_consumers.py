#!/usr/bin/env python3
"""Print the requests of each consumer of the API, from the tables of the contract tests."""
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
# Requests that differ only in the kind of an ID are the same request.
_KEPT = re.compile(r'\{\w+\}')
_NAMED = 'vol-{project}'
# Every command of these clients starts with the requests in _FIRST.
_SHELLS = ('cinder', 'openstack')
_FIRST = ('GET /', 'GET /v3')


def _request(call: calls.Call) -> str:
    """Return the name of a request, including the name of an action."""
    asked = _KEPT.sub('{id}', call.asks.replace(_NAMED, 'NAME')).replace('%3A', ':')
    if asked.endswith('/action') and call.body:
        asked += f' ({next(iter(call.body))})'
    return asked


def _rows(consumer: calls.Consumer) -> Iterator[tuple[str, ...]]:
    """Yield each request of each function once, with all its responses."""
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
    """Return a table for each consumer."""
    parts = [rst.NOTICE]
    for consumer in CONSUMERS:
        parts += [rst.heading(consumer.name, '-'), f'\nVersion {consumer.source}.\n',
                  rst.table(('consumer code', 'request', 'version', 'response'), _rows(consumer),
                            (24, 44, 8, 24))]
    return ''.join(parts)


if __name__ == '__main__':
    sys.stdout.write(document())
