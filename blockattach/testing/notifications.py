"""What is told to the world, kept in the order in which it was told."""
import threading
from typing import Any

from blockattach import context
from blockattach.rpc import notifications


class Heard(notifications.Notifications):
    """Stands where messages would be sent; ``events`` is what was told: types and payloads."""

    def __init__(self) -> None:
        super().__init__(None, 'test')
        self._lock = threading.Lock()
        self.events: list[tuple[str, dict[str, Any]]] = []

    @property
    def enabled(self) -> bool:
        """Always."""
        return True

    def emit(self, ctxt: context.RequestContext, event_type: str, payload: dict[str, Any],
             publisher: str | None = None) -> None:
        """Keep it."""
        with self._lock:
            self.events.append((event_type, payload))

    def of(self, attachment_id: str) -> list[str]:
        """The words of one attachment: ``attach.start`` and the like."""
        with self._lock:
            return [event_type.removeprefix('volume.') for event_type, payload in self.events
                    if payload['attachment']['id'] == attachment_id]
