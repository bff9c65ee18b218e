"""What is kept for a time only: messages, names of requests, the history of attachments."""
from blockattach.storage.db import idempotency
from blockattach.storage.db import messages
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import history


def purge(database: storage_db.Database) -> None:
    """Remove what has expired; any process may, several at once too."""
    messages.purge(database)
    idempotency.purge(database)
    history.purge(database)
