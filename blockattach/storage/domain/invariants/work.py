"""Invariants of operations that continue after the response to the request."""
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping

from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.domain.invariants import observed

_Found = observed.Found
_Severity = observed.Severity
_Own = volume_lifecycle.OwnStatus
# Cleanup of another pool, and notification of servers: no resource has a status for these
# operations.
_BESIDE = frozenset({'cleanup', 'notify'})
_AT_WORK: Mapping[str, Callable[[observed.Facts], Iterator[str]]] = {
    'attachment': lambda facts: (row.id for row in facts.attachments
                                 if row.state in attachment_lifecycle.TRANSITIONAL),
    'volume': lambda facts: (volume.id for volume in facts.volumes
                             if not volume.deleted and volume.at_work),
    'snapshot': lambda facts: _snapshots_at_work(facts),
}
"""Functions that return the ids of resources with an operation in progress, by noun."""
# An administrator may have set the status (os-reset_status). No work record exists then.
_MAY_BE_AT_WORK = frozenset({volume_lifecycle.OwnStatus.DOWNLOADING})


def _snapshots_at_work(facts: observed.Facts) -> Iterator[str]:
    """Return the ids of snapshots that must have a work record of their own.

    Snapshots that are deleted together with their volume have none.
    """
    gone_with = {volume.id for volume in facts.volumes if volume.own_status == _Own.DELETING}
    return (row.id for row in facts.snapshots if row.at_work and row.volume_id not in gone_with)


def _work_has_an_end(facts: observed.Facts) -> Iterator[_Found]:
    work = {(one.noun, one.resource_id) for one in facts.work
            if one.noun in _AT_WORK and one.verb not in _BESIDE}
    at_work = {(noun, resource_id) for noun, ids in _AT_WORK.items() for resource_id in ids(facts)}
    either = {('volume', volume.id) for volume in facts.volumes
              if volume.own_status in _MAY_BE_AT_WORK}
    # Work without a status, or a status without work, never ends.
    for noun, resource_id in sorted((work ^ at_work) - either):
        said = 'has a work record but no operation in progress' \
            if (noun, resource_id) in work else 'has an operation in progress but no work record'
        yield _of_work(facts, noun, resource_id, said)


def _nothing_is_overdue(facts: observed.Facts) -> Iterator[_Found]:
    for one in facts.work:
        if one.overdue > facts.grace:
            yield _of_work(facts, one.noun, one.resource_id,
                           f'operation {one.verb} is {one.overdue:.0f} s past its deadline')


def _of_work(facts: observed.Facts, noun: str, resource_id: str, said: str) -> _Found:
    if noun == 'snapshot':
        volume_id = next((row.volume_id for row in facts.snapshots if row.id == resource_id), None)
        return _Found(volume_id, None, f'snapshot {resource_id} {said}')
    if noun != 'attachment':
        return _Found(resource_id.partition('@')[0], None, said)
    volume_id = next((row.volume_id for row in facts.attachments if row.id == resource_id), None)
    return _Found(volume_id, resource_id, said)


INVARIANTS = (
    observed.Row('work_has_an_end', 'P9', 'Operations in progress, and no others, have a work '
                 'record with a deadline.', _Severity.SERVICE, False, observed.DERIVE,
                 _work_has_an_end),
    observed.Row('nothing_is_overdue', 'P9', 'An operation ends soon after its deadline at the '
                 'latest.',
                 _Severity.SERVICE, True, observed.RECONCILE, _nothing_is_overdue),
)
