"""Protocol between the application and the built-in server for streams of events.

The application responds with `HEADERS` and no body, and puts a `Watch` into the environ (`TAKEN`).
The server then hands the connection over to the hub, which it put into the environ itself (`HUB`).
"""
from typing import Any
from typing import NamedTuple

HUB = 'blockattach.streams'
"""Key of the environ: hub that takes over connections. Missing if the server has none."""
TAKEN = 'blockattach.taken'
"""Key of the environ: `Watch` of a connection that the hub is to take over."""
HEADERS = {'Content-Type': 'text/event-stream; charset=UTF-8', 'Cache-Control': 'no-store',
           # nginx would otherwise buffer the events.
           'X-Accel-Buffering': 'no'}


class Watch(NamedTuple):
    """Request for a stream of events.

    :ivar wanted: filters of events, in the form that the hub understands
    :ivar after: position in the history after which the stream starts
    :ivar missed: True if events after that position were already removed
    """

    wanted: Any
    after: int
    missed: bool = False
