"""Online migration of initiator names to lower case.

Initiator names are stored and compared in lower case. Earlier releases stored a name as the
connector spelled it.
"""
import collections
import logging

import sqlalchemy as sa

from blockattach.platform import log
from blockattach.storage.db import models
from blockattach.storage.db import storage_db
from blockattach.storage.db.attachments import pairs
from blockattach.storage.db.volumes import volume_rows
from blockattach.storage.domain import attachment_lifecycle
from blockattach.storage.domain import connection as connections

LOG = logging.getLogger(__name__)

_rows = models.attachments
_grants = models.grants
_volumes = models.volumes
_NAMES = (_rows.c.initiator, _rows.c.previous_initiator)
_TRANSITIONAL = tuple(state.value for state in attachment_lifecycle.TRANSITIONAL)


def _is_former(name: sa.ColumnElement[str | None]) -> sa.ColumnElement[bool]:
    return name != sa.func.lower(name)


def _are_former() -> sa.ColumnElement[bool]:
    return sa.and_(pairs.LIVE, sa.or_(*map(_is_former, _NAMES)))


def remaining(database: storage_db.Database) -> int:
    """Return the number of live attachments and of grants that `migrate` has not converted yet."""
    with database.reader() as connection:
        return sum(connection.execute(sa.select(sa.func.count()).select_from(table).where(
            which)).scalar_one() for table, which in (
                (_rows, _are_former()), (_grants, _is_former(_grants.c.initiator))))


def migrate(database: storage_db.Database, most: int) -> tuple[int, int]:
    """Convert the initiator names of attachments and grants to lower case, volume by volume.

    Two cases are skipped, and can be converted by a later run:

    * volumes with an attachment that is being connected or disconnected
    * names that the volume has in several spellings. Each spelling has a grant of its own, which
      is deleted with the last attachment that needs the grant.

    :param most: number of converted rows after which no further volume is processed
    :returns: number of rows of the processed volumes that had to be converted, and number of
        converted rows
    """
    found = done = 0
    with database.reader() as connection:
        ids = connection.scalars(sa.union(
            sa.select(_rows.c.volume_id).where(_are_former()),
            sa.select(_grants.c.volume_id).where(_is_former(_grants.c.initiator)))).all()
    for volume_id in sorted(ids):
        if done < most:
            here, migrated = _migrate_volume(database, volume_id)
            found, done = found + here, done + migrated
    return found, done


@storage_db.retried
def _migrate_volume(database: storage_db.Database, volume_id: str) -> tuple[int, int]:
    with database.writer() as connection:
        # Volumes are locked before their attachments and grants.
        volume_rows.await_others(connection, volume_id)
        rows = connection.execute(sa.select(_rows.c.state, *_NAMES).where(
            _rows.c.volume_id == volume_id, pairs.LIVE)).all()
        granted = connection.scalars(sa.select(_grants.c.initiator).where(
            _grants.c.volume_id == volume_id)).all()
        stored = {*granted, *(name for row in rows for name in row[1:] if name is not None)}
        found = sum(any(map(_differs, row[1:])) for row in rows) + sum(map(_differs, granted))
        # The volume service is using the stored spelling for the attachment.
        if any(row.state in _TRANSITIONAL for row in rows):
            return found, 0
        forms = collections.Counter(map(connections.canonical_name, stored))
        done = 0
        for name in sorted(filter(_differs, stored)):
            if forms[connections.canonical_name(name)] > 1:
                LOG.warning('Skipping migration of an initiator name%s', log.fields(
                    volume_id=volume_id, initiator=name,
                    reason='the volume has several spellings of the initiator name'))
            else:
                done += _rename(connection, volume_id, name)
        if done:
            # A concurrent transaction whose precondition contains the former names then conflicts.
            connection.execute(_volumes.update().where(_volumes.c.id == volume_id).values(
                attachment_moves=_volumes.c.attachment_moves + 1))
        return found, done


def _rename(connection: sa.Connection, volume_id: str, name: str) -> int:
    new = connections.canonical_name(name)
    done = connection.execute(_grants.update().where(
        _grants.c.volume_id == volume_id, _grants.c.initiator == name).values(
            initiator=new)).rowcount
    done += connection.execute(_rows.update().where(
        _rows.c.volume_id == volume_id, pairs.LIVE, sa.or_(*(
            column == name for column in _NAMES))).values(
                {column: sa.case((column == name, new), else_=column) for column in _NAMES}
                | {_rows.c.generation: _rows.c.generation + 1})).rowcount
    return done


def _differs(name: str | None) -> bool:
    return name is not None and name != connections.canonical_name(name)
