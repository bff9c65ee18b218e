"""Messages and request names that have expired are removed."""
from blockattach.db import engine
from blockattach.db import idempotency
from blockattach.db import messages


class Housekeeping:
    """Any scheduler may do it, several at once too."""

    def __init__(self, database: engine.Database) -> None:
        self._database = database

    def clean(self) -> None:
        """One round."""
        messages.purge(self._database)
        idempotency.purge(self._database)
