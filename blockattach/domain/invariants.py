"""What must be true of a deployment at any moment: the invariants by name, as one table.

Facts go in, violations come out: nothing is read here. `blockattach.volume.checker` reads the rows
and the targets and asks this table; tests and the simulation ask the same one.
"""
import dataclasses
import enum
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple

from blockattach.domain import attachment_lifecycle
from blockattach.domain import connection
from blockattach.domain import volume_lifecycle

_State = attachment_lifecycle.State
_Own = volume_lifecycle.OwnStatus
_RO = connection.AccessMode.RO
_RW = connection.AccessMode.RW
_AT_WORK = frozenset({_Own.CREATING, _Own.DELETING})
# Of what may be left of a volume on a pool that it is not on: no row is in the middle of it.
_CLEANUP = 'cleanup'
_MOVED = ('attachment', 'volume')
_GRANTED = frozenset({_State.CONNECTED, _State.ATTACHED})

# Written once more here: a check must not rely on the code that it checks.
_STATUSES = (({_State.ATTACHED}, 'in-use', 'attached'),
             ({_State.CONNECTING, _State.CONNECTED}, 'attaching', 'attaching'),
             ({_State.DISCONNECTING}, 'detaching', 'detaching'),
             ({_State.RESERVED}, 'reserved', 'reserved'),
             ({_State.ERROR_ATTACHING, _State.ERROR_DETACHING}, 'reserved', 'reserved'))
"""What rows in these states give their volume: the first that is there, of rank 1 to 5."""


class Severity(enum.StrEnum):
    """What a violation means for the owner of the data."""

    DATA = 'data'
    """A host may read or write without permission."""
    SERVICE = 'service'
    """A user cannot reach the own data, or work never ends."""
    ACCOUNT = 'account'
    """A count or a status is wrong, without any harm yet."""


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeFact:
    """A volume's row. ``deleted`` ones are included only where something still refers to them."""

    id: str
    own_status: str
    lowest_rank: int | None
    status: str
    attach_status: str
    multiattach: bool
    single_writer: bool
    detach_announced: int
    size_gb: int
    pool: str | None
    deleted: bool
    made: bool = False
    """Whether a backend has ever had it complete.
    """

    @property
    def at_work(self) -> bool:
        """Whether it is in a state that must have work."""
        return self.own_status in _AT_WORK and not (
            self.own_status == _Own.CREATING and self.made)

    @property
    def host(self) -> str | None:
        """``host@backend``; None until a pool was chosen."""
        return None if self.pool is None else self.pool.partition('#')[0]


@dataclasses.dataclass(frozen=True, slots=True)
class AttachmentFact:
    """An attachment's row. ``overdue``: seconds since its deadline in database time; None: it has
    none.
    """

    id: str
    volume_id: str
    project_id: str
    instance_uuid: str | None
    state: str
    legacy_reservation: bool
    rank: int | None
    slot: int | None
    mode: str | None
    initiator: str | None
    previous_initiator: str | None
    connected: bool
    """Whether a connection is stored."""
    deleted: bool
    overdue: float | None = None

    @property
    def initiators(self) -> frozenset[str]:
        """The initiators whose grants the row needs."""
        return frozenset(filter(None, (self.initiator, self.previous_initiator)))


@dataclasses.dataclass(frozen=True, slots=True)
class GrantFact:
    """A credential of one (volume, initiator). ``account``: its name at the target."""

    volume_id: str
    initiator: str
    alias: str
    account: str


