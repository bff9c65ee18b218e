"""Request context: the caller, the project and the request ID of a call or message."""
from typing import Any

from oslo_context import context as oslo_context

SERVICE_ROLES = ('service',)
"""Roles that identify a service token if the API does not use Keystone."""


class RequestContext(oslo_context.RequestContext):
    """Context of a request, with the credentials that policies check.

    ``is_admin`` is decided once, by the process that receives the request. RPC messages contain
    ``is_admin`` and ``service_roles``.

    :ivar deadline: time at which the caller stops waiting, on the monotonic clock of this process;
        None if unknown. RPC messages contain the remaining seconds
    :ivar traceparent: W3C trace context of the RPC message; None if the message has none
    """

    FROM_DICT_EXTRA_KEYS = ['service_roles']

    def __init__(self, overwrite: bool = True, **values: Any) -> None:
        """
        :param overwrite: True to store this context for the current thread, whose log lines then
            show the context. If False, the constructor never stores the context. oslo.context
            alone would store the context for a thread that has none, and the log lines of the
            thread would show the context forever
        """
        self._stores_itself = overwrite
        super().__init__(overwrite=overwrite, **values)
        self._stores_itself = True
        self.deadline: float | None = None
        self.traceparent: str | None = None

    def update_store(self) -> None:
        """Store this context for the current thread.

        The constructor stores nothing if ``overwrite`` is False.
        """
        if self._stores_itself:
            super().update_store()


def admin_context(**values: Any) -> RequestContext:
    """Return an administrator context for start-up and periodic tasks, which have no caller."""
    return RequestContext(is_admin=True, overwrite=False, **values)
