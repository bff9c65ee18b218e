"""Grants: the credential of each (volume, initiator) pair, and the desired state of the target.

A grant exists as long as a live attachment of the volume needs the grant. It is inserted in the
transaction that stores the connector of the first such attachment, and deleted in the transaction
after which no attachment needs the grant. The password is stored encrypted. It is decrypted only
for the target and for callers that may attach the volume.
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
# The databases limit the number of bound values in a statement.
_SLICE = 500


class Known(NamedTuple):
    """Grant of a (volume, initiator) pair as read from the database.

    :ivar credential: credential of the grant; None if the pair has no grant
    :ivar taken: aliases that a new grant of the pair cannot get, because grants of the volume have
        them
    """

    credential: records.SealedCredential | None
    taken: set[str]


def ensure(connection: sa.Connection, database: storage_db.Database, volume_id: str,
           initiator: str, grant: Known | None = None) -> records.SealedCredential:
    """Return the credential of a (volume, initiator) pair, after inserting its grant if missing.

    The caller must have updated the volume in the same transaction. A new grant gets the empty
    alias only if the volume has no other grant. The reason is an attachment that has replaced its
    connector. The target may still use the empty alias for the former connector, although the
    present grant of the attachment has another alias.

    :param grant: the grant as read before; None to read the grant now. The database refuses the
        insertion if another grant has got the same alias since
    :raises RetryRequest: the sealing key was replaced during the transaction
    """
    there, taken = grant or look(connection, volume_id, initiator)
    if there is not None:
        return there
    row = new(database, volume_id, initiator, taken)
    statements.insert(connection, _grants, row)
    check_sealed_by(database, row['key_id'])
    return credential_of(row)


def new(database: storage_db.Database, volume_id: str, initiator: str,
        taken: set[str]) -> dict[str, Any]:
    """Return the columns of a new grant with a new credential.

    After the insertion, the caller must check the sealing key by `check_sealed_by`.

    :param taken: aliases that the grant cannot get, see `Known`
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
    """Return the columns of new grants with the credentials that an imported volume already has.

    After the insertion, the caller must check the sealing keys by `check_sealed_by`.

    :param credentials: credentials of the volume in the other service, by initiator
    """
    adopted_rows: list[dict[str, Any]] = []
    for initiator, credential in credentials.items():
        row = new(database, volume_id, initiator, {other['alias'] for other in adopted_rows})
        sealed = database.sealer.sealed(credential.password)
        adopted_rows.append({
            **row, 'username': credential.username, 'sealed_password': sealed.text,
            'key_id': sealed.key_id, 'adopted': True})
    return adopted_rows


def credential_of(row: Mapping[str, Any]) -> records.SealedCredential:
    """Return the credential in the columns of a new grant."""
    return records.SealedCredential(row['username'], row['sealed_password'])


def check_sealed_by(database: storage_db.Database, key_id: str) -> None:
    """Check that the key by which a grant was sealed is still the sealing key.

    Called after the grant is written and before the commit. `key_rotation.finish` waits for this
    commit before it counts the grants of a key and removes the key. If the key was replaced
    earlier, this check fails, and the repeated transaction uses the new key.

    :raises RetryRequest: the sealing key was replaced during the transaction
    """
    if database.sealer.ring()[0].id != key_id:
        raise db_exception.RetryRequest(errors.ConfigurationError(
            reason='the sealing key was replaced during the transaction'))


def look(connection: sa.Connection, volume_id: str, initiator: str) -> Known:
    """Return the grant of an initiator on a locked volume, and the aliases used on the volume."""
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
    """Delete the grants of the given initiators that no live attachment of the volume needs."""
    for initiator in sorted(set(initiators)):
        step = dropping(volume_id, initiator)
        step.statement.change(connection, **step.values)


def _grant_of_pair() -> sa.Delete:
    return _grants.delete().where(
        _grants.c.volume_id == _VOLUME_ID, _grants.c.initiator == _INITIATOR)


def _unneeded() -> sa.Delete:
    # Each of the two lookups uses an index of its own, so that the cost does not depend on the
    # number of attachments of the volume. On PostgreSQL, this statement does not see the update of
    # the attachment in the same round trip. Therefore the attachment is left out by its id.
    return _grant_of_pair().where(
        *(~sa.exists().where(_rows.c.volume_id == _VOLUME_ID, models.live(_rows),
                             _rows.c.id != statements.value('but_for'),
                             name == _grants.c.initiator)
          for name in (_rows.c.initiator, _rows.c.previous_initiator)))


def dropping(volume_id: str, initiator: str, but_for: str = '') -> statements.Step:
    """Return the step that deletes a grant if no live attachment of the volume needs the grant.

    :param but_for: id of an attachment that does not need the grant any more
    """
    return statements.Step(_DROP, {'volume_id': volume_id, 'initiator': initiator,
                                 'but_for': but_for})


