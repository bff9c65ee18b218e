"""Grants: one credential per (volume, initiator), as long as a live attachment has that pair; and
what the target shall grant a pair.

A grant is written in the transaction of the intent that needs it and removed in the one that ends
the last. The password is sealed; it is opened only for the target and for callers that may attach.
"""
import dataclasses
import hashlib
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import sqlalchemy as sa
from oslo_db import exception as db_exception

from blockattach.platform import errors
from blockattach.platform.db import statements
from blockattach.storage.db import models
from blockattach.storage.db import rows
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import leases
from blockattach.storage.db.attachments import pairs
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import connection as connections
from blockattach.storage.domain import records

_rows = models.attachments
_grants = models.grants
_volumes = models.volumes
_types = models.volume_types
_former = sa.alias(_rows, 'former')
_OF_ROW = 'of_row_'
_INITIATOR = statements.value('initiator')
_VOLUME_ID = statements.value('volume_id')
_DROP = statements.Statement(lambda dialect: _unneeded(), after=lambda source: _unneeded().where(
    sa.exists().select_from(source)))
_DROP_SOLE = statements.Statement(
    lambda dialect: _grant_of_pair(), after=lambda source: _grant_of_pair().where(
        sa.exists().select_from(source)))
_GRANTED = tuple(state.value for state in attachment_lifecycle.GRANTED)
_SLICE = 500


class Known(NamedTuple):
    """What was read of a pair.

    :ivar credential: None: it has no grant
    :ivar taken: names that other grants of the volume have, as far as it may have them
    """

    credential: records.SealedCredential | None
    taken: set[str]


def ensure(connection: sa.Connection, database: storage_db.Database, volume_id: str,
           initiator: str, known: Known | None = None) -> records.SealedCredential:
    """Make the grant of a pair unless it is there; the caller has written the volume.

    Only the sole grant of a volume has no alias: the target may still have another one without
    alias, while the row that it belonged to is live with a new initiator.

    :param known: what still holds; the database refuses a name that was taken meanwhile
    :raises RetryRequest: keys were replaced meanwhile
    """
    there, taken = known or look(connection, volume_id, initiator)
    if there is not None:
        return there
    made = new(database, volume_id, initiator, taken)
    statements.insert(connection, _grants, made)
    check_sealed_by(database, made['key_id'])
    return credential_of(made)


def new(database: storage_db.Database, volume_id: str, initiator: str,
        taken: set[str]) -> dict[str, Any]:
    """The columns of a new grant, whose key is to be checked by `check_sealed_by`.

    :param taken: see `Known`
    """
    credential = connections.new_credential()
    sealed = database.sealer.sealed(credential.password)
    return {
        'volume_id': volume_id, 'initiator': initiator,
        'alias': next(alias for alias in _aliases(initiator) if alias not in taken),
        'username': credential.username, 'sealed_password': sealed.text, 'key_id': sealed.key_id,
        'created_at': database.clock.utcnow()}


def adopted(database: storage_db.Database, volume_id: str,
            credentials: Mapping[str, connections.Credential]) -> list[dict[str, Any]]:
    """The columns of the grants that a volume was taken over with, as `new`.

    :param credentials: by initiator
    """
    made: list[dict[str, Any]] = []
    for initiator, credential in credentials.items():
        one = new(database, volume_id, initiator, {row['alias'] for row in made})
        sealed = database.sealer.sealed(credential.password)
        made.append({**one, 'username': credential.username, 'sealed_password': sealed.text,
                     'key_id': sealed.key_id, 'adopted': True})
    return made


def credential_of(made: Mapping[str, Any]) -> records.SealedCredential:
    """What a new grant holds."""
    return records.SealedCredential(made['username'], made['sealed_password'])


def check_sealed_by(database: storage_db.Database, key_id: str) -> None:
    """Check, after a row was written and before the commit, that its key is still the one that
    seals.

    `key_rotation.finish` waits for the row to be committed. So either it counts the row before
    another key is removed, or the row is written once more.

    :raises RetryRequest: keys were replaced meanwhile
    """
    if database.sealer.ring()[0].id != key_id:
        raise db_exception.RetryRequest(errors.ConfigurationError(
            reason='the sealing key was replaced during the transaction'))


