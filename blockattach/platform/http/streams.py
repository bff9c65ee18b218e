"""Protocol between the application and the built-in server for streams of events.

The application responds with `HEADERS` and no body, and puts a `Watch` into the environ (`TAKEN`).
The server then hands the connection over to the hub. The server has put the hub into the environ
before (`HUB`).
"""
from typing import Any
from typing import NamedTuple

HUB = 'blockattach.streams'
"""Environ key of the hub that takes over connections, missing if the server has no hub."""
TAKEN = 'blockattach.taken'
"""Environ key of the `Watch` for which the hub must take over the connection."""
HEADERS = {'Content-Type': 'text/event-stream; charset=UTF-8', 'Cache-Control': 'no-store',
           # nginx would otherwise buffer the events.
           'X-Accel-Buffering': 'no'}


class Watch(NamedTuple):
    """Request for a stream of events.

    :ivar wanted: filters of events, in the format of the hub
    :ivar after: position in the history after which the stream starts
    :ivar missed: True if events after that position were already removed
    """

    wanted: Any
    after: int
    missed: bool = False