def dropping_sole(volume_id: str, initiator: str) -> statements.Step:
    """Return the step that deletes a grant without looking for attachments of the volume.

    Used if the volume has no live attachment besides the one that does not need the grant any
    more.
    """
    return statements.Step(_DROP_SOLE, {'volume_id': volume_id, 'initiator': initiator})


def opened(database: storage_db.Database,
           sealed: records.SealedCredential) -> connections.Credential:
    """Return a stored credential with its password decrypted."""
    return connections.Credential(sealed.username, database.sealer.unseal(sealed.password))


def wanted(database: storage_db.Database,
           volume_ids: Iterable[str]) -> tuple[connections.Grant, ...]:
    """Return the grants that the live attachments of volumes require.

    Each grant has the widest mode of the attachments that need the grant. An adopted grant always
    has the mode rw.
    """
    ids = sorted(set(volume_ids))
    found: dict[tuple[str, str], list[Any]] = {}
    with database.reader() as connection:
        for start in range(0, len(ids), _SLICE):
            # These are two queries, so that each can use the index of its column.
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
    """Desired state of a (volume, initiator) pair at the target.

    :ivar volume: volume to export; None if the volume is deleted or does not exist
    :ivar grant: grant that the target must have, with the widest mode of the attachments that need
        the grant; None if the access of the initiator must be revoked
    :ivar rows: live attachments of the volume with this initiator. An attachment to which a new
        connector is being connected also counts if its previous connector has this initiator
    :ivar leased_by: owner of a lease on the pair or on the volume; None if there is no lease
    """

    volume: records.Exported | None
    grant: connections.Grant | None
    rows: tuple[records.Attachment, ...]
    leased_by: str | None = None


def desired_state(database: storage_db.Database, volume_id: str, initiator: str,
                  also: str | None = None) -> DesiredState:
    """Return the desired state of a (volume, initiator) pair at the target.

    The live attachments of the pair determine the desired state. In most cases, the function
    executes one statement. A second statement is needed if any attachment has the initiator in
    its previous connector.

    :param also: id of an attachment that needs the grant in any state; None if the states of all
        attachments decide
    """
    found = _DESIRED.rows(database, volume_id=volume_id, initiator=initiator)
    if found and found[0].had_before:
        found = _ALSO_BEFORE.rows(database, volume_id=volume_id, initiator=initiator)
    if not found:
        return DesiredState(None, None, ())
    first = found[0]
    if first.of_row_id is None and initiator != connections.canonical_name(initiator):
        # The name was stored by an earlier release, and `initiator_names` has converted it since.
        return desired_state(database, volume_id, connections.canonical_name(initiator), also)
    live = {row.of_row_id: rows.attachment(row, pairs.facts(row), prefix=_OF_ROW)
            for row in found if row.of_row_id is not None and not row.of_row_deleted}
    wanting = [row.mode for row in live.values()
               if row.state in attachment_lifecycle.GRANTED or row.id == also]
    if first.deleted:
        # The target must not keep any grant of a deleted volume.
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
    # The outer join returns the volume even if the pair has no live attachment.
    return _query(sa.and_(models.live(_rows), _rows.c.initiator == _INITIATOR), True)


_DESIRED = statements.Statement(lambda dialect: _now().add_columns(
    # This index lookup shows whether the second query is needed. The second query would double
    # the cost.
    sa.exists().where(_former.c.volume_id == _VOLUME_ID,
                      _former.c.previous_initiator == _INITIATOR).label('had_before')))
_ALSO_BEFORE = statements.Statement(lambda dialect: sa.union_all(
    # Deleted attachments are filtered out later. Few rows have a previous initiator. With a
    # condition for live rows, SQLite would scan all live attachments instead.
    _now(), _query(_rows.c.previous_initiator == _INITIATOR, False)))


def _grant(database: storage_db.Database, volume_id: str, initiator: str, row: sa.Row[Any],
           modes: Iterable[str | None],
           connectors: Iterable[Mapping[str, Any] | None]) -> connections.Grant:
    is_adopted = bool(row.adopted)
    return connections.Grant(
        volume_id=volume_id, initiator=initiator, alias=row.alias, adopted=is_adopted,
        spellings=connections.spellings(initiator, connectors),
        # The adopted grants of a volume share one credential. A host with this credential can log
        # in by any of their initiator names. So a mode cannot be enforced for a single initiator.
        mode=connections.AccessMode.RW if is_adopted else connections.widest(
            connections.AccessMode(mode or connections.AccessMode.RW) for mode in modes),
        credential=opened(database, records.SealedCredential(row.username, row.sealed_password)))


def _aliases(initiator: str) -> tuple[str, ...]:
    """Return the aliases that the grant of an initiator may have, in order of preference."""
    # The last alias contains so much of the digest that no other grant has the same alias. All
    # aliases fit into the column.
    digest = hashlib.sha256(initiator.encode()).hexdigest()
    return '', f'-{digest[:8]}', f'-{digest[:16]}', f'-{digest[:30]}'
