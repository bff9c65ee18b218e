"""Invariants of volumes and pools, checked on the rows."""
from collections.abc import Iterator
from collections.abc import Sequence

from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import records
from blockattach.storage.domain import volume_lifecycle
from blockattach.storage.domain.invariants import observed

_Found = observed.Found
_Severity = observed.Severity
_State = attachment_lifecycle.State
_Own = volume_lifecycle.OwnStatus

# Repeated here, because a check must not rely on the code that it checks.
_CLAIMING = frozenset({_Own.EXTENDING, _Own.RETYPING, _Own.MIGRATING, _Own.MIGRATING_LOCKED,
                       _Own.MANAGING})
_WORDS: dict[str, str] = {_Own.MIGRATING_LOCKED: 'maintenance'}
_STATUSES = (({_State.ATTACHED}, 'in-use', 'attached'),
             ({_State.CONNECTING, _State.CONNECTED}, 'attaching', 'attaching'),
             ({_State.DISCONNECTING}, 'detaching', 'detaching'),
             ({_State.RESERVED}, 'reserved', 'reserved'),
             ({_State.ERROR_ATTACHING, _State.ERROR_DETACHING}, 'reserved', 'reserved'))
"""Statuses of a volume by the states of its attachments, in the order of ranks 1 to 5.

The first entry that contains the state of any attachment applies.
"""


def _status_is_derived(facts: observed.Facts) -> Iterator[_Found]:
    live = facts.live()
    for volume in facts.volumes:
        if volume.deleted:
            continue
        rank, status, attach_status = _statuses(volume, live.get(volume.id, ()))
        if (rank, status, attach_status) != (
                volume.lowest_rank, volume.status, volume.attach_status):
            yield _Found(volume.id, None,
                         f'has status {volume.status}, {volume.attach_status}, rank '
                         f'{volume.lowest_rank} but the attachments imply {status}, '
                         f'{attach_status}, rank {rank}')


def _statuses(volume: observed.VolumeFact, rows: Sequence[observed.AttachmentFact],
              ) -> tuple[int | None, str, str]:
    """Return the expected lowest rank, status and attach status of a volume."""
    # A legacy reservation counts as attaching (`attachment_lifecycle.HELD_RANK`).
    states = [_State.CONNECTING if row.legacy_reservation and row.state == _State.RESERVED
              else _State(row.state) for row in rows]
    rank, status, attach_status = None, 'available', 'detached'
    for number, (which, word, attach_word) in enumerate(_STATUSES, 1):
        if which & set(states):
            rank, status, attach_status = number, word, attach_word
            break
    if _State.ATTACHED in states and volume.detach_announced:
        status = 'detaching'
    if volume.own_status not in (_Own.AVAILABLE, _Own.MIGRATING):
        status = _WORDS.get(volume.own_status, volume.own_status)
    return rank, status, attach_status


def _room_is_counted(facts: observed.Facts) -> Iterator[_Found]:
    # A volume that is moved counts on both pools until the move ends.
    placed: dict[str | None, int] = {}
    for volume in facts.volumes:
        if not volume.deleted:
            for name, taken in ((volume.pool, volume.size_gb),
                                (volume.claimed_pool, volume.claimed_gb or 0)):
                placed[name] = placed.get(name, 0) + taken
    for pool in facts.pools:
        size = placed.get(pool.name, 0)
        if size != pool.allocated_gb:
            yield _Found(None, None, f'pool {pool.name} has {pool.allocated_gb} GiB allocated but '
                         f'the volumes have {size} GiB')


def _claims_end(facts: observed.Facts) -> Iterator[_Found]:
    for volume in facts.volumes:
        if volume.claimed_pool is not None and volume.own_status not in _CLAIMING:
            yield _Found(volume.id, None, f'is {volume.own_status} but has claimed '
                         f'{volume.claimed_gb} GiB on {volume.claimed_pool}')


def _source_stays(facts: observed.Facts) -> Iterator[_Found]:
    for volume in facts.volumes:
        if volume.is_copy and volume.source_pool is None:
            yield _Found(volume.id, None, 'is being created from a source that is deleted or is '
                         'being deleted')


def _made_beside_its_source(facts: observed.Facts) -> Iterator[_Found]:
    for volume in facts.volumes:
        # Until it is scheduled, the volume has no host.
        host = records.host_of(volume.source_pool)
        if volume.is_copy and host is not None and volume.host not in (None, host):
            yield _Found(volume.id, None, f'is being created on {volume.host} but the source is '
                         f'on {host}')


def _moves_between_backends(facts: observed.Facts) -> Iterator[_Found]:
    for volume in facts.volumes:
        there = records.host_of(volume.claimed_pool)
        moves = volume.own_status in (_Own.MIGRATING, _Own.MIGRATING_LOCKED, _Own.RETYPING)
        # The data is copied by a process that serves both backends (`placement.beside`).
        if moves and there is not None and (volume.host or '').partition('@')[0] != \
                there.partition('@')[0]:
            yield _Found(volume.id, None, f'is on {volume.host} but is being migrated to {there} '
                         f'on another host')
        if moves and there == volume.host:
            yield _Found(volume.id, None, f'is being migrated to {there}, the current backend')


INVARIANTS = (
    observed.Row('moves_between_backends', 'P4', 'A volume migrates only to another backend of '
                 'the same host.', _Severity.SERVICE, False,
                 observed.RECONCILE, _moves_between_backends),
    observed.Row('source_stays', 'P4', 'The source of a volume exists until the volume is '
                 'created.', _Severity.DATA, False, observed.RECONCILE, _source_stays),
    observed.Row('made_beside_its_source', 'P2', 'A volume is created on the backend of its '
                 'source.', _Severity.SERVICE, False, observed.RECONCILE,
                 _made_beside_its_source),
    observed.Row('status_is_derived', 'P6', 'The status of a volume is derived from its own '
                 'status and its attachments.', _Severity.ACCOUNT, False, observed.DERIVE,
                 _status_is_derived),
    observed.Row('room_is_counted', 'P6', 'The allocated space of a pool is that of its volumes '
                 'and their claims.',
                 _Severity.ACCOUNT, False, observed.COUNT, _room_is_counted),
    observed.Row('claims_end', 'P6', 'Only a volume with an operation in progress has a claim.',
                 _Severity.ACCOUNT, False, observed.DERIVE, _claims_end),
)
