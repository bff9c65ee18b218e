"""What an application and the built-in server agree on where an answer has no end.

The application answers with `HEADERS` and no body, and puts a `Watch` into the environ (`TAKEN`);
the server then hands the connection over to whatever it has put there itself (`HUB`).
"""
from typing import Any
from typing import NamedTuple

HUB = 'blockattach.streams'
"""In an environ: what takes connections over, if this server has anything that does."""
TAKEN = 'blockattach.taken'
"""In an environ: the `Watch` that the connection is taken over for."""
HEADERS = {'Content-Type': 'text/event-stream; charset=UTF-8', 'Cache-Control': 'no-store',
           # For a proxy that would collect what is to be seen at once.
           'X-Accel-Buffering': 'no'}


class Watch(NamedTuple):
    """Request for a stream of events.

    :ivar wanted: filters of events, as the taker of connections understands them
    :ivar after: position in the history after which the stream starts
    :ivar missed: True if events after that position were already removed
    """

    wanted: Any
    after: int
    missed: bool = False
