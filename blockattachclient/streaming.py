"""The stream of what happens to attachments: server-sent events
(https://html.spec.whatwg.org/multipage/server-sent-events.html), taken up where they were cut off.
"""
import json
from collections.abc import Generator
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple
from typing import TextIO

from blockattachclient import api
from blockattachclient import clock

PAUSE = 1.0
SILENCE = 60.0
"""After so many seconds without even a comment a stream counts as cut off: the service sends one
more often.
"""
AWAY = (0, 502, 503, 504)
"""Of no answer, and of what stands before a service that is being restarted."""
NOTES: Mapping[str, str] = {
    'missed': 'Some changes were missed, because the service no longer keeps them. List the '
              'attachments with "openstack volume attachment detail list".',
    'slow': 'The service closed the stream because too many events were unread. Reconnecting.',
    'cut': 'The connection was lost. Reconnecting.',
}
"""Messages on standard error, besides the changes."""


class Event(NamedTuple):
    """One event of a stream."""

    position: int | None
    name: str
    data: dict[str, Any]


def moves(service: api.Api, query: Mapping[str, Any], after: int | None,
          notes: TextIO) -> Generator[tuple[int | None, dict[str, Any]], None, None]:
    """Each move with its position, for ever.

    :param after: the position behind which it begins; None: now
    :raises CommandError: the service refuses
    """
    is_said = False
    while True:
        ended = 'cut'
        for event in _stream(service, query, after):
            is_said = False
            after = after if event.position is None else event.position
            if event.name == 'attachment':
                yield event.position, event.data
            elif event.name == 'end':
                ended = event.data['reason']
            elif event.name in NOTES:
                notes.write(f'{NOTES[event.name]}\n')
        if ended in NOTES:
            if not is_said:
                notes.write(f'{NOTES[ended]}\n')
                notes.flush()
            # Once, however long the service is away.
            is_said = True
            clock.pause(PAUSE)


def _stream(service: api.Api, query: Mapping[str, Any], after: int | None) -> Iterator[Event]:
    """The events of one connection, until it ends in whatever way.

    :raises CommandError: the service refuses
    """
    headers = {} if after is None else {'Last-Event-ID': str(after)}
    answer = service.open('/attachments', {**query, 'watch': 'true'}, headers, SILENCE,
                          api.WATCHED)
    if answer.status in AWAY:
        return
    answer.checked()
    try:
        # Byte by byte, as a larger piece would be waited for.
        yield from events(line.decode() for line in answer.body.iter_lines(chunk_size=1))
    except OSError:
        # Whatever the connection raises: it is taken up again.
        return
    finally:
        answer.body.close()


def events(lines: Iterable[str]) -> Iterator[Event]:
    """The events that lines of a stream are; comments are passed over."""
    found: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(':')
        if name:
            found[name] = value.removeprefix(' ')
        elif not line and found:
            position = found.get('id', '')
            yield Event(int(position) if position else None, found.get('event', ''),
                        json.loads(found.get('data', '{}')))
            found = {}
