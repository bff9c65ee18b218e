"""What an application and the built-in server agree on where an answer has no end.

The application answers with `HEADERS` and no body, and puts a `Watch` into the environ (`TAKEN`);
the server then hands the connection over to whatever it has put there itself (`HUB`).
"""
from typing import NamedTuple

from blockattach.db.attachments import attachment_queries

HUB = 'blockattach.streams'
"""In an environ: what takes connections over, if this server has anything that does."""
TAKEN = 'blockattach.taken'
"""In an environ: the `Watch` that the connection is taken over for."""
HEADERS = {'Content-Type': 'text/event-stream; charset=UTF-8', 'Cache-Control': 'no-store',
           # For a proxy that would collect what is to be seen at once.
           'X-Accel-Buffering': 'no'}


class Watch(NamedTuple):
    """What a client wants to see.

    :ivar wanted: of which attachments; it names neither states nor parts of texts
    :ivar after: the position in the history behind which it begins
    :ivar missed: something behind it was removed already
    """

    wanted: attachment_queries.Filters
    after: int
    missed: bool = False