def look(connection: sa.Connection, volume_id: str, initiator: str) -> Known:
    """What is known of a pair whose volume is locked."""
    any_grant, namesake = _grants.alias('any_grant'), _grants.alias('namesake')
    found = connection.execute(
        sa.select(_grants.c.username, _grants.c.sealed_password, namesake.c.alias.label('taken'),
                  sa.exists().where(any_grant.c.volume_id == _volumes.c.id).label('any_grant'))
        .select_from(_volumes)
        .outerjoin(_grants, sa.and_(_grants.c.volume_id == _volumes.c.id,
                                    _grants.c.initiator == initiator))
        .outerjoin(namesake, sa.and_(namesake.c.volume_id == _volumes.c.id,
                                     namesake.c.alias.in_(_aliases(initiator))))
        .where(_volumes.c.id == volume_id)).all()
    taken = {row.taken for row in found} | ({''} if found[0].any_grant else set())
    return Known(pairs.sealed(found[0]), taken)


def drop_unused(connection: sa.Connection, volume_id: str, initiators: Iterable[str]) -> None:
    """Remove the grants of these initiators that no live attachment of the volume needs."""
    for initiator in sorted(set(initiators)):
        step = dropping(volume_id, initiator)
        step.statement.change(connection, **step.values)


def _grant_of_pair() -> sa.Delete:
    return _grants.delete().where(
        _grants.c.volume_id == _VOLUME_ID, _grants.c.initiator == _INITIATOR)


def _unneeded() -> sa.Delete:
    # Two look-ups, each with an index of its own, so that it costs the same for a crowded volume.
    return _grant_of_pair().where(
        *(~sa.exists().where(_rows.c.volume_id == _VOLUME_ID, models.live(_rows),
                             # What it is written with may not be seen yet.
                             _rows.c.id != statements.value('but_for'),
                             name == _grants.c.initiator)
          for name in (_rows.c.initiator, _rows.c.previous_initiator)))


def dropping(volume_id: str, initiator: str, but_for: str = '') -> statements.Step:
    """Remove one, unless a live attachment of the volume needs it.

    :param but_for: one that does not need it any more
    """
    return statements.Step(_DROP, {'volume_id': volume_id, 'initiator': initiator,
                                 'but_for': but_for})


def dropping_sole(volume_id: str, initiator: str) -> statements.Step:
    """Remove the grant of a volume's only live attachment, which does not need it any more."""
    return statements.Step(_DROP_SOLE, {'volume_id': volume_id, 'initiator': initiator})


def opened(database: storage_db.Database,
           sealed: records.SealedCredential) -> connections.Credential:
    """A credential that was read with something else."""
    return connections.Credential(sealed.username, database.sealer.unseal(sealed.password))


def wanted(database: storage_db.Database,
           volume_ids: Iterable[str]) -> tuple[connections.Grant, ...]:
    """The desired grants of volumes, each with the widest mode of its attachments.

    In slices that every database takes as a list.
    """
    ids = sorted(set(volume_ids))
    found: dict[tuple[str, str], list[Any]] = {}
    with database.reader() as connection:
        for start in range(0, len(ids), _SLICE):
            for name in (_rows.c.initiator, _rows.c.previous_initiator):
                for row in connection.execute(
                        sa.select(_grants, _rows.c.mode, _rows.c.connector,
                                  _rows.c.previous_connector).join(_rows, sa.and_(
                            _rows.c.volume_id == _grants.c.volume_id, name == _grants.c.initiator))
                        .where(_rows.c.volume_id.in_(ids[start:start + _SLICE]),
                               models.live(_rows), _rows.c.state.in_(_GRANTED))):
                    found.setdefault((row.volume_id, row.initiator), []).append(row)
    return tuple(_grant(database, *pair, of_pair[0], (row.mode for row in of_pair),
                        (rows.from_json(text) for row in of_pair
                         for text in (row.connector, row.previous_connector)))
                 for pair, of_pair in sorted(found.items()))


@dataclasses.dataclass(frozen=True, slots=True)
class DesiredState:
    """What a manager must know of one (volume, initiator) to grant or to revoke it.

    :ivar volume: None: it is gone
    :ivar grant: with the widest mode of its rows; None: it shall be revoked
    :ivar rows: all that have the initiator, or had it before the connector that is worked on
    :ivar leased_by: the owner of a lease of the pair or of the volume; None: there is none
    """

    volume: records.Exported | None
    grant: connections.Grant | None
    rows: tuple[records.Attachment, ...]
    leased_by: str | None = None


