"""Invariants of attachments, their hosts and their credentials, checked on the rows."""
from collections.abc import Iterator

from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import connection
from blockattach.storage.domain.invariants import observed

_Found = observed.Found
_Severity = observed.Severity
_State = attachment_lifecycle.State
_RW = connection.AccessMode.RW
_GRANTED = frozenset({_State.CONNECTED, _State.ATTACHED})


def _row_is_whole(facts: observed.Facts) -> Iterator[_Found]:
    for row in facts.attachments:
        state = _State(row.state)
        wrong = []
        if (state is _State.GONE) != row.deleted:
            wrong.append(f'is {state} but marked as {"" if row.deleted else "not "}deleted')
        if row.rank != attachment_lifecycle.rank_of(state, row.legacy_reservation):
            wrong.append(f'is {state} but has rank {row.rank}')
        if row.deleted and row.slot is not None:
            wrong.append('is deleted but holds a slot')
        for said in wrong:
            yield _Found(row.volume_id, row.id, said)


def _initiators_are_known(facts: observed.Facts) -> Iterator[_Found]:
    for row in facts.attachments:
        if row.state in _GRANTED and row.initiator is not None and not row.connected:
            yield _Found(row.volume_id, row.id, f'is {row.state} but has no connection')
        if row.state in (_State.CONNECTING, _State.CONNECTED) and row.initiator is None:
            yield _Found(row.volume_id, row.id, f'is {row.state} but has no initiator')


def _slots_are_kept(facts: observed.Facts) -> Iterator[_Found]:
    live = facts.live()
    for volume in facts.volumes:
        mine = live.get(volume.id, ())
        slots = [row.slot for row in mine]
        # The unique constraint on slots limits the attachments. It does not apply to NULL.
        if volume.multiattach:
            if any(slot is not None for slot in slots):
                yield _Found(volume.id, None, f'is multiattach but attachments hold slots {slots}')
            continue
        if len(set(slots)) != len(slots) or not set(slots) <= {0, 1}:
            yield _Found(volume.id, None, f'is not multiattach but attachments hold slots {slots}')
        if len(mine) > 1 and (len({row.instance_uuid for row in mine}) > 1
                              or mine[0].instance_uuid is None):
            yield _Found(volume.id, None, 'is not multiattach but is attached to several servers: '
                         + ', '.join(str(row.instance_uuid) for row in mine))


def _one_writes(facts: observed.Facts) -> Iterator[_Found]:
    live = facts.live()
    for volume in facts.volumes:
        if not volume.single_writer:
            continue
        # Several attachments of one server are one writer, as during a migration of the server.
        writers = [row for row in live.get(volume.id, ()) if row.mode == _RW]
        if len(writers) > 1 and (len({row.instance_uuid for row in writers}) > 1
                                 or writers[0].instance_uuid is None):
            yield _Found(volume.id, None, 'allows one writer but has several: '
                         + ', '.join(row.id for row in writers))


def _attachments_have_volumes(facts: observed.Facts) -> Iterator[_Found]:
    known = {volume.id for volume in facts.volumes if not volume.deleted}
    for row in facts.attachments:
        if not row.deleted and row.volume_id not in known:
            yield _Found(row.volume_id, row.id, f'is {row.state} but the volume is deleted')


def _attachments_share_the_project(facts: observed.Facts) -> Iterator[_Found]:
    owners = {volume.id: volume.project_id for volume in facts.volumes if not volume.deleted}
    for row in facts.attachments:
        owner = owners.get(row.volume_id)
        if not row.deleted and owner not in (None, row.project_id):
            yield _Found(row.volume_id, row.id,
                         f'belongs to project {row.project_id} but the volume to {owner}')


def _credentials_match(facts: observed.Facts) -> Iterator[_Found]:
    needed = {(row.volume_id, name) for row in facts.attachments if not row.deleted
              for name in row.initiators}
    kept = {(grant.volume_id, grant.initiator) for grant in facts.grants}
    for volume_id, initiator in sorted(needed - kept):
        yield _Found(volume_id, None, f'{initiator} has no credential')
    for volume_id, initiator in sorted(kept - needed):
        yield _Found(volume_id, None, f'{initiator} has a credential but no attachment')
    aliases = [(grant.volume_id, grant.alias) for grant in facts.grants]
    for volume_id, alias in sorted({one for one in aliases if aliases.count(one) > 1}):
        yield _Found(volume_id, None, f'several initiators have the alias {alias!r}')


INVARIANTS = (
    observed.Row('slots_are_kept', 'P3', 'A volume without multiattach has attachments of one '
                 'server, at most two.',
                 _Severity.DATA, False, observed.ASK, _slots_are_kept),
    observed.Row('one_writes', 'P3', 'A volume of a single-writer type has at most one writer.',
                 _Severity.DATA, False, observed.ASK, _one_writes),
    observed.Row('credentials_match', 'P8', 'Each (volume, initiator) of a live attachment has '
                 'one credential, and no other pair has one.',
                 _Severity.SERVICE, False, observed.DERIVE, _credentials_match),
    observed.Row('attachments_have_volumes', 'P2', 'A live attachment has a live volume.',
                 _Severity.SERVICE, False, observed.END, _attachments_have_volumes),
    observed.Row('attachments_share_the_project', 'P8', 'A live attachment belongs to the project '
                 'of its volume.',
                 _Severity.DATA, False, observed.END, _attachments_share_the_project),
    observed.Row('initiators_are_known', 'P6', 'A connected attachment has an initiator and '
                 'stored connection information.',
                 _Severity.SERVICE, False, observed.END, _initiators_are_known),
    observed.Row('row_is_whole', 'P6', 'The rank, the slot and the deletion mark of an '
                 'attachment match the state of the attachment.',
                 _Severity.ACCOUNT, False, observed.DERIVE, _row_is_whole),
)