@dataclasses.dataclass(frozen=True, slots=True)
class PoolFact:
    """What has been given away of a pool; ``limit_gb`` None: any amount may be."""

    name: str
    allocated_gb: int
    limit_gb: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class TargetFact:
    """One target's own list. ``host`` is the ``host@backend`` that it belongs to."""

    host: str
    exported: frozenset[str]
    grants: tuple[connection.ActualGrant, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class WorkFact:
    """An act that is under way; of an attachment, its own row says so, and ``verb`` is its state.

    ``overdue``: seconds since its deadline in database time.
    """

    noun: str
    resource_id: str
    verb: str
    overdue: float


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """The input of all invariants, as it was at one moment.

    ``busy`` are the pairs of volume and initiator that somebody works on at this moment: there the
    target is about to change.
    ``grace`` is by how many seconds something may be overdue before that is a violation.
    """

    volumes: tuple[VolumeFact, ...]
    attachments: tuple[AttachmentFact, ...]
    grants: tuple[GrantFact, ...] = ()
    pools: tuple[PoolFact, ...] = ()
    targets: tuple[TargetFact, ...] = ()
    busy: frozenset[tuple[str, str]] = frozenset()
    work: tuple[WorkFact, ...] = ()
    grace: float = 10.0

    def live(self) -> dict[str, list[AttachmentFact]]:
        """Live attachments by volume."""
        found: dict[str, list[AttachmentFact]] = {}
        for row in self.attachments:
            if not row.deleted:
                found.setdefault(row.volume_id, []).append(row)
        return found

    def wanted(self) -> dict[tuple[str, str], connection.AccessMode]:
        """The desired grants: the widest mode of the rows by (volume, initiator)."""
        modes: dict[tuple[str, str], list[connection.AccessMode]] = {}
        for row in self.attachments:
            if not row.deleted and row.state in attachment_lifecycle.GRANTED:
                for name in row.initiators:
                    modes.setdefault((row.volume_id, name), []).append(
                        connection.AccessMode(row.mode or _RW))
        return {pair: _RW if _RW in asked else _RO for pair, asked in modes.items()}


class Found(NamedTuple):
    """What breaks an invariant: of which thing, and how."""

    volume_id: str | None
    attachment_id: str | None
    said: str


class Invariant(NamedTuple):
    """One row of the table.

    ``settled``: it may be untrue for a moment while somebody works, so it is asked of what nobody
    works on. ``repair`` is a command, with ``{volume_id}`` and ``{attachment_id}`` to fill in.
    """

    name: str
    promise: str
    meaning: str
    severity: Severity
    settled: bool
    repair: str
    judge: Callable[[Facts], Iterable[Found]]


@dataclasses.dataclass(frozen=True, slots=True)
class Violation:
    """One that was found."""

    invariant: str
    promise: str
    severity: Severity
    volume_id: str | None
    attachment_id: str | None
    said: str
    repair: str


def _status_is_derived(facts: Facts) -> Iterator[Found]:
    live = facts.live()
    for volume in facts.volumes:
        if volume.deleted:
            continue
        rank, status, attach_status = _statuses(volume, live.get(volume.id, ()))
        if (rank, status, attach_status) != (
                volume.lowest_rank, volume.status, volume.attach_status):
            yield Found(volume.id, None,
                        f'says {volume.status}, {volume.attach_status}, rank '
                        f'{volume.lowest_rank}; its rows say {status}, {attach_status}, '
                        f'rank {rank}')


def _statuses(volume: VolumeFact, rows: Sequence[AttachmentFact]) -> tuple[int | None, str, str]:
    """The lowest rank, the status and the attach status that a volume should have."""
    # What is held for nobody yet shows as what is being attached.
    states = [_State.CONNECTING if row.legacy_reservation and row.state == _State.RESERVED
              else _State(row.state) for row in rows]
    rank, status, attach_status = None, 'available', 'detached'
    for number, (which, word, attach_word) in enumerate(_STATUSES, 1):
        if which & set(states):
            rank, status, attach_status = number, word, attach_word
            break
    if _State.ATTACHED in states and volume.detach_announced:
        status = 'detaching'
    if volume.own_status != _Own.AVAILABLE:
        status = volume.own_status
    return rank, status, attach_status


def _row_is_whole(facts: Facts) -> Iterator[Found]:
    for row in facts.attachments:
        state = _State(row.state)
        wrong = []
        if (state is _State.GONE) != row.deleted:
            wrong.append(f'is {state} and {"" if row.deleted else "not "}deleted')
        if row.rank != attachment_lifecycle.rank_of(state, row.legacy_reservation):
            wrong.append(f'is {state} and has rank {row.rank}')
        if row.deleted and row.slot is not None:
            wrong.append('is deleted and holds a slot')
        for said in wrong:
            yield Found(row.volume_id, row.id, said)


def _initiators_are_known(facts: Facts) -> Iterator[Found]:
    for row in facts.attachments:
        if row.state in _GRANTED and row.initiator is not None and not row.connected:
            yield Found(row.volume_id, row.id, f'is {row.state} and has no connection')
        if row.state in (_State.CONNECTING, _State.CONNECTED) and row.initiator is None:
            yield Found(row.volume_id, row.id, f'is {row.state} and names no initiator')


def _work_has_an_end(facts: Facts) -> Iterator[Found]:
    work = {(one.noun, one.resource_id) for one in facts.work
            if one.noun in _MOVED and one.verb != _CLEANUP}
    at_work = {('attachment', row.id) for row in facts.attachments
               if row.state in attachment_lifecycle.TRANSITIONAL}
    at_work |= {('volume', volume.id) for volume in facts.volumes
                if not volume.deleted and volume.at_work}
    for noun, resource_id in sorted(work ^ at_work):
        said = 'has work, and is not in the middle of anything' \
            if (noun, resource_id) in work else 'is in the middle of work that has no row'
        yield _of_work(facts, noun, resource_id, said)


def _nothing_is_overdue(facts: Facts) -> Iterator[Found]:
    for one in facts.work:
        if one.overdue > facts.grace:
            yield _of_work(facts, one.noun, one.resource_id,
                           f'is at {one.verb}, and its deadline passed {one.overdue:.0f} s ago')


def _of_work(facts: Facts, noun: str, resource_id: str, said: str) -> Found:
    if noun != 'attachment':
        return Found(resource_id.partition('@')[0], None, said)
    return Found(next((row.volume_id for row in facts.attachments if row.id == resource_id), None),
                 resource_id, said)


def _slots_are_kept(facts: Facts) -> Iterator[Found]:
    live = facts.live()
    for volume in facts.volumes:
        mine = live.get(volume.id, ())
        slots = [row.slot for row in mine]
        if volume.multiattach:
            if any(slot is not None for slot in slots):
                yield Found(volume.id, None, f'is shared, and its rows hold slots {slots}')
            continue
        if len(set(slots)) != len(slots) or not set(slots) <= {0, 1}:
            yield Found(volume.id, None, f'is not shared, and its rows hold slots {slots}')
        if len(mine) > 1 and (len({row.instance_uuid for row in mine}) > 1
                              or mine[0].instance_uuid is None):
            yield Found(volume.id, None, 'is not shared, and is held for several servers: '
                        + ', '.join(str(row.instance_uuid) for row in mine))


def _one_writes(facts: Facts) -> Iterator[Found]:
    live = facts.live()
    for volume in facts.volumes:
        if not volume.single_writer:
            continue
        writers = [row for row in live.get(volume.id, ()) if row.mode == _RW]
        if len(writers) > 1 and (len({row.instance_uuid for row in writers}) > 1
                                 or writers[0].instance_uuid is None):
            yield Found(volume.id, None, 'allows one writer and has several: '
                        + ', '.join(row.id for row in writers))


def _attachments_have_volumes(facts: Facts) -> Iterator[Found]:
    known = {volume.id for volume in facts.volumes if not volume.deleted}
    for row in facts.attachments:
        if not row.deleted and row.volume_id not in known:
            yield Found(row.volume_id, row.id, f'is {row.state}, and its volume is gone')


def _credentials_match(facts: Facts) -> Iterator[Found]:
    needed = {(row.volume_id, name) for row in facts.attachments if not row.deleted
              for name in row.initiators}
    kept = {(grant.volume_id, grant.initiator) for grant in facts.grants}
    for volume_id, initiator in sorted(needed - kept):
        yield Found(volume_id, None, f'{initiator} has no credential')
    for volume_id, initiator in sorted(kept - needed):
        yield Found(volume_id, None, f'{initiator} has a credential and no attachment')
    aliases = [(grant.volume_id, grant.alias) for grant in facts.grants]
    for volume_id, alias in sorted({one for one in aliases if aliases.count(one) > 1}):
        yield Found(volume_id, None, f'several initiators are called {alias!r}')


def _room_is_counted(facts: Facts) -> Iterator[Found]:
    placed: dict[str, int] = {}
    for volume in facts.volumes:
        if not volume.deleted and volume.pool is not None:
            placed[volume.pool] = placed.get(volume.pool, 0) + volume.size_gb
    for pool in facts.pools:
        size = placed.get(pool.name, 0)
        if size != pool.allocated_gb:
            yield Found(None, None, f'pool {pool.name} has given away {pool.allocated_gb} GiB; '
                        f'its volumes have {size}')


def _on_target(facts: Facts) -> Iterator[tuple[VolumeFact, TargetFact]]:
    """The volumes whose target was read."""
    targets = {target.host: target for target in facts.targets}
    for volume in facts.volumes:
        if volume.host in targets and not volume.deleted:
            yield volume, targets[volume.host]


def _actual(facts: Facts) -> dict[tuple[str, str], connection.ActualGrant]:
    return {(grant.volume_id, grant.initiator): grant
            for target in facts.targets for grant in target.grants}


def _every_user_is_granted(facts: Facts) -> Iterator[Found]:
    asked = {volume.id for volume, _ in _on_target(facts)}
    actual = _actual(facts)
    for row in facts.attachments:
        if row.deleted or row.state not in _GRANTED or row.initiator is None \
                or row.volume_id not in asked:
            continue
        if (row.volume_id, row.initiator) not in actual:
            yield Found(row.volume_id, row.id,
                        f'is {row.state}, and {row.initiator} has no grant at the target')


def _nobody_else_is_granted(facts: Facts) -> Iterator[Found]:
    wanted = facts.wanted()
    for pair, grant in sorted(_actual(facts).items()):
        if pair not in wanted and pair not in facts.busy:
            yield Found(grant.volume_id, None,
                        f'{grant.initiator} has a grant at the target ({grant.mode}), and no '
                        f'attachment wants it')


def _modes_are_enforced(facts: Facts) -> Iterator[Found]:
    actual = _actual(facts)
    accounts = {(grant.volume_id, grant.initiator): grant.account for grant in facts.grants}
    for pair, mode in sorted(facts.wanted().items()):
        grant = actual.get(pair)
        if grant is None or pair in facts.busy:
            continue
        if grant.mode != mode:
            yield Found(grant.volume_id, None, f'the grant of {grant.initiator} is {grant.mode}; '
                        f'its attachments want {mode}')
        elif not grant.intact or grant.account not in (None, accounts.get(pair)):
            yield Found(grant.volume_id, None, f'the grant of {grant.initiator} is incomplete or '
                        f'has another credential')


def _one_host_writes(facts: Facts) -> Iterator[Found]:
    """At the target itself: several writers of a plain volume are one server's, which moves."""
    live = facts.live()
    writers: dict[str, set[str]] = {}
    for (volume_id, initiator), grant in _actual(facts).items():
        if grant.mode is _RW and (volume_id, initiator) not in facts.busy:
            writers.setdefault(volume_id, set()).add(initiator)
    for volume in facts.volumes:
        found = writers.get(volume.id, set())
        declared = {name for row in live.get(volume.id, ()) for name in row.initiators}
        if not volume.multiattach and len(found) > 1 and not found <= declared:
            yield Found(volume.id, None, 'is not shared, and several hosts can write: '
                        + ', '.join(sorted(found)))


def _nothing_deleted_is_exported(facts: Facts) -> Iterator[Found]:
    known = {volume.id for volume in facts.volumes if not volume.deleted}
    for target in facts.targets:
        for volume_id in sorted(target.exported - known):
            yield Found(volume_id, None, f'the target of {target.host} offers a volume that is '
                        f'gone')


RECONCILE = 'blockattach-manage reconcile'
DERIVE = 'blockattach-manage attachments derive {volume_id}'
COUNT = 'blockattach-manage attachments derive --counts'
END = 'openstack volume attachment delete {attachment_id}'
_ASK = 'blockattach-manage attachments check --volume-id {volume_id} --format json'

INVARIANTS = (
    Invariant('slots_are_kept', 'P3', 'A plain volume is held for one server, at most twice.',
              Severity.DATA, False, _ASK, _slots_are_kept),
    Invariant('one_writes', 'P3', 'A volume of a type with one writer has one.',
              Severity.DATA, False, _ASK, _one_writes),
    Invariant('one_host_writes', 'P3', 'A plain volume has one host with write access at the '
              'target, or two that one server moves between.',
              Severity.DATA, True, RECONCILE, _one_host_writes),
    Invariant('nobody_else_is_granted', 'P7', 'Each grant at the target has an attachment.',
              Severity.DATA, True, RECONCILE, _nobody_else_is_granted),
    Invariant('modes_are_enforced', 'P5', 'Each grant at the target has the mode of its '
              'attachments, and its own credential.',
              Severity.DATA, True, RECONCILE, _modes_are_enforced),
    Invariant('every_user_is_granted', 'P4', 'Each connected or attached row has its grant.',
              Severity.SERVICE, False, RECONCILE, _every_user_is_granted),
    Invariant('credentials_match', 'P8', 'Each (volume, initiator) of a live attachment has one '
              'credential, and no other pair has one.',
              Severity.SERVICE, False, DERIVE, _credentials_match),
    Invariant('work_has_an_end', 'P9', 'What the service works on has a deadline, and nothing '
              'else has.', Severity.SERVICE, False, DERIVE, _work_has_an_end),
    Invariant('nothing_is_overdue', 'P9', 'What the service works on ends soon after its deadline '
              'at the latest.', Severity.SERVICE, True, RECONCILE, _nothing_is_overdue),
    Invariant('attachments_have_volumes', 'P2', 'A live attachment has a live volume.',
              Severity.SERVICE, False, END, _attachments_have_volumes),
    Invariant('initiators_are_known', 'P6', 'What is connected names its initiator, and '
              'keeps how it is reached.',
              Severity.SERVICE, False, END, _initiators_are_known),
    Invariant('row_is_whole', 'P6', 'What a row says besides its state follows from its state.',
              Severity.ACCOUNT, False, DERIVE, _row_is_whole),
    Invariant('status_is_derived', 'P6', "A volume's status follows from its own status and its "
              'attachments.', Severity.ACCOUNT, False, DERIVE, _status_is_derived),
    Invariant('nothing_deleted_is_exported', 'P7', 'A target exports no deleted volume.',
              Severity.ACCOUNT, True, RECONCILE, _nothing_deleted_is_exported),
    Invariant('room_is_counted', 'P6', 'The allocated room of a pool is that of its volumes.',
              Severity.ACCOUNT, False, COUNT, _room_is_counted),
)
"""All of them, the worst first."""


def check(facts: Facts, settled: bool = True) -> list[Violation]:
    """Every violation, the worst first.

    :param settled: False: leave out what may be untrue for a moment
    """
    return [
        Violation(row.name, row.promise, row.severity, found.volume_id, found.attachment_id,
                  found.said, row.repair.format(volume_id=found.volume_id,
                                              attachment_id=found.attachment_id))
        for row in INVARIANTS if settled or not row.settled
        for found in row.judge(facts)]
