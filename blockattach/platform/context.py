"""The caller, its project and the request id. Passed along with every call and message."""
from typing import Any

from oslo_context import context as oslo_context

SERVICE_ROLES = ('service',)
"""Of a service token where no identity service says which count."""


class RequestContext(oslo_context.RequestContext):
    """The caller as policies see it.

    ``is_admin`` is decided once, where the request arrives, and is sent with messages, as
    ``service_roles`` are. ``deadline`` is when the caller stops waiting, on this process's
    monotonic clock (None: unknown); the remaining seconds are sent. ``traceparent`` is the trace
    of a message.
    """

    FROM_DICT_EXTRA_KEYS = ['service_roles']

    def __init__(self, overwrite: bool = True, **values: Any) -> None:
        """
        :param overwrite: this thread logs by it from now on. oslo.context would store it even so
            where there is none, and the thread would log by it for ever
        """
        self._stores_itself = overwrite
        super().__init__(overwrite=overwrite, **values)
        self._stores_itself = True
        self.deadline: float | None = None
        self.traceparent: str | None = None

    def update_store(self) -> None:
        """Let this thread log by it."""
        if self._stores_itself:
            super().update_store()


def admin_context(**values: Any) -> RequestContext:
    """The service itself, acting without a caller (start-up, periodic work)."""
    return RequestContext(is_admin=True, overwrite=False, **values)
