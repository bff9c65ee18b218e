"""Grants: one credential per (volume, initiator), held while any attachment of that pair lives.

A grant is written in the same transaction as the intent that needs it and removed in the one that
ends the last. The password is sealed; it is opened only for the target and for whoever may attach.
"""
import hashlib
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from blockattach import secrets
from blockattach.db import engine
from blockattach.db.models import attachment
from blockattach.db.models import base
from blockattach.domain import attachment_lifecycle
from blockattach.domain import connection as connections

_rows = attachment.attachments
_grants = attachment.grants
_GRANTED = tuple(state.value for state in attachment_lifecycle.GRANTED)


def ensure(connection: sa.Connection, database: engine.Database, volume_id: str,
           initiator: str) -> None:
    """Make the grant of a pair unless it is there; the caller holds the volume's lock.

    Only the sole grant of a volume has no alias: a target may not have let go yet of another one
    that had none, while the row that it belonged to still lives with a new initiator.
    """
    of_volume = _grants.c.volume_id == volume_id
    if connection.execute(sa.select(_grants.c.alias).where(
            of_volume, _grants.c.initiator == initiator)).one_or_none() is not None:
        return
    aliases = _aliases(initiator)
    taken = set(connection.execute(sa.select(_grants.c.alias).where(
        of_volume, _grants.c.alias.in_(aliases))).scalars())
    if connection.execute(
            sa.select(_grants.c.alias).where(of_volume).limit(1)).one_or_none() is not None:
        taken.add(aliases[0])
    credential = secrets.new_credential()
    sealed = database.sealer.seal(credential.password)
    connection.execute(_grants.insert().values(
        volume_id=volume_id, initiator=initiator,
        alias=next(alias for alias in aliases if alias not in taken),
        username=credential.username, sealed_password=sealed,
        key_id=database.sealer.key_of(sealed), created_at=database.clock.utcnow()))


def drop_unused(connection: sa.Connection, volume_id: str, initiators: Iterable[str]) -> None:
    """Remove the grants of these initiators that no live attachment of the volume needs."""
    names = sorted(set(initiators))
    if not names:
        return
    # Two look-ups, each with an index of its own, so that it costs the same for a crowded volume.
    needed = [sa.exists().where(_rows.c.volume_id == volume_id, base.live(_rows),
                                name == _grants.c.initiator)
              for name in (_rows.c.initiator, _rows.c.previous_initiator)]
    connection.execute(_grants.delete().where(
        _grants.c.volume_id == volume_id, _grants.c.initiator.in_(names),
        *(~need for need in needed)))


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


def credentials(database: engine.Database, pairs: Iterable[tuple[str, str]],
                ) -> dict[tuple[str, str], connections.Credential]:
    """The credentials of many pairs in one query."""
    wanted = set(pairs)
    if not wanted:
        return {}
    with database.reader() as connection:
        rows = connection.execute(
            sa.select(_grants.c.volume_id, _grants.c.initiator, _grants.c.username,
                      _grants.c.sealed_password)
            .where(_grants.c.volume_id.in_({volume_id for volume_id, _ in wanted}))).all()
    return {(row.volume_id, row.initiator): connections.Credential(
                row.username, database.sealer.unseal(row.sealed_password))
            for row in rows if (row.volume_id, row.initiator) in wanted}


def wanted(database: engine.Database, volume_id: str,
           initiator: str | None = None) -> tuple[connections.Grant, ...]:
    """Who shall be let in to a volume now, each with the widest mode of its attachments."""
    with database.reader() as connection:
        return _wanted(connection, database, _rows.c.volume_id == volume_id, initiator)


def wanted_on(database: engine.Database, volume_ids: Iterable[str],
              ) -> tuple[connections.Grant, ...]:
    """The same for many volumes at once, in slices that every database takes as a list."""
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
                 .where(where, base.live(_rows), _rows.c.state.in_(_GRANTED)))
        if initiator is not None:
            query = query.where(_grants.c.initiator == initiator)
        for row in connection.execute(query):
            found.setdefault((row.volume_id, row.initiator), []).append(row)
    return tuple(
        connections.Grant(
            volume_id=volume_id, initiator=name,
            mode=connections.widest(
                connections.AccessMode(row.mode or connections.AccessMode.RW) for row in rows),
            credential=connections.Credential(
                rows[0].username, database.sealer.unseal(rows[0].sealed_password)),
            alias=rows[0].alias)
        for (volume_id, name), rows in sorted(found.items()))


def _aliases(initiator: str) -> tuple[str, ...]:
    """The names that this initiator's grant may have, best first; the last is never taken."""
    digest = hashlib.sha256(initiator.encode()).hexdigest()
    return '', f'-{digest[:8]}', f'-{digest[:16]}', f'-{digest[:30]}'
