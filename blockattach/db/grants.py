"""Grants: one credential per (volume, initiator), as long as a live attachment has that pair.

A grant is written in the transaction of the intent that needs it and removed in the one that ends
the last. The password is sealed; it is opened only for the target and for callers that may attach.
"""
import hashlib
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from blockattach import secrets
from blockattach.db import engine
from blockattach.db import models
from blockattach.db import preconditions
from blockattach.db import prepared
from blockattach.db import rows
from blockattach.db import sealed_grants
from blockattach.domain import attachment_lifecycle
from blockattach.domain import connection as connections
from blockattach.domain import records

_rows = models.attachments
_grants = models.grants
_volumes = models.volumes
# Two look-ups, each with an index of its own, so that it costs the same for a crowded volume.
_DROP = prepared.Statement(lambda dialect: _grants.delete().where(
    _grants.c.volume_id == prepared.value('volume_id'),
    _grants.c.initiator == prepared.value('initiator'),
    *(~sa.exists().where(_rows.c.volume_id == prepared.value('volume_id'), models.live(_rows),
                         name == _grants.c.initiator)
      for name in (_rows.c.initiator, _rows.c.previous_initiator))))
_GRANTED = tuple(state.value for state in attachment_lifecycle.GRANTED)


def ensure(connection: sa.Connection, database: engine.Database, volume_id: str, initiator: str,
           expected: preconditions.Precondition | None = None) -> records.SealedCredential:
    """Make the grant of a pair unless it is there; the caller has written the volume.

    Only the sole grant of a volume has no alias: the target may still have another one without
    alias, while the row that it belonged to is live with a new initiator.

    :param expected: what was read of the pair, and still holds; the database refuses a name that
        was taken meanwhile
    """
    if expected is None:
        there, taken = _look(connection, volume_id, initiator)
    else:
        there, taken = expected.credential, {''} if expected.granted else set()
    if there is not None:
        return there
    credential = secrets.new_credential()
    sealed = database.sealer.sealed(credential.password)
    prepared.insert(connection, _grants, {
        'volume_id': volume_id, 'initiator': initiator,
        'alias': next(alias for alias in _aliases(initiator) if alias not in taken),
        'username': credential.username, 'sealed_password': sealed.text, 'key_id': sealed.key_id,
        'created_at': database.clock.utcnow()})
    sealed_grants.stays(database, sealed)
    return records.SealedCredential(credential.username, sealed.text)


def _look(connection: sa.Connection, volume_id: str,
          initiator: str) -> tuple[records.SealedCredential | None, set[str]]:
    """The grant of a pair, and which of the names that it may have are taken."""
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
    return rows.sealed(found[0]), taken


def drop_unused(connection: sa.Connection, volume_id: str, initiators: Iterable[str]) -> None:
    """Remove the grants of these initiators that no live attachment of the volume needs."""
    for initiator in sorted(set(initiators)):
        _DROP.change(connection, volume_id=volume_id, initiator=initiator)


def credential(database: engine.Database, volume_id: str,
               initiator: str) -> connections.Credential | None:
    """The credential of one pair, opened; None if the pair has no grant."""
    with database.reader() as connection:
        row = connection.execute(
            sa.select(_grants.c.username, _grants.c.sealed_password).where(
                _grants.c.volume_id == volume_id, _grants.c.initiator == initiator)).one_or_none()
    if row is None:
        return None
    return connections.Credential(row.username, database.sealer.unseal(row.sealed_password))


def opened(database: engine.Database, sealed: records.SealedCredential) -> connections.Credential:
    """A credential that was read with something else."""
    return connections.Credential(sealed.username, database.sealer.unseal(sealed.password))


def credentials(database: engine.Database, pairs: Iterable[tuple[str, str]],
                ) -> dict[tuple[str, str], connections.Credential]:
    """The credentials of many pairs in one query."""
    wanted = set(pairs)
    if not wanted:
        return {}
    with database.reader() as connection:
        found = connection.execute(
            sa.select(_grants.c.volume_id, _grants.c.initiator, _grants.c.username,
                      _grants.c.sealed_password)
            .where(sa.tuple_(_grants.c.volume_id, _grants.c.initiator).in_(sorted(wanted)))).all()
    return {(row.volume_id, row.initiator): connections.Credential(
                row.username, database.sealer.unseal(row.sealed_password))
            for row in found}


def wanted(database: engine.Database, volume_id: str,
           initiator: str | None = None) -> tuple[connections.Grant, ...]:
    """The desired grants of a volume, each with the widest mode of its attachments."""
    with database.reader() as connection:
        return _wanted(connection, database, _rows.c.volume_id == volume_id, initiator)


def wanted_on(database: engine.Database, volume_ids: Iterable[str],
              ) -> tuple[connections.Grant, ...]:
    """The desired grants of many volumes, in slices that every database takes as a list."""
    ids = sorted(set(volume_ids))
    found: list[connections.Grant] = []
    with database.reader() as connection:
        for start in range(0, len(ids), 500):
            part = ids[start:start + 500]
            found += _wanted(connection, database, _rows.c.volume_id.in_(part), None)
    return tuple(found)


def _wanted(connection: sa.Connection, database: engine.Database,
            where: sa.ColumnElement[bool], initiator: str | None,
            ) -> tuple[connections.Grant, ...]:
    names = (_rows.c.initiator, _rows.c.previous_initiator)
    found: dict[tuple[str, str], list[Any]] = {}
    for name in names:
        query = (sa.select(_grants, _rows.c.mode)
                 .join(_rows, sa.and_(_rows.c.volume_id == _grants.c.volume_id,
                                      name == _grants.c.initiator))
                 .where(where, models.live(_rows), _rows.c.state.in_(_GRANTED)))
        if initiator is not None:
            query = query.where(_grants.c.initiator == initiator)
        for row in connection.execute(query):
            found.setdefault((row.volume_id, row.initiator), []).append(row)
    return tuple(
        connections.Grant(
            volume_id=volume_id, initiator=name,
            mode=connections.widest(
                connections.AccessMode(row.mode or connections.AccessMode.RW) for row in of_pair),
            credential=connections.Credential(
                of_pair[0].username, database.sealer.unseal(of_pair[0].sealed_password)),
            alias=of_pair[0].alias)
        for (volume_id, name), of_pair in sorted(found.items()))


def _aliases(initiator: str) -> tuple[str, ...]:
    """The names that this initiator's grant may have, best first; the last is never taken."""
    digest = hashlib.sha256(initiator.encode()).hexdigest()
    return '', f'-{digest[:8]}', f'-{digest[:16]}', f'-{digest[:30]}'
