"""What is kept for a time only: messages, names of requests, the history of attachments."""
from blockattach.db import idempotency
from blockattach.db import messages
from blockattach.db.attachments import history
from blockattach.db.engine import engine


def purge(database: engine.Database) -> None:
    """Remove what has expired; any process may, several at once too."""
    messages.purge(database)
    idempotency.purge(database)
    history.purge(database)
