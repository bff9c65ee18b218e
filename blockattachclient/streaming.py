"""Client of the stream of attachment changes, which reconnects when the connection is lost.

The service sends the changes as server-sent events:

https://html.spec.whatwg.org/multipage/server-sent-events.html
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
"""Seconds without any data after which the connection of a stream counts as lost.

While there are no changes, the service sends comments at a shorter interval.
"""
AWAY = (0, 502, 503, 504)
"""Statuses while the service is restarted: 0 for no response, and the statuses of proxies."""
NOTES: Mapping[str, str] = {
    'missed': 'Some changes were missed, because the service no longer keeps them. List the '
              'attachments with "openstack volume attachment detail list".',
    'slow': 'The service closed the stream because too many events were unread. Reconnecting.',
    'cut': 'The connection was lost. Reconnecting.',
}
"""Messages for standard error, by the name of an event or the reason why a stream ended."""


class Event(NamedTuple):
    """Server-sent event of a stream.

    :ivar position: position of the event in the stream, or None if it has no position
    """

    position: int | None
    name: str
    data: dict[str, Any]


def moves(service: api.Api, query: Mapping[str, Any], after: int | None,
          notes: TextIO) -> Generator[tuple[int | None, dict[str, Any]], None, None]:
    """Yield the changes of attachments with their positions, without an end.

    :param after: position after which the stream starts, or None to start with new changes
    :param notes: output for the messages in `NOTES`
    :raises CommandError: the service rejects the request
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
        # The service also ends streams when it stops, and after a maximum time. These streams are
        # resumed at once and without a note.
        if ended in NOTES:
            if not is_said:
                notes.write(f'{NOTES[ended]}\n')
                notes.flush()
            # Print the note once for each interruption, however often the reconnect fails.
            is_said = True
            clock.pause(PAUSE)


def _stream(service: api.Api, query: Mapping[str, Any], after: int | None) -> Iterator[Event]:
    """Yield the events of one connection, until the connection ends or is lost.

    :raises CommandError: the service rejects the request
    """
    headers = {} if after is None else {'Last-Event-ID': str(after)}
    answer = service.open('/attachments', {**query, 'watch': 'true'}, headers, SILENCE,
                          api.WATCHED)
    if answer.status in AWAY:
        return
    answer.checked()
    try:
        # Read byte by byte, because the library requests would wait until a larger chunk is full.
        yield from events(line.decode() for line in answer.body.iter_lines(chunk_size=1))
    except OSError:
        # The connection is lost, and the caller reconnects. The library requests raises only
        # subclasses of OSError.
        return
    finally:
        answer.body.close()


def events(lines: Iterable[str]) -> Iterator[Event]:
    """Yield the events in the lines of a stream. Comments are skipped."""
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
