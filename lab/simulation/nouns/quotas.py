"""Quotas in the simulation.

An administrator sets the limits of a project close to its usage. The usage never exceeds a limit
that is in force.
"""
import dataclasses
from collections.abc import Iterator

from blockattach.storage.db import quotas
from blockattach.storage.domain import quotas as domain
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.domain.invariants import observed
from lab.simulation import clients
from lab.simulation import deployment
from lab.simulation import operations

_PATH = f'/os-quota-sets/{clients.PROJECT}'
_NAMES = (domain.VOLUMES, domain.GIGABYTES)
_MANAGING = volume_lifecycle.OwnStatus.MANAGING
"""Status of volumes whose size is not known yet."""
_TOO_LITTLE = 'must be equal or greater than existing resources'
"""Error of a limit below the usage, to which other clients may have added meanwhile."""


@dataclasses.dataclass(slots=True)
class _Bound:
    """Limit of a project. ``most`` is the usage when the limit was set, and may exceed it."""

    limit: int
    most: int


class Quotas(clients.Played):
    """Limits of a project that an administrator has set."""

    def __init__(self, consumers: clients.Consumers) -> None:
        super().__init__(consumers)
        self._limits: dict[str, int] = {}
        """Limits that are in force as soon as no earlier request is under way."""
        self._bounds: dict[str, _Bound] = {}
        self._changing = False

    def _change(self) -> None:
        with self._all.judge.looking() as database:
            shown = quotas.show(database, clients.PROJECT)
        used = {name: sum(shown.used[name]) for name in _NAMES}
        self._ask('PUT', {'quota_set': {
            domain.VOLUMES: used[domain.VOLUMES] + self._chance.randrange(3),
            domain.GIGABYTES: used[domain.GIGABYTES] + self._chance.randrange(6)}})

    def _reset(self) -> None:
        self._ask('DELETE', None)

    def _ask(self, method: str, body: dict[str, dict[str, int]] | None) -> None:
        if self._changing or self._all.at_work[clients.PROJECT]:
            return
        # Without an answer, it is unknown whether the limit is in force.
        self._changing, self._limits = True, {}
        self._bounds.clear()
        answer = self._all.ask(method, _PATH, body)
        self._changing = False
        if answer.status == 200 and body is not None:
            self._limits = {name: body['quota_set'][name] for name in _NAMES}
        elif answer.status == 400 and _TOO_LITTLE not in str(answer.body):
            self._all.judge.violated(f'P9 {method} {_PATH} returned {answer.body}')

    def broken(self, facts: observed.Facts) -> Iterator[str]:
        """Yield the limits that the usage, counted from the rows, exceeds."""
        # The additional size of a volume counts from the request on.
        sizes = [volume.size_gb + (volume.claimed_gb or 0) * (
            volume.claimed_pool in (None, volume.pool))
            for volume in facts.volumes if not volume.deleted
            and volume.project_id != deployment.INTERNAL_PROJECT]
        used = {domain.VOLUMES: len(sizes), domain.GIGABYTES: sum(sizes)}
        if self._limits and not self._bounds and not self._all.at_work \
                and not any(volume.own_status == _MANAGING for volume in facts.volumes):
            # All resources created from here on were requested after the answer.
            self._bounds = {name: _Bound(limit, used[name])
                            for name, limit in self._limits.items()}
        for name, bound in self._bounds.items():
            if used[name] > max(bound.limit, bound.most):
                yield (f'P6 quota_holds: the project has {used[name]} {name}, but its limit is '
                       f'{bound.limit} and it had {bound.most}')
            bound.most = min(bound.most, used[name])

    OPERATIONS = {
        'change quotas': (_change, 6),
        'reset quotas': (_reset, 1),
    }


def _quotas(client, _):
    """Change the quotas of a project and of a class. Any request may remain unanswered."""
    path = f'/os-quota-sets/{operations.PROJECT}'
    client.ask('PUT', path, {'quota_set': {'snapshots': 5}})
    client.ask('GET', f'{path}?usage=true')
    client.ask('DELETE', path)
    client.ask('PUT', '/os-quota-class-sets/gold', {'quota_class_set': {'snapshots': 5}})
    client.ask('GET', '/os-quota-class-sets/gold')


def _clear(client):
    client.sure((200,), 'DELETE', f'/os-quota-sets/{operations.PROJECT}')


NOUN = operations.Noun(
    'quotas',
    played=Quotas,
    operations=(operations.Operation('quotas', _quotas),),
    clear=_clear,
    passed=('db.quotas.change.', 'db.quotas.reset.'),
    seeds=((11, 300),),
)
