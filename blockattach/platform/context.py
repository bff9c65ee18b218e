"""Request context: the caller, the project and the request ID of a call or message."""
from typing import Any

from oslo_context import context as oslo_context

SERVICE_ROLES = ('service',)
"""Default roles of a service token, used where no identity service defines them."""


class RequestContext(oslo_context.RequestContext):
    """Context of a request, with the credentials that policies check.

    ``is_admin`` is decided once, where the request arrives, and is sent with messages like
    ``service_roles``.

    :ivar deadline: time at which the caller stops waiting, on the monotonic clock of this process;
        None if unknown. Messages carry the remaining seconds
    :ivar traceparent: trace context of a message; None if there is none
    """

    FROM_DICT_EXTRA_KEYS = ['service_roles']

    def __init__(self, overwrite: bool = True, **values: Any) -> None:
        """
        :param overwrite: True to store the context as that of the current thread, which then logs
            with this context. If False, oslo.context would still store the context of a thread
            that has none, and the thread would log with that context forever
        """
        self._stores_itself = overwrite
        super().__init__(overwrite=overwrite, **values)
        self._stores_itself = True
        self.deadline: float | None = None
        self.traceparent: str | None = None

    def update_store(self) -> None:
        """Store the context as that of the current thread, unless ``overwrite`` is False."""
        if self._stores_itself:
            super().update_store()


def admin_context(**values: Any) -> RequestContext:
    """Return an administrator context for start-up and periodic tasks, which have no caller."""
    return RequestContext(is_admin=True, overwrite=False, **values)
