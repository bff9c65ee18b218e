"""Deletion of expired messages, idempotency keys and events of attachments."""
from blockattach.storage.db import idempotency
from blockattach.storage.db import messages
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import history


def purge(database: storage_db.Database) -> None:
    """Delete expired rows. Any process may do so, and several may at the same time."""
    messages.purge(database)
    idempotency.purge(database)
    history.purge(database)