def desired_state(database: storage_db.Database, volume_id: str, initiator: str,
                  also: str | None = None) -> DesiredState:
    """What the live rows of the pair want now: one statement, two while a row is given another
    connector.

    :param also: a row that shall be granted whatever its state says
    """
    found = _DESIRED.rows(database, volume_id=volume_id, initiator=initiator)
    if found and found[0].had_before:
        found = _ALSO_BEFORE.rows(database, volume_id=volume_id, initiator=initiator)
    if not found:
        return DesiredState(None, None, ())
    first = found[0]
    if first.of_row_id is None and initiator != connections.canonical_name(initiator):
        # Stored by an earlier release. `initiator_names` has migrated the grant since.
        return desired_state(database, volume_id, connections.canonical_name(initiator), also)
    live = {row.of_row_id: rows.attachment(row, pairs.facts(row), prefix=_OF_ROW)
            for row in found if row.of_row_id is not None and not row.of_row_deleted}
    wanting = [row.mode for row in live.values()
               if row.state in attachment_lifecycle.GRANTED or row.id == also]
    if first.deleted:
        # Orphaned grants of a deleted volume are to be revoked.
        return DesiredState(None, None, tuple(live.values()), first.leased_by)
    granted = None
    if wanting and first.sealed_password is not None:
        granted = _grant(database, volume_id, initiator, first, wanting, (
            connector for row in live.values()
            for connector in (row.connector, row.previous_connector)))
    return DesiredState(
        records.Exported(volume_id, first.size_gb, first.of_volume_pool, rows.limits(first)),
        granted, tuple(live.values()), first.leased_by)


def _query(which: sa.ColumnElement[bool], outer: bool) -> sa.Select:
    return volume_rows.with_limits(sa.select(
        _volumes.c.deleted, _volumes.c.size_gb, *pairs.FACTS, pairs.OTHERS,
        *(column.label(f'{_OF_ROW}{column.name}') for column in (*pairs.STORED, _rows.c.deleted)),
        _grants.c.username, _grants.c.sealed_password, _grants.c.alias, _grants.c.adopted,
        leases.holder(_INITIATOR).label('leased_by'),
    ).join(_types, _types.c.id == _volumes.c.volume_type_id)).outerjoin(
        _grants, sa.and_(_grants.c.volume_id == _volumes.c.id, _grants.c.initiator == _INITIATOR),
    ).join(_rows, sa.and_(_rows.c.volume_id == _volumes.c.id, which), isouter=outer).where(
        _volumes.c.id == _VOLUME_ID)


def _now() -> sa.Select:
    # The volume itself is there even if no row is.
    return _query(sa.and_(models.live(_rows), _rows.c.initiator == _INITIATOR), True)


_DESIRED = statements.Statement(lambda dialect: _now().add_columns(
    # A look into an index: to read these rows as well costs as much again, mostly for nothing.
    sa.exists().where(_former.c.volume_id == _VOLUME_ID,
                      _former.c.previous_initiator == _INITIATOR).label('had_before')))
_ALSO_BEFORE = statements.Statement(lambda dialect: sa.union_all(
    # Few have it, live or gone: asked for live ones SQLite would go through all of them.
    _now(), _query(_rows.c.previous_initiator == _INITIATOR, False)))


def _grant(database: storage_db.Database, volume_id: str, initiator: str, row: sa.Row[Any],
           modes: Iterable[str | None],
           connectors: Iterable[Mapping[str, Any] | None]) -> connections.Grant:
    """What the target shall grant an initiator.

    :param row: has the columns of its grant
    :param modes: of its attachments
    :param connectors: connectors of its attachments, present and former ones
    """
    is_adopted = bool(row.adopted)
    return connections.Grant(
        volume_id=volume_id, initiator=initiator, alias=row.alias, adopted=is_adopted,
        spellings=connections.spellings(initiator, connectors),
        # Who knows the credential may log in by any of the names that share it.
        mode=connections.AccessMode.RW if is_adopted else connections.widest(
            connections.AccessMode(mode or connections.AccessMode.RW) for mode in modes),
        credential=opened(database, records.SealedCredential(row.username, row.sealed_password)))


def _aliases(initiator: str) -> tuple[str, ...]:
    """The names that this initiator's grant may have, best first; the last is never taken."""
    digest = hashlib.sha256(initiator.encode()).hexdigest()
    return '', f'-{digest[:8]}', f'-{digest[:16]}', f'-{digest[:30]}'
