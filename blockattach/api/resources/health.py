"""Whether this process can serve: asked by load balancers, without a token."""
from collections.abc import Callable
from typing import Protocol

from blockattach.http import operation

_TEXT = {'Content-Type': 'text/plain; charset=UTF-8'}


class Services(Protocol):
    """What the check needs."""

    @property
    def check_database(self) -> Callable[[], bool]:
        """Whether the database answers."""


def check(services: Services, call: operation.Call) -> operation.Answer:
    """OK while the database answers; without it no request can be served."""
    if services.check_database():
        return operation.Answer(b'OK', headers=_TEXT)
    return operation.Answer(b'Cannot reach the database', status=503, headers=_TEXT)


OPERATIONS = (
    operation.Operation('GET', '/healthcheck', check, public=True, root=True,
                        summary='Say whether this process can serve.'),
)
